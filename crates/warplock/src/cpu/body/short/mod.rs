//! Short GCM messages, many of them, also with a key each.
//!
//! Under one key, and where any part of a register costs little, messages go in a row ([`in_row`]).
//! Otherwise, where a register holds several blocks, they go in step ([`in_step`]), a message a
//! lane. Where it holds one, they go in turn ([`in_turn`]): in step, each block would also cost the
//! loads and stores of its message's counter, hash and pointers, a third of all instructions.

mod in_row;
mod in_step;
mod in_turn;
mod keys;
mod pairs;
mod step;

use super::{Lanes, WIDE};
use crate::Direction;
use crate::cpu::kernels::{MessageKey, Short};
use crate::cpu::prepared::{AesKey, GhashKey, Powers};
use in_step::InStep;
use in_turn::InTurn;

/// Short messages, see [`crate::cpu::kernels::Kernels::gcm_short`].
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn gcm_short<L: Lanes, const M: usize>(
    direction: Direction,
    messages: &mut [Short<'_>],
) -> usize {
    const { assert!(M == WIDE * L::N) };
    let mut rest = &mut *messages;
    // SAFETY: by this function's contract; no group is larger than its registers.
    unsafe {
        if L::PARTS
            && let Some((key, powers)) = shared_key(rest)
        {
            in_row::run::<L>(key, powers, direction, rest);
            return messages.len();
        }
        if L::N > 1 && rest.len() > WIDE {
            // Messages of about the same length beside each other.
            rest.sort_unstable_by_key(|message| message.message.len);
            let mut step = InStep::<M>::new();
            // A few empty lanes cost less than narrower registers.
            while rest.len() > WIDE {
                let (group, later) = rest.split_at_mut(rest.len().min(M));
                step.run::<L>(direction, group);
                rest = later;
            }
        }
        if !rest.is_empty() {
            InTurn::<L::One>::new().run(direction, rest);
        }
    }
    messages.len()
}

/// The key of all messages, if they have only one.
fn shared_key<'a>(messages: &[Short<'a>]) -> Option<(&'a AesKey, &'a Powers)> {
    let key = |short: &Short<'a>| match short.key {
        MessageKey::Prepared(prepared) => Some(prepared),
        MessageKey::Bytes(_) => None,
    };
    let prepared = key(messages.first()?)?;
    let same = |short| key(short).is_some_and(|other| std::ptr::eq(other, prepared));
    match &prepared.ghash {
        Some(GhashKey::Clmul { powers, .. }) if messages.iter().all(same) => {
            Some((&prepared.aes, powers))
        }
        _ => None,
    }
}

/// A counter block, reversed, of a message with an IV of 12 bytes (SP 800-38D, 7.1).
#[inline(always)]
fn counter(iv: &[u8; 12], number: u32) -> u128 {
    let mut block = [0; 16];
    block[..12].copy_from_slice(iv);
    u128::from_be_bytes(block) | u128::from(number)
}
