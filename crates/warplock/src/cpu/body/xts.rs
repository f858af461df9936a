//! XEX: XTS without ciphertext stealing (IEEE 1619, 5.3 and 5.4).

use std::arch::asm;

use super::aes::{
    ask_ahead, last_round, load, load_tail, opaque, put, round, rounds, rounds_after_ninth, store,
    store_tail,
};
use super::{Lanes, WIDE};
use crate::Direction;
use crate::cpu::kernels::Io;
use crate::cpu::prepared::AesKey;

/// This many steps later, tweaks take three instructions instead of four.
const FAR: usize = 4;

/// XTS, see [`crate::cpu::kernels::Kernels::xts`].
///
/// # Safety
/// As the trait's method; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn xts<L: Lanes, const W: usize>(
    key: &AesKey,
    direction: Direction,
    tweak: &mut [u8; 16],
    io: Io,
) {
    const { assert!(W == L::XTS_DEPTH) };
    let keys = key.round_keys(direction);
    if io.len == 16 {
        // SAFETY: one block on each side; the rest by this function's contract.
        unsafe {
            let ends = [&keys[0], &keys[key.rounds]].map(|key| L::One::splat(key));
            let base = L::One::splat(tweak);
            step::<L::One, 1, false, false>(key, direction, ends, [base], io);
            base.xts_next().store(tweak.as_mut_ptr());
        }
        return;
    }
    let stride = 16 * L::N * W;
    let whole = io.len - io.len % stride;
    // SAFETY: by this function's contract; each step touches the blocks that it is given.
    unsafe {
        let ends = [L::splat(&keys[0]), L::splat(&keys[key.rounds])];
        let start = L::splat(tweak);
        let mut base = start.xts_powers();
        let mut left = io.part(0, whole);
        if L::AHEAD && left.len > 0 {
            // Tweaks plus the last round's key, in the form that the last rounds take.
            let [first, last] = ends;
            let ends = [first.xor(last), last];
            let growth = last.xts_ahead(last);
            let mut tweaks = start.xts_start::<W>();
            each!(W, i => {
                tweaks[i] = tweaks[i].xor(last);
            });
            macro_rules! ahead {
                ($far:literal, $tweaks:ident, $from:ident + $growth:ident) => {{
                    let next = step_ahead::<L, W, $far>(
                        key, direction, ends, $tweaks, $from, $growth, left,
                    );
                    left = left.part(stride, left.len - stride);
                    next
                }};
            }
            if L::HOLDS && L::goes_far() && left.len > FAR * stride {
                let mut a = tweaks;
                let mut b = ahead!(false, a, a + growth);
                let mut c = ahead!(false, b, b + growth);
                let mut d = ahead!(false, c, c + growth);
                let growth = last.xts_far_ahead(last);
                while left.len > FAR * stride {
                    if left.cold {
                        ask_ahead::<L>(left.src, FAR * stride);
                    }
                    a = ahead!(true, d, a + growth);
                    b = ahead!(true, a, b + growth);
                    c = ahead!(true, b, c + growth);
                    d = ahead!(true, c, d + growth);
                }
                tweaks = d;
            }
            while L::HOLDS && left.len > stride {
                if left.cold {
                    ask_ahead::<L>(left.src, stride);
                }
                tweaks = ahead!(false, tweaks, tweaks + growth);
            }
            while left.len > 0 {
                step::<L, W, true, false>(key, direction, ends, tweaks, left);
                each!(W, i => {
                    tweaks[i] = tweaks[i].xts_ahead(growth);
                });
                left = left.part(stride, left.len - stride);
            }
            base = tweaks[0].xor(last);
        }
        if L::ROWS && left.len >= 4 * 16 * WIDE {
            let whole = left.len - left.len % (16 * WIDE);
            let io = left.part(0, whole);
            base = match L::doubles() {
                true => rows::<L, true>(key, direction, ends, base, io),
                false => rows::<L, false>(key, direction, ends, base, io),
            };
            left = left.part(whole, left.len - whole);
        }
        while L::ROWS && left.len >= 16 * WIDE {
            let tweaks = base.xts_tweaks::<WIDE>();
            step::<L, WIDE, false, false>(key, direction, ends, tweaks, left);
            base = tweaks[WIDE - 1].xts_next();
            left = left.part(16 * WIDE, left.len - 16 * WIDE);
        }
        while left.len > 0 {
            // Here and not at the step's end, where they would need registers.
            let tweaks = base.xts_tweaks::<W>();
            step::<L, W, false, false>(key, direction, ends, tweaks, left);
            base = tweaks[W - 1].xts_next();
            left = left.part(stride, left.len - stride);
        }
        if whole < io.len {
            let tail = io.part(whole, io.len - whole);
            base = match tail.len.div_ceil(16 * L::N) {
                1 => xts_tail::<L, 1>(key, direction, ends, base, tail),
                2..=4 => xts_tail::<L, 4>(key, direction, ends, base, tail),
                _ => xts_tail::<L, W>(key, direction, ends, base, tail),
            };
        }
        let mut lanes = [[0; 16]; 4];
        base.store(lanes.as_mut_ptr().cast());
        *tweak = lanes[0];
    }
}

