//! The pages of an encrypted column chunk. They are found by the plain lengths before the modules,
//! so that all headers are opened in one batch and all pages in another.

use std::sync::Arc;

use warplock::Span;

use crate::error::{Module, Place, Result};
use crate::files::{ChunkBytes, Output};
use crate::keys::ModuleKey;
use crate::module::{Chunk, Cipher, Modules, PREFIX, Sealed, TAG, length, packed};
use crate::thrift::{I32, I64, Problem, STRUCT, Struct};

/// Of `PageHeader`.
pub(crate) const TYPE: i16 = 1;
pub(crate) const UNCOMPRESSED: i16 = 2;
pub(crate) const COMPRESSED: i16 = 3;
pub(crate) const CRC: i16 = 4;

/// The types of pages.
pub(crate) const DATA: i64 = 0;
pub(crate) const DICTIONARY: i64 = 2;
pub(crate) const DATA_V2: i64 = 3;

pub(crate) const TOO_MANY: &str = "an encrypted column chunk has at most 32768 pages";

/// Where a page with its header lay, and where it lies now.
pub(crate) struct PageMove {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Bytes of header and page.
    pub(crate) len: u64,
}

/// A chunk's pages after they were written.
pub(crate) struct Written {
    /// Of the dictionary page, if there is one, and all data pages.
    pub(crate) pages: Vec<PageMove>,
    /// Bytes of all headers and uncompressed pages.
    pub(crate) uncompressed: i64,
}

/// Plaintext that is opened in one batch: enough to keep all cores busy, in little memory.
pub(crate) const GROUP: usize = 16 << 20;

/// Opens the chunk that `bytes` are, and writes its pages. `from` is where it lay in the file.
pub(crate) fn open(
    cipher: &Cipher<'_>,
    key: &Arc<ModuleKey>,
    chunk: &Chunk,
    has_dictionary: bool,
    bytes: &mut ChunkBytes<'_>,
    from: u64,
    output: &mut Output<'_>,
) -> Result<Written> {
    let tag = key.page_tag();
    let (headers, pages) = walk(bytes, chunk, has_dictionary, tag)?;
    let bytes = bytes.all();
    let new = open_headers(cipher, key, chunk, bytes, &headers, &pages, tag)?;
    let mut written = Written {
        pages: Vec::with_capacity(pages.len()),
        uncompressed: 0,
    };
    let (start, mut at) = (output.at(), 0);
    for ((header, page), new) in headers.iter().zip(&pages).zip(&new) {
        let len = new.bytes.len() + page.text(tag).len();
        written.pages.push(PageMove {
            from: from + header.bytes.start as u64,
            to: start + at,
            len: len as u64,
        });
        written.uncompressed += new.bytes.len() as i64 + new.uncompressed;
        at += len as u64;
    }
    let mut first = 0;
    while first < pages.len() {
        let begin = written.pages[first].to;
        let len_to = |page: &PageMove| (page.to + page.len - begin) as usize;
        let more = written.pages[first + 1..].iter();
        let group = first..first + 1 + more.take_while(|page| len_to(page) <= GROUP).count();
        let len = len_to(&written.pages[group.end - 1]);
        first = group.end;
        let noted = output.note(|sheet| {
            for (page, new) in pages[group.clone()].iter().zip(&new[group.clone()]) {
                sheet.bytes(&new.bytes);
                sheet.page(from + page.text(tag).start as u64, page.text(tag).len());
            }
            sheet.end_chunk(cipher, key, chunk, &pages[group.clone()]);
            len
        });
        if noted.is_some() {
            continue;
        }
        let texts: Vec<_> = (group.clone())
            .map(|index| Span {
                offset: (written.pages[index].to - begin) as usize + new[index].bytes.len(),
                len: pages[index].text(tag).len(),
            })
            .collect();
        output.fill(len, |room| {
            for (header, text) in new[group.clone()].iter().zip(&texts) {
                let at = text.offset - header.bytes.len();
                room[at..text.offset].copy_from_slice(&header.bytes);
            }
            let modules = Modules {
                input: bytes,
                sealed: &pages[group.clone()],
                texts: &texts,
            };
            match &key.ctr {
                Some(ctr) => cipher.decrypt(ctr, &modules, room),
                None => cipher.open(key, Some(chunk), &modules, room),
            }
        })?;
    }
    Ok(written)
}

/// Opens all headers of a chunk; returns those of the plain pages.
fn open_headers(
    cipher: &Cipher<'_>,
    key: &ModuleKey,
    chunk: &Chunk,
    bytes: &[u8],
    headers: &[Sealed],
    pages: &[Sealed],
    tag: usize,
) -> Result<Vec<Header>> {
    let texts = packed(headers.iter().map(|header| header.text(TAG).len()));
    let mut opened = vec![0; texts.last().map_or(0, |last| last.offset + last.len)];
    let modules = Modules {
        input: bytes,
        sealed: headers,
        texts: &texts,
    };
    cipher.open(key, Some(chunk), &modules, &mut opened)?;
    let all = headers.iter().zip(&texts).zip(pages);
    all.map(|((header, text), page)| {
        let place = chunk.place(header.module, header.page.map(usize::from));
        Header::of(&opened[text.offset..text.offset + text.len], page, tag)
            .map_err(|problem| place.malformed(problem))
    })
    .collect()
}

