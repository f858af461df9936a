//! Many messages: `wl_batch`, and how one in host memory runs.

use std::ffi::c_void;
use std::ops::Range;

use warplock::{Aad, Algorithm, Batch, Direction, Error, Ivs, Keys, Span, Spans, Tags, Text};

use crate::algorithm;
use crate::engine::wl_engine;
use crate::fault::{Fault, Result, run};
use crate::handle;
use crate::key::{wl_key, wl_key_table};
use crate::memory::{bytes, bytes_mut, place, slice, slice_mut};
use crate::message::refuse_any_overlap;
use crate::status::{WL_ERR_UNSUPPORTED, wl_status};

/// For `operation`: authenticated encryption.
pub const WL_SEAL: u32 = 1;
/// For `operation`: verified decryption.
pub const WL_OPEN: u32 = 2;
/// For `operation`: encryption with any algorithm, also one that detects no modification.
pub const WL_ENCRYPT: u32 = 3;
/// For `operation`: decryption with any algorithm. With one that authenticates, the same as WL_OPEN.
pub const WL_DECRYPT: u32 = 4;

/// For `nonce_mode`: the array `nonces` has wl_nonce_len bytes for each message. Encryption draws
/// fresh ones and writes them there; decryption reads them. In GPU memory only for algorithms that
/// authenticate.
pub const WL_NONCES_DRAWN: u32 = 0;
/// For `nonce_mode`: the caller has filled the array. DANGER: no nonce may ever be used twice under
/// one key. A repetition inside one batch is refused in host memory.
pub const WL_NONCES_GIVEN: u32 = 1;
/// For `nonce_mode`: as WL_NONCES_GIVEN, but each lies where `nonce_spans` says, for GCM with any
/// length.
pub const WL_NONCES_SPANS: u32 = 2;
/// For `nonce_mode`, XTS only: message `i` is sector `first + i` of a disk.
pub const WL_NONCES_SECTORS: u32 = 3;
/// For `nonce_mode`, in GPU memory only: message `i` has the nonce `nonce_base` XOR `first + i`, this
/// number big-endian in its last eight bytes, as TLS and the chunks of encrypted files have it. Not
/// for a plan that seals.
pub const WL_NONCES_XOR: u32 = 4;
/// For `nonce_mode`: as WL_NONCES_XOR, but `first + i` is added to the last four bytes of
/// `nonce_base`, big-endian, modulo 2^32.
pub const WL_NONCES_ADD: u32 = 5;

/// A run of bytes in a buffer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wl_span {
    /// From the buffer's start, in bytes.
    pub offset: u64,
    /// In bytes.
    pub len: u64,
}

