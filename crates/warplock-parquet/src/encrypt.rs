//! A plain file to an encrypted one, column chunk by column chunk.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, Write};
use std::sync::Arc;

use warplock::Engine;

use crate::error::{Error, Module, Place, Result};
use crate::fields::*;
use crate::files::{Input, Output, Source, Stream, Writer};
use crate::footer::{AAD_LEN, last_bytes};
use crate::keys::{KeyBytes, ModuleKey};
use crate::module::{Chunk, Cipher, NONCE, PREFIX, TAG};
use crate::pages::{Written, whole};
use crate::plain_pages::{walk, write};
use crate::thrift::{I16, I32, I64, STRUCT, Struct};

/// A key, and what is stored in the file in order to find it again.
#[derive(Clone, Default)]
pub struct WriteKey {
    /// 16, 24 or 32 bytes.
    pub bytes: KeyBytes,
    /// Stored as it is, not encrypted.
    pub metadata: Option<Vec<u8>>,
}

/// How [`encrypt`] encrypts.
#[derive(Clone, Default)]
pub struct Encryption {
    /// The key of the footer, and of all columns without their own.
    pub footer: WriteKey,
    /// The keys of columns by their paths with dots.
    pub columns: BTreeMap<String, WriteKey>,
    /// AES_GCM_CTR_V1, which does not authenticate pages, instead of AES_GCM_V1.
    pub ctr: bool,
    /// Leaves the schema and the sizes of columns readable, but signed.
    pub plaintext_footer: bool,
    /// Distinguishes this file from others with the same keys.
    pub aad_prefix: Option<Vec<u8>>,
    /// Does not store the AAD prefix: readers must give it.
    pub omit_aad_prefix: bool,
}

/// Encrypts a plain Parquet file with Parquet Modular Encryption. The result has the same row
/// groups, pages, indexes and bloom filters; page checksums are left out. Returns the bytes
/// written.
///
/// If an error comes back, what was written is a file without an end: discard it. Each call draws a
/// new file identifier and new nonces; at most 2^32 modules may ever be encrypted with one key.
///
/// Memory: the footer, the largest column chunk, and 16 MiB or the largest page.
///
/// # Errors
/// [`Error::NotParquet`], [`Error::AlreadyEncrypted`], [`Error::Malformed`] for other files;
/// [`Error::KeyLength`], [`Error::NoColumn`], [`Error::AadPrefix`] for settings that do not fit; and
/// those of the engine, and of reading and writing.
pub fn encrypt(
    source: impl Read + Seek,
    output: impl Write,
    how: &Encryption,
    engine: &Engine,
) -> Result<u64> {
    convert(&mut Stream(source), Writer::new(output), how, engine)
}

/// As [`encrypt`], from memory.
///
/// # Errors
/// As [`encrypt`].
pub fn encrypt_slice(
    mut source: &[u8],
    output: impl Write,
    how: &Encryption,
    engine: &Engine,
) -> Result<u64> {
    convert(&mut source, Writer::new(output), how, engine)
}

