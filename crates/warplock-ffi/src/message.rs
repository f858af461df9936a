//! One message in host memory.

use std::ffi::c_void;

use warplock::{Aad, Batch, Engine, Ivs, Key, Keys, Spans, Tags, Text};

use crate::engine::wl_engine;
use crate::fault::{Fault, Result, run};
use crate::handle;
use crate::key::wl_key;
use crate::memory::{self, bytes, bytes_mut, place, refuse_overlap};
use crate::status::{WL_ERR_AUTHENTICATION, WL_ERR_UNSUPPORTED, wl_status};

/// Bytes of a tag.
pub const WL_TAG_LEN: usize = 16;

/// Where a message's text is, and where its result goes.
struct Places {
    text: *const u8,
    result: *mut u8,
    len: usize,
}

impl Places {
    /// The same place for both, or two that do not overlap.
    ///
    /// # Safety
    /// `len` bytes can be read at `text` and written at `result` for `'a`.
    #[inline]
    unsafe fn text<'a>(&self) -> Result<Text<'a>> {
        let spans = Spans::one(self.len);
        if self.text == self.result.cast_const() {
            // SAFETY: by this function's contract.
            let buffer = unsafe { bytes_mut(self.result.cast(), self.len, "the text")? };
            return Ok(Text::InPlace { buffer, spans });
        }
        let text = place(self.text, self.len);
        let result = place(self.result, self.len);
        refuse_overlap(("the result", &result), ("the text", &text))?;
        Ok(Text::Apart {
            // SAFETY: by this function's contract; they do not overlap.
            input: unsafe { bytes(self.text.cast(), self.len, "the text")? },
            input_spans: spans,
            // SAFETY: as above.
            output: unsafe { bytes_mut(self.result.cast(), self.len, "the result")? },
            output_spans: spans,
        })
    }
}

/// The handles of a call.
///
/// # Safety
/// As [`handle::get`].
#[inline]
unsafe fn handles<'a>(
    engine: *const wl_engine,
    key: *const wl_key,
) -> Result<(&'a Engine, &'a Key)> {
    // SAFETY: by this function's contract.
    unsafe { Ok((handle::get(engine)?.engine(), handle::get(key)?)) }
}

/// Bytes of what wl_seal makes of `text_len` bytes: the nonce, the ciphertext, the tag. 0 if the
/// algorithm is unknown or does not authenticate, or if the length is beyond memory.
#[unsafe(no_mangle)]
pub extern "C" fn wl_sealed_len(algorithm: u32, text_len: usize) -> usize {
    let algorithm = crate::algorithm::by_number(algorithm).ok();
    algorithm
        .filter(|algorithm| algorithm.is_aead())
        .and_then(|algorithm| text_len.checked_add(algorithm.info().iv_len() + WL_TAG_LEN))
        .unwrap_or(0)
}

/// Seals one message under a fresh nonce. Writes the nonce (12 bytes for GCM, 16 for ACORN-128), the
/// ciphertext (`text_len` bytes) and the tag (16 bytes), one after the other, into `sealed`, which
/// has room for `sealed_size` bytes: at least wl_sealed_len(algorithm, text_len). `aad` is
/// authenticated, but not part of the result: opening needs the same. `text` and `aad` may be NULL
/// if their length is 0. To work in place, let `text` point into `sealed` directly after the nonce;
/// otherwise they must not overlap. With GCM, seal at most 2^32 messages under one key. Waits for
/// the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_seal(
    engine: *const wl_engine,
    key: *const wl_key,
    aad: *const c_void,
    aad_len: usize,
    text: *const c_void,
    text_len: usize,
    sealed: *mut c_void,
    sealed_size: usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let (engine, key) = unsafe { handles(engine, key)? };
        let nonce_len = authenticated_nonce_len(key)?;
        let needed = text_len.checked_add(nonce_len + WL_TAG_LEN);
        let needed = needed.ok_or_else(|| Fault::argument("the text is longer than memory"))?;
        memory::refuse_short(sealed_size, needed, "the place for the sealed message")?;
        let start = sealed.cast::<u8>();
        let all = place(start, needed);
        let body = start.wrapping_add(nonce_len);
        let text = match text_len {
            0 => body.cast_const(),
            _ => text.cast::<u8>(),
        };
        if text != body.cast_const() {
            let text = place(text, text_len);
            refuse_overlap(("the sealed message", &all), ("the text", &text))?;
        }
        refuse_overlap(
            ("the sealed message", &all),
            ("the associated data", &place(aad.cast::<u8>(), aad_len)),
        )?;
        let places = Places {
            text,
            result: body,
            len: text_len,
        };
        // SAFETY: by this function's documentation; nonce, body and tag do not overlap.
        let (nonce, tag, text) = unsafe {
            let nonce = bytes_mut(sealed, nonce_len, "the place for the sealed message")?;
            let tag = std::slice::from_raw_parts_mut(body.wrapping_add(text_len), WL_TAG_LEN);
            (nonce, tag, places.text()?)
        };
        // SAFETY: by this function's documentation.
        let aad = unsafe { bytes(aad, aad_len, "the associated data")? };
        let batch = Batch::seal(Keys::One(key), text).ivs(Ivs::Random(nonce));
        Ok(engine.run(batch.aad(Aad::Shared(aad)).tags(Tags::Apart(tag)))?)
    })
}