/// Many messages in one call. Set all of it to zero, then `size` to sizeof(wl_batch), then what is
/// needed: zero is a sensible default for every other member. Later versions append members, so
/// that programs compiled with this one continue to work.
///
/// The same structure serves host memory (wl_run) and GPU memory (wl_cuda_...). There, `in`, `out`,
/// `nonces`, `aad` and `tags` are addresses in GPU memory; everything else stays in host memory.
/// All lengths are in bytes. Text lengths never include tags.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wl_batch {
    /// sizeof(wl_batch), as the program was compiled.
    pub size: u32,
    /// WL_SEAL, WL_OPEN, WL_ENCRYPT or WL_DECRYPT.
    pub operation: u32,
    /// A WL_NONCES constant.
    pub nonce_mode: u32,
    /// Bytes of a tag; 0 for 16. GCM seals with 12 to 16, and also opens 4 and 8.
    pub tag_len: u32,
    /// How many messages.
    pub count: u64,

    /// One key for all messages. Set this, or `key_table`, or `key_bytes`.
    pub key: *const wl_key,
    /// Keys that messages share: message `i` takes number `key_index[i]`.
    pub key_table: *const wl_key_table,
    /// With `key_table`: `count` numbers, from 0.
    pub key_index: *const u32,
    /// A key for each message, wl_key_len bytes each, one after the other.
    pub key_bytes: *const c_void,
    /// With `key_bytes`: what the keys are for.
    pub key_algorithm: u32,
    /// Zero.
    pub reserved_1: u32,

    /// The buffer of the texts, or of the ciphertexts to open.
    pub input: *const c_void,
    /// Bytes of `input`.
    pub input_size: u64,
    /// Where each message lies in `input`: `count` spans. NULL for messages of `text_len` bytes
    /// whose starts are `input_stride` apart.
    pub input_spans: *const wl_span,
    /// Without `input_spans`: from one message's start to the next one's. 0 if each directly
    /// follows the one before, or its tag where this buffer has tags.
    pub input_stride: u64,
    /// Without spans: bytes of each text.
    pub text_len: u64,
    /// The buffer of the results. NULL, or the same as `input`, to work in place: then the next three
    /// members are not used, and `input` is written. Otherwise it must not overlap `input`.
    pub output: *mut c_void,
    /// Bytes of `output`.
    pub output_size: u64,
    /// Where each result goes in `output`: `count` spans with the lengths of `input_spans`.
    pub output_spans: *const wl_span,
    /// As `input_stride`.
    pub output_stride: u64,

    /// Nonces, IVs, start counters or tweaks, as `nonce_mode` says. NULL for ECB and where they are counted.
    /// Written only if they are drawn.
    pub nonces: *mut c_void,
    /// With WL_NONCES_SPANS: bytes of `nonces`. (Otherwise they follow from `count`.)
    pub nonces_size: u64,
    /// With WL_NONCES_SPANS: `count` spans.
    pub nonce_spans: *const wl_span,
    /// Where nonces or sectors are counted: the number of the first message's.
    pub first: u64,
    /// With WL_NONCES_XOR and WL_NONCES_ADD: wl_nonce_len bytes of host memory.
    pub nonce_base: *const c_void,

    /// Associated data: authenticated, not encrypted. NULL for none.
    pub aad: *const c_void,
    /// Bytes of `aad`.
    pub aad_size: u64,
    /// Where each message's associated data lies in `aad`: `count` spans. NULL if all of `aad` is
    /// that of every message.
    pub aad_spans: *const wl_span,

    /// An array of `count` tags of `tag_len` bytes: written by encryption, only read by decryption.
    /// NULL if each tag directly follows its ciphertext, and for algorithms without tags.
    pub tags: *mut c_void,

    /// Zeros.
    pub reserved: [u64; 8],
}

/// What every version of the structure has.
const FIRST_SIZE: usize = std::mem::offset_of!(wl_batch, reserved);

impl wl_batch {
    /// A copy of the caller's batch, with zeros for members that its version does not have.
    ///
    /// # Safety
    /// It is NULL, or its first member says how many bytes can be read.
    pub(crate) unsafe fn of(batch: *const wl_batch) -> Result<wl_batch> {
        if batch.is_null() || !batch.is_aligned() {
            return Err(Fault::argument("the batch is NULL or not aligned"));
        }
        // SAFETY: by this function's contract; `size` comes first.
        let size = unsafe { batch.cast::<u32>().read() } as usize;
        if !(FIRST_SIZE..=4096).contains(&size) {
            return Err(Fault::argument(format!(
                "the batch's size is {size}: set all of it to zero, then size to sizeof(wl_batch)"
            )));
        }
        // SAFETY: by this function's contract.
        let given = unsafe { slice(batch.cast::<u8>(), size, "the batch")? };
        let known = size.min(size_of::<wl_batch>());
        // SAFETY: null pointers and zeros are values of all members.
        let mut own: wl_batch = unsafe { std::mem::zeroed() };
        // SAFETY: both have `known` bytes, and any bytes are values of all members.
        unsafe {
            std::ptr::copy_nonoverlapping(given.as_ptr(), (&raw mut own).cast::<u8>(), known);
        }
        let unknown = given[known..].iter().any(|&byte| byte != 0);
        if unknown || own.reserved != [0; 8] || own.reserved_1 != 0 {
            return Err(Fault::new(
                WL_ERR_UNSUPPORTED,
                "the batch sets members that this version of the library does not know: use a \
                 newer library, or set the rest of the batch to zero",
            ));
        }
        Ok(own)
    }

    /// The direction, and whether the algorithm must authenticate.
    pub(crate) fn direction(&self) -> Result<(Direction, bool)> {
        match self.operation {
            WL_SEAL => Ok((Direction::Encrypt, true)),
            WL_OPEN => Ok((Direction::Decrypt, true)),
            WL_ENCRYPT => Ok((Direction::Encrypt, false)),
            WL_DECRYPT => Ok((Direction::Decrypt, false)),
            other => Err(Fault::argument(format!(
                "the batch's operation is {other}: use WL_SEAL, WL_OPEN, WL_ENCRYPT or WL_DECRYPT"
            ))),
        }
    }

