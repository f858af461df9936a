//! Versions.

use std::ffi::c_char;

/// The version of this header's interface. It grows by one with every addition; the library's
/// soname changes when anything that exists changes.
pub const WL_ABI_VERSION: u32 = 2;

/// The interface's version that the library has: at least WL_ABI_VERSION of the header that a
/// program was compiled with, or functions are missing.
#[unsafe(no_mangle)]
pub extern "C" fn wl_abi_version() -> u32 {
    WL_ABI_VERSION
}

/// The library's version, such as "0.1.0". The string is constant.
#[unsafe(no_mangle)]
pub extern "C" fn wl_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