/// Opens what wl_seal made: `sealed_len` bytes of nonce, ciphertext and tag. Writes the text into
/// `text`, which has room for `text_size` bytes; its length is `sealed_len` less that of the nonce
/// and the tag. If anything was modified, or if the key or `aad` is a different one, the status is
/// WL_ERR_AUTHENTICATION and the text is zeros. If there are too few bytes for a nonce and a tag, the
/// status is the same and nothing is written. To work in place, let `text` point into `sealed`
/// directly after the nonce; otherwise they must not overlap. Waits for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_open(
    engine: *const wl_engine,
    key: *const wl_key,
    aad: *const c_void,
    aad_len: usize,
    sealed: *const c_void,
    sealed_len: usize,
    text: *mut c_void,
    text_size: usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let (engine, key) = unsafe { handles(engine, key)? };
        let nonce_len = authenticated_nonce_len(key)?;
        let Some(len) = sealed_len.checked_sub(nonce_len + WL_TAG_LEN) else {
            return Err(Fault::new(
                WL_ERR_AUTHENTICATION,
                format!("{sealed_len} bytes are too few for a sealed message"),
            ));
        };
        memory::refuse_short(text_size, len, "the place for the text")?;
        let start = sealed.cast::<u8>();
        let body = start.wrapping_add(nonce_len);
        let result = match len {
            0 => body.cast_mut(),
            _ => text.cast::<u8>(),
        };
        let written = place(result, len);
        if result.cast_const() != body {
            let all = place(start, sealed_len);
            refuse_overlap(("the text", &written), ("the sealed message", &all))?;
        }
        refuse_overlap(
            ("the text", &written),
            ("the associated data", &place(aad.cast::<u8>(), aad_len)),
        )?;
        let places = Places {
            text: body,
            result,
            len,
        };
        // SAFETY: by this function's documentation; the text overlaps neither nonce nor tag.
        let (nonce, tag, text) = unsafe {
            let nonce = bytes(sealed, nonce_len, "the sealed message")?;
            let tag = std::slice::from_raw_parts(body.wrapping_add(len), WL_TAG_LEN);
            (nonce, tag, places.text()?)
        };
        // SAFETY: by this function's documentation.
        let aad = unsafe { bytes(aad, aad_len, "the associated data")? };
        let batch = Batch::open(Keys::One(key), text).ivs(Ivs::Each(nonce));
        Ok(engine.run(batch.aad(Aad::Shared(aad)).tags(Tags::Given(tag)))?)
    })
}