/// Steps of [`WIDE`] registers, each of which computes the next one's tweaks between its rounds: a
/// separate row would delay the rounds. `DOUBLES`: each is twice the previous one, see
/// [`Lanes::doubles`]. Returns the tweak after them.
///
/// # Safety
/// As [`xts`]; there are whole steps, at least one.
#[inline(always)]
pub(crate) unsafe fn rows<L: Lanes, const DOUBLES: bool>(
    key: &AesKey,
    direction: Direction,
    [first, last]: [L; 2],
    base: L,
    io: Io,
) -> L {
    let stride = 16 * WIDE;
    // In memory: there are no registers for sixteen. Each follows a zero, see `xts_row_ahead`.
    let zero = base.xor(base).pin();
    let mut rows = [[[zero; 2]; WIDE]; 2];
    for (slot, tweak) in rows[0].iter_mut().zip(base.xts_tweaks::<WIDE>()) {
        slot[1] = tweak;
    }
    let mut double = rows[0][WIDE - 1][1].xts_next();
    let mut now = 0;
    for offset in (0..io.len).step_by(stride) {
        let keys = opaque(key);
        let round_keys = keys.round_keys(direction);
        let mut all: *mut [[[L; 2]; WIDE]; 2] = &raw mut rows;
        // SAFETY: no instruction at all. The compiler assumes that the memory may change, and loads
        // the value shifted instead of shifting what it stored.
        unsafe { asm!("/* {0} */", inout(reg) all, options(nostack, preserves_flags)) };
        // SAFETY: the pointer is unchanged, and the two are not the same; the rest by this
        // function's contract.
        unsafe {
            let (these, next) = (&raw const (*all)[now], &raw mut (*all)[1 - now]);
            let io = io.part(offset, stride);
            let mut blocks = load::<L, WIDE>(io.src);
            for (block, [_, tweak]) in blocks.iter_mut().zip(&*these) {
                // In this order, so that both are loaded by the additions.
                *block = block.xor(first).pin().xor(*tweak);
            }
            let mut signs = double.xts_signs();
            // Pinned in turn: otherwise the compiler would compute the tweaks before the rounds.
            for (i, round_key) in round_keys[1..9].iter().enumerate() {
                round(direction, round_key, &mut blocks);
                blocks[WIDE - 1] = blocks[WIDE - 1].pin();
                (*next)[i][1] = match DOUBLES {
                    true => double,
                    false => L::xts_row_ahead(&(*these)[i], zero).pin(),
                };
                if DOUBLES {
                    (double, signs) = double.pin().xts_double(signs);
                }
            }
            round(direction, &round_keys[9], &mut blocks);
            rounds_after_ninth(direction, keys, &mut blocks);
            for (block, [_, tweak]) in blocks.iter_mut().zip(&*these) {
                *block = last_round(direction, *block, tweak.xor(last));
            }
            put(blocks, io.dst, io.non_temporal);
        }
        now = 1 - now;
    }
    rows[now][0][1]
}

