//! Two rounds of neighbouring counters for next to nothing.
//!
//! In the first round, a counter's last byte goes into one column of the state, with bytes 0, 5
//! and 10. While these three stay as they are, every other column depends on bytes 11 to 14 alone.
//! The second round's S-boxes work on single bytes, and what follows them is linear. So the state
//! behind two rounds is a sum (XOR) of what the last byte gives and of what the others give: it is
//! computed for 256 counters and kept, and all later ones are kept states with one sum added.
//!
//! Which states are looked up follows from the counter's value and place, which are no secrets.

use std::arch::asm;
use std::mem::MaybeUninit;

use super::aes::{encrypt_round, load, store, xor_each};
use super::ctr::{advance, counters};
use super::{Lanes, WIDE};
use crate::cpu::kernels::CounterBits;
use crate::cpu::prepared::AesKey;

/// Counters whose states are kept.
const SPAN: usize = 256;

/// From this many bytes on, keeping states pays: what is computed first and wiped at the end
/// must be used again.
const LONG: usize = 8 << 10;

/// Room for the states behind two rounds of [`SPAN`] counters, and for those of one step that are
/// never used. Apart from [`Runs`], and nothing else: with a field beside it, the compiler would
/// fill all of it with zeros.
#[repr(align(64))]
pub(super) struct Kept(MaybeUninit<[[u8; 16]; SPAN + 4 * WIDE]>);

impl Kept {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Kept(MaybeUninit::uninit())
    }
}

/// Cuts steps of `W` registers each, whose counters follow each other, into runs that get their
/// states in the same way.
pub(super) struct Runs<L, const W: usize> {
    start: u128,
    bits: CounterBits,
    /// Steps given out, and steps in all.
    done: usize,
    all: usize,
    /// What the kept states have of their counters' other bytes: those before the last byte's
    /// first overflow, those behind it.
    references: [L; 2],
    /// Whether there are enough steps for states to be kept.
    near: bool,
}

/// Steps that get their states in the same way.
pub(super) struct Run<L> {
    pub(super) steps: usize,
    pub(super) states: States<L>,
}

/// Where a run's states come from.
pub(super) enum States<L> {
    Computed(Computed<L>),
    Near(Near<L>),
}

/// States that are computed.
#[derive(Clone, Copy)]
pub(super) struct Computed<L> {
    base: L,
    bits: CounterBits,
    aligned: bool,
    first_key: L,
    /// Where they are kept; null: nowhere.
    keep: *mut u8,
}

/// States that are kept, with a sum to add.
pub(super) struct Near<L> {
    kept: *const u8,
    sum: L,
}

/// A source of counter blocks behind two rounds.
pub(super) trait Source<L: Lanes> {
    /// The next `D` registers.
    ///
    /// # Safety
    /// There are so many left in the run.
    unsafe fn next<const D: usize>(&mut self, key: &AesKey) -> [L; D];
}

impl<L: Lanes> Computed<L> {
    /// Blocks from a counter on, in steps of `D` registers.
    ///
    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    pub(super) unsafe fn new<const D: usize>(key: &AesKey, bits: CounterBits, start: u128) -> Self {
        // SAFETY: by this function's contract.
        unsafe {
            let base = L::splat(&start.to_le_bytes());
            Computed {
                base: match bits {
                    CounterBits::B32 => base.number32(),
                    CounterBits::B128 => base.number64(),
                },
                bits,
                aligned: start.is_multiple_of((D * L::N) as u128),
                first_key: L::splat(&key.enc[0]),
                keep: std::ptr::null_mut(),
            }
        }
    }

    /// The next `D` registers before the first round, XORed with round key 0.
    #[inline(always)]
    pub(super) fn counters<const D: usize>(&mut self) -> [L; D] {
        let blocks = counters::<L, D>(self.base, self.bits, self.aligned, self.first_key);
        self.base = match self.bits {
            CounterBits::B32 => self.base.add32((D * L::N) as u32),
            CounterBits::B128 => self.base.add64((D * L::N) as u64),
        };
        blocks
    }
}

impl<L: Lanes> Source<L> for Computed<L> {
    #[inline(always)]
    unsafe fn next<const D: usize>(&mut self, key: &AesKey) -> [L; D] {
        let mut blocks = self.counters::<D>();
        encrypt_round(&key.enc[1], &mut blocks);
        encrypt_round(&key.enc[2], &mut blocks);
        if !self.keep.is_null() {
            // SAFETY: by this function's contract, there is room.
            unsafe {
                store(blocks, self.keep);
                self.keep = self.keep.add(16 * L::N * D);
            }
        }
        blocks
    }
}