    /// # Safety
    /// The handles are valid and the arrays have `count` entries for `'a`.
    pub(crate) unsafe fn keys<'a>(&self) -> Result<Keys<'a>> {
        let given = [
            !self.key.is_null(),
            !self.key_table.is_null(),
            !self.key_bytes.is_null(),
        ];
        if given.iter().filter(|&&given| given).count() != 1 {
            return Err(Fault::argument(
                "the batch needs exactly one of key, key_table and key_bytes",
            ));
        }
        let count = length(self.count)?;
        if given[0] {
            // SAFETY: by this function's contract.
            return Ok(Keys::One(unsafe { handle::get(self.key)? }));
        }
        if given[1] {
            // SAFETY: as above.
            let (_, keys) = unsafe { handle::get(self.key_table)? };
            // SAFETY: as above.
            let index = unsafe { slice(self.key_index, count, "key_index")? };
            return Ok(Keys::Indexed { keys, index });
        }
        let algorithm = algorithm::by_number(self.key_algorithm)?;
        let len = product(count, algorithm.key_len())?;
        Ok(Keys::Each {
            algorithm,
            // SAFETY: as above.
            bytes: unsafe { bytes(self.key_bytes, len, "key_bytes")? },
        })
    }

    /// Bytes of a tag.
    pub(crate) fn tag_len(&self) -> usize {
        match self.tag_len {
            0 => 16,
            len => len as usize,
        }
    }

    /// Bytes of a tag that directly follows each ciphertext.
    pub(crate) fn appended(&self, algorithm: Algorithm) -> usize {
        match algorithm.is_aead() && self.tags.is_null() {
            true => self.tag_len(),
            false => 0,
        }
    }

    pub(crate) fn is_in_place(&self) -> bool {
        self.output.is_null() || self.output.cast_const() == self.input
    }

    /// Where the texts lie: in `input`, and in `output`. `appended`: bytes of a tag in each.
    ///
    /// # Safety
    /// The spans are `count`, for `'a`.
    pub(crate) unsafe fn text_spans<'a>(
        &self,
        direction: Direction,
        appended: usize,
    ) -> Result<(Spans<'a>, Spans<'a>)> {
        let (tag_in, tag_out) = match direction {
            _ if self.is_in_place() => (appended, appended),
            Direction::Encrypt => (0, appended),
            Direction::Decrypt => (appended, 0),
        };
        // SAFETY: by this function's contract.
        let input = unsafe { self.spans(self.input_spans, self.input_stride, tag_in)? };
        let output = match self.is_in_place() {
            true => input,
            // SAFETY: as above.
            false => unsafe { self.spans(self.output_spans, self.output_stride, tag_out)? },
        };
        Ok((input, output))
    }

    /// Where the arrays with an entry for each message lie: they are read while results are written.
    fn arrays(&self, algorithm: Algorithm, count: usize) -> [(&'static str, Range<usize>); 6] {
        fn all<T>(array: *const T, count: usize, each: usize) -> Range<usize> {
            let len = if array.is_null() {
                0
            } else {
                count.saturating_mul(each)
            };
            place(array, len)
        }
        let spans = |array, is_used| all(array, if is_used { count } else { 0 }, size_of::<Span>());
        let has_nonces = self.nonce_mode == WL_NONCES_SPANS;
        [
            ("key_bytes", all(self.key_bytes, count, algorithm.key_len())),
            (
                "key_index",
                all(
                    self.key_index,
                    if self.key_table.is_null() { 0 } else { count },
                    4,
                ),
            ),
            ("input_spans", spans(self.input_spans, true)),
            (
                "output_spans",
                spans(self.output_spans, !self.is_in_place()),
            ),
            ("nonce_spans", spans(self.nonce_spans, has_nonces)),
            ("aad_spans", spans(self.aad_spans, true)),
        ]
    }

    /// # Safety
    /// The spans are `count`, for `'a`.
    unsafe fn spans<'a>(
        &self,
        spans: *const wl_span,
        stride: u64,
        tag: usize,
    ) -> Result<Spans<'a>> {
        if !spans.is_null() {
            // SAFETY: by this function's contract.
            return unsafe { self.ragged(spans, "the spans of texts") };
        }
        let len = length(self.text_len)?;
        let stride = match stride {
            0 => len.checked_add(tag),
            stride => usize::try_from(stride).ok(),
        };
        Ok(Spans::Even {
            count: length(self.count)?,
            len,
            stride: stride.ok_or_else(too_long)?,
        })
    }

    /// # Safety
    /// The spans are `count`, for `'a`.
    pub(crate) unsafe fn ragged<'a>(&self, spans: *const wl_span, what: &str) -> Result<Spans<'a>> {
        // SAFETY: by this function's contract; both types are an offset and a length of 64 bits, in
        // this order.
        unsafe { slice(spans.cast::<Span>(), length(self.count)?, what).map(Spans::Ragged) }
    }
}