fn convert(
    source: &mut dyn Source,
    mut writer: Writer<impl Write>,
    how: &Encryption,
    engine: &Engine,
) -> Result<u64> {
    let (end, bytes, encrypted) = last_bytes(source)?;
    let malformed = |problem| Place::FOOTER.malformed(problem);
    if encrypted {
        return Err(Error::AlreadyEncrypted);
    }
    let mut file = Struct::first(&bytes).map_err(malformed)?;
    if file.has(ALGORITHM) || file.has(SIGNING_KEY) {
        return Err(Error::AlreadyEncrypted);
    }
    let mut id = [0; 8];
    warplock::fill_random(&mut id)?;
    let prefix = how.aad_prefix.as_deref().unwrap_or_default();
    let aad = [prefix, &id].concat();
    if aad.len() > AAD_LEN {
        return Err(Error::AadPrefix("the AAD prefix has more than 4088 bytes"));
    }
    let new_key =
        |key: &WriteKey, column| ModuleKey::new(&key.bytes, how.ctr, column).map(Arc::new);
    let mut keys = BTreeMap::new();
    for (name, key) in &how.columns {
        keys.insert(name.clone(), new_key(key, Some(name.clone()))?);
    }
    let mut row_groups = Vec::new();
    let mut work = Work {
        how,
        cipher: Cipher { engine, aad },
        footer_key: new_key(&how.footer, None)?,
        missing: keys.keys().cloned().collect(),
        keys,
        input: Input::new(source, end),
        output: Output::new(&mut writer),
        buffer: Vec::new(),
        modules: 0,
    };
    let magic = if how.plaintext_footer {
        b"PAR1"
    } else {
        b"PARE"
    };
    work.output.write(magic)?;
    let count = {
        let old = file.list(ROW_GROUPS, STRUCT).map_err(malformed)?;
        for (number, row_group) in old.iter().enumerate() {
            work.row_group(number, row_group, &mut row_groups)?;
        }
        old.len()
    };
    if let Some(column) = work.missing.pop_first().filter(|_| count > 0) {
        return Err(Error::NoColumn { column });
    }
    file.set_list(ROW_GROUPS, count, &row_groups);
    let tail = work.tail(&mut file, &id)?;
    let len = u32::try_from(tail.len()).map_err(|_| malformed("it is too long"))?;
    let mut output = work.output;
    output.write(&tail)?;
    output.write(&len.to_le_bytes())?;
    output.write(magic)?;
    output.flush()?;
    Ok(output.at())
}

struct Work<'a> {
    how: &'a Encryption,
    cipher: Cipher<'a>,
    footer_key: Arc<ModuleKey>,
    keys: BTreeMap<String, Arc<ModuleKey>>,
    /// Columns with a key that were not met yet.
    missing: BTreeSet<String>,
    input: Input<'a>,
    output: Output<'a>,
    buffer: Vec<u8>,
    /// Encrypted so far.
    modules: u64,
}

/// A column chunk whose pages were written.
struct Moved<'a> {
    chunk: Chunk,
    key: Arc<ModuleKey>,
    has_own_key: bool,
    fields: Struct<'a>,
    /// The new `ColumnMetaData`.
    metadata: Vec<u8>,
    written: Written,
    start: u64,
    compressed: i64,
}

