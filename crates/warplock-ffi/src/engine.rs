//! Engines.

use std::ffi::c_char;
use std::num::NonZeroUsize;

use warplock_container::Engines;

use crate::fault::{run, run_void};
use crate::handle::{self, Opaque};
use crate::memory;
use crate::status::wl_status;

/// Runs batches on the CPU, on GPUs, or on both. Make one and keep it: threads may share it.
/// After fork(), the child makes its own.
pub struct wl_engine {
    _opaque: [u8; 0],
}

impl Opaque for wl_engine {
    type Value = Engines;
    const MAGIC: [u8; 8] = *b"wlengine";
    const NAME: &'static str = "engine";
}

/// Makes an engine. `backend`: "auto", "cpu", "cpu:NAME", "cuda", "cuda:N" or "cuda:N,M"; NULL for
/// the environment variable WARPLOCK_BACKEND, or "auto". `threads`: CPU threads that work on one
/// batch or file, the caller's among them; 0 for one per core. Problems that are not errors, such as
/// a GPU that failed and was replaced by the CPU, are printed on stderr. May wait for a GPU to start
/// if one is named.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_engine_new(
    backend: *const c_char,
    threads: u32,
    engine: *mut *mut wl_engine,
) -> wl_status {
    run(|| {
        let backend = match backend.is_null() {
            true => None,
            // SAFETY: by this function's documentation.
            false => Some(unsafe { memory::text(backend, "the backend's name")? }),
        };
        let made = Engines::new(backend, NonZeroUsize::new(threads as usize))?;
        // SAFETY: as above.
        unsafe { handle::make(engine, made) }
    })
}

/// Frees an engine that no other thread uses any more. NULL is ignored. Readers and part sealers
/// made with it stay valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_engine_free(engine: *mut wl_engine) {
    // SAFETY: by this function's documentation.
    run_void(|| unsafe { handle::free(engine) });
}

/// Writes the name of the backend in use, such as "cpu:vaes512+cuda:0", into `buffer` of `size`
/// bytes, with a zero byte at its end. 64 bytes suffice unless there are several GPUs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_engine_backend(
    engine: *const wl_engine,
    buffer: *mut c_char,
    size: usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let name = unsafe { handle::get(engine)? }.engine().backend();
        // SAFETY: as above.
        unsafe { memory::put_text(&name, buffer, size) }
    })
}

/// With the backend "auto": starts the GPUs now, if there are any, and waits until they can be used.
/// Otherwise they are started once that saves time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_engine_wake(engine: *const wl_engine) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        unsafe { handle::get(engine)? }.engine().wake();
        Ok(())
    })
}