const _: () = {
    assert!(size_of::<Span>() == size_of::<wl_span>());
    assert!(align_of::<Span>() == align_of::<wl_span>());
    assert!(std::mem::offset_of!(Span, offset) == std::mem::offset_of!(wl_span, offset));
    assert!(std::mem::offset_of!(Span, len) == std::mem::offset_of!(wl_span, len));
};

/// What the keys of a batch are for.
pub(crate) fn algorithm_of(keys: &Keys<'_>) -> Result<Algorithm> {
    keys.algorithm()
        .ok_or_else(|| Fault::argument("the table of keys is empty"))
}

pub(crate) fn unknown_nonce_mode(mode: u32) -> Fault {
    let counted = matches!(mode, WL_NONCES_XOR | WL_NONCES_ADD);
    Fault::argument(format!(
        "the batch's nonce_mode is {mode}: {}",
        match counted {
            true => "nonces are counted in GPU memory only; in host memory use WL_NONCES_GIVEN",
            false => "use a WL_NONCES constant",
        }
    ))
}

fn too_long() -> Fault {
    Fault::argument("a length or count of the batch is beyond memory")
}

/// A length that fits memory.
pub(crate) fn length(value: u64) -> Result<usize> {
    let value = usize::try_from(value).ok();
    value
        .filter(|&value| value <= isize::MAX as usize)
        .ok_or_else(too_long)
}

pub(crate) fn product(count: usize, each: usize) -> Result<usize> {
    count.checked_mul(each).ok_or_else(too_long)
}

/// Runs a batch in host memory and waits for it. With WL_OK and WL_ERR_AUTHENTICATION, `failed`
/// (NULL, or one byte for each message) says which messages were refused: 1, and 0 for the others.
/// A refused message's text is zeros, that of the others is valid. With every other error nothing
/// but drawn nonces was written, except with WL_ERR_BACKEND: then discard all output. Buffers that
/// are written must not overlap any other. While the call runs, nothing else may write what the
/// batch names, or use what it writes. Threads may call this with one engine at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_run(
    engine: *const wl_engine,
    batch: *const wl_batch,
    failed: *mut u8,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let engine = unsafe { handle::get(engine)? };
        // SAFETY: as above.
        let batch = unsafe { wl_batch::of(batch)? };
        // SAFETY: as above.
        let keys = unsafe { batch.keys()? };
        let count = length(batch.count)?;
        // SAFETY: as above.
        let (run, flags) = unsafe { host_batch(&batch, keys, count, failed)? };
        let result = engine.engine().run(run);
        if let (Ok(()) | Err(Error::Authentication { .. }), Some(flags)) = (&result, flags) {
            flags.fill(0);
            if let Err(Error::Authentication { failed, .. }) = &result {
                failed.iter().for_each(|&message| flags[message] = 1);
            }
        }
        Ok(result?)
    })
}

