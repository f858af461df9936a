//! Algorithms by number and name.

use std::ffi::{CStr, c_char};
use std::ptr::null;

use warplock::Algorithm;

use crate::fault::{Fault, Result, run};
use crate::memory;
use crate::status::wl_status;

/// AES-128-ECB: for interoperability; equal blocks of text stay visible.
pub const WL_AES_128_ECB: u32 = 1;
/// AES-192-ECB.
pub const WL_AES_192_ECB: u32 = 2;
/// AES-256-ECB.
pub const WL_AES_256_ECB: u32 = 3;
/// AES-128-CBC without padding: for interoperability; detects no modification.
pub const WL_AES_128_CBC: u32 = 4;
/// AES-192-CBC.
pub const WL_AES_192_CBC: u32 = 5;
/// AES-256-CBC.
pub const WL_AES_256_CBC: u32 = 6;
/// AES-128-CTR with a 16-byte start counter: detects no modification.
pub const WL_AES_128_CTR: u32 = 7;
/// AES-192-CTR.
pub const WL_AES_192_CTR: u32 = 8;
/// AES-256-CTR.
pub const WL_AES_256_CTR: u32 = 9;
/// AES-128-XTS for storage sectors, keys of 32 bytes: detects no modification.
pub const WL_AES_128_XTS: u32 = 10;
/// AES-256-XTS, keys of 64 bytes.
pub const WL_AES_256_XTS: u32 = 11;
/// AES-128-GCM: authenticated encryption.
pub const WL_AES_128_GCM: u32 = 12;
/// AES-192-GCM.
pub const WL_AES_192_GCM: u32 = 13;
/// AES-256-GCM: authenticated encryption, the one to use.
pub const WL_AES_256_GCM: u32 = 14;
/// ACORN-128 v3: authenticated, for interoperability and research.
pub const WL_ACORN_128: u32 = 15;

/// In the order of the numbers, from 1.
static ALGORITHMS: [(Algorithm, &CStr); 15] = [
    (Algorithm::Aes128Ecb, c"aes-128-ecb"),
    (Algorithm::Aes192Ecb, c"aes-192-ecb"),
    (Algorithm::Aes256Ecb, c"aes-256-ecb"),
    (Algorithm::Aes128Cbc, c"aes-128-cbc"),
    (Algorithm::Aes192Cbc, c"aes-192-cbc"),
    (Algorithm::Aes256Cbc, c"aes-256-cbc"),
    (Algorithm::Aes128Ctr, c"aes-128-ctr"),
    (Algorithm::Aes192Ctr, c"aes-192-ctr"),
    (Algorithm::Aes256Ctr, c"aes-256-ctr"),
    (Algorithm::Aes128Xts, c"aes-128-xts"),
    (Algorithm::Aes256Xts, c"aes-256-xts"),
    (Algorithm::Aes128Gcm, c"aes-128-gcm"),
    (Algorithm::Aes192Gcm, c"aes-192-gcm"),
    (Algorithm::Aes256Gcm, c"aes-256-gcm"),
    (Algorithm::Acorn128, c"acorn-128"),
];

fn row(number: u32) -> Option<&'static (Algorithm, &'static CStr)> {
    ALGORITHMS.get((number as usize).checked_sub(1)?)
}

/// The algorithm with this number.
pub(crate) fn by_number(number: u32) -> Result<Algorithm> {
    row(number).map(|row| row.0).ok_or_else(|| {
        Fault::argument(format!(
            "there is no algorithm with number {number}: use a WL_ constant such as WL_AES_256_GCM"
        ))
    })
}

/// The number of an algorithm.
pub(crate) fn number(algorithm: Algorithm) -> u32 {
    let at = ALGORITHMS.iter().position(|row| row.0 == algorithm);
    at.expect("every algorithm is in the table") as u32 + 1
}

/// Finds the number of the algorithm with a name such as "aes-256-gcm". Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_algorithm(name: *const c_char, algorithm: *mut u32) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let name = unsafe { memory::text(name, "the algorithm's name")? };
        let found: Algorithm = name.parse()?;
        // SAFETY: as above.
        unsafe { memory::put(algorithm, number(found), "the place for the algorithm") }
    })
}

/// The name of an algorithm, NULL if there is none with this number. The string is constant.
#[unsafe(no_mangle)]
pub extern "C" fn wl_algorithm_name(algorithm: u32) -> *const c_char {
    row(algorithm).map_or(null(), |row| row.1.as_ptr())
}

/// Bytes of a key (for XTS both halves together); 0 for an unknown algorithm.
#[unsafe(no_mangle)]
pub extern "C" fn wl_key_len(algorithm: u32) -> usize {
    row(algorithm).map_or(0, |row| row.0.key_len())
}

/// Bytes of a nonce, IV, start counter or tweak: 12 for GCM, 0 for ECB, 16 for the others; 0 for an
/// unknown algorithm.
#[unsafe(no_mangle)]
pub extern "C" fn wl_nonce_len(algorithm: u32) -> usize {
    row(algorithm).map_or(0, |row| row.0.info().iv_len())
}

/// 1 if the algorithm detects modification (GCM, ACORN-128), otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn wl_is_authenticated(algorithm: u32) -> i32 {
    row(algorithm).is_some_and(|row| row.0.is_aead()).into()
}
