//! A `wl_batch` whose texts lie in GPU memory, for the engine.

use std::ffi::c_void;

use warplock::cuda::{
    DeviceAad, DeviceBatch, DeviceIvs, DeviceKeys, DeviceTags, DeviceText, NonceCounter, Region,
};
use warplock::{Algorithm, Direction};

use crate::batch::{
    WL_NONCES_ADD, WL_NONCES_DRAWN, WL_NONCES_GIVEN, WL_NONCES_SECTORS, WL_NONCES_SPANS,
    WL_NONCES_XOR, length, product, unknown_nonce_mode, wl_batch,
};
use crate::cuda::ReadyKey;
use crate::fault::{Fault, Result};
use crate::memory::bytes;
use crate::status::WL_ERR_UNSUPPORTED;

/// A call's batch.
///
/// # Safety
/// As [`device_batch`].
pub(crate) unsafe fn for_key<'a>(batch: &wl_batch, ready: &'a ReadyKey) -> Result<DeviceBatch<'a>> {
    if !batch.key.is_null() || !batch.key_table.is_null() || !batch.key_bytes.is_null() {
        return Err(Fault::argument(
            "the device key is the key of a call: set the batch's key, key_table and key_bytes to \
             NULL",
        ));
    }
    // SAFETY: by this function's contract.
    unsafe {
        device_batch(
            batch,
            DeviceKeys::from(&ready.key),
            ready.algorithm,
            ready.counter.as_ref(),
        )
    }
}

/// Memory on the GPU.
///
/// # Safety
/// Its bytes belong to the caller, unless there are none.
pub(crate) unsafe fn region(pointer: *const c_void, len: usize) -> Result<Region> {
    if pointer.is_null() && len > 0 {
        return Err(Fault::argument(format!(
            "an address in GPU memory is NULL, but has {len} bytes"
        )));
    }
    if pointer.addr().checked_add(len).is_none() {
        return Err(Fault::argument("a length in GPU memory is beyond it"));
    }
    // SAFETY: by this function's contract.
    Ok(unsafe { Region::new(pointer.addr() as u64, len) })
}

/// The engine's batch in GPU memory.
///
/// # Safety
/// The spans and the nonces' base are in host memory for `'a`, everything else in GPU memory.
pub(crate) unsafe fn device_batch<'a>(
    batch: &wl_batch,
    keys: DeviceKeys<'a>,
    algorithm: Algorithm,
    counter: Option<&'a NonceCounter>,
) -> Result<DeviceBatch<'a>> {
    let (direction, authenticates) = batch.direction()?;
    let has_tags = algorithm.is_aead();
    if !has_tags && (authenticates || !batch.tags.is_null()) {
        return Err(Fault::new(
            WL_ERR_UNSUPPORTED,
            format!("{algorithm} makes no tags: use WL_ENCRYPT or WL_DECRYPT, and tags NULL"),
        ));
    }
    let count = length(batch.count)?;
    let appended = batch.appended(algorithm);
    // SAFETY: by this function's contract.
    let (spans, output_spans) = unsafe { batch.text_spans(direction, appended)? };
    // SAFETY: as above.
    let input = unsafe { region(batch.input, length(batch.input_size)?)? };
    let text = match batch.is_in_place() {
        true => DeviceText::InPlace {
            buffer: input,
            spans,
        },
        false => DeviceText::Apart {
            input,
            input_spans: spans,
            // SAFETY: as above.
            output: unsafe { region(batch.output, length(batch.output_size)?)? },
            output_spans,
        },
    };
    let iv_len = algorithm.info().iv_len();
    let draws = batch.nonce_mode == WL_NONCES_DRAWN && direction == Direction::Encrypt;
    let ivs = match batch.nonce_mode {
        WL_NONCES_DRAWN | WL_NONCES_GIVEN if iv_len == 0 => DeviceIvs::None,
        WL_NONCES_DRAWN | WL_NONCES_GIVEN => {
            // SAFETY: as above.
            let nonces = unsafe { region(batch.nonces, product(count, iv_len)?)? };
            match (draws, counter) {
                (false, _) => DeviceIvs::Each(nonces),
                (true, Some(counter)) => DeviceIvs::Counter { counter, nonces },
                (true, None) => {
                    return Err(Fault::new(
                        WL_ERR_UNSUPPORTED,
                        format!(
                            "nonces of {algorithm} cannot be drawn in GPU memory: draw them with \
                             wl_random, copy them there, and use WL_NONCES_GIVEN"
                        ),
                    ));
                }
            }
        }
        WL_NONCES_XOR | WL_NONCES_ADD => {
            // SAFETY: as above.
            let base = unsafe { bytes(batch.nonce_base, iv_len, "nonce_base")? };
            match (batch.nonce_mode, u32::try_from(batch.first)) {
                (WL_NONCES_XOR, _) => {
                    let first = batch.first;
                    DeviceIvs::Xor { base, first }
                }
                (_, Ok(first)) => DeviceIvs::Add32 { base, first },
                (_, Err(_)) => {
                    return Err(Fault::argument("with WL_NONCES_ADD, first is below 2^32"));
                }
            }
        }
        WL_NONCES_SPANS => DeviceIvs::Ragged {
            // SAFETY: as above.
            bytes: unsafe { region(batch.nonces, length(batch.nonces_size)?)? },
            // SAFETY: as above.
            spans: unsafe { batch.ragged(batch.nonce_spans, "nonce_spans")? },
        },
        WL_NONCES_SECTORS => DeviceIvs::Sectors {
            first: batch.first.into(),
        },
        other => return Err(unknown_nonce_mode(other)),
    };
    let aad_size = length(batch.aad_size)?;
    let aad = match (batch.aad.is_null(), batch.aad_spans.is_null()) {
        (true, true) if aad_size == 0 => DeviceAad::None,
        // SAFETY: as above.
        (_, true) => DeviceAad::Shared(unsafe { region(batch.aad, aad_size)? }),
        (_, false) => DeviceAad::Each {
            // SAFETY: as above.
            bytes: unsafe { region(batch.aad, aad_size)? },
            // SAFETY: as above.
            spans: unsafe { batch.ragged(batch.aad_spans, "aad_spans")? },
        },
    };
    let tags = match has_tags && !batch.tags.is_null() {
        true => {
            let len = product(count, batch.tag_len())?;
            // SAFETY: as above.
            DeviceTags::Apart(unsafe { region(batch.tags, len)? })
        }
        false => DeviceTags::Appended,
    };
    let made = DeviceBatch::new(direction, keys, text).ivs(ivs).aad(aad);
    Ok(made.tags(tags).tag_len(batch.tag_len()))
}
