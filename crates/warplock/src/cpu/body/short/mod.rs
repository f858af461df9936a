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

/// The two ways of [`gcm_short`] that are functions of their own: if everything is one function,
/// the compiler takes minutes.
pub(crate) struct Apart {
    /// [`gcm_in_step`].
    pub(crate) in_step: unsafe fn(&mut [Short<'_>]) -> usize,
    /// [`gcm_in_turn`].
    pub(crate) in_turn: unsafe fn(&mut [Short<'_>]),
}

/// Short messages, see [`crate::cpu::kernels::Kernels::gcm_short`].
///
/// # Safety
/// As the trait's method; the machine has the instructions, also those of the separate functions.
#[inline(always)]
pub(crate) unsafe fn gcm_short<L: Lanes>(
    direction: Direction,
    apart: Apart,
    messages: &mut [Short<'_>],
) -> usize {
    // SAFETY: by this function's contract.
    unsafe {
        if L::PARTS
            && let Some((key, powers)) = shared_key(messages)
        {
            in_row::run::<L>(key, powers, direction, messages);
            return messages.len();
        }
        let done = match L::N > 1 && messages.len() > WIDE {
            true => (apart.in_step)(messages),
            false => 0,
        };
        if done < messages.len() {
            (apart.in_turn)(&mut messages[done..]);
        }
    }
    messages.len()
}

/// Runs more than [`WIDE`] messages in step, until at most that many are left. Returns how many are
/// done.
///
/// # Safety
/// As [`gcm_short`].
#[inline(always)]
pub(crate) unsafe fn gcm_in_step<L: Lanes, const M: usize>(
    direction: Direction,
    messages: &mut [Short<'_>],
) -> usize {
    const { assert!(M == WIDE * L::N) };
    // Messages of about the same length next to each other.
    messages.sort_unstable_by_key(|message| message.message.len);
    let mut step = InStep::<M>::new();
    let mut done = 0;
    // A few empty lanes cost less than narrower registers.
    while messages.len() - done > WIDE {
        let count = (messages.len() - done).min(M);
        // SAFETY: by this function's contract; no group is larger than its registers.
        unsafe { step.run::<L>(direction, &mut messages[done..][..count]) };
        done += count;
    }
    done
}

/// Messages in turn.
///
/// # Safety
/// As [`gcm_short`].
#[inline(always)]
pub(crate) unsafe fn gcm_in_turn<L: Lanes>(direction: Direction, messages: &mut [Short<'_>]) {
    // SAFETY: by this function's contract.
    unsafe { InTurn::<L::One>::new().run(direction, messages) }
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
