//! The end of a message, once its tag is computed.

use subtle::ConstantTimeEq;

use crate::Direction;
use crate::job::Message;
use crate::secret::declassify;

/// Writes the tag, or compares it and wipes the text of a forgery. Returns false if it did not
/// verify.
///
/// # Safety
/// The message's pointers are valid for its text and for a tag of this length, at most 16 bytes,
/// and nothing else works on it.
#[inline]
pub(super) unsafe fn write_or_verify_tag(
    direction: Direction,
    message: &Message<'_>,
    tag: &[u8],
) -> bool {
    // SAFETY: by this function's contract.
    unsafe {
        match direction {
            Direction::Encrypt => {
                copy_tag(tag.as_ptr(), message.tag, tag.len());
                true
            }
            Direction::Decrypt => {
                // Compared as numbers: comparing byte by byte would show in a short message's time.
                let number = |from: *const u8| {
                    let mut bytes = [0; 16];
                    copy_tag(from, bytes.as_mut_ptr(), tag.len());
                    u128::from_le_bytes(bytes)
                };
                let good = declassify(number(tag.as_ptr()).ct_eq(&number(message.tag)));
                if !good {
                    message.output.write_bytes(0, message.len);
                }
                good
            }
        }
    }
}

/// Copies a tag. Most have 16 bytes: a copy of variable length is a call.
///
/// # Safety
/// The pointers are valid for `len` bytes that do not overlap.
#[inline(always)]
unsafe fn copy_tag(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: by this function's contract.
    unsafe {
        match len {
            16 => from.copy_to_nonoverlapping(to, 16),
            _ => from.copy_to_nonoverlapping(to, len),
        }
    }
}
