//! The parts of GCM (SP 800-38D), one for each kernel.

use super::{Block, bytes, encrypt, io, kernels};
use crate::Direction;
use crate::cpu::AesKey;
use crate::cpu::portable::{gf_mul, gf_pow};
use crate::cuda::launch::abi::{GcmMessage, Piece};

/// J0, its encryption, and the hash of the associated data, multiplied to precede the text.
pub(super) unsafe fn prepare(mut message: GcmMessage, key: &AesKey, h: Block) -> GcmMessage {
    // SAFETY: by this function's contract.
    let (iv, aad) = unsafe {
        (
            bytes(message.iv, message.iv_len),
            bytes(message.aad, message.aad_len),
        )
    };
    let mut counter = [0; 16];
    if iv.len() == 12 {
        counter[..12].copy_from_slice(iv);
        counter[15] = 1;
    } else {
        ghash(h, &mut counter, iv);
        ghash(h, &mut counter, &lengths(0, message.iv_len));
    }
    let mut hash = [0; 16];
    ghash(h, &mut hash, aad);
    hash = gf_mul(hash, gf_pow(h, message.len.div_ceil(16)));
    message.state = [counter, encrypt(key, counter), hash];
    message.failed = 0;
    message
}

/// A piece of text, and its part of the hash.
pub(super) unsafe fn text(
    piece: &Piece,
    message: &mut GcmMessage,
    key: &AesKey,
    h: Block,
    direction: Direction,
) {
    assert_eq!(piece.before + piece.len + piece.after, message.len);
    // SAFETY: by this function's contract.
    unsafe {
        let mut sum = [0; 16];
        if direction == Direction::Decrypt {
            ghash(h, &mut sum, bytes(piece.input, piece.len));
        }
        // Block by block: of GCM's counter only 32 bits count.
        for done in (0..piece.len).step_by(16) {
            let mut counter = counter32(message.state[0], 1 + (piece.before + done) / 16);
            let text = io(piece, done, (piece.len - done).min(16));
            kernels().ctr(key, &mut counter, text);
        }
        if direction == Direction::Encrypt {
            ghash(h, &mut sum, bytes(piece.output, piece.len));
        }
        xor(
            &mut message.state[2],
            gf_mul(sum, gf_pow(h, piece.after.div_ceil(16))),
        );
    }
}

/// Makes the tag or compares it, and leaves the sum as the next launch needs it.
pub(super) unsafe fn finish(
    mut message: GcmMessage,
    h: Block,
    tag_len: u64,
    open: bool,
) -> GcmMessage {
    let mut tag = message.state[2];
    xor(&mut tag, lengths(message.aad_len, message.len));
    tag = gf_mul(tag, h);
    xor(&mut tag, message.state[1]);
    message.state[2] = [0; 16];
    let tag = &tag[..tag_len as usize];
    // SAFETY: by this function's contract.
    unsafe {
        if open {
            message.failed = u32::from(bytes(message.tag, tag_len) != tag);
        } else {
            (message.tag as *mut u8).copy_from_nonoverlapping(tag.as_ptr(), tag.len());
        }
    }
    message
}

fn counter32(block: Block, add: u64) -> Block {
    let mut later = block;
    let low = u32::from_be_bytes(block[12..].try_into().unwrap());
    later[12..].copy_from_slice(&low.wrapping_add(add as u32).to_be_bytes());
    later
}

fn ghash(h: Block, y: &mut Block, data: &[u8]) {
    let mut key = None;
    kernels().ghash_key(h, data.len().div_ceil(16).max(1), &mut key);
    kernels().ghash(&key.unwrap(), y, data);
}

fn lengths(a: u64, b: u64) -> Block {
    let mut block = [0; 16];
    block[..8].copy_from_slice(&(8 * a).to_be_bytes());
    block[8..].copy_from_slice(&(8 * b).to_be_bytes());
    block
}

fn xor(a: &mut Block, b: Block) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a ^= b);
}