impl Work<'_> {
    fn row_group(&mut self, number: usize, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let malformed = |problem| Place::FOOTER.malformed(problem);
        let mut row_group = Struct::all(bytes).map_err(malformed)?;
        let ordinal = i16::try_from(number)
            .map_err(|_| malformed("an encrypted file has at most 32768 row groups"))?;
        let start = self.output.at();
        let (mut compressed, mut uncompressed) = (0i64, 0i64);
        let mut new = Vec::new();
        let count = {
            let columns = row_group.list(COLUMNS, STRUCT).map_err(malformed)?;
            let mut moved = Vec::new();
            for (column, bytes) in columns.iter().enumerate() {
                let column = i16::try_from(column)
                    .map_err(|_| malformed("an encrypted file has at most 32768 columns"))?;
                let fields = Struct::all(bytes).map_err(malformed)?;
                moved.push(self.chunk(number, [ordinal, column], fields)?);
            }
            for mut column in moved {
                self.indexes(&mut column)?;
                compressed = compressed.saturating_add(column.compressed);
                uncompressed = uncompressed.saturating_add(column.written.uncompressed);
                column.fields.write_to(&mut new);
            }
            columns.len()
        };
        row_group.set_list(COLUMNS, count, &new);
        row_group.set_integer(TOTAL_BYTES, I64, uncompressed);
        row_group.set_integer(ROW_GROUP_OFFSET, I64, start as i64);
        row_group.set_integer(ROW_GROUP_COMPRESSED, I64, compressed);
        row_group.set_integer(ORDINAL, I16, i64::from(ordinal));
        row_group.write_to(out);
        Ok(())
    }

    /// Writes a column chunk's pages.
    fn chunk<'f>(
        &mut self,
        row_group: usize,
        ordinals: [i16; 2],
        fields: Struct<'f>,
    ) -> Result<Moved<'f>> {
        let malformed = |problem| Place::FOOTER.malformed(problem);
        if fields.has(CRYPTO) || fields.has(ENCRYPTED_METADATA) {
            return Err(Error::AlreadyEncrypted);
        }
        if fields.has(FILE_PATH) {
            return Err(malformed("it has columns in other files"));
        }
        let metadata = {
            let inner = fields.inner(METADATA).map_err(malformed)?;
            inner
                .ok_or_else(|| malformed("a column has no metadata"))?
                .write()
        };
        let mut new = Struct::all(&metadata).map_err(malformed)?;
        let [a, b] = ordinals.map(i16::to_le_bytes);
        let chunk = Chunk {
            row_group,
            ordinals: [a[0], a[1], b[0], b[1]],
            name: path(&new, PATH).map_err(malformed)?,
        };
        self.missing.remove(&chunk.name);
        let own = self.keys.get(&chunk.name);
        let has_own_key = own.is_some();
        let key = Arc::clone(own.unwrap_or(&self.footer_key));
        let place = whole(&chunk);
        let malformed = |problem| place.malformed(problem);
        let extent = Extent::of(&new).map_err(malformed)?;
        let start = self.output.at();
        let bytes = self
            .input
            .part(extent.from, extent.len, &mut self.buffer, &place)?;
        let plain = walk(bytes, &chunk, key.page_tag())?;
        self.modules += 2 * plain.len() as u64;
        let written = write(
            &self.cipher,
            &key,
            &chunk,
            bytes,
            &plain,
            extent.from,
            &mut self.output,
        )?;
        let compressed = (self.output.at() - start) as i64;
        let dictionary = plain.first().is_some_and(|page| page.number.is_none());
        let first = written.pages.get(usize::from(dictionary));
        new.set_integer(UNCOMPRESSED, I64, written.uncompressed);
        new.set_integer(COMPRESSED, I64, compressed);
        new.set_integer(DATA_PAGE, I64, first.map_or(0, |page| page.to as i64));
        new.remove(INDEX_PAGE);
        match dictionary {
            true => new.set_integer(DICTIONARY_PAGE, I64, start as i64),
            false => new.remove(DICTIONARY_PAGE),
        }
        let metadata = new.write();
        Ok(Moved {
            chunk,
            key,
            has_own_key,
            fields,
            metadata,
            written,
            start,
            compressed,
        })
    }

    /// Writes a column chunk's bloom filter and indexes, and sets its fields.
    fn indexes(&mut self, moved: &mut Moved<'_>) -> Result<()> {
        let place = whole(&moved.chunk);
        let malformed = |problem| place.malformed(problem);
        let mut metadata = Struct::all(&moved.metadata).map_err(malformed)?;
        if let Some(from) = metadata.size(BLOOM_FILTER.0, I64).map_err(malformed)? {
            let place = moved.chunk.place(Module::BloomFilterHeader, None);
            let malformed = |problem| place.malformed(problem);
            let bytes = self.input.peek(from, BLOOM_HEADER, &place)?;
            let (header, len) = Struct::read(&bytes).map_err(malformed)?;
            let bits = filter_len(&header).map_err(malformed)?;
            let bits = self.input.read(from + len as u64, bits, &place)?;
            let start = self.output.at();
            self.module(moved, &header.write(), Module::BloomFilterHeader)?;
            self.module(moved, &bits, Module::BloomFilterBitset)?;
            metadata.set_integer(BLOOM_FILTER.0, I64, start as i64);
            let len = (self.output.at() - start) as i64;
            metadata.set_integer(BLOOM_FILTER.1, I32, len);
        }
        for (ids, module) in [
            (COLUMN_INDEX, Module::ColumnIndex),
            (OFFSET_INDEX, Module::OffsetIndex),
        ] {
            let place = moved.chunk.place(module, None);
            let malformed = |problem| place.malformed(problem);
            let from = moved.fields.size(ids.0, I64).map_err(malformed)?;
            let len = moved.fields.size(ids.1, I32).map_err(malformed)?;
            let (Some(from), Some(len)) = (from, len) else {
                continue;
            };
            let bytes = self.input.read(from, len, &place)?;
            let new = match module {
                Module::OffsetIndex => moved.written.offset_index(&bytes),
                _ => Struct::first(&bytes).map(|index| index.write()),
            };
            let bytes = new.map_err(malformed)?;
            let start = self.output.at();
            self.module(moved, &bytes, module)?;
            let len = (self.output.at() - start) as i64;
            moved.fields.set_integer(ids.0, I64, start as i64);
            moved.fields.set_integer(ids.1, I32, len);
        }
        if moved.fields.integer(FILE_OFFSET, I64).ok().flatten() != Some(0) {
            moved
                .fields
                .set_integer(FILE_OFFSET, I64, moved.start as i64);
        }
        let mut crypto = Struct::new();
        if moved.has_own_key {
            let mut own = Struct::new();
            own.copy_list(1, &metadata, PATH).map_err(malformed)?;
            if let Some(metadata) = &self.how.columns[&moved.chunk.name].metadata {
                own.set_binary(2, metadata);
            }
            crypto.set_struct(2, &own);
        } else {
            crypto.set_struct(1, &Struct::new());
        }
        moved.fields.set_struct(CRYPTO, &crypto);
        if moved.has_own_key || self.how.plaintext_footer {
            let (text, module) = (metadata.write(), Module::ColumnMetadata);
            let chunk = Some(&moved.chunk);
            let sealed = self.cipher.seal_one(&moved.key, chunk, &text, module)?;
            self.count(1)?;
            moved.fields.set_binary(ENCRYPTED_METADATA, &sealed);
        }
        match (self.how.plaintext_footer, moved.has_own_key) {
            (false, true) => moved.fields.remove(METADATA),
            (false, false) => moved.fields.set_struct(METADATA, &metadata),
            (true, _) => {
                for id in TELLING {
                    metadata.remove(id);
                }
                moved.fields.set_struct(METADATA, &metadata);
            }
        }
        Ok(())
    }

    /// Writes one module of a chunk.
    fn module(&mut self, moved: &Moved<'_>, text: &[u8], module: Module) -> Result<()> {
        self.count(1)?;
        let sealed = self
            .cipher
            .seal_one(&moved.key, Some(&moved.chunk), text, module)?;
        self.output.write(&sealed)
    }

    fn count(&mut self, more: u64) -> Result<()> {
        self.modules += more;
        // One is left for the footer.
        match self.modules < 1 << 32 {
            true => Ok(()),
            false => Err(Error::TooManyModules),
        }
    }

    /// The end of the file, without the length of it: the footer, encrypted or signed.
    fn tail(&mut self, file: &mut Struct<'_>, id: &[u8]) -> Result<Vec<u8>> {
        self.count(1)?;
        let mut settings = Struct::new();
        settings.set_binary(2, id);
        match &self.how.aad_prefix {
            Some(_) if self.how.omit_aad_prefix => settings.set_true(3),
            Some(prefix) => settings.set_binary(1, prefix),
            None => {}
        }
        let mut algorithm = Struct::new();
        algorithm.set_struct(if self.how.ctr { 2 } else { 1 }, &settings);
        let metadata = self.how.footer.metadata.as_deref();
        if self.how.plaintext_footer {
            file.set_struct(ALGORITHM, &algorithm);
            if let Some(metadata) = metadata {
                file.set_binary(SIGNING_KEY, metadata);
            }
            let mut tail = file.write();
            let sealed = self
                .cipher
                .seal_one(&self.footer_key, None, &tail, Module::Footer)?;
            tail.extend_from_slice(&sealed[PREFIX..PREFIX + NONCE]);
            tail.extend_from_slice(&sealed[sealed.len() - TAG..]);
            return Ok(tail);
        }
        let mut crypto = Struct::new();
        crypto.set_struct(1, &algorithm);
        if let Some(metadata) = metadata {
            crypto.set_binary(2, metadata);
        }
        let mut tail = crypto.write();
        let text = file.write();
        let footer = self
            .cipher
            .seal_one(&self.footer_key, None, &text, Module::Footer)?;
        tail.extend_from_slice(&footer);
        Ok(tail)
    }
}
