//! Encrypted modules: `length (4 bytes) | nonce (12) | ciphertext | tag (16)`. Pages of
//! AES_GCM_CTR_V1 have no tag.

use std::ops::Range;

use subtle::ConstantTimeEq;
use warplock::{Aad, Batch, Engine, Ivs, Key, Keys, Span, Spans, Tags, Text};

use crate::error::{Error, Module, Place, Result};
use crate::keys::ModuleKey;

pub(crate) const PREFIX: usize = 4;
pub(crate) const NONCE: usize = 12;
pub(crate) const TAG: usize = 16;

/// What all modules of a file have in common.
pub(crate) struct Cipher<'a> {
    pub(crate) engine: &'a Engine,
    /// The AAD prefix, then the file's identifier.
    pub(crate) aad: Vec<u8>,
}

/// A column chunk, as AADs and errors name it.
#[derive(Clone)]
pub(crate) struct Chunk {
    pub(crate) row_group: usize,
    /// The ordinals of AADs.
    pub(crate) ordinals: [u8; 4],
    pub(crate) name: String,
}

impl Chunk {
    pub(crate) fn place(&self, module: Module, page: Option<usize>) -> Place {
        Place {
            module,
            chunk: Some((self.row_group, self.name.clone())),
            page,
        }
    }
}

/// A module in a buffer, length and all.
#[derive(Clone)]
pub(crate) struct Sealed {
    pub(crate) bytes: Range<usize>,
    pub(crate) module: Module,
    /// A data page's number.
    pub(crate) page: Option<u16>,
}

impl Sealed {
    /// The plaintext's place once it is opened.
    pub(crate) fn text(&self, tag: usize) -> Range<usize> {
        self.bytes.start + PREFIX + NONCE..self.bytes.end - tag
    }
}

/// The length of the module at `at`, without its four bytes, if all of it is there.
pub(crate) fn length(bytes: &[u8], at: usize, tag: usize) -> Option<usize> {
    let prefix = bytes.get(at..)?.first_chunk::<PREFIX>()?;
    let len = usize::try_from(u32::from_le_bytes(*prefix)).ok()?;
    let fits = len >= NONCE + tag && len <= bytes.len() - at - PREFIX;
    fits.then_some(len)
}

impl Cipher<'_> {
    /// Opens modules of GCM in place, in one batch.
    pub(crate) fn open(
        &self,
        key: &ModuleKey,
        chunk: Option<&Chunk>,
        buffer: &mut [u8],
        modules: &[Sealed],
    ) -> Result<()> {
        let mut aad = Vec::with_capacity(modules.len() * (self.aad.len() + 7));
        let mut aad_spans = Vec::with_capacity(modules.len());
        for sealed in modules {
            let offset = aad.len();
            aad.extend_from_slice(&self.aad);
            aad.push(sealed.module as u8);
            aad.extend_from_slice(chunk.map_or(&[], |chunk| &chunk.ordinals));
            if let Some(page) = sealed.page {
                aad.extend_from_slice(&page.to_le_bytes());
            }
            let len = aad.len() - offset;
            aad_spans.push(Span { offset, len });
        }
        let (nonces, spans) = gather(buffer, modules, TAG, &[]);
        let text = Text::InPlace {
            buffer,
            spans: Spans::Ragged(&spans),
        };
        let aad = Aad::Each {
            bytes: &aad,
            spans: Spans::Ragged(&aad_spans),
        };
        let batch = Batch::open(Keys::One(&key.gcm), text).ivs(Ivs::Each(&nonces));
        match self.engine.run(batch.aad(aad)) {
            Err(warplock::Error::Authentication { failed, .. }) => {
                let sealed = &modules[failed[0]];
                Err(match chunk {
                    None => Error::Footer,
                    Some(chunk) => {
                        Error::Changed(chunk.place(sealed.module, sealed.page.map(usize::from)))
                    }
                })
            }
            other => Ok(other?),
        }
    }

    /// Decrypts pages of CTR in place, in one batch.
    pub(crate) fn decrypt(&self, key: &Key, buffer: &mut [u8], pages: &[Sealed]) -> Result<()> {
        let (ivs, spans) = gather(buffer, pages, 0, &[0, 0, 0, 1]);
        let text = Text::InPlace {
            buffer,
            spans: Spans::Ragged(&spans),
        };
        Ok(self
            .engine
            .run(Batch::decrypt(Keys::One(key), text).ivs(Ivs::Each(&ivs)))?)
    }

    /// Opens the one module that `bytes` are, and gives its plaintext.
    pub(crate) fn open_one(
        &self,
        key: &ModuleKey,
        chunk: Option<&Chunk>,
        mut bytes: Vec<u8>,
        module: Module,
    ) -> Result<Vec<u8>> {
        if length(&bytes, 0, TAG) != Some(bytes.len().wrapping_sub(PREFIX)) {
            let place = chunk.map_or(Place::FOOTER, |chunk| chunk.place(module, None));
            return Err(place.malformed("its length does not fit"));
        }
        let sealed = Sealed {
            bytes: 0..bytes.len(),
            module,
            page: None,
        };
        self.open(key, chunk, &mut bytes, std::slice::from_ref(&sealed))?;
        bytes.truncate(sealed.text(TAG).end);
        bytes.drain(..PREFIX + NONCE);
        Ok(bytes)
    }

    /// Verifies the signature of a plaintext footer: the nonce and the tag of its encryption.
    pub(crate) fn verify_footer(
        &self,
        key: &ModuleKey,
        footer: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        let (nonce, wanted) = signature.split_at(NONCE);
        let aad = [&self.aad[..], &[Module::Footer as u8]].concat();
        let mut tag = [0; TAG];
        let mut ciphertext = footer.to_vec();
        let text = Text::in_place(&mut ciphertext);
        let batch = Batch::seal(Keys::One(&key.gcm), text).ivs(Ivs::Each(nonce));
        self.engine
            .run(batch.aad(Aad::Shared(&aad)).tags(Tags::Apart(&mut tag)))?;
        match bool::from(tag.ct_eq(wanted)) {
            true => Ok(()),
            false => Err(Error::Footer),
        }
    }
}

/// The modules' IVs, each followed by `counter`, and their texts' places.
fn gather(buffer: &[u8], modules: &[Sealed], tag: usize, counter: &[u8]) -> (Vec<u8>, Vec<Span>) {
    let mut ivs = Vec::with_capacity(modules.len() * (NONCE + counter.len()));
    let mut spans = Vec::with_capacity(modules.len());
    for sealed in modules {
        let text = sealed.text(tag);
        ivs.extend_from_slice(&buffer[text.start - NONCE..text.start]);
        ivs.extend_from_slice(counter);
        spans.push(Span {
            offset: text.start,
            len: text.len(),
        });
    }
    (ivs, spans)
}