impl<L: Lanes> Source<L> for Near<L> {
    #[inline(always)]
    unsafe fn next<const D: usize>(&mut self, _key: &AesKey) -> [L; D] {
        // SAFETY: by this function's contract.
        let mut blocks = unsafe {
            let blocks = load::<L, D>(self.kept);
            self.kept = self.kept.add(16 * L::N * D);
            blocks
        };
        xor_each(&mut blocks, self.sum);
        blocks
    }
}

/// What the bytes before the last give of the states behind two rounds, in every lane.
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
unsafe fn other_bytes<L: Lanes>(key: &AesKey, counter: u128) -> L {
    // SAFETY: by this function's contract.
    let mut block = unsafe {
        let counter = (counter & !0xFF).to_be_bytes();
        [L::splat(&counter).xor(L::splat(&key.enc[0]))]
    };
    encrypt_round(&key.enc[1], &mut block);
    encrypt_round(&key.enc[2], &mut block);
    block[0]
}

/// The counter `blocks` later, as a number.
#[inline(always)]
fn later(start: u128, bits: CounterBits, blocks: usize) -> u128 {
    u128::from_be_bytes(advance(start, bits, blocks as u64))
}

impl<L: Lanes, const W: usize> Runs<L, W> {
    /// For `steps` steps from a counter on.
    ///
    /// # Safety
    /// The machine has the instructions, and none of the counter's first 11 bytes changes on the
    /// way.
    #[inline(always)]
    pub(super) unsafe fn new(key: &AesKey, bits: CounterBits, start: u128, steps: usize) -> Self {
        const { assert!(W <= WIDE && SPAN.is_multiple_of(W * L::N)) };
        let near = steps >= LONG / (16 * W * L::N);
        // SAFETY: by this function's contract.
        let references = unsafe {
            match near {
                true => [
                    other_bytes(key, start),
                    other_bytes(key, later(start, bits, SPAN)),
                ],
                false => [L::splat(&[0; 16]); 2],
            }
        };
        Runs {
            start,
            bits,
            done: 0,
            all: steps,
            references,
            near,
        }
    }

    /// The next run.
    ///
    /// # Safety
    /// The machine has the instructions; every call gets the same key and room, and the run
    /// before was used to its end.
    #[inline(always)]
    pub(super) unsafe fn next(&mut self, key: &AesKey, kept: &mut Kept) -> Option<Run<L>> {
        let left = self.all - self.done;
        if left == 0 {
            return None;
        }
        let step = W * L::N;
        let (span, place) = (SPAN / step, self.done % (SPAN / step));
        let counter = later(self.start, self.bits, self.done * step);
        // The first steps whose counters are not all before the last byte's overflow.
        let before = SPAN - self.start as usize % SPAN;
        let overflow = before / step;
        let room: *mut [u8; 16] = kept.0.as_mut_ptr().cast();
        let (steps, keep) = if !self.near {
            (left, None)
        } else if self.done == 0 {
            (span, Some(0))
        } else if place == overflow && !before.is_multiple_of(step) {
            // Some lanes are before it, some behind.
            (1, Some(SPAN))
        } else {
            let (end, reference) = match place < overflow {
                true => (overflow, self.references[0]),
                false => (span, self.references[1]),
            };
            let steps = (end - place).min(left);
            self.done += steps;
            // SAFETY: the place is among the kept ones, which were all computed before.
            let states = unsafe {
                States::Near(Near {
                    kept: room.add(place * step).cast(),
                    sum: other_bytes::<L>(key, counter).xor(reference),
                })
            };
            return Some(Run { steps, states });
        };
        let steps = steps.min(left);
        self.done += steps;
        // SAFETY: from there on there is room for the run.
        let states = unsafe {
            States::Computed(Computed {
                keep: keep.map_or(std::ptr::null_mut(), |place| room.add(place).cast()),
                ..Computed::new::<W>(key, self.bits, counter)
            })
        };
        Some(Run { steps, states })
    }

    /// Wipes the states: they tell the key.
    #[inline(always)]
    pub(super) fn end(self, kept: &mut Kept) {
        if !self.near {
            return;
        }
        let states = kept.0.as_mut_ptr();
        // SAFETY: the room is there; then no instruction at all, but as far as the compiler knows,
        // one that may read what was written.
        unsafe {
            states.write_bytes(0, 1);
            asm!("/* {0} */", in(reg) states, options(nostack, preserves_flags));
        }
    }
}
