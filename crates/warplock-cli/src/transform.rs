//! The work of `raw`: a bare cipher with padding, tag or sectors, fed in pieces.

use warplock::{
    Algorithm, Batch, Direction, Engine, Ivs, Key, Keys, MessageStream, Spans, Text, pkcs7,
};
use zeroize::Zeroizing;

use crate::failure::{Failure, Result};
use crate::pump::Work;

/// Everything but the key. Fits the algorithm: see `cmd::raw`.
pub(crate) struct Parameters {
    pub(crate) algorithm: Algorithm,
    pub(crate) direction: Direction,
    /// IV, nonce, start counter or (first) tweak.
    pub(crate) iv: Zeroizing<Vec<u8>>,
    pub(crate) aad: Zeroizing<Vec<u8>>,
    /// Whether the text is padded with PKCS#7.
    pub(crate) pad: bool,
    /// Length of a unit with a tweak of its own.
    pub(crate) sector: Option<usize>,
    pub(crate) tag_len: usize,
}

impl Parameters {
    /// Refuses an input that cannot be right, judging by its length alone.
    pub(crate) fn check_input_len(&self, len: u64) -> Result<()> {
        let info = self.algorithm.info();
        let wrong = |rule: &str| {
            Err(Failure::error(format_args!(
                "the input has {len} bytes; {} needs {rule}",
                info.name
            )))
        };
        if let Some(sector) = self.sector {
            return match len % sector as u64 {
                1..16 => wrong(&format!(
                    "sectors of {sector} bytes, of which only the last may be shorter, down to 16"
                )),
                _ => Ok(()),
            };
        }
        let decrypting = self.direction == Direction::Decrypt;
        let text_len = match (self.pad, decrypting) {
            (true, true) if len == 0 => return wrong("at least one block of padding"),
            (true, false) => return Ok(()),
            _ if decrypting && info.algorithm.is_aead() => {
                return match len.checked_sub(self.tag_len as u64) {
                    None => Err(Failure::authentication(format_args!(
                        "the input has {len} bytes, fewer than its tag of {}: it was cut short",
                        self.tag_len
                    ))),
                    Some(len) if info.accepts_text_len(len) => Ok(()),
                    Some(_) => wrong(info.text_rule()),
                };
            }
            _ => len,
        };
        if info.accepts_text_len(text_len) {
            Ok(())
        } else {
            wrong(info.text_rule())
        }
    }
}

/// A cipher in use.
pub(crate) struct Transform<'a> {
    parameters: Parameters,
    cipher: Cipher<'a>,
    /// Bytes so far.
    done: u64,
}

enum Cipher<'a> {
    Message(MessageStream<'a>),
    Sectors {
        engine: &'a Engine,
        key: &'a Key,
        len: usize,
        next: u128,
    },
}

impl<'a> Transform<'a> {
    /// Starts.
    pub(crate) fn new(engine: &'a Engine, key: &'a Key, parameters: Parameters) -> Result<Self> {
        let Parameters {
            direction, iv, aad, ..
        } = &parameters;
        let cipher = match parameters.sector {
            None => Cipher::Message(MessageStream::new(engine, *direction, key, iv, aad)?),
            Some(len) => {
                let first = iv.first_chunk().expect("the tweak's length was checked");
                Cipher::Sectors {
                    engine,
                    key,
                    len,
                    next: u128::from_le_bytes(*first),
                }
            }
        };
        Ok(Transform {
            parameters,
            cipher,
            done: 0,
        })
    }

    /// The length of pieces for [`Transform::update`], about `wanted` bytes.
    pub(crate) fn piece_len(&self, wanted: usize) -> usize {
        match self.parameters.sector {
            None => wanted,
            Some(len) => wanted.next_multiple_of(len),
        }
    }

    /// Whether the CPU does the work, whatever the engine's backend is.
    pub(crate) fn stays_on_cpu(&self) -> bool {
        match &self.cipher {
            Cipher::Message(stream) => stream.stays_on_cpu(),
            Cipher::Sectors { .. } => false,
        }
    }

    /// Whether nothing may be written before the end is reached.
    pub(crate) fn must_wait(&self) -> bool {
        self.parameters.algorithm.is_aead() && self.parameters.direction == Direction::Decrypt
    }

    fn sectors(&mut self, piece: &mut [u8]) -> Result<()> {
        let Cipher::Sectors {
            engine,
            key,
            len,
            next,
        } = &mut self.cipher
        else {
            unreachable!("called for sectors only");
        };
        let whole = piece.len() / *len;
        let (sectors, short) = piece.split_at_mut(whole * *len);
        let short_len = short.len();
        for (buffer, count, len) in [(sectors, whole, *len), (short, 1, short_len)] {
            if buffer.is_empty() {
                continue;
            }
            let spans = Spans::Even {
                count,
                len,
                stride: len,
            };
            let text = Text::InPlace { buffer, spans };
            let batch = Batch::new(self.parameters.direction, Keys::One(key), text);
            engine.run(batch.ivs(Ivs::Sectors { first: *next }))?;
            *next = next.wrapping_add(count as u128);
        }
        Ok(())
    }
}

impl Work for Transform<'_> {
    fn update(&mut self, piece: &mut [u8]) -> Result<()> {
        self.done += piece.len() as u64;
        match &mut self.cipher {
            Cipher::Message(stream) => Ok(stream.update(piece)?),
            Cipher::Sectors { .. } => self.sectors(piece),
        }
    }

    fn finish(mut self, last: &mut Vec<u8>) -> Result<()> {
        self.parameters
            .check_input_len(self.done + last.len() as u64)?;
        let Parameters {
            algorithm,
            direction,
            pad,
            tag_len,
            ..
        } = self.parameters;
        let stream = match self.cipher {
            Cipher::Sectors { .. } => return self.sectors(last),
            Cipher::Message(stream) => stream,
        };
        match direction {
            Direction::Encrypt => {
                if pad {
                    pkcs7::pad(last);
                }
                if let Some(tag) = stream.finish(last)? {
                    last.extend_from_slice(&tag[..tag_len]);
                }
            }
            Direction::Decrypt if algorithm.is_aead() => {
                let text_len = last.len() - tag_len;
                let (text, tag) = last.split_at_mut(text_len);
                stream.verify(text, tag)?;
                last.truncate(text_len);
            }
            Direction::Decrypt => {
                stream.finish(last)?;
                if pad {
                    last.truncate(pkcs7::unpadded_len(last)?);
                }
            }
        }
        Ok(())
    }
}