/// Bytes at the start of a header that are looked at first: most are shorter, with the length of
/// the page after it.
const LOOK: usize = 192;

/// The modules of a chunk: headers, and the page of each.
fn walk(
    bytes: &mut ChunkBytes<'_>,
    chunk: &Chunk,
    has_dictionary: bool,
    page_tag: usize,
) -> Result<(Vec<Sealed>, Vec<Sealed>)> {
    let (mut headers, mut pages) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < bytes.all().len() {
        let looked = at + LOOK;
        bytes.look(at..looked)?;
        let data_pages = headers.len() - usize::from(has_dictionary && !headers.is_empty());
        let (kinds, number) = match has_dictionary && headers.is_empty() {
            true => ([Module::DictionaryPageHeader, Module::DictionaryPage], None),
            false => ([Module::DataPageHeader, Module::DataPage], Some(data_pages)),
        };
        let page = match number.map(i16::try_from) {
            Some(Err(_)) => {
                let place = chunk.place(kinds[0], number);
                return Err(place.malformed(TOO_MANY));
            }
            Some(Ok(page)) => Some(page as u16),
            None => None,
        };
        for (module, tag, list) in [
            (kinds[0], TAG, &mut headers),
            (kinds[1], page_tag, &mut pages),
        ] {
            let Some(len) = length(bytes.all(), at, tag) else {
                let place = chunk.place(module, number);
                return Err(place.malformed("its length does not fit into the column chunk"));
            };
            let end = at + PREFIX + len;
            if module == kinds[0] {
                bytes.look(looked..end + PREFIX)?;
            }
            list.push(Sealed {
                bytes: at..end,
                module,
                page,
            });
            at = end;
        }
    }
    Ok((headers, pages))
}

/// A page header as it is written.
struct Header {
    bytes: Vec<u8>,
    uncompressed: i64,
}

impl Header {
    /// The header of a plain page from that of an encrypted one, whose compressed size counts all
    /// bytes of the page's module.
    fn of(text: &[u8], page: &Sealed, page_tag: usize) -> std::result::Result<Self, &'static str> {
        let mut header = Struct::first(text)?;
        let fits = match header.integer(TYPE, I32)? {
            Some(DATA | DATA_V2) => page.module == Module::DataPage,
            Some(DICTIONARY) => page.module == Module::DictionaryPage,
            _ => false,
        };
        if !fits {
            return Err("the page is of another type than its place says");
        }
        // With CTR, only this detects that a page was cut.
        if header.size(COMPRESSED, I32)? != Some(page.bytes.len() as u64) {
            return Err("the page has another length than its header says");
        }
        let Some(uncompressed) = header.size(UNCOMPRESSED, I32)? else {
            return Err("it does not say the page's uncompressed size");
        };
        header.set_integer(COMPRESSED, I32, page.text(page_tag).len() as i64);
        // It was computed from the ciphertext.
        header.remove(CRC);
        Ok(Header {
            bytes: header.write(),
            uncompressed: uncompressed as i64,
        })
    }
}

impl Written {
    /// Where the page that lay at `from` lies now.
    pub(crate) fn find(&self, from: u64) -> Option<&PageMove> {
        let place = self.pages.binary_search_by_key(&from, |page| page.from);
        place.ok().map(|place| &self.pages[place])
    }
}

impl Written {
    /// A chunk's offset index with the pages' new places.
    pub(crate) fn offset_index(&self, bytes: &[u8]) -> std::result::Result<Vec<u8>, Problem> {
        relocate(bytes, |old, location| {
            let page = self.find(old).ok_or(NO_PAGE)?;
            location.set_integer(1, I64, page.to as i64);
            location.set_integer(2, I32, page.len as i64);
            Ok(())
        })
    }
}

pub(crate) const NO_PAGE: Problem = "it names a page that is not there";

/// An offset index with other places of the pages: `set` sets the one of each.
pub(crate) fn relocate(
    bytes: &[u8],
    set: impl Fn(u64, &mut Struct<'_>) -> std::result::Result<(), Problem>,
) -> std::result::Result<Vec<u8>, Problem> {
    let mut index = Struct::first(bytes)?;
    let mut new = Vec::new();
    let count = {
        let locations = index.list(1, STRUCT)?;
        for location in &locations {
            let mut location = Struct::all(location)?;
            let old = location.size(1, I64)?.ok_or("a page has no place")?;
            set(old, &mut location)?;
            location.write_to(&mut new);
        }
        locations.len()
    };
    index.set_list(1, count, &new);
    Ok(index.write())
}

/// The place of a chunk as a whole.
pub(crate) fn whole(chunk: &Chunk) -> Place {
    chunk.place(Module::ColumnMetadata, None)
}
