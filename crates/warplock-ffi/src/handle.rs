//! Handles: what C holds a pointer to, and cannot look into.
//!
//! A number in each handle says what it is, so that a pointer to something else, and often one
//! that was freed before, is refused instead of used.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault::{Fault, Result};
use crate::memory;

/// An opaque type of C.
pub(crate) trait Opaque {
    /// What a handle of this type has in it.
    type Value;
    /// Marks the handles of this type: eight letters.
    const MAGIC: [u8; 8];
    /// Its name in errors.
    const NAME: &'static str;
}

#[repr(C)]
struct Handle<T> {
    /// Here an allocator keeps its own numbers once the handle is freed.
    _room: [u64; 2],
    magic: AtomicU64,
    value: T,
}

fn magic<K: Opaque>() -> u64 {
    u64::from_ne_bytes(K::MAGIC)
}

/// Makes a handle and writes it to `to`.
///
/// # Safety
/// Unless it is NULL, a pointer can be written at `to`.
pub(crate) unsafe fn make<K: Opaque>(to: *mut *mut K, value: K::Value) -> Result<()> {
    let handle = Box::new(Handle {
        _room: [0; 2],
        magic: AtomicU64::new(magic::<K>()),
        value,
    });
    let raw = Box::into_raw(handle);
    // SAFETY: by this function's contract.
    unsafe { memory::put(to, raw.cast(), "the place for the new handle") }.inspect_err(|_| {
        // SAFETY: it was just made, and nothing else knows it.
        drop(unsafe { Box::from_raw(raw) });
    })
}

/// Refuses what is not a handle of this type, as far as its number tells.
///
/// # Safety
/// Unless it is NULL, memory can be read there.
#[inline]
unsafe fn check<K: Opaque>(pointer: *const K) -> Result<*const Handle<K::Value>> {
    let handle = pointer.cast::<Handle<K::Value>>();
    if handle.is_null() {
        return Err(refusal::<K>("is NULL"));
    }
    // SAFETY: it is not null, and aligned if the first condition holds; the rest by this function's
    // contract.
    let is_one =
        handle.is_aligned() && unsafe { (*handle).magic.load(Ordering::Relaxed) } == magic::<K>();
    match is_one {
        true => Ok(handle),
        false => Err(refusal::<K>("is not one, or was freed before")),
    }
}

#[cold]
fn refusal<K: Opaque>(what: &str) -> Fault {
    Fault::argument(format!("what was given as {} {what}", K::NAME))
}

/// What a handle has in it.
///
/// # Safety
/// It is NULL or a handle, and is not freed for `'a`.
#[inline]
pub(crate) unsafe fn get<'a, K: Opaque>(pointer: *const K) -> Result<&'a K::Value> {
    // SAFETY: by this function's contract.
    Ok(unsafe { &(*check(pointer)?).value })
}

/// The same, to change it.
///
/// # Safety
/// As [`get`], and nothing else uses the handle for `'a`.
pub(crate) unsafe fn get_mut<'a, K: Opaque>(pointer: *mut K) -> Result<&'a mut K::Value> {
    // SAFETY: by this function's contract.
    unsafe { check(pointer.cast_const())? };
    // SAFETY: as above.
    Ok(unsafe { &mut (*pointer.cast::<Handle<K::Value>>()).value })
}

/// Frees a handle. NULL is ignored.
///
/// # Safety
/// It is NULL or a handle that nothing uses any longer.
pub(crate) unsafe fn free<K: Opaque>(pointer: *mut K) -> Result<()> {
    if pointer.is_null() {
        return Ok(());
    }
    // SAFETY: by this function's contract.
    unsafe { check(pointer.cast_const())? };
    // SAFETY: as above; it came from `make`.
    let handle = unsafe { Box::from_raw(pointer.cast::<Handle<K::Value>>()) };
    // An atomic store stays, though nothing reads it before the memory is freed.
    handle.magic.store(0, Ordering::SeqCst);
    drop(handle);
    Ok(())
}