/// One step on tweaks to which the last round's key was added. Returns the tweaks of the next step,
/// which follow `from`: the same tweaks or, if `IS_FAR`, those of [`FAR`] steps before the next one.
/// They are computed between the rounds, on execution units that these leave idle; after the rounds
/// they would all wait for the same units.
///
/// # Safety
/// As [`step`]; no tail.
#[inline(always)]
unsafe fn step_ahead<L: Lanes, const W: usize, const IS_FAR: bool>(
    key: &AesKey,
    direction: Direction,
    [first, _]: [L; 2],
    tweaks: [L; W],
    from: [L; W],
    growth: L,
    io: Io,
) -> [L; W] {
    const { assert!(!L::HOLDS || W == 4) };
    let keys = opaque(key);
    let round_keys = keys.round_keys(direction);
    // SAFETY: by this function's contract.
    let mut blocks = unsafe { load::<L, W>(io.src) };
    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
        *block = block.xor(first).xor(tweak);
    }
    let mut next = from;
    macro_rules! rounds_with_tweaks {
        ($($number:literal $(then $place:literal)?,)*) => {$(
            round(direction, &round_keys[$number], &mut blocks);
            // Pinned in turn, as in `rows`.
            $(
                blocks[0] = blocks[0].pin();
                next[$place] = match IS_FAR {
                    true => from[$place].xts_far_ahead(growth).pin(),
                    false => from[$place].xts_ahead(growth).pin(),
                };
            )?
        )*};
    }
    rounds_with_tweaks!(1, 2 then 0, 3 then 1, 4 then 2, 5 then 3, 6, 7, 8, 9,);
    // XTS has no cipher of twelve rounds.
    if keys.rounds > 10 {
        rounds_with_tweaks!(10, 11, 12, 13,);
    }
    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
        *block = last_round(direction, *block, tweak);
    }
    // SAFETY: by this function's contract.
    unsafe { put(blocks, io.dst, io.non_temporal) };
    next
}

/// Less than a step. Returns the tweak after it, in the first lane.
///
/// # Safety
/// As [`xts`]; there is at least a block, and at most `W` registers.
#[inline(always)]
unsafe fn xts_tail<L: Lanes, const W: usize>(
    key: &AesKey,
    direction: Direction,
    ends: [L; 2],
    base: L,
    io: Io,
) -> L {
    let tweaks = base.xts_tweaks::<W>();
    let mut all = [[0; 16]; 4 * WIDE + 4];
    // SAFETY: by this function's contract; the array is one register longer than the tweaks.
    unsafe {
        store(tweaks, all.as_mut_ptr().cast());
        if io.len == 16 * L::N * W {
            tweaks[W - 1]
                .xts_next()
                .store(all[W * L::N..].as_mut_ptr().cast());
        }
        step::<L, W, false, true>(key, direction, ends, tweaks, io);
        L::splat(&all[io.len / 16])
    }
}

/// One step, with the round keys before the first round and of the last. `KEYED`: the tweaks
/// already contain the last round's key, and it is removed from the first. `TAIL`: there may be
/// less text.
///
/// # Safety
/// `io` has at least `W * N` blocks; for a tail, at most that many.
#[inline(always)]
unsafe fn step<L: Lanes, const W: usize, const KEYED: bool, const TAIL: bool>(
    key: &AesKey,
    direction: Direction,
    [first, last]: [L; 2],
    tweaks: [L; W],
    io: Io,
) {
    // SAFETY: by this function's contract.
    let mut blocks = unsafe {
        match TAIL {
            true => load_tail::<L, W>(io.src, io.len),
            false => load::<L, W>(io.src),
        }
    };
    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
        *block = block.xor(first).xor(tweak);
    }
    rounds(direction, key, &mut blocks);
    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
        // By the last round's key, as in `last_round_with_text`.
        let end = if KEYED { tweak } else { tweak.xor(last) };
        *block = last_round(direction, *block, end);
    }
    // SAFETY: by this function's contract.
    unsafe {
        match TAIL {
            true => store_tail(blocks, io.dst, io.len),
            false => put(blocks, io.dst, io.non_temporal),
        }
    }
}
