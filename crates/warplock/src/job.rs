//! A batch after all checks: the input of backends.

use std::marker::PhantomData;
use std::ops::Range;

use crate::batch::{Aad, Batch, Direction, Ivs, Keys, Span, Spans, Tags, Text};
use crate::checks::{
    check_array, check_iv_array, check_iv_len, check_keys, check_places, check_sectors,
    check_tag_len, each, inside, same_count,
};
use crate::random::fill_random;
use crate::simple::authenticates;
use crate::{AlgorithmInfo, BatchProblem, Error, Lack};

/// A checked batch. Its existence proves that every span lies inside its buffer, that spans that
/// are written overlap nothing else, and that every key, IV, length and tag fits the algorithm. The
/// buffers stay borrowed for `'a`. [`crate::Engine::run`] checks whether IVs repeat.
pub(crate) struct Job<'a> {
    info: &'static AlgorithmInfo,
    direction: Direction,
    keys: Keys<'a>,
    input: *const u8,
    output: *mut u8,
    input_spans: Spans<'a>,
    output_spans: Spans<'a>,
    /// Of all messages: backends ask more than once, and ragged spans would be added up each time.
    text_bytes: u64,
    /// Never [`Ivs::Random`]: once drawn, those are [`Ivs::Each`].
    ivs: Ivs<'a>,
    draws_ivs: bool,
    /// Bytes per message in [`Ivs::Each`]; kept here because a lookup per message would cost time.
    iv_len: usize,
    aad: Aad<'a>,
    tags: TagPlace,
    tag_len: usize,
    borrows: PhantomData<&'a mut [u8]>,
}

/// The tags' place, as pointers.
#[derive(Clone, Copy)]
enum TagPlace {
    Appended,
    /// Only read by a job that opens.
    Apart(*mut u8),
}

// SAFETY: a job is a set of borrows (`&[u8]`, `&mut [u8]`, `&Key`) that may all go to other
// threads; the pointers only split the mutable ones by message, and messages do not overlap.
unsafe impl Send for Job<'_> {}
// SAFETY: as above; threads that share a job work on different messages or segments of them.
unsafe impl Sync for Job<'_> {}

/// One message of a job. The pointers are valid for `len` bytes; `input == output` when in
/// place, otherwise they do not overlap.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) input: *const u8,
    pub(crate) output: *mut u8,
    pub(crate) len: usize,
    pub(crate) iv: Iv<'a>,
    pub(crate) aad: &'a [u8],
    /// Where the tag is read from (open) or written to (seal); unused by other algorithms.
    pub(crate) tag: *mut u8,
}

impl Message<'_> {
    /// The block of input before `place`, from which CBC decryption of the following text starts.
    /// Must be read before work on it starts, because in place it is overwritten.
    ///
    /// # Safety
    /// The place is from 16 to `len`, and nothing writes to the block.
    pub(crate) unsafe fn block_before(&self, place: usize) -> [u8; 16] {
        // SAFETY: by this function's contract; the input has `len` bytes.
        unsafe { self.input.add(place - 16).cast::<[u8; 16]>().read() }
    }
}

/// A message's IV: the caller's bytes, or a block that is made for it, such as a sector's number.
#[derive(Clone, Copy)]
pub(crate) enum Iv<'a> {
    Bytes(&'a [u8]),
    Block([u8; 16]),
}

impl Iv<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Iv::Bytes(bytes) => bytes,
            Iv::Block(block) => block,
        }
    }
}

