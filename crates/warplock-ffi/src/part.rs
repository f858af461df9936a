//! One encrypted stream made in parts, by any number of machines.

use std::ffi::c_void;

use warplock_container::{HEADER_LEN, Header, InputKey, PartSealer, Suite};

use crate::engine::wl_engine;
use crate::fault::{Fault, Result, run, run_void};
use crate::files::enveloped;
use crate::handle::{self, Opaque};
use crate::memory;
use crate::secrets::wl_recipients;
use crate::status::wl_status;

/// Bytes of plaintext in a chunk.
pub const WL_CHUNK_LEN: usize = 16384;
/// Bytes of a stream's header.
pub const WL_HEADER_LEN: usize = 56;
/// Bytes of a stream's key.
pub const WL_STREAM_KEY_LEN: usize = 32;

const _: () = assert!(WL_CHUNK_LEN == warplock_container::CHUNK_LEN);
const _: () = assert!(WL_HEADER_LEN == HEADER_LEN);

/// Seals parts of one stream, for multipart uploads. The parts, in order, are the stream. It never
/// changes: threads may share it.
pub struct wl_part_sealer {
    _opaque: [u8; 0],
}

impl Opaque for wl_part_sealer {
    type Value = PartSealer;
    const MAGIC: [u8; 8] = *b"wlsealer";
    const NAME: &'static str = "part sealer";
}

/// # Safety
/// As [`memory::bytes`].
pub(crate) unsafe fn input_key(bytes: *const c_void, len: usize) -> Result<InputKey> {
    // SAFETY: by this function's contract.
    let bytes = unsafe { memory::bytes(bytes, len, "the stream's key")? };
    Ok(InputKey::new(Suite::Cobblestone256, bytes)?)
}

/// Makes a fresh stream key, and the envelope that wraps it for `recipients`: envelope and stream,
/// one after the other, are a file that wl_decrypt_file opens. Writes WL_STREAM_KEY_LEN bytes to
/// `key`, and at most `size` to `envelope`; its length to `len`. If `size` is too small:
/// WL_ERR_TOO_SMALL, nothing else is written, and `len` says what is needed (about 200 bytes for
/// one recipient, at most 131,088; another key is made at the next call). Wipe the key after use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_envelope_new(
    recipients: *const wl_recipients,
    key: *mut c_void,
    envelope: *mut c_void,
    size: usize,
    len: *mut usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let recipients = unsafe { handle::get(recipients)? };
        let (made, wrapped) = enveloped(recipients, None)?;
        let mut encoded = Vec::new();
        wrapped.write(&mut encoded)?;
        // SAFETY: as above.
        unsafe { memory::put(len, encoded.len(), "the place for the length")? };
        memory::refuse_short(size, encoded.len(), "the place for the envelope")?;
        // SAFETY: as above.
        let key = unsafe { memory::bytes_mut(key, WL_STREAM_KEY_LEN, "the place for the key")? };
        // SAFETY: as above.
        let envelope = unsafe { memory::bytes_mut(envelope, size, "the envelope's place")? };
        key.copy_from_slice(made.as_bytes());
        envelope[..encoded.len()].copy_from_slice(&encoded);
        Ok(())
    })
}

/// Starts a stream of `plain_len` bytes under `key` (WL_STREAM_KEY_LEN bytes). Hand its header to
/// other machines, which call wl_part_sealer_resume.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_part_sealer_new(
    engine: *const wl_engine,
    key: *const c_void,
    key_len: usize,
    plain_len: u64,
    sealer: *mut *mut wl_part_sealer,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let engine = unsafe { handle::get(engine)? }.engine().clone();
        // SAFETY: as above.
        let key = unsafe { input_key(key, key_len)? };
        let made = PartSealer::new(&key, plain_len, engine)?;
        // SAFETY: as above.
        unsafe { handle::make(sealer, made) }
    })
}

/// Continues a stream that another wl_part_sealer started, by its header (WL_HEADER_LEN bytes) and
/// with the same key and length. DANGER: never seal different plaintext as the same chunk of one
/// header: that reveals both and allows forgeries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_part_sealer_resume(
    engine: *const wl_engine,
    key: *const c_void,
    key_len: usize,
    header: *const c_void,
    plain_len: u64,
    sealer: *mut *mut wl_part_sealer,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let engine = unsafe { handle::get(engine)? }.engine().clone();
        // SAFETY: as above.
        let key = unsafe { input_key(key, key_len)? };
        // SAFETY: as above.
        let header = unsafe { memory::bytes(header, HEADER_LEN, "the header")? };
        let header: [u8; HEADER_LEN] = header.try_into().expect("it has this length");
        let made = PartSealer::resume(&key, &Header::from_bytes(header), plain_len, engine)?;
        // SAFETY: as above.
        unsafe { handle::make(sealer, made) }
    })
}

/// Writes the stream's header, WL_HEADER_LEN bytes, to `header`. It is not secret.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_part_sealer_header(
    sealer: *const wl_part_sealer,
    header: *mut c_void,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let sealer = unsafe { handle::get(sealer)? };
        // SAFETY: as above.
        let to = unsafe { memory::bytes_mut(header, HEADER_LEN, "the place for the header")? };
        to.copy_from_slice(sealer.header().as_bytes());
        Ok(())
    })
}

/// How many chunks the stream has; 0 if it is not a part sealer. Each has WL_CHUNK_LEN bytes of
/// plaintext, the last one fewer: none, if the length is a multiple.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_part_sealer_chunk_count(sealer: *const wl_part_sealer) -> u64 {
    let mut count = 0;
    run_void(|| {
        // SAFETY: by this function's documentation.
        count = unsafe { handle::get(sealer)? }.chunk_count();
        Ok(())
    });
    count
}

/// Seals `chunk_count` chunks from `first_chunk` on, whose plaintext is the `plain_len` bytes at
/// `plain`, into `sealed`, which has room for `sealed_size` bytes; its length goes to `sealed_len`.
/// A chunk takes 16 bytes more than its plaintext; the part with chunk 0 begins with the header.
/// If the room is too small: WL_ERR_TOO_SMALL, nothing else is written, and `sealed_len` says what is
/// needed. A part may be sealed again from the same plaintext. Waits for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_part_sealer_seal(
    sealer: *const wl_part_sealer,
    first_chunk: u64,
    chunk_count: u64,
    plain: *const c_void,
    plain_len: usize,
    sealed: *mut c_void,
    sealed_size: usize,
    sealed_len: *mut usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let sealer = unsafe { handle::get(sealer)? };
        let end = first_chunk.checked_add(chunk_count);
        let end = end.ok_or_else(|| Fault::argument("there are no chunks with such numbers"))?;
        let chunks = first_chunk..end;
        // SAFETY: as above.
        let plain = unsafe { memory::bytes(plain, plain_len, "the plaintext")? };
        let range = sealer.sealed_range(&chunks);
        let needed = range.end.saturating_sub(range.start) as usize;
        // SAFETY: as above.
        unsafe { memory::put(sealed_len, needed, "the place for the length")? };
        memory::refuse_short(sealed_size, needed, "the place for the part")?;
        let made = sealer.seal(chunks, plain)?;
        // SAFETY: as above.
        let to = unsafe { memory::bytes_mut(sealed, sealed_size, "the place for the part")? };
        to[..made.len()].copy_from_slice(&made);
        Ok(())
    })
}

/// Frees a part sealer that no other thread uses any more. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_part_sealer_free(sealer: *mut wl_part_sealer) {
    // SAFETY: by this function's documentation.
    run_void(|| unsafe { handle::free(sealer) });
}
