//! Caches two rounds of CTR: neighbouring counters differ in one byte, so the state after round 2
//! is a cached state XOR one correction.
//!
//! In the first round, a counter's last byte enters one column of the state, together with the
//! bytes 0, 5 and 10. While these three stay the same, every other column depends on bytes 11 to 14
//! alone. The second round's S-boxes work on single bytes, and what follows them is linear. So the
//! state after two rounds is the XOR of a contribution of the last byte and one of the other bytes:
//! it is computed for 256 counters and kept, and the states of all later counters are kept states
//! with one value added.
//!
//! Which states are looked up follows from the counter's value and place. If these are secrets, all
//! states are computed.

use std::arch::asm;
use std::mem::MaybeUninit;

use super::Lanes;
use super::aes::{encrypt_round, load, store, xor_each};
use super::ctr::counters;
use crate::cpu::kernels::CounterBits;
use crate::cpu::prepared::AesKey;

/// Counters whose states are kept.
const SPAN: usize = 256;

/// From this many bytes on, keeping states pays: the states that are computed first and wiped at
/// the end must be used again.
const LONG: usize = 8 << 10;

/// Room for the states after two rounds of [`SPAN`] counters.
#[repr(align(64))]
pub(super) struct CounterCache(MaybeUninit<[[u8; 16]; SPAN]>);

impl CounterCache {
    #[inline(always)]
    pub(super) fn new() -> Self {
        CounterCache(MaybeUninit::uninit())
    }

    #[inline(always)]
    pub(super) fn states(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// Wipes the states, which reveal the key. With wide registers by our own stores, which the CPU
    /// executes while it waits for a hash; it waits for those of `memset` (16 KiB of GCM, Zen 4:
    /// 512 bits 1.5 to 2 %, 256 bits 2.6 %; with 128 bits `memset` is 1.5 % faster).
    ///
    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    pub(super) unsafe fn wipe<L: Lanes>(&mut self) {
        let states = self.states();
        // SAFETY: the memory is this value's; the `asm` is empty, but the compiler must assume that
        // it reads what was written.
        unsafe {
            if L::N == 1 {
                states.write_bytes(0, 16 * SPAN);
            } else {
                // Pinned: otherwise the compiler would make it a call of `memset`.
                let zeros = L::splat(&[0; 16]).pin();
                for place in (0..16 * SPAN).step_by(16 * L::N) {
                    zeros.store(states.add(place));
                }
            }
            asm!("/* {0} */", in(reg) states, options(nostack, preserves_flags));
        }
    }
}

/// How many of the first of `steps` steps of `D` registers are computed. The states of all others
/// are derived from kept ones. `hidden`: the counter is secret.
#[inline(always)]
pub(super) fn computed<L: Lanes, const D: usize>(steps: usize, hidden: bool) -> usize {
    const { assert!(SPAN.is_multiple_of(D * L::N) && LONG >= 16 * SPAN) };
    match hidden || steps * (16 * D * L::N) < LONG {
        true => steps,
        false => SPAN / (D * L::N),
    }
}

/// A source of counter blocks after two rounds.
pub(super) trait Source<L: Lanes> {
    /// The next `D` registers; `states` is the room for [`CounterCache`] states. Not a field of the
    /// source, where the compiler would put a pointer into a vector register.
    ///
    /// # Safety
    /// If states are cached, `states` has room for them, and no step goes past its end.
    unsafe fn next<const D: usize>(&mut self, key: &AesKey, states: *mut u8) -> [L; D];
}

/// States that are computed.
#[derive(Clone, Copy)]
pub(super) struct Computed<L> {
    base: L,
    bits: CounterBits,
    aligned: bool,
    first_key: L,
    /// Where the next step's states are kept, if they are.
    keep: Option<usize>,
}

impl<L: Lanes> Computed<L> {
    /// Blocks from a counter on, in steps of `D` registers. The counter is big-endian and in
    /// memory: if it had been stored as two numbers, loading it would wait until both are written.
    /// `hidden`: it is secret.
    ///
    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    pub(super) unsafe fn new<const D: usize>(
        key: &AesKey,
        bits: CounterBits,
        start: &[u8; 16],
        hidden: bool,
        keep: bool,
    ) -> Self {
        // SAFETY: by this function's contract.
        unsafe {
            let base = L::splat(start).reverse();
            Computed {
                base: match bits {
                    CounterBits::B32 => base.number32(),
                    CounterBits::B128 => base.number64(),
                },
                bits,
                aligned: !hidden && start[15].is_multiple_of((D * L::N) as u8),
                first_key: L::splat(&key.enc[0]),
                keep: keep.then_some(0),
            }
        }
    }
}

impl<L: Lanes> Source<L> for Computed<L> {
    #[inline(always)]
    unsafe fn next<const D: usize>(&mut self, key: &AesKey, states: *mut u8) -> [L; D] {
        let mut blocks = counters(self.base, self.bits, self.aligned, self.first_key);
        self.base = later(self.base, self.bits, D * L::N);
        encrypt_round(&key.enc[1], &mut blocks);
        encrypt_round(&key.enc[2], &mut blocks);
        if let Some(place) = &mut self.keep {
            // SAFETY: by this function's contract.
            unsafe { store(blocks, states.add(*place)) };
            *place += 16 * D * L::N;
        }
        blocks
    }
}

/// States that are kept, with a value to add.
pub(super) struct Cached<L> {
    /// The value for the steps in progress, and how many of these there are.
    sum: L,
    left: usize,
    /// The values for the counters of a span before the last byte's overflow, and for those after.
    sums: [L; 2],
    /// The same for the counters' other bytes alone, for the states that are kept.
    kept: [L; 2],
    /// The same for the counters after the overflow of the span in progress.
    other: L,
    /// The counters of the next span: little-endian, with a last byte of 0.
    next: L,
    bits: CounterBits,
    /// Blocks in a span before the overflow, and blocks of it that are done.
    before: usize,
    done: usize,
}

impl<L: Lanes> Cached<L> {
    /// Blocks from [`SPAN`] counters after `start` on, whose states are the first that were kept.
    ///
    /// # Safety
    /// The machine has the instructions, and none of the counter's first 11 bytes changes.
    #[inline(always)]
    pub(super) unsafe fn new(key: &AesKey, bits: CounterBits, start: &[u8; 16]) -> Self {
        let [head @ .., last] = *start;
        let mut first = [0; 16];
        first[..15].copy_from_slice(&head);
        // SAFETY: by this function's contract.
        let first = unsafe { L::splat(&first).reverse() };
        let second = later(first, bits, SPAN);
        let other = other_bytes(key, second);
        let kept = [other_bytes(key, first), other];
        Cached {
            sum: other,
            left: 0,
            sums: kept,
            kept,
            other,
            next: later(second, bits, SPAN),
            bits,
            before: SPAN - usize::from(last),
            done: SPAN,
        }
    }

