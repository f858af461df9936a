//! Batches whose places and lengths only the GPU knows.

use std::ffi::c_void;

use warplock::Direction;
use warplock::cuda::{DevicePlaces, Region};

use crate::batch::{WL_DECRYPT, WL_ENCRYPT, WL_OPEN, WL_SEAL, length, product};
use crate::cuda::{verdicts, wl_cuda_key};
use crate::cuda_batch::region;
use crate::fault::{Fault, Result, run};
use crate::handle;
use crate::memory;
use crate::status::{WL_ERR_UNSUPPORTED, wl_status};

/// Messages whose addresses and lengths lie in GPU memory: arrays with a 64-bit number for each
/// message, at multiples of 8, which may be written by an earlier kernel of the same stream.
/// Addresses are in GPU memory, lengths in bytes. Set all of it to zero, then `size` to
/// sizeof(wl_cuda_places), then what is needed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wl_cuda_places {
    /// sizeof(wl_cuda_places), as the program was compiled.
    pub size: u32,
    /// WL_SEAL, WL_OPEN, WL_ENCRYPT or WL_DECRYPT.
    pub operation: u32,
    /// How many messages.
    pub count: u64,
    /// At least the bytes of all texts together. A bound that is far too large makes the call slower,
    /// not wrong.
    pub total_len: u64,
    /// Addresses of the texts, or of the ciphertexts to open.
    pub inputs: *const u64,
    /// Bytes of each text, without its tag.
    pub lens: *const u64,
    /// Addresses of the results. NULL to work in place.
    pub outputs: *const u64,
    /// Addresses of the nonces: wl_nonce_len bytes each. DANGER: none may ever be used twice under
    /// one key.
    pub nonces: *const u64,
    /// Addresses of the associated data. NULL for none.
    pub aad: *const u64,
    /// With `aad`: bytes of each.
    pub aad_lens: *const u64,
    /// Addresses of the tags, 16 bytes each. NULL if each tag directly follows its ciphertext.
    pub tags: *const u64,
    /// Zeros.
    pub reserved: [u64; 4],
}

/// Writes to `size` the bytes of GPU memory that wl_cuda_enqueue_indirect needs to work in. Does not
/// touch the GPU and does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_workspace_size_indirect(
    device_key: *const wl_cuda_key,
    places: *const wl_cuda_places,
    size: *mut usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let ready = unsafe { handle::get(device_key)? };
        // SAFETY: as above.
        let (direction, places) = unsafe { checked(places, ready.algorithm.is_aead())? };
        let needed = ready.key.workspace_len_indirect(direction, &places)?;
        // SAFETY: as above.
        unsafe { memory::put(size, needed, "the place for the size") }
    })
}

/// Queues a batch whose addresses and lengths only the GPU knows when the stream gets there. For
/// GCM, CTR and ACORN-128. DANGER: nothing can be checked: all that the arrays name must be memory of the GPU,
/// no result may overlap another or anything that is read (except its own text), and the texts must
/// not have more bytes than `total_len`. Otherwise as wl_cuda_enqueue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_enqueue_indirect(
    device_key: *const wl_cuda_key,
    places: *const wl_cuda_places,
    workspace: *mut c_void,
    workspace_size: usize,
    statuses: *mut u32,
    refused: *mut u32,
    stream: *mut c_void,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let ready = unsafe { handle::get(device_key)? };
        // SAFETY: as above.
        let (direction, places) = unsafe { checked(places, ready.algorithm.is_aead())? };
        // SAFETY: as above.
        let verdicts = unsafe { verdicts(statuses, refused, places.count)? };
        // SAFETY: as above.
        let workspace = unsafe { region(workspace, workspace_size)? };
        // SAFETY: as above.
        let stream = unsafe { ready.key.device().stream_from_raw(stream) };
        // SAFETY: as above.
        unsafe {
            (ready.key)
                .enqueue_indirect(direction, &places, verdicts, workspace, &stream)
                .map_err(Fault::from)
        }
    })
}

/// # Safety
/// It is NULL or a caller's whole structure; its arrays are the caller's.
unsafe fn checked(
    places: *const wl_cuda_places,
    authenticates: bool,
) -> Result<(Direction, DevicePlaces)> {
    if places.is_null() || !places.is_aligned() {
        return Err(Fault::argument("the places are NULL or not aligned"));
    }
    // SAFETY: by this function's contract; `size` comes first.
    let size = unsafe { places.cast::<u32>().read() } as usize;
    if size != size_of::<wl_cuda_places>() {
        return Err(Fault::argument(format!(
            "the places' size is {size}: set all of them to zero, then size to \
             sizeof(wl_cuda_places)"
        )));
    }
    // SAFETY: by this function's contract.
    let given = unsafe { places.read() };
    if given.reserved != [0; 4] {
        return Err(Fault::argument("the places' reserved members are not zero"));
    }
    let direction = match given.operation {
        WL_SEAL | WL_ENCRYPT => Direction::Encrypt,
        WL_OPEN | WL_DECRYPT => Direction::Decrypt,
        other => {
            return Err(Fault::argument(format!(
                "the operation is {other}: use WL_SEAL, WL_OPEN, WL_ENCRYPT or WL_DECRYPT"
            )));
        }
    };
    let has_tags = !given.tags.is_null() || !given.aad.is_null();
    if !authenticates && (has_tags || matches!(given.operation, WL_SEAL | WL_OPEN)) {
        return Err(Fault::new(
            WL_ERR_UNSUPPORTED,
            "the algorithm makes no tags: use WL_ENCRYPT or WL_DECRYPT, and tags and aad NULL",
        ));
    }
    let count = length(given.count)?;
    let len = product(count, 8)?;
    // SAFETY: as above.
    let array = |pointer: *const u64| -> Result<Region> { unsafe { region(pointer.cast(), len) } };
    let optional = |pointer: *const u64| (!pointer.is_null()).then(|| array(pointer)).transpose();
    let made = DevicePlaces {
        count,
        total_len: given.total_len,
        inputs: array(given.inputs)?,
        lens: array(given.lens)?,
        outputs: optional(given.outputs)?,
        nonces: array(given.nonces)?,
        aad: match optional(given.aad)? {
            Some(addresses) => Some((addresses, array(given.aad_lens)?)),
            None => None,
        },
        tags: optional(given.tags)?,
    };
    Ok((direction, made))
}
