//! An encrypted file to a plain one, column chunk by column chunk.

use std::io::{Read, Seek, Write};
use std::sync::Arc;

use warplock::Engine;

use crate::error::{Module, Place, Result};
use crate::fields::*;
use crate::files::{Input, Memory, Output, Source, Stream, Target, Writer};
use crate::footer::Footer;
use crate::keys::{KeyRequest, KeySource, ModuleKey};
use crate::module::Chunk;
use crate::pages::{self, NO_PAGE, Written, relocate, whole};
use crate::thrift::{I16, I32, I64, STRUCT, Struct};

/// Settings of [`decrypt`].
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The AAD prefix, which distinguishes this file from others. If the file has it stored, it
    /// must be the same; without one, a file with any stored prefix is accepted.
    pub aad_prefix: Option<Vec<u8>>,
}

/// Decrypts a Parquet file that was encrypted with Parquet Modular Encryption: the result is a
/// plain Parquet file with the same row groups, pages, indexes and bloom filters. Page checksums
/// are left out: they are of the ciphertext. Returns the bytes written.
///
/// Of what is encrypted, nothing is written that was not verified; but the format authenticates
/// neither pages of AES_GCM_CTR_V1 (only their headers) nor columns that are not encrypted. If an
/// error comes back, what was written is a file without an end: discard it.
///
/// Memory: the footer, the largest encrypted column chunk, and 16 MiB or the largest page.
///
/// # Errors
/// [`Error::NotParquet`] and [`Error::NotEncrypted`] for other files; [`Error::Footer`],
/// [`Error::Changed`] and [`Error::Malformed`] for wrong keys and changed files;
/// [`Error::AadPrefix`]; those of the keys, the engine, and of reading and writing.
///
/// [`Error::NotParquet`]: crate::Error::NotParquet
/// [`Error::NotEncrypted`]: crate::Error::NotEncrypted
/// [`Error::Footer`]: crate::Error::Footer
/// [`Error::Changed`]: crate::Error::Changed
/// [`Error::Malformed`]: crate::Error::Malformed
/// [`Error::AadPrefix`]: crate::Error::AadPrefix
pub fn decrypt(
    source: impl Read + Seek,
    output: impl Write,
    keys: &mut dyn KeySource,
    options: &Options,
    engine: &Engine,
) -> Result<u64> {
    let (mut source, mut output) = (Stream(source), Writer::new(output));
    convert(&mut source, &mut output, keys, options, engine)
}

/// As [`decrypt`], from memory.
///
/// # Errors
/// As [`decrypt`].
pub fn decrypt_slice(
    mut source: &[u8],
    output: impl Write,
    keys: &mut dyn KeySource,
    options: &Options,
    engine: &Engine,
) -> Result<u64> {
    convert(&mut source, &mut Writer::new(output), keys, options, engine)
}

/// As [`decrypt`], from memory to memory, without a copy; returns how much of the output is
/// written. An output as long as the source is long enough.
///
/// # Errors
/// As [`decrypt`]; [`Error::Write`](crate::Error::Write) if the output is too short.
pub fn decrypt_into(
    mut source: &[u8],
    output: &mut [u8],
    keys: &mut dyn KeySource,
    options: &Options,
    engine: &Engine,
) -> Result<usize> {
    let mut output = Memory {
        bytes: output,
        full: 0,
    };
    convert(&mut source, &mut output, keys, options, engine)?;
    Ok(output.full)
}

pub(crate) fn convert(
    source: &mut dyn Source,
    target: &mut dyn Target,
    keys: &mut dyn KeySource,
    options: &Options,
    engine: &Engine,
) -> Result<u64> {
    let mut footer = Footer::read(source, keys, options, engine)?;
    let metadata = std::mem::take(&mut footer.metadata);
    let malformed = |problem| Place::FOOTER.malformed(problem);
    let mut file = Struct::first(&metadata).map_err(malformed)?;
    let mut row_groups = Vec::new();
    let mut work = Work {
        input: Input::new(source, footer.start),
        footer,
        output: Output::new(target),
        buffer: Vec::new(),
    };
    work.output.write(b"PAR1")?;
    let count = {
        let old = file.list(ROW_GROUPS, STRUCT).map_err(malformed)?;
        for (number, row_group) in old.iter().enumerate() {
            work.row_group(number, row_group, &mut row_groups)?;
        }
        old.len()
    };
    let mut output = work.output;
    file.set_list(ROW_GROUPS, count, &row_groups);
    file.remove(ALGORITHM);
    file.remove(SIGNING_KEY);
    let new = file.write();
    let len = u32::try_from(new.len()).map_err(|_| malformed("it is too long"))?;
    output.write(&new)?;
    output.write(&len.to_le_bytes())?;
    output.write(b"PAR1")?;
    output.flush()?;
    Ok(output.at())
}

struct Work<'a, 'b> {
    input: Input<'b>,
    footer: Footer<'a>,
    output: Output<'b>,
    buffer: Vec<u8>,
}

