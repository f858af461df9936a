//! The layout of a plain file, for targets that are filled later: a GPU opens many pages at the same
//! time, a lazy file those that are read.

use std::io;
use std::sync::Arc;

use warplock::Span;

use crate::error::Place;
use crate::files::Target;
use crate::keys::ModuleKey;
use crate::module::{Chunk, Cipher, Sealed};

/// Where everything in the plain file comes from.
#[derive(Default)]
pub(crate) struct Sheet {
    /// Bytes that the host has: headers of pages, indexes, the footer; and where each run goes.
    pub(crate) host: Vec<u8>,
    pub(crate) runs: Vec<Span>,
    /// Parts of the encrypted file that are plain: where they lie, and where they go.
    pub(crate) copies: Vec<(Span, usize)>,
    /// The pages of encrypted column chunks.
    pub(crate) chunks: Vec<ChunkPages>,
    /// Those of the chunk that is being noted.
    pages: (Vec<Span>, Vec<usize>),
    /// How long the plain file is so far.
    pub(crate) len: usize,
}

/// Pages of a column chunk, one after the other, at least one.
pub(crate) struct ChunkPages {
    pub(crate) key: Arc<ModuleKey>,
    /// Where their ciphertexts lie in the encrypted file. A nonce of 12 bytes is before each, and a
    /// tag of 16 after it unless they are of CTR.
    pub(crate) texts: Vec<Span>,
    /// Where each one's plaintext goes.
    pub(crate) to: Vec<usize>,
    /// Their associated data.
    pub(crate) aad: Vec<u8>,
    pub(crate) aad_spans: Vec<Span>,
    /// Each one's name for errors.
    chunk: Chunk,
    modules: Vec<Sealed>,
}

impl ChunkPages {
    pub(crate) fn place(&self, page: usize) -> Place {
        let module = &self.modules[page];
        self.chunk
            .place(module.module, module.page.map(usize::from))
    }
}

impl Sheet {
    /// What was noted since the last time; the rest continues it.
    pub(crate) fn take(&mut self) -> Sheet {
        let rest = Sheet {
            len: self.len,
            ..Sheet::default()
        };
        std::mem::replace(self, rest)
    }

    /// The next bytes, which the host has.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.host.extend_from_slice(bytes);
        self.end_run(bytes.len());
    }

    fn end_run(&mut self, len: usize) {
        match self.runs.last_mut() {
            Some(last) if last.offset + last.len == self.len => last.len += len,
            _ if len == 0 => {}
            _ => self.runs.push(Span {
                offset: self.len,
                len,
            }),
        }
        self.len += len;
    }

    /// A plain part of the encrypted file.
    pub(crate) fn copy(&mut self, from: u64, len: usize) {
        let offset = from as usize;
        self.copies.push((Span { offset, len }, self.len));
        self.len += len;
    }

    /// An encrypted page.
    pub(crate) fn page(&mut self, from: u64, len: usize) {
        let offset = from as usize;
        self.pages.0.push(Span { offset, len });
        self.pages.1.push(self.len);
        self.len += len;
    }

    /// Records which chunk the last pages belong to.
    pub(crate) fn end_chunk(
        &mut self,
        cipher: &Cipher<'_>,
        key: &Arc<ModuleKey>,
        chunk: &Chunk,
        modules: &[Sealed],
    ) {
        let (texts, to) = std::mem::take(&mut self.pages);
        let (aad, aad_spans) = cipher.aads(Some(chunk), modules);
        self.chunks.push(ChunkPages {
            key: Arc::clone(key),
            texts,
            to,
            aad,
            aad_spans,
            chunk: chunk.clone(),
            modules: modules.to_vec(),
        });
    }
}

impl Target for Sheet {
    fn room(&mut self, len: usize) -> io::Result<&mut [u8]> {
        let start = self.host.len();
        self.host.resize(start + len, 0);
        Ok(&mut self.host[start..])
    }

    fn filled(&mut self, len: usize) -> io::Result<()> {
        self.end_run(len);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn sheet(&mut self) -> Option<&mut Sheet> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use warplock::{Aad, Batch, Engine, Ivs, Keys, Spans, Text};

    use super::*;
    use crate::decrypt::convert;
    use crate::module::NONCE;
    use crate::vectors::{files, keys};
    use crate::{LazyFile, decrypt_slice};

    /// What a GPU does with a sheet.
    fn fill(sheet: &Sheet, source: &[u8], engine: &Engine) -> Vec<u8> {
        let mut plain = vec![0xcc; sheet.len];
        let mut host = &sheet.host[..];
        for run in &sheet.runs {
            let bytes = host.split_off(..run.len).unwrap();
            plain[run.offset..][..run.len].copy_from_slice(bytes);
        }
        assert!(host.is_empty());
        for (from, to) in &sheet.copies {
            plain[*to..][..from.len].copy_from_slice(&source[from.offset..][..from.len]);
        }
        for chunk in &sheet.chunks {
            for (page, text) in chunk.texts.iter().enumerate() {
                let aad = chunk.aad_spans[page];
                let nonce = &source[text.offset - NONCE..text.offset];
                let one = Spans::one(text.len);
                let text = Text::Apart {
                    input: &source[text.offset..],
                    input_spans: one,
                    output: &mut plain[chunk.to[page]..],
                    output_spans: one,
                };
                let done = match &chunk.key.ctr {
                    Some(ctr) => {
                        let iv = [nonce, &[0, 0, 0, 1]].concat();
                        engine.run(Batch::decrypt(Keys::One(ctr), text).ivs(Ivs::Each(&iv)))
                    }
                    None => engine.run(
                        Batch::open(Keys::One(&chunk.key.gcm), text)
                            .ivs(Ivs::Each(nonce))
                            .aad(Aad::Shared(&chunk.aad[aad.offset..][..aad.len])),
                    ),
                };
                done.unwrap();
            }
        }
        plain
    }

    #[test]
    fn a_sheet_has_every_byte_of_the_plain_file() {
        let engine = Engine::builder().backend("cpu".parse().unwrap());
        let engine = engine.build().unwrap();
        for (path, options) in files() {
            let (source, mut keys) = (std::fs::read(&path).unwrap(), keys());
            let mut wanted = Vec::new();
            decrypt_slice(&source, &mut wanted, &mut keys, &options, &engine).unwrap();
            let mut sheet = Sheet::default();
            convert(&mut &source[..], &mut sheet, &mut keys, &options, &engine).unwrap();
            assert!(
                fill(&sheet, &source, &engine) == wanted,
                "{}",
                path.display()
            );
            for len in [1, 7, 100, 1000, sheet.len, sheet.len + 1] {
                let lazy = LazyFile::open(&source, &mut keys, &options, &engine).unwrap();
                assert_eq!(lazy.len(), wanted.len() as u64);
                let mut found = Vec::new();
                loop {
                    let (at, mut part) = (found.len() as u64, vec![0xcc; len]);
                    match lazy.read(&source, at, &mut part, &engine).unwrap() {
                        0 => break,
                        some => found.extend_from_slice(&part[..some]),
                    }
                }
                assert!(found == wanted, "{} by {len}", path.display());
                let beyond = lazy.read(&source, u64::MAX, &mut [0; 9], &engine);
                assert_eq!(beyond.unwrap(), 0);
                assert!(lazy.read(&source[1..], 0, &mut [0; 9], &engine).is_err());
            }
        }
    }
}