/// Seals one message under a nonce that a protocol prescribes. DANGER: two messages under the same
/// nonce and key reveal the XOR of their texts, and with GCM allow forgeries: use wl_seal unless
/// you must. Writes `text_len` bytes into `ciphertext` (`text` itself, or memory that does not
/// overlap it) and 16 into `tag`. `nonce_len`: for GCM any length, best 12; for ACORN-128 16.
/// Pointers may be NULL if their length is 0. Waits for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_seal_with_nonce(
    engine: *const wl_engine,
    key: *const wl_key,
    nonce: *const c_void,
    nonce_len: usize,
    aad: *const c_void,
    aad_len: usize,
    text: *const c_void,
    text_len: usize,
    ciphertext: *mut c_void,
    tag: *mut c_void,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let (engine, key) = unsafe { handles(engine, key)? };
        let places = Places {
            text: text.cast(),
            result: ciphertext.cast(),
            len: text_len,
        };
        let written = [
            ("the ciphertext", place(places.result, text_len)),
            ("the tag", place(tag.cast::<u8>(), WL_TAG_LEN)),
        ];
        let read = [
            ("the nonce", place(nonce.cast::<u8>(), nonce_len)),
            ("the associated data", place(aad.cast::<u8>(), aad_len)),
        ];
        refuse_overlap(
            (written[1].0, &written[1].1),
            ("the text", &place(places.text, text_len)),
        )?;
        refuse_any_overlap(&written, &read)?;
        // SAFETY: by this function's documentation; what is written overlaps nothing.
        let (nonce, aad, tag, text) = unsafe {
            let nonce = bytes(nonce, nonce_len, "the nonce")?;
            let aad = bytes(aad, aad_len, "the associated data")?;
            let tag = bytes_mut(tag, WL_TAG_LEN, "the place for the tag")?;
            (nonce, aad, tag, places.text()?)
        };
        let batch = Batch::seal(Keys::One(key), text).ivs(one_nonce(key, nonce));
        Ok(engine.run(batch.aad(Aad::Shared(aad)).tags(Tags::Apart(tag)))?)
    })
}

/// Opens one message whose nonce and tag are separate: `ciphertext_len` bytes of ciphertext, 16
/// bytes of tag. Writes `ciphertext_len` bytes into `text` (`ciphertext` itself, or memory that
/// does not overlap it). If the tag is not right: WL_ERR_AUTHENTICATION, and the text is zeros.
/// Pointers may be NULL if their length is 0. Waits for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_open_with_nonce(
    engine: *const wl_engine,
    key: *const wl_key,
    nonce: *const c_void,
    nonce_len: usize,
    aad: *const c_void,
    aad_len: usize,
    ciphertext: *const c_void,
    ciphertext_len: usize,
    text: *mut c_void,
    tag: *const c_void,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let (engine, key) = unsafe { handles(engine, key)? };
        let places = Places {
            text: ciphertext.cast(),
            result: text.cast(),
            len: ciphertext_len,
        };
        let written = [("the text", place(places.result, ciphertext_len))];
        let read = [
            ("the nonce", place(nonce.cast::<u8>(), nonce_len)),
            ("the associated data", place(aad.cast::<u8>(), aad_len)),
            ("the tag", place(tag.cast::<u8>(), WL_TAG_LEN)),
        ];
        refuse_any_overlap(&written, &read)?;
        // SAFETY: by this function's documentation; what is written overlaps nothing.
        let (nonce, aad, tag, text) = unsafe {
            let nonce = bytes(nonce, nonce_len, "the nonce")?;
            let aad = bytes(aad, aad_len, "the associated data")?;
            let tag = bytes(tag, WL_TAG_LEN, "the tag")?;
            (nonce, aad, tag, places.text()?)
        };
        let batch = Batch::open(Keys::One(key), text).ivs(one_nonce(key, nonce));
        Ok(engine.run(batch.aad(Aad::Shared(aad)).tags(Tags::Given(tag)))?)
    })
}

#[inline]
fn one_nonce<'a>(key: &Key, bytes: &'a [u8]) -> Ivs<'a> {
    if bytes.len() == key.algorithm().info().iv_len() {
        return Ivs::Each(bytes);
    }
    let spans = Spans::one(bytes.len());
    Ivs::Ragged { bytes, spans }
}

/// Bytes of the nonce; refuses algorithms that detect no modification.
#[inline]
fn authenticated_nonce_len(key: &Key) -> Result<usize> {
    let algorithm = key.algorithm();
    match algorithm.is_aead() {
        true => Ok(algorithm.info().iv_len()),
        false => Err(Fault::new(
            WL_ERR_UNSUPPORTED,
            format!(
                "{algorithm} does not authenticate: use an algorithm such as aes-256-gcm, or wl_run"
            ),
        )),
    }
}

/// Places in memory with their names in errors.
type Named<'a> = (&'a str, std::ops::Range<usize>);

// Inlined, so that a short message's few places are compared without a loop.
#[inline]
pub(crate) fn refuse_any_overlap(written: &[Named<'_>], read: &[Named<'_>]) -> Result<()> {
    for (number, (name, at)) in written.iter().enumerate() {
        for (other, there) in written[number + 1..].iter().chain(read) {
            refuse_overlap((name, at), (other, there))?;
        }
    }
    Ok(())
}
