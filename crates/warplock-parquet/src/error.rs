//! Errors: variants for programs, sentences for people.

use std::fmt;
use std::io;

/// The parts of a file that are encrypted one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name is its own documentation")]
#[repr(u8)]
pub enum Module {
    Footer = 0,
    ColumnMetadata = 1,
    DataPage = 2,
    DictionaryPage = 3,
    DataPageHeader = 4,
    DictionaryPageHeader = 5,
    ColumnIndex = 6,
    OffsetIndex = 7,
    BloomFilterHeader = 8,
    BloomFilterBitset = 9,
}

/// A module's place in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it is.
    pub module: Module,
    /// The row group, from 0, and the column's path with dots; `None` for the footer.
    pub chunk: Option<(usize, String)>,
    /// The data page in its column chunk, from 0.
    pub page: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.page.map(|page| page.to_string()).unwrap_or_default();
        match self.module {
            Module::Footer => f.write_str("the footer"),
            Module::ColumnMetadata => f.write_str("the metadata"),
            Module::DataPage => write!(f, "data page {page}"),
            Module::DictionaryPage => f.write_str("the dictionary page"),
            Module::DataPageHeader => write!(f, "the header of data page {page}"),
            Module::DictionaryPageHeader => f.write_str("the header of the dictionary page"),
            Module::ColumnIndex => f.write_str("the column index"),
            Module::OffsetIndex => f.write_str("the offset index"),
            Module::BloomFilterHeader => f.write_str("the header of the bloom filter"),
            Module::BloomFilterBitset => f.write_str("the bloom filter"),
        }?;
        match &self.chunk {
            Some((row_group, column)) => {
                write!(f, " of column '{column}' in row group {row_group}")
            }
            None => Ok(()),
        }
    }
}

/// Why a file was not decrypted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It does not begin and end as Parquet files do.
    #[error("this is no Parquet file, or it was cut: {0}")]
    NotParquet(&'static str),
    /// There is nothing to decrypt.
    #[error("this Parquet file is not encrypted: it can be read as it is")]
    NotEncrypted,
    /// There is nothing to encrypt.
    #[error("this Parquet file is encrypted already: decrypt it first")]
    AlreadyEncrypted,
    /// There is a key for a column that the file does not have.
    #[error(
        "the file has no column '{column}' for which there is a key: name columns by their path"
    )]
    NoColumn {
        /// The column's path with dots.
        column: String,
    },
    /// More modules than one key may encrypt.
    #[error("the file has more than 2^32 pages and headers: make several files")]
    TooManyModules,
    /// The footer did not verify, which depends on key and AAD prefix.
    #[error(
        "the footer does not verify: the footer key or the AAD prefix is another one, or the file \
         was changed"
    )]
    Footer,
    /// A module did not verify.
    #[error("{0} does not verify: the column's key is another one, or the file was changed")]
    Changed(Place),
    /// A module does not have the form that the format prescribes.
    #[error("{place} is malformed: {problem}")]
    Malformed {
        /// Where.
        place: Place,
        /// What is wrong.
        problem: &'static str,
    },
    /// The file needs an AAD prefix that was not given, or a different one.
    #[error("{0}")]
    AadPrefix(&'static str),
    /// There is no key for a column or the footer.
    #[error("there is no key for {}: give it one", Owner(column))]
    NoKey {
        /// The column's path with dots; `None` for the footer.
        column: Option<String>,
    },
    /// A key of a wrong length.
    #[error(
        "the key of {} has {found} bytes: Parquet's keys have 16, 24 or 32",
        Owner(column)
    )]
    KeyLength {
        /// The column's path with dots; `None` for the footer.
        column: Option<String>,
        /// Bytes that it has.
        found: usize,
    },
    /// The caller's own source of keys failed.
    #[error("the key of {} could not be obtained: {source}", Owner(column))]
    KeySource {
        /// The column's path with dots; `None` for the footer.
        column: Option<String>,
        /// Its error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file could not be read.
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    /// The result could not be written.
    #[error("cannot write: {0}")]
    Write(#[source] io::Error),
    /// The system started no thread.
    #[error(
        "cannot start a thread: {0}; limits are those of memory and threads (ulimit -v, -u) and a \
         container's (pids.max)"
    )]
    NoThread(#[source] io::Error),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] warplock::Error),
}

struct Owner<'a>(&'a Option<String>);

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(column) => write!(f, "column '{column}'"),
            None => f.write_str("the footer"),
        }
    }
}

/// What functions here return.
pub type Result<T> = std::result::Result<T, Error>;

impl Place {
    pub(crate) const FOOTER: Place = Place {
        module: Module::Footer,
        chunk: None,
        page: None,
    };

    pub(crate) fn malformed(&self, problem: &'static str) -> Error {
        Error::Malformed {
            place: self.clone(),
            problem,
        }
    }
}
