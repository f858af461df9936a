//! Counter mode.

use super::Lanes;
use super::aes::{ask_ahead, encrypt_rounds_after, load_tail, put, store_tail};
use super::counter_cache::{Cached, Computed, CounterCache, Source, computed};
use crate::cpu::kernels::{CounterBits, Io, LINE};
use crate::cpu::prepared::AesKey;

/// Counters for `W` registers from `base` on, XORed with round key 0; `base` holds one
/// little-endian counter per lane. If the first counter is `aligned`, a multiple of their number,
/// the others differ from it in a few bits, which is one instruction a register instead of three.
#[inline(always)]
pub(super) fn counters<L: Lanes, const W: usize>(
    base: L,
    bits: CounterBits,
    aligned: bool,
    key: L,
) -> [L; W] {
    let mut blocks = [base; W];
    if aligned {
        // SAFETY: a register exists, so the machine has the instructions.
        let zero = unsafe { L::splat(&[0; 16]) };
        // Pinned, or the compiler would add the key to each.
        let first = base.reverse().xor(key).pin();
        each!(W, i => {
            blocks[i] = first.xor(zero.add64((i * L::N) as u64).reverse());
        });
        return blocks;
    }
    each!(W, i => {
        let counter = match bits {
            CounterBits::B32 => base.add32((i * L::N) as u32),
            CounterBits::B128 => base.add64((i * L::N) as u64),
        };
        blocks[i] = counter.reverse().xor(key);
    });
    blocks
}

/// XORs text into registers in the last round: the text is added to the round's key first, which
/// waits for nothing. An addition after the round would wait for it and delay what comes next.
///
/// # Safety
/// `io` has `W * N` blocks.
#[inline(always)]
pub(super) unsafe fn last_round_with_text<L: Lanes, const W: usize>(
    key: &AesKey,
    blocks: &mut [L; W],
    io: Io,
) {
    // SAFETY: by this function's contract; the caller holds lanes.
    unsafe {
        let last = L::splat(&key.enc[key.rounds]);
        each!(W, i => {
            let text = L::load(io.src.add(16 * L::N * i));
            blocks[i] = blocks[i].encrypt_last(text.xor(last));
        });
        put(*blocks, io.dst, io.non_temporal);
    }
}

/// CTR, see [`crate::cpu::kernels::Kernels::ctr`]. `hidden`: the counter is secret.
///
/// # Safety
/// As the trait's method; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn ctr<L: Lanes, const W: usize>(
    key: &AesKey,
    counter: &mut [u8; 16],
    bits: CounterBits,
    hidden: bool,
    io: Io,
) {
    if io.len <= 16 * L::N && !overflows(counter, bits, L::N) {
        // SAFETY: by this function's contract.
        unsafe { ctr_tail::<L, 1>(key, counter, bits, hidden, io) };
        *counter = bits.advance(*counter, io.len.div_ceil(16) as u64);
        return;
    }
    let mut done = 0;
    while done < io.len {
        let room = match bits {
            // The registers count in 64 bits, and states of neighbours are kept while the first
            // 11 bytes stay: stop where the low 40 bits overflow.
            CounterBits::B128 => {
                let blocks = (1u64 << 40) - u128::from_be_bytes(*counter) as u64 % (1 << 40);
                usize::try_from(blocks)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(16)
            }
            CounterBits::B32 => usize::MAX,
        };
        let len = room.min(io.len - done);
        // SAFETY: `len` bytes are left, and that many blocks before the overflow; the rest by this
        // function's contract.
        unsafe {
            let part = io.part(done, len);
            // After an overflow, a line may not begin here.
            let part = part.with_non_temporal(part.non_temporal && done.is_multiple_of(LINE));
            let whole = len - len % (16 * L::N * W);
            if whole > 0 {
                ctr_whole::<L, W>(key, counter, bits, hidden, part.part(0, whole));
                *counter = bits.advance(*counter, (whole / 16) as u64);
            }
            if len > whole {
                let tail = part.part(whole, len - whole);
                match tail.len.div_ceil(16 * L::N) {
                    1 => ctr_tail::<L, 1>(key, counter, bits, hidden, tail),
                    2..=4 => ctr_tail::<L, 4>(key, counter, bits, hidden, tail),
                    _ => ctr_tail::<L, W>(key, counter, bits, hidden, tail),
                }
                *counter = bits.advance(*counter, tail.len.div_ceil(16) as u64);
            }
        }
        done += len;
    }
}

/// CTR on whole steps.
///
/// # Safety
/// As [`ctr`]; none of the counter's first 11 bytes changes.
#[inline(always)]
unsafe fn ctr_whole<L: Lanes, const W: usize>(
    key: &AesKey,
    start: &[u8; 16],
    bits: CounterBits,
    hidden: bool,
    io: Io,
) {
    let stride = 16 * L::N * W;
    let steps = io.len / stride;
    let computed = computed::<L, W>(steps, hidden);
    let mut kept = CounterCache::new();
    // SAFETY: there are that many steps in `io`; the rest by this function's contract.
    unsafe {
        let source = Computed::<L>::new::<W>(key, bits, start, hidden, computed < steps);
        let part = io.part(0, computed * stride);
        ctr_run::<L, W>(key, source, kept.states(), part);
        if computed < steps {
            let source = Cached::<L>::new(key, bits, start);
            let rest = io.part(part.len, io.len - part.len);
            ctr_run::<L, W>(key, source, kept.states(), rest);
            kept.wipe::<L>();
        }
    }
}

/// A run of whole steps.
///
/// # Safety
/// As [`ctr`]; the source has as many, and the states have room where it uses them.
#[inline(always)]
unsafe fn ctr_run<L: Lanes, const W: usize>(
    key: &AesKey,
    mut source: impl Source<L>,
    states: *mut u8,
    io: Io,
) {
    let stride = 16 * L::N * W;
    for offset in (0..io.len).step_by(stride) {
        // SAFETY: by this function's contract.
        unsafe {
            let step = io.part(offset, stride);
            if step.cold {
                ask_ahead::<L>(step.src, stride);
            }
            let mut blocks = source.next::<W>(key, states);
            encrypt_rounds_after::<2, L, W>(key, &mut blocks);
            last_round_with_text(key, &mut blocks, step);
        }
    }
}

/// CTR on less than a step, of any length.
///
/// # Safety
/// As [`ctr`]; the text is at most `W` registers long.
#[inline(always)]
unsafe fn ctr_tail<L: Lanes, const W: usize>(
    key: &AesKey,
    start: &[u8; 16],
    bits: CounterBits,
    hidden: bool,
    io: Io,
) {
    // SAFETY: by this function's contract; no states are kept.
    unsafe {
        let mut source = Computed::<L>::new::<W>(key, bits, start, hidden, false);
        let mut blocks = source.next::<W>(key, std::ptr::null_mut());
        encrypt_rounds_after::<2, L, W>(key, &mut blocks);
        let last = L::splat(&key.enc[key.rounds]);
        let text = load_tail::<L, W>(io.src, io.len);
        each!(W, i => {
            blocks[i] = blocks[i].encrypt_last(text[i].xor(last));
        });
        store_tail(blocks, io.dst, io.len);
    }
}

/// Whether registers would have to carry into a counter's upper half, in the next `blocks`.
#[inline(always)]
fn overflows(counter: &[u8; 16], bits: CounterBits, blocks: usize) -> bool {
    let low = u128::from_be_bytes(*counter) as u64;
    bits == CounterBits::B128 && low.checked_add(blocks as u64).is_none()
}