/// The engine's batch, and the flags of refused messages.
///
/// # Safety
/// As [`wl_run`].
unsafe fn host_batch<'a>(
    batch: &wl_batch,
    keys: Keys<'a>,
    count: usize,
    failed: *mut u8,
) -> Result<(Batch<'a>, Option<&'a mut [u8]>)> {
    let (direction, authenticates) = batch.direction()?;
    let algorithm = algorithm_of(&keys)?;
    let has_tags = algorithm.is_aead();
    if !has_tags && !batch.tags.is_null() {
        return Err(Fault::new(
            WL_ERR_UNSUPPORTED,
            format!("{algorithm} makes no tags: set tags to NULL"),
        ));
    }
    let appended = batch.appended(algorithm);
    let tags_len = match has_tags && !batch.tags.is_null() {
        true => product(count, batch.tag_len())?,
        false => 0,
    };
    let nonces_len = match batch.nonce_mode {
        WL_NONCES_DRAWN | WL_NONCES_GIVEN => product(count, algorithm.info().iv_len())?,
        WL_NONCES_SPANS => length(batch.nonces_size)?,
        WL_NONCES_SECTORS => 0,
        other => return Err(unknown_nonce_mode(other)),
    };
    let draws = batch.nonce_mode == WL_NONCES_DRAWN && direction == Direction::Encrypt;
    let (input_size, output_size) = (length(batch.input_size)?, length(batch.output_size)?);
    let aad_size = length(batch.aad_size)?;
    let flags_len = if failed.is_null() { 0 } else { count };

    let mut written = vec![("failed", place(failed, flags_len))];
    let mut read = vec![("aad", place(batch.aad.cast::<u8>(), aad_size))];
    read.extend(batch.arrays(algorithm, count));
    let input = ("input", place(batch.input.cast::<u8>(), input_size));
    let nonces = ("nonces", place(batch.nonces.cast::<u8>(), nonces_len));
    let tags = ("tags", place(batch.tags.cast::<u8>(), tags_len));
    if draws { &mut written } else { &mut read }.push(nonces);
    match direction {
        Direction::Encrypt => &mut written,
        Direction::Decrypt => &mut read,
    }
    .push(tags);
    if batch.is_in_place() {
        written.push(input);
    } else {
        written.push(("output", place(batch.output.cast::<u8>(), output_size)));
        read.push(input);
    }
    refuse_any_overlap(&written, &read)?;

    // SAFETY: by this function's contract; what is written overlaps nothing.
    let (spans, output_spans) = unsafe { batch.text_spans(direction, appended)? };
    let text = match batch.is_in_place() {
        true => Text::InPlace {
            // SAFETY: as above.
            buffer: unsafe { bytes_mut(batch.input.cast_mut(), input_size, "input")? },
            spans,
        },
        false => Text::Apart {
            // SAFETY: as above.
            input: unsafe { bytes(batch.input, input_size, "input")? },
            input_spans: spans,
            // SAFETY: as above.
            output: unsafe { bytes_mut(batch.output, output_size, "output")? },
            output_spans,
        },
    };
    let ivs = match batch.nonce_mode {
        WL_NONCES_SECTORS => Ivs::Sectors {
            first: batch.first.into(),
        },
        WL_NONCES_SPANS => Ivs::Ragged {
            // SAFETY: as above.
            bytes: unsafe { bytes(batch.nonces, nonces_len, "nonces")? },
            // SAFETY: as above.
            spans: unsafe { batch.ragged(batch.nonce_spans, "nonce_spans")? },
        },
        _ if algorithm.info().iv_len() == 0 => Ivs::None,
        // SAFETY: as above.
        _ if draws => Ivs::Random(unsafe { bytes_mut(batch.nonces, nonces_len, "nonces")? }),
        // SAFETY: as above.
        _ => Ivs::Each(unsafe { bytes(batch.nonces, nonces_len, "nonces")? }),
    };
    let aad = match (batch.aad.is_null(), batch.aad_spans.is_null()) {
        (true, true) if aad_size == 0 => Aad::None,
        // SAFETY: as above.
        (_, true) => Aad::Shared(unsafe { bytes(batch.aad, aad_size, "aad")? }),
        (_, false) => Aad::Each {
            // SAFETY: as above.
            bytes: unsafe { bytes(batch.aad, aad_size, "aad")? },
            // SAFETY: as above.
            spans: unsafe { batch.ragged(batch.aad_spans, "aad_spans")? },
        },
    };
    let made = match (authenticates, direction) {
        (true, Direction::Encrypt) => Batch::seal(keys, text),
        (true, Direction::Decrypt) => Batch::open(keys, text),
        (false, _) => Batch::new(direction, keys, text),
    };
    let made = made.ivs(ivs).aad(aad).tag_len(batch.tag_len());
    let made = match (tags_len > 0, direction) {
        (false, _) => made,
        // SAFETY: as above.
        (true, Direction::Encrypt) => made.tags(Tags::Apart(unsafe {
            bytes_mut(batch.tags, tags_len, "tags")?
        })),
        (true, Direction::Decrypt) => {
            // SAFETY: as above.
            made.tags(Tags::Given(unsafe { bytes(batch.tags, tags_len, "tags")? }))
        }
    };
    let flags = match failed.is_null() {
        true => None,
        // SAFETY: as above.
        false => Some(unsafe { slice_mut(failed, count, "failed")? }),
    };
    Ok((made, flags))
}
