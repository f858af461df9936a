//! The pages of a plain column chunk, which are encrypted.

use warplock::Span;

use crate::error::{Module, Result};
use crate::files::Output;
use crate::keys::ModuleKey;
use crate::module::{Chunk, Cipher, NONCE, PREFIX, Sealed, TAG};
use crate::pages::{self, GROUP, PageMove, TOO_MANY, Written};
use crate::thrift::{I32, Struct};

/// A page of a plain column chunk.
pub(crate) struct Plain {
    /// Where its header begins.
    from: usize,
    /// The header of the encrypted page.
    header: Vec<u8>,
    text: Span,
    uncompressed: i64,
    /// `None` for the dictionary page.
    pub(crate) number: Option<u16>,
}

/// The pages of a plain chunk.
pub(crate) fn walk(bytes: &[u8], chunk: &Chunk, tag: usize) -> Result<Vec<Plain>> {
    let mut plain: Vec<Plain> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let dictionary = plain.first().is_some_and(|page| page.number.is_none());
        let number = plain.len() - usize::from(dictionary);
        let place = chunk.place(Module::DataPageHeader, Some(number));
        let malformed = |problem| place.malformed(problem);
        let (mut header, len) = Struct::read(&bytes[at..]).map_err(malformed)?;
        let size = |id| header.size(id, I32).map_err(malformed);
        let number = match header.integer(pages::TYPE, I32).map_err(malformed)? {
            Some(pages::DATA | pages::DATA_V2) => {
                let number = i16::try_from(number).map_err(|_| malformed(TOO_MANY))?;
                Some(number as u16)
            }
            Some(pages::DICTIONARY) if plain.is_empty() => None,
            _ => return Err(malformed("the page is of an unknown type")),
        };
        let compressed = size(pages::COMPRESSED)?.unwrap_or(u64::MAX);
        let uncompressed = size(pages::UNCOMPRESSED)?.unwrap_or(0) as i64;
        let offset = at + len;
        let text = match usize::try_from(compressed) {
            Ok(len) if len <= bytes.len() - offset => Span { offset, len },
            _ => return Err(malformed("the page does not fit into the column chunk")),
        };
        let sealed = i32::try_from(PREFIX + NONCE + text.len + tag);
        let sealed = sealed.map_err(|_| malformed("the page is too long"))?;
        header.set_integer(pages::COMPRESSED, I32, i64::from(sealed));
        header.remove(pages::CRC);
        plain.push(Plain {
            from: at,
            header: header.write(),
            text,
            uncompressed,
            number,
        });
        at = offset + text.len;
    }
    Ok(plain)
}

/// Encrypts and writes a chunk's pages, in groups.
pub(crate) fn write(
    cipher: &Cipher<'_>,
    key: &ModuleKey,
    chunk: &Chunk,
    bytes: &[u8],
    plain: &[Plain],
    from: u64,
    output: &mut Output<'_>,
) -> Result<Written> {
    let mut written = Written {
        pages: Vec::with_capacity(plain.len()),
        uncompressed: 0,
    };
    let mut first = 0;
    while first < plain.len() {
        let (start, mut end) = (output.at(), 0);
        let (mut headers, mut pages) = (Vec::new(), Vec::new());
        let (mut header_bytes, mut header_texts) = (Vec::new(), Vec::new());
        let mut texts = Vec::new();
        for page in &plain[first..] {
            let header = end..end + PREFIX + NONCE + page.header.len() + TAG;
            let body = header.end..header.end + PREFIX + NONCE + page.text.len + key.page_tag();
            if !pages.is_empty() && body.end > GROUP {
                break;
            }
            let (header_module, module) = match page.number {
                Some(_) => (Module::DataPageHeader, Module::DataPage),
                None => (Module::DictionaryPageHeader, Module::DictionaryPage),
            };
            written.pages.push(PageMove {
                from: from + page.from as u64,
                to: start + end as u64,
                len: (body.end - end) as u64,
            });
            written.uncompressed += header.len() as i64 + page.uncompressed;
            end = body.end;
            let sealed = |bytes, module| Sealed {
                bytes,
                module,
                page: page.number,
            };
            headers.push(sealed(header, header_module));
            pages.push(sealed(body, module));
            header_texts.push(Span {
                offset: header_bytes.len(),
                len: page.header.len(),
            });
            header_bytes.extend_from_slice(&page.header);
            texts.push(page.text);
        }
        output.fill(end, |room| {
            cipher.seal(
                key,
                Some(chunk),
                &header_bytes,
                &header_texts,
                &headers,
                room,
            )?;
            cipher.seal(key, Some(chunk), bytes, &texts, &pages, room)
        })?;
        first += pages.len();
    }
    Ok(written)
}
