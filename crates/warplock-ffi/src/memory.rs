//! The places where pointers and lengths of C become slices, strings and values.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::fault::{Fault, Result};
use crate::status::{WL_ERR_OVERLAP, WL_ERR_TOO_SMALL};

/// Refuses what cannot be `count` values in memory.
#[inline]
fn check<T>(pointer: *const T, count: usize, what: &str) -> Result<()> {
    let len = count.checked_mul(size_of::<T>());
    let len = len.filter(|&len| len <= isize::MAX as usize);
    let end = len.and_then(|len| pointer.addr().checked_add(len));
    if !pointer.is_null() && pointer.is_aligned() && end.is_some() {
        return Ok(());
    }
    Err(refusal(pointer.is_null(), end.is_none(), count, what))
}

#[cold]
fn refusal(is_null: bool, is_too_long: bool, count: usize, what: &str) -> Fault {
    Fault::argument(match (is_null, is_too_long) {
        (true, _) => format!("{what} is NULL"),
        (_, true) => format!("{what} cannot have {count} entries: that is more than memory"),
        _ => format!("{what} is not aligned for its type"),
    })
}

/// `count` values that are read. NULL stands for no values.
///
/// # Safety
/// Unless `count` is 0, as many values can be read there for `'a`, and nothing writes them.
#[inline]
pub(crate) unsafe fn slice<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check(pointer, count, what)?;
    // SAFETY: not null, aligned and not too long; the rest by this function's contract.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// `count` values that are written. NULL stands for no values.
///
/// # Safety
/// Unless `count` is 0, as many values can be read and written there for `'a`, and nothing else
/// uses them.
#[inline]
pub(crate) unsafe fn slice_mut<'a, T>(
    pointer: *mut T,
    count: usize,
    what: &str,
) -> Result<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(pointer, count, what)?;
    // SAFETY: not null, aligned and not too long; the rest by this function's contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
}

/// `len` bytes that are read.
///
/// # Safety
/// As [`slice()`].
#[inline]
pub(crate) unsafe fn bytes<'a>(pointer: *const c_void, len: usize, what: &str) -> Result<&'a [u8]> {
    // SAFETY: by this function's contract.
    unsafe { slice(pointer.cast(), len, what) }
}

/// `len` bytes that are written. The library never reads what C may have left unset.
///
/// # Safety
/// As [`slice_mut()`].
#[inline]
pub(crate) unsafe fn bytes_mut<'a>(
    pointer: *mut c_void,
    len: usize,
    what: &str,
) -> Result<&'a mut [u8]> {
    // SAFETY: by this function's contract.
    unsafe { slice_mut(pointer.cast(), len, what) }
}

/// A string that ends with a zero byte.
///
/// # Safety
/// Unless it is NULL, it is one, and nothing writes it for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    check(pointer, 1, what)?;
    // SAFETY: not null; the rest by this function's contract.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str()
        .map_err(|_| Fault::argument(format!("{what} is not UTF-8 text")))
}

/// The path of a file.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn path<'a>(pointer: *const c_char, what: &str) -> Result<&'a Path> {
    check(pointer, 1, what)?;
    // SAFETY: not null; the rest by this function's contract.
    let text = unsafe { CStr::from_ptr(pointer) };
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// Writes a result.
///
/// # Safety
/// Unless it is NULL, a value can be written there.
pub(crate) unsafe fn put<T>(to: *mut T, value: T, what: &str) -> Result<()> {
    check(to, 1, what)?;
    // SAFETY: not null and aligned; the rest by this function's contract.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a result that the caller may not want.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn put_if_wanted<T>(to: *mut T, value: T, what: &str) -> Result<()> {
    match to.is_null() {
        true => Ok(()),
        // SAFETY: by this function's contract.
        false => unsafe { put(to, value, what) },
    }
}

/// Writes a string with its zero byte, cut between characters if it does not fit: then
/// WL_ERR_TOO_SMALL.
///
/// # Safety
/// Unless `size` is 0, as many bytes can be written at `buffer`.
pub(crate) unsafe fn put_text(text: &str, buffer: *mut c_char, size: usize) -> Result<()> {
    // SAFETY: by this function's contract; a char of C has one byte.
    let room = unsafe { slice_mut(buffer.cast::<u8>(), size, "the buffer for text")? };
    if let Some(most) = size.checked_sub(1) {
        let cut = text.floor_char_boundary(most);
        room[..cut].copy_from_slice(&text.as_bytes()[..cut]);
        room[cut] = 0;
    }
    refuse_short(size, text.len() + 1, "the buffer for text")
}

/// Refuses a buffer that is too small.
#[inline]
pub(crate) fn refuse_short(found: usize, needed: usize, what: &str) -> Result<()> {
    match found >= needed {
        true => Ok(()),
        false => Err(too_short(found, needed, what)),
    }
}

#[cold]
fn too_short(found: usize, needed: usize, what: &str) -> Fault {
    Fault::new(
        WL_ERR_TOO_SMALL,
        format!("{what} has {found} bytes, but {needed} are needed"),
    )
}

/// The addresses of some bytes.
#[inline]
pub(crate) fn place<T>(pointer: *const T, len: usize) -> Range<usize> {
    let start = pointer.addr();
    start..start.saturating_add(len)
}

/// Refuses memory that is written and also used otherwise.
#[inline]
pub(crate) fn refuse_overlap(
    written: (&str, &Range<usize>),
    other: (&str, &Range<usize>),
) -> Result<()> {
    let ((first, one), (second, two)) = (written, other);
    if one.is_empty() || two.is_empty() || one.end <= two.start || two.end <= one.start {
        return Ok(());
    }
    Err(overlapping(first, second))
}

#[cold]
fn overlapping(first: &str, second: &str) -> Fault {
    Fault::new(
        WL_ERR_OVERLAP,
        format!("{first} and {second} overlap in memory: each needs a place of its own"),
    )
}