impl<'a> Job<'a> {
    pub(crate) fn info(&self) -> &'static AlgorithmInfo {
        self.info
    }

    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    pub(crate) fn count(&self) -> usize {
        self.input_spans.count()
    }

    pub(crate) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    pub(crate) fn keys(&self) -> &Keys<'a> {
        &self.keys
    }

    /// The secret bytes of a message's key.
    pub(crate) fn key_bytes(&self, index: usize) -> &'a [u8] {
        match self.keys {
            Keys::One(key) => key.bytes(),
            Keys::Indexed {
                keys,
                index: numbers,
            } => keys[numbers[index] as usize].bytes(),
            Keys::Each { algorithm, bytes } => {
                let len = algorithm.key_len();
                &bytes[index * len..][..len]
            }
        }
    }

    pub(crate) fn ivs(&self) -> &Ivs<'a> {
        &self.ivs
    }

    /// Whether the IVs were drawn for this job, and so need no check for repeats.
    pub(crate) fn draws_ivs(&self) -> bool {
        self.draws_ivs
    }

    /// Whether all messages have the same length.
    pub(crate) fn is_even(&self) -> bool {
        self.input_spans.is_even()
    }

    /// The bytes of text and of associated data of each message, if they are the same for all.
    pub(crate) fn alike(&self) -> Option<(usize, usize)> {
        let Spans::Even { len, .. } = self.input_spans else {
            return None;
        };
        match self.aad {
            Aad::None => Some((len, 0)),
            Aad::Shared(bytes) => Some((len, bytes.len())),
            Aad::Each { .. } => None,
        }
    }

    pub(crate) fn is_in_place(&self) -> bool {
        self.input == self.output.cast_const()
    }

    pub(crate) fn tag_len(&self) -> usize {
        self.tag_len
    }

    pub(crate) fn text_len(&self, index: usize) -> usize {
        self.input_spans.get(index).len
    }

    pub(crate) fn aad_len(&self, index: usize) -> usize {
        match self.aad {
            Aad::None => 0,
            Aad::Shared(bytes) => bytes.len(),
            Aad::Each { spans, .. } => spans.get(index).len,
        }
    }

    #[inline(always)]
    pub(crate) fn message(&self, index: usize) -> Message<'a> {
        let from = self.input_spans.get(index);
        let to = self.output_spans.get(index);
        // SAFETY: the checks in `new` found both spans inside their buffers.
        let (input, output) = unsafe { (self.input.add(from.offset), self.output.add(to.offset)) };
        let tag = match self.tags {
            // SAFETY: the checks in `new` found the text and the tag after it in the buffer.
            TagPlace::Appended if self.info.algorithm.is_aead() => unsafe {
                match self.direction {
                    Direction::Encrypt => output.add(to.len),
                    Direction::Decrypt => input.add(from.len).cast_mut(),
                }
            },
            TagPlace::Appended => output,
            // SAFETY: the checks in `new` found `tag_len` bytes for each message.
            TagPlace::Apart(tags) => unsafe { tags.add(index * self.tag_len) },
        };
        let iv = match self.ivs {
            Ivs::None => Iv::Bytes(&[]),
            Ivs::Random(_) => unreachable!("`new` has drawn them"),
            Ivs::Each(bytes) => Iv::Bytes(&bytes[index * self.iv_len..][..self.iv_len]),
            Ivs::Ragged { bytes, spans } => Iv::Bytes(slice(bytes, spans.get(index))),
            Ivs::Sectors { first } => Iv::Block(first.wrapping_add(index as u128).to_le_bytes()),
        };
        let aad = match self.aad {
            Aad::None => &[],
            Aad::Shared(bytes) => bytes,
            Aad::Each { bytes, spans } => slice(bytes, spans.get(index)),
        };
        Message {
            input,
            output,
            len: from.len,
            iv,
            aad,
            tag,
        }
    }

    /// Zeroes the output of authenticated decryption after a failure, because it is not verified.
    ///
    /// # Safety
    /// Nothing else uses what the job borrows during the call.
    pub(crate) unsafe fn wipe_unverified(&self) {
        if self.direction == Direction::Encrypt || !self.info.algorithm.is_aead() {
            return;
        }
        for message in (0..self.count()).map(|index| self.message(index)) {
            // SAFETY: the checks in `new` found the output in its buffer; the rest by this
            // function's contract.
            unsafe { message.output.write_bytes(0, message.len) };
        }
    }

    /// The keys and the text of some messages, if each is one block under a key of its own and
    /// there are no gaps: the pointers are valid for 16 bytes per message.
    pub(crate) fn single_blocks(
        &self,
        messages: Range<usize>,
    ) -> Option<(&'a [u8], *const u8, *mut u8)> {
        let Keys::Each { bytes, algorithm } = self.keys else {
            return None;
        };
        let gapless = self.input_spans.are_blocks() && self.output_spans.are_blocks();
        if messages.is_empty() || !gapless {
            return None;
        }
        let Message { input, output, .. } = self.message(messages.start);
        let len = algorithm.key_len();
        Some((
            &bytes[messages.start * len..messages.end * len],
            input,
            output,
        ))
    }

    /// Checks a batch; the only way to a job.
    #[inline(always)]
    pub(crate) fn new(batch: Batch<'a>) -> Result<Self, Error> {
        let Batch {
            direction,
            keys,
            text,
            mut ivs,
            aad,
            tags,
            tag_len,
            must_authenticate,
        } = batch;
        let algorithm = keys
            .algorithm()
            .ok_or_else(|| BatchProblem::NoKeys.of_batch())?;
        let info = algorithm.info();
        let aead = algorithm.is_aead();
        if must_authenticate {
            authenticates(algorithm)?;
        }

        let (input, input_len, output, output_len, input_spans, output_spans, in_place) = match text
        {
            Text::InPlace { buffer, spans } => {
                let (pointer, len) = (buffer.as_mut_ptr(), buffer.len());
                (pointer.cast_const(), len, pointer, len, spans, spans, true)
            }
            Text::Apart {
                input,
                input_spans,
                output,
                output_spans,
            } => {
                let (to, to_len) = (output.as_mut_ptr(), output.len());
                (
                    input.as_ptr(),
                    input.len(),
                    to,
                    to_len,
                    input_spans,
                    output_spans,
                    false,
                )
            }
        };
        let count = input_spans.count();

        check_keys(direction, &keys, count)?;
        check_tag_len(info, direction, tag_len)?;
        let appended = match tags {
            Tags::Appended if aead => tag_len,
            _ => 0,
        };
        let texts = [(&input_spans, input_len), (&output_spans, output_len)];
        check_places(info, direction, texts, in_place, appended)?;

        let tags = match tags {
            Tags::Appended => TagPlace::Appended,
            _ if !aead => return Err(Lack::Tags.of(info.algorithm)),
            Tags::Apart(array) => {
                check_array(array.len(), count, tag_len, "tags")?;
                TagPlace::Apart(array.as_mut_ptr())
            }
            Tags::Given(_) if direction == Direction::Encrypt => {
                return Err(BatchProblem::GivenTags.of_batch());
            }
            Tags::Given(array) => {
                check_array(array.len(), count, tag_len, "tags")?;
                TagPlace::Apart(array.as_ptr().cast_mut())
            }
        };

        check_ivs(info, direction, &ivs, count)?;
        match aad {
            Aad::None => {}
            _ if !aead => return Err(Lack::AssociatedData.of(info.algorithm)),
            Aad::Shared(_) => {}
            Aad::Each { bytes, spans } => {
                same_count(spans.count(), count, "spans of associated data")?;
                inside(&spans, 0, bytes.len(), "the associated data")?;
            }
        }
        let draws_ivs = matches!(ivs, Ivs::Random(_));
        ivs.draw()?;
        Ok(Job {
            info,
            direction,
            keys,
            input,
            output,
            input_spans,
            output_spans,
            text_bytes: input_spans.bytes(),
            ivs,
            draws_ivs,
            iv_len: info.iv_len(),
            aad,
            tags,
            tag_len,
            borrows: PhantomData,
        })
    }
}

