//! Keys.

use std::ffi::c_void;

use warplock::{Algorithm, Key};

use crate::algorithm;
use crate::fault::{Fault, run, run_void};
use crate::handle::{self, Opaque};
use crate::memory;
use crate::status::wl_status;

/// A secret key for one algorithm. It never changes: threads may share it. Its memory is wiped when
/// it is freed.
pub struct wl_key {
    _opaque: [u8; 0],
}

impl Opaque for wl_key {
    type Value = Key;
    const MAGIC: [u8; 8] = *b"wl-key-1";
    const NAME: &'static str = "key";
}

/// Several keys for one algorithm, from which the messages of a batch choose by number. It never
/// changes: threads may share it. Its memory is wiped when it is freed.
pub struct wl_key_table {
    _opaque: [u8; 0],
}

impl Opaque for wl_key_table {
    type Value = (Algorithm, Vec<Key>);
    const MAGIC: [u8; 8] = *b"wl-table";
    const NAME: &'static str = "table of keys";
}

/// Makes a key of `len` bytes, which must be wl_key_len(algorithm). They are copied: wipe yours.
/// Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_key_new(
    algorithm: u32,
    bytes: *const c_void,
    len: usize,
    key: *mut *mut wl_key,
) -> wl_status {
    run(|| {
        let algorithm = algorithm::by_number(algorithm)?;
        // SAFETY: by this function's documentation.
        let bytes = unsafe { memory::bytes(bytes, len, "the key's bytes")? };
        // SAFETY: as above.
        unsafe { handle::make(key, Key::new(algorithm, bytes)?) }
    })
}

/// Makes a random key, for use while the program runs. To store a key, draw its bytes with wl_random
/// and make it with wl_key_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_key_generate(algorithm: u32, key: *mut *mut wl_key) -> wl_status {
    run(|| {
        let made = Key::generate(algorithm::by_number(algorithm)?)?;
        // SAFETY: by this function's documentation.
        unsafe { handle::make(key, made) }
    })
}

/// The number of the key's algorithm; 0 if it is not a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_key_algorithm(key: *const wl_key) -> u32 {
    let mut found = 0;
    run_void(|| {
        // SAFETY: by this function's documentation.
        found = algorithm::number(unsafe { handle::get(key)? }.algorithm());
        Ok(())
    });
    found
}

/// Wipes and frees a key that no other thread uses any more. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_key_free(key: *mut wl_key) {
    // SAFETY: by this function's documentation.
    run_void(|| unsafe { handle::free(key) });
}

/// Makes a table of `count` keys, whose bytes follow each other: `len` must be `count` times
/// wl_key_len(algorithm). They are copied: wipe yours. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_key_table_new(
    algorithm: u32,
    bytes: *const c_void,
    len: usize,
    count: usize,
    table: *mut *mut wl_key_table,
) -> wl_status {
    run(|| {
        let algorithm = algorithm::by_number(algorithm)?;
        let each = algorithm.key_len();
        if count.checked_mul(each) != Some(len) {
            return Err(Fault::argument(format!(
                "{len} bytes are not {count} keys for {algorithm}, which have {each} bytes each"
            )));
        }
        // SAFETY: by this function's documentation.
        let bytes = unsafe { memory::bytes(bytes, len, "the keys' bytes")? };
        let keys = bytes.chunks_exact(each);
        let keys: Result<Vec<_>, _> = keys.map(|bytes| Key::new(algorithm, bytes)).collect();
        // SAFETY: as above.
        unsafe { handle::make(table, (algorithm, keys?)) }
    })
}

/// Wipes and frees a table of keys that no other thread uses any more. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_key_table_free(table: *mut wl_key_table) {
    // SAFETY: by this function's documentation.
    run_void(|| unsafe { handle::free(table) });
}

/// Fills `len` bytes from the operating system's random generator: for keys and nonces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_random(bytes: *mut c_void, len: usize) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let bytes = unsafe { memory::bytes_mut(bytes, len, "the place for random bytes")? };
        Ok(warplock::fill_random(bytes)?)
    })
}
