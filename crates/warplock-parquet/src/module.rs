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

/// Modules of one chunk and where they lie, in `input`, and where their plaintexts go.
pub(crate) struct Modules<'a> {
    pub(crate) input: &'a [u8],
    pub(crate) sealed: &'a [Sealed],
    /// The places of the plaintexts in the output, one for each.
    pub(crate) texts: &'a [Span],
}

impl Modules<'_> {
    fn spans(&self, tag: usize) -> Vec<Span> {
        let texts = self.sealed.iter().map(|sealed| sealed.text(tag));
        texts.map(span).collect()
    }
}

pub(crate) fn span(range: Range<usize>) -> Span {
    Span {
        offset: range.start,
        len: range.len(),
    }
}

/// Places for bytes of these lengths, one after the other.
pub(crate) fn packed(lens: impl Iterator<Item = usize>) -> Vec<Span> {
    let mut end = 0;
    lens.map(|len| {
        let offset = end;
        end += len;
        Span { offset, len }
    })
    .collect()
}

/// The counters with which pages of CTR begin.
pub(crate) fn counters<'a>(nonces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    nonces
        .flat_map(|nonce| nonce.iter().chain(&[0, 0, 0, 1]).copied())
        .collect()
}

impl Cipher<'_> {
    /// Opens modules of GCM, in one batch.
    pub(crate) fn open(
        &self,
        key: &ModuleKey,
        chunk: Option<&Chunk>,
        modules: &Modules<'_>,
        output: &mut [u8],
    ) -> Result<()> {
        let (aad, aad_spans) = self.aads(chunk, modules.sealed);
        let texts = modules.spans(TAG);
        let nonces: Vec<_> = texts
            .iter()
            .map(|text| span(text.offset - NONCE..text.offset))
            .collect();
        let text = Text::Apart {
            input: modules.input,
            input_spans: Spans::Ragged(&texts),
            output,
            output_spans: Spans::Ragged(modules.texts),
        };
        let ivs = Ivs::Ragged {
            bytes: modules.input,
            spans: Spans::Ragged(&nonces),
        };
        let aad = Aad::Each {
            bytes: &aad,
            spans: Spans::Ragged(&aad_spans),
        };
        let batch = Batch::open(Keys::One(&key.gcm), text).ivs(ivs).aad(aad);
        match self.engine.run(batch) {
            Err(warplock::Error::Authentication { failed, .. }) => {
                let sealed = &modules.sealed[failed[0]];
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

    /// Decrypts pages of CTR, in one batch.
    pub(crate) fn decrypt(
        &self,
        key: &Key,
        modules: &Modules<'_>,
        output: &mut [u8],
    ) -> Result<()> {
        let texts = modules.spans(0);
        let nonce = |text: &Span| &modules.input[text.offset - NONCE..text.offset];
        let ivs = counters(texts.iter().map(nonce));
        let text = Text::Apart {
            input: modules.input,
            input_spans: Spans::Ragged(&texts),
            output,
            output_spans: Spans::Ragged(modules.texts),
        };
        let batch = Batch::decrypt(Keys::One(key), text);
        Ok(self.engine.run(batch.ivs(Ivs::Each(&ivs)))?)
    }

    /// Opens `bytes`, which must be one module, and returns its plaintext.
    pub(crate) fn open_one(
        &self,
        key: &ModuleKey,
        chunk: Option<&Chunk>,
        bytes: &[u8],
        module: Module,
    ) -> Result<Vec<u8>> {
        if length(bytes, 0, TAG) != Some(bytes.len().wrapping_sub(PREFIX)) {
            let place = chunk.map_or(Place::FOOTER, |chunk| chunk.place(module, None));
            return Err(place.malformed("its length does not fit"));
        }
        let sealed = Sealed {
            bytes: 0..bytes.len(),
            module,
            page: None,
        };
        let len = sealed.text(TAG).len();
        let mut text = vec![0; len];
        let modules = Modules {
            input: bytes,
            sealed: &[sealed],
            texts: &[Span { offset: 0, len }],
        };
        self.open(key, chunk, &modules, &mut text)?;
        Ok(text)
    }

    /// The modules' associated data.
    pub(crate) fn aads(&self, chunk: Option<&Chunk>, modules: &[Sealed]) -> (Vec<u8>, Vec<Span>) {
        let mut aad = Vec::with_capacity(modules.len() * (self.aad.len() + 7));
        let mut spans = Vec::with_capacity(modules.len());
        for sealed in modules {
            let offset = aad.len();
            aad.extend_from_slice(&self.aad);
            aad.push(sealed.module as u8);
            aad.extend_from_slice(chunk.map_or(&[], |chunk| &chunk.ordinals));
            if let Some(page) = sealed.page {
                aad.extend_from_slice(&page.to_le_bytes());
            }
            spans.push(span(offset..aad.len()));
        }
        (aad, spans)
    }

    /// Makes modules of texts, in one batch: the texts lie in `input`, the modules go to `output`.
    /// Pages are encrypted with the key's CTR if it has one.
    pub(crate) fn seal(
        &self,
        key: &ModuleKey,
        chunk: Option<&Chunk>,
        input: &[u8],
        texts: &[Span],
        modules: &[Sealed],
        output: &mut [u8],
    ) -> Result<()> {
        let is_page = |module| matches!(module, Module::DataPage | Module::DictionaryPage);
        let ctr = key.ctr.as_ref();
        let ctr = ctr.filter(|_| modules.iter().any(|sealed| is_page(sealed.module)));
        let tag = if ctr.is_some() { 0 } else { TAG };
        let mut nonces = vec![0; modules.len() * NONCE];
        warplock::fill_random(&mut nonces)?;
        let mut places = Vec::with_capacity(modules.len());
        for (sealed, nonce) in modules.iter().zip(nonces.chunks_exact(NONCE)) {
            let (start, place) = (sealed.bytes.start, sealed.text(tag));
            let len = (sealed.bytes.len() - PREFIX) as u32;
            output[start..start + PREFIX].copy_from_slice(&len.to_le_bytes());
            output[place.start - NONCE..place.start].copy_from_slice(nonce);
            places.push(span(place));
        }
        let text = Text::Apart {
            input,
            input_spans: Spans::Ragged(texts),
            output,
            output_spans: Spans::Ragged(&places),
        };
        if let Some(ctr) = ctr {
            let ivs = counters(nonces.chunks_exact(NONCE));
            let batch = Batch::encrypt(Keys::One(ctr), text);
            return Ok(self.engine.run(batch.ivs(Ivs::Each(&ivs)))?);
        }
        let (aad, spans) = self.aads(chunk, modules);
        let aad = Aad::Each {
            bytes: &aad,
            spans: Spans::Ragged(&spans),
        };
        let batch = Batch::seal(Keys::One(&key.gcm), text).ivs(Ivs::Each(&nonces));
        Ok(self.engine.run(batch.aad(aad))?)
    }

    /// The module of one text.
    pub(crate) fn seal_one(
        &self,
        key: &ModuleKey,
        chunk: Option<&Chunk>,
        text: &[u8],
        module: Module,
    ) -> Result<Vec<u8>> {
        let mut output = vec![0; PREFIX + NONCE + text.len() + TAG];
        let sealed = Sealed {
            bytes: 0..output.len(),
            module,
            page: None,
        };
        let texts = [span(0..text.len())];
        self.seal(key, chunk, text, &texts, &[sealed], &mut output)?;
        Ok(output)
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