/// A column chunk whose pages were written.
struct Moved<'a> {
    chunk: Chunk,
    fields: Struct<'a>,
    /// The new `ColumnMetaData`.
    metadata: Vec<u8>,
    pages: Pages,
    /// Where the pages begin now, and the sizes that the row group counts.
    start: u64,
    compressed: i64,
    uncompressed: i64,
}

enum Pages {
    Opened(Arc<ModuleKey>, Written),
    /// Not encrypted: `len` bytes that lay at `from` and lie at `to`.
    Copied {
        from: u64,
        to: u64,
        len: u64,
    },
}

impl Pages {
    fn key(&self) -> Option<Arc<ModuleKey>> {
        match self {
            Pages::Opened(key, _) => Some(Arc::clone(key)),
            Pages::Copied { .. } => None,
        }
    }
}

impl Work<'_, '_> {
    /// Writes a row group's pages, then its indexes and bloom filters; appends its new metadata.
    fn row_group(&mut self, number: usize, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let malformed = |problem| Place::FOOTER.malformed(problem);
        let mut row_group = Struct::all(bytes).map_err(malformed)?;
        let ordinal = row_group.integer(ORDINAL, I16).map_err(malformed)?;
        let ordinal = ordinal.unwrap_or(number as i64);
        let ordinal = i16::try_from(ordinal).ok().filter(|ordinal| *ordinal >= 0);
        let ordinal =
            ordinal.ok_or_else(|| malformed("an encrypted file has at most 32768 row groups"))?;
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
                uncompressed = uncompressed.saturating_add(column.uncompressed);
                column.fields.write_to(&mut new);
            }
            columns.len()
        };
        row_group.set_list(COLUMNS, count, &new);
        row_group.set_integer(TOTAL_BYTES, I64, uncompressed);
        if row_group.has(ROW_GROUP_OFFSET) {
            row_group.set_integer(ROW_GROUP_OFFSET, I64, start as i64);
        }
        if row_group.has(ROW_GROUP_COMPRESSED) {
            row_group.set_integer(ROW_GROUP_COMPRESSED, I64, compressed);
        }
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
        if fields.has(FILE_PATH) {
            return Err(malformed("it has columns in other files"));
        }
        let [a, b] = ordinals.map(i16::to_le_bytes);
        let mut chunk = Chunk {
            row_group,
            ordinals: [a[0], a[1], b[0], b[1]],
            name: format!("number {}", ordinals[1]),
        };
        let key = self.key(&fields, &mut chunk)?;
        let metadata = match (&key, fields.binary(ENCRYPTED_METADATA).map_err(malformed)?) {
            (Some(key), Some(sealed)) => {
                let cipher = &self.footer.cipher;
                cipher.open_one(key, Some(&chunk), sealed, Module::ColumnMetadata)?
            }
            _ => {
                let inner = fields.inner(METADATA).map_err(malformed)?;
                let inner = inner.ok_or_else(|| malformed("a column has no metadata"))?;
                inner.write()
            }
        };
        let place = whole(&chunk);
        let malformed = |problem| place.malformed(problem);
        let mut new = Struct::first(&metadata).map_err(malformed)?;
        chunk.name = path(&new, PATH).map_err(malformed)?;
        let place = whole(&chunk);
        let malformed = |problem| place.malformed(problem);
        let Extent {
            from,
            len,
            data,
            dictionary,
        } = Extent::of(&new).map_err(malformed)?;
        let uncompressed = new.size(UNCOMPRESSED, I64).map_err(malformed)?;
        let mut uncompressed = uncompressed.unwrap_or(0) as i64;
        let start = self.output.at();
        let (pages, data_page) = match key {
            None => {
                self.input.copy(from, len, &mut self.output, &place)?;
                let to = start;
                let copied = Pages::Copied { from, to, len };
                (
                    copied,
                    data.checked_sub(from).map_or(0, |inside| to + inside),
                )
            }
            Some(key) => {
                let mut bytes = self.input.chunk(from, len, &mut self.buffer, &place)?;
                let written = pages::open(
                    &self.footer.cipher,
                    &key,
                    &chunk,
                    dictionary,
                    &mut bytes,
                    from,
                    &mut self.output,
                )?;
                uncompressed = written.uncompressed;
                let first = written.pages.get(usize::from(dictionary));
                let data_page = first.map_or(0, |page| page.to);
                (Pages::Opened(key, written), data_page)
            }
        };
        let compressed = (self.output.at() - start) as i64;
        new.set_integer(UNCOMPRESSED, I64, uncompressed);
        new.set_integer(COMPRESSED, I64, compressed);
        new.set_integer(DATA_PAGE, I64, data_page as i64);
        new.remove(INDEX_PAGE);
        match dictionary {
            true => new.set_integer(DICTIONARY_PAGE, I64, start as i64),
            false => new.remove(DICTIONARY_PAGE),
        }
        let metadata = new.write();
        Ok(Moved {
            chunk,
            fields,
            metadata,
            pages,
            start,
            compressed,
            uncompressed,
        })
    }

    /// The key of a column chunk, if it is encrypted.
    fn key(&mut self, fields: &Struct<'_>, chunk: &mut Chunk) -> Result<Option<Arc<ModuleKey>>> {
        let malformed = |problem| Place::FOOTER.malformed(problem);
        let Some(crypto) = fields.inner(CRYPTO).map_err(malformed)? else {
            return match fields.has(ENCRYPTED_METADATA) {
                true => Err(malformed("a column does not say how it is encrypted")),
                false => Ok(None),
            };
        };
        if let Some(own) = crypto.inner(2).map_err(malformed)? {
            chunk.name = path(&own, 1).map_err(malformed)?;
            let request = KeyRequest {
                column: Some(&chunk.name),
                metadata: own.binary(2).map_err(malformed)?,
            };
            return self.footer.keys.find(request).map(Some);
        }
        match crypto.has(1) {
            true => Ok(Some(Arc::clone(&self.footer.key))),
            false => Err(malformed("a column's encryption is unknown")),
        }
    }

    /// Writes a column chunk's bloom filter and indexes, and sets its fields.
    fn indexes(&mut self, moved: &mut Moved<'_>) -> Result<()> {
        let place = whole(&moved.chunk);
        let malformed = |problem| place.malformed(problem);
        let mut metadata = Struct::all(&moved.metadata).map_err(malformed)?;
        if let Some(from) = metadata.size(BLOOM_FILTER.0, I64).map_err(malformed)? {
            let start = self.output.at();
            self.bloom_filter(moved, from)?;
            metadata.set_integer(BLOOM_FILTER.0, I64, start as i64);
            if metadata.has(BLOOM_FILTER.1) {
                let len = (self.output.at() - start) as i64;
                metadata.set_integer(BLOOM_FILTER.1, I32, len);
            }
        }
        moved.fields.set_struct(METADATA, &metadata);
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
            let mut bytes = self.input.read(from, len, &place)?;
            if let Some(key) = moved.pages.key() {
                let cipher = &self.footer.cipher;
                bytes = cipher.open_one(&key, Some(&moved.chunk), &bytes, module)?;
            }
            let new = match module {
                Module::OffsetIndex => moved.pages.offset_index(&bytes),
                _ => Struct::first(&bytes).map(|index| index.write()),
            };
            let bytes = new.map_err(malformed)?;
            let start = self.output.at();
            self.output.write(&bytes)?;
            moved.fields.set_integer(ids.0, I64, start as i64);
            moved.fields.set_integer(ids.1, I32, bytes.len() as i64);
        }
        if moved.fields.integer(FILE_OFFSET, I64).ok().flatten() != Some(0) {
            moved
                .fields
                .set_integer(FILE_OFFSET, I64, moved.start as i64);
        }
        moved.fields.remove(CRYPTO);
        moved.fields.remove(ENCRYPTED_METADATA);
        Ok(())
    }

    /// Writes the bloom filter that begins at `from`: its header, then its bits.
    fn bloom_filter(&mut self, moved: &Moved<'_>, from: u64) -> Result<()> {
        let place = moved.chunk.place(Module::BloomFilterHeader, None);
        let malformed = |problem| place.malformed(problem);
        let bits_place = moved.chunk.place(Module::BloomFilterBitset, None);
        let bits_len = |header: &Struct<'_>| filter_len(header).map_err(malformed);
        let Some(key) = moved.pages.key() else {
            let bytes = self.input.peek(from, BLOOM_HEADER, &place)?;
            let (header, len) = Struct::read(&bytes).map_err(malformed)?;
            let len = len as u64 + bits_len(&header)?;
            return self.input.copy(from, len, &mut self.output, &bits_place);
        };
        let cipher = &self.footer.cipher;
        let header = self.input.read_module(from, &place)?;
        let after = from + header.len() as u64;
        let header =
            cipher.open_one(&key, Some(&moved.chunk), &header, Module::BloomFilterHeader)?;
        let fields = Struct::first(&header).map_err(malformed)?;
        let bits = self.input.read_module(after, &bits_place)?;
        let bits = cipher.open_one(&key, Some(&moved.chunk), &bits, Module::BloomFilterBitset)?;
        if bits_len(&fields)? != bits.len() as u64 {
            return Err(bits_place.malformed("it has another size than its header says"));
        }
        self.output.write(&fields.write())?;
        self.output.write(&bits)
    }
}

impl Pages {
    /// A chunk's offset index with the pages' new places.
    fn offset_index(&self, bytes: &[u8]) -> std::result::Result<Vec<u8>, &'static str> {
        match self {
            Pages::Opened(_, written) => written.offset_index(bytes),
            Pages::Copied { from, to, len } => relocate(bytes, |old, location| {
                let inside = old.checked_sub(*from).filter(|inside| inside < len);
                let place = to + inside.ok_or(NO_PAGE)?;
                location.set_integer(1, I64, place as i64);
                Ok(())
            }),
        }
    }
}