impl<'a> Ivs<'a> {
    /// Turns [`Ivs::Random`] into [`Ivs::Each`] by filling the array.
    pub(crate) fn draw(&mut self) -> Result<(), Error> {
        if let Ivs::Random(array) = self {
            let array: &'a mut [u8] = std::mem::take(array);
            fill_random(array)?;
            *self = Ivs::Each(array);
        }
        Ok(())
    }
}

fn slice(bytes: &[u8], span: Span) -> &[u8] {
    &bytes[span.offset..][..span.len]
}

fn check_ivs(
    info: &AlgorithmInfo,
    direction: Direction,
    ivs: &Ivs<'_>,
    count: usize,
) -> Result<(), Error> {
    match ivs {
        Ivs::None if count == 0 => Ok(()),
        Ivs::None => check_iv_len(info, 0, 0),
        Ivs::Random(_) if direction == Direction::Decrypt => {
            Err(BatchProblem::RandomIvs.of_batch())
        }
        Ivs::Random(array) => check_iv_array(info, array.len(), count),
        Ivs::Each(bytes) => check_iv_array(info, bytes.len(), count),
        Ivs::Ragged { bytes, spans } => {
            same_count(spans.count(), count, "spans of IVs")?;
            inside(spans, 0, bytes.len(), "the IVs")?;
            each(spans, |index, span| check_iv_len(info, index, span.len))
        }
        Ivs::Sectors { .. } => check_sectors(info),
    }
}
