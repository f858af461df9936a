//! The fields of Parquet's structures that are read or written, by their ids.

use crate::thrift::{BINARY, I32, I64, Problem, Struct, content};

// Of FileMetaData.
pub(crate) const ROW_GROUPS: i16 = 4;
pub(crate) const ALGORITHM: i16 = 8;
pub(crate) const SIGNING_KEY: i16 = 9;
// Of RowGroup.
pub(crate) const COLUMNS: i16 = 1;
pub(crate) const TOTAL_BYTES: i16 = 2;
pub(crate) const ROW_GROUP_OFFSET: i16 = 5;
pub(crate) const ROW_GROUP_COMPRESSED: i16 = 6;
pub(crate) const ORDINAL: i16 = 7;
// Of ColumnChunk.
pub(crate) const FILE_PATH: i16 = 1;
pub(crate) const FILE_OFFSET: i16 = 2;
pub(crate) const METADATA: i16 = 3;
pub(crate) const OFFSET_INDEX: (i16, i16) = (4, 5);
pub(crate) const COLUMN_INDEX: (i16, i16) = (6, 7);
pub(crate) const CRYPTO: i16 = 8;
pub(crate) const ENCRYPTED_METADATA: i16 = 9;
// Of ColumnMetaData.
pub(crate) const PATH: i16 = 3;
pub(crate) const UNCOMPRESSED: i16 = 6;
pub(crate) const COMPRESSED: i16 = 7;
pub(crate) const DATA_PAGE: i16 = 9;
pub(crate) const INDEX_PAGE: i16 = 10;
pub(crate) const DICTIONARY_PAGE: i16 = 11;
pub(crate) const BLOOM_FILTER: (i16, i16) = (14, 15);
/// Those about the content: key-value metadata, statistics, encodings, and statistics of sizes and
/// places.
pub(crate) const TELLING: [i16; 5] = [8, 12, 13, 16, 17];

/// The longest header of a plain bloom filter that is looked for; it has about 12 bytes.
pub(crate) const BLOOM_HEADER: u64 = 256;

/// Where a column chunk's pages lie.
pub(crate) struct Extent {
    pub(crate) from: u64,
    pub(crate) len: u64,
    /// The first data page.
    pub(crate) data: u64,
    /// Whether a dictionary page comes first.
    pub(crate) dictionary: bool,
}

impl Extent {
    /// Of `ColumnMetaData`.
    pub(crate) fn of(metadata: &Struct<'_>) -> Result<Self, Problem> {
        let none = "it does not say where the pages are";
        let data = metadata.size(DATA_PAGE, I64)?.ok_or(none)?;
        let len = metadata.size(COMPRESSED, I64)?.ok_or(none)?;
        // A chunk without values may have a dictionary and no data page, whose place is 0 then.
        let dictionary = metadata.size(DICTIONARY_PAGE, I64)?;
        let dictionary = dictionary.filter(|start| *start > 0 && (data == 0 || *start < data));
        Ok(Extent {
            from: dictionary.unwrap_or(data),
            len,
            data,
            dictionary: dictionary.is_some(),
        })
    }
}

/// Bytes of the bits that follow a bloom filter's header.
pub(crate) fn filter_len(header: &Struct<'_>) -> Result<u64, Problem> {
    header
        .size(1, I32)?
        .ok_or("it does not say the filter's size")
}

/// A column's path, with dots.
pub(crate) fn path(fields: &Struct<'_>, id: i16) -> Result<String, Problem> {
    let parts = fields.list(id, BINARY)?;
    let parts = parts.into_iter().map(content);
    let parts: Vec<_> = parts
        .map(|part| part.map(String::from_utf8_lossy))
        .collect::<Result<_, _>>()?;
    match parts.is_empty() {
        true => Err("a column has no path"),
        false => Ok(parts.join(".")),
    }
}