    /// Computes what the next steps, of `len` blocks, add. Returns how many of the next blocks are
    /// before the overflow, if it is among them.
    #[inline(always)]
    fn turn(&mut self, key: &AesKey, len: usize) -> usize {
        if self.done == SPAN {
            let ([first, second], before) = (self.kept, self.other);
            self.other = other_bytes(key, self.next);
            self.sums = [before.xor(first), self.other.xor(second)];
            self.next = later(self.next, self.bits, SPAN);
            self.done = 0;
        }
        let before = self.before.saturating_sub(self.done);
        (self.sum, self.left) = match before {
            0 => (self.sums[1], (SPAN - self.done) / len),
            _ => (self.sums[0], (before / len).max(1)),
        };
        before
    }
}

impl<L: Lanes> Source<L> for Cached<L> {
    #[inline(always)]
    unsafe fn next<const D: usize>(&mut self, key: &AesKey, states: *mut u8) -> [L; D] {
        let (len, mut before) = (D * L::N, 0);
        if self.left == 0 {
            before = self.turn(key, len);
        }
        // SAFETY: a span has whole steps.
        let mut blocks = unsafe { load::<L, D>(states.add(16 * self.done)) };
        if before > 0 && before < len {
            let [first, second] = self.sums;
            let (same, more) = (first.xor(first), first.xor(second));
            each!(D, i => {
                let sums = same.followed_by(before.saturating_sub(i * L::N), more);
                blocks[i] = blocks[i].xor(sums);
            });
        }
        xor_each(&mut blocks, self.sum);
        self.left -= 1;
        self.done += len;
        blocks
    }
}

/// The contribution of all bytes but the last to the state after two rounds of a little-endian
/// counter whose last byte is 0.
#[inline(always)]
fn other_bytes<L: Lanes>(key: &AesKey, counter: L) -> L {
    // SAFETY: a register exists, so the machine has the instructions.
    let mut block = [counter.reverse().xor(unsafe { L::splat(&key.enc[0]) })];
    encrypt_round(&key.enc[1], &mut block);
    encrypt_round(&key.enc[2], &mut block);
    block[0]
}

/// Each lane's little-endian counter `blocks` later.
#[inline(always)]
fn later<L: Lanes>(counter: L, bits: CounterBits, blocks: usize) -> L {
    match bits {
        CounterBits::B32 => counter.add32(blocks as u32),
        CounterBits::B128 => counter.add64(blocks as u64),
    }
}
