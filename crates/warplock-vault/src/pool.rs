//! Buffers that are used again.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use zeroize::Zeroize;

/// How many idle buffers are kept, and the longest kept.
const KEPT: usize = 16;
const KEPT_LEN: usize = 4 << 20;

/// Idle buffers.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Vec<u8>>>);

/// A buffer that goes back to its pool. Its content is whatever it held before.
pub(crate) struct Buffer<'a> {
    bytes: Vec<u8>,
    len: usize,
    secret: bool,
    pool: &'a Pool,
}

impl Pool {
    /// A buffer for ciphertext.
    pub(crate) fn take(&self, len: usize) -> Buffer<'_> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bytes = idle.unwrap_or_default();
        if bytes.len() < len {
            bytes.resize(len, 0);
        }
        Buffer {
            bytes,
            len,
            secret: false,
            pool: self,
        }
    }

    /// A buffer for plaintext, full of zeros, which is wiped after use.
    pub(crate) fn take_secret(&self, len: usize) -> Buffer<'_> {
        let mut buffer = self.take(len);
        buffer.secret = true;
        buffer.fill(0);
        buffer
    }
}

impl Deref for Buffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if self.secret {
            self.bytes[..self.len].zeroize();
        }
        let mut idle = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT && self.bytes.len() <= KEPT_LEN {
            idle.push(std::mem::take(&mut self.bytes));
        }
    }
}
