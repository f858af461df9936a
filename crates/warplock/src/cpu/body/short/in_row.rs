//! GCM messages under one key in a row. Each is cut into steps of `W` registers, and while a step
//! is encrypted, the previous step is hashed, even if it belongs to the previous message.
//!
//! After its text, a message has one more block: in the cipher its first counter block, which masks
//! the tag, and in the hash the block of lengths.

use zeroize::Zeroize;

use super::step::{FIRST, MASK, NUMBERS};
use crate::Direction;
use crate::cpu::body::aes::{encrypt_before_tenth, encrypt_round, opaque, rounds_after_ninth};
use crate::cpu::body::gcm::{add_products, ghash, pin};
use crate::cpu::body::{Lanes, WIDE};
use crate::cpu::kernels::{SHORT, Short};
use crate::cpu::prepared::{AesKey, MAX_POWERS, Powers};

/// For each number of registers, how many of them form a step: few steps, and few registers that
/// are idle. If all registers before the last one were full, the block after a text that ends
/// inside a block would have no place.
const WIDTHS: [u8; SHORT / 16 + 2] = {
    let mut widths = [0; SHORT / 16 + 2];
    let mut registers = 1;
    while registers < widths.len() {
        let (mut width, mut least) = (1, usize::MAX);
        while width <= WIDE {
            let steps = registers.div_ceil(width);
            // A step costs about as much as another register.
            let cost = steps * (width + 1);
            let fits = steps == 1 || !(registers - 1).is_multiple_of(width);
            if fits && cost <= least {
                least = cost;
                widths[registers] = width as u8;
            }
            width += 1;
        }
        assert!(least < usize::MAX);
        registers += 1;
    }
    widths
};

/// The width of a message's steps.
#[inline(always)]
fn width<L: Lanes>(message: &Short<'_>) -> u8 {
    WIDTHS[message.message.len.div_ceil(16) / L::N + 1]
}

/// [`Powers`] followed by zeros, for lanes after a message's end.
#[repr(align(64))]
struct Padded([[u128; 2 * MAX_POWERS]; 2]);

impl Padded {
    fn new(powers: &Powers) -> Self {
        let mut padded = Padded([[0; 2 * MAX_POWERS]; 2]);
        for (to, from) in padded.0.iter_mut().zip(&powers.0) {
            to[..MAX_POWERS].copy_from_slice(from);
        }
        padded
    }

    /// The powers for `count` blocks, followed by as many zeros.
    #[inline(always)]
    fn of(&self, count: usize) -> [*const u8; 2] {
        debug_assert!(count <= MAX_POWERS);
        // SAFETY: the place lies in the row.
        self.0
            .each_ref()
            .map(|row| unsafe { row.as_ptr().add(MAX_POWERS - count).cast() })
    }
}

impl Drop for Padded {
    fn drop(&mut self) {
        self.0.as_flattened_mut().zeroize();
    }
}

/// Encrypts or decrypts messages under one key.
///
/// # Safety
/// As [`super::gcm_short`]; all powers are there.
#[inline(always)]
pub(super) unsafe fn run<L: Lanes>(
    key: &AesKey,
    powers: &Powers,
    direction: Direction,
    messages: &mut [Short<'_>],
) {
    let (mut same, first) = (true, width::<L>(&messages[0]));
    for short in &mut *messages {
        same &= width::<L>(short) == first;
        if !short.message.aad.is_empty() {
            // Until the tag is known, its place holds the hash of the associated data.
            // SAFETY: by this function's contract.
            unsafe { ghash::<L>(powers, &mut short.tag, short.message.aad) };
        }
    }
    // Even checking that nothing needs sorting shows in messages of 64 bytes.
    if !same {
        messages.sort_unstable_by_key(width::<L>);
    }
    let padded = Padded::new(powers);
    for messages in messages.chunk_by_mut(|a, b| width::<L>(a) == width::<L>(b)) {
        macro_rules! of_width {
            ($($width:literal)*) => {
                match width::<L>(&messages[0]) {
                    // SAFETY: by this function's contract.
                    $($width => unsafe { Row::<L, $width>::run(key, &padded, direction, messages) },)*
                    _ => unreachable!("the table has no other widths"),
                }
            };
        }
        of_width!(1 2 3 4 5 6 7 8);
    }
}

/// A row, and its step that is encrypted but not hashed.
struct Row<'k, L: Lanes, const W: usize> {
    key: &'k AesKey,
    powers: &'k Padded,
    /// Blocks of the step, reversed, and how many there are.
    data: [L; W],
    count: usize,
    /// The hash before it, reversed.
    y: L::One,
    /// If the step ends a message: the mask of the tag, and the tag's place.
    mask: L::One,
    tag: *mut u8,
}

impl<L: Lanes, const W: usize> Row<'_, L, W> {
    /// Bytes of a step.
    const STEP: usize = 16 * L::N * W;

    /// Runs messages whose steps have this width.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn run(key: &AesKey, powers: &Padded, direction: Direction, messages: &mut [Short<'_>]) {
        let mut nowhere = [0; 16];
        // SAFETY: by this function's contract.
        unsafe {
            let zero = L::splat(&[0; 16]);
            let none = L::One::splat(&[0; 16]);
            let mut row = Row::<L, W> {
                key,
                powers,
                data: [zero; W],
                count: L::N * W,
                y: none,
                mask: none,
                tag: nowhere.as_mut_ptr(),
            };
            for message in messages {
                row.message(direction, message);
            }
            let hash = row.rounds(&mut [zero; W]);
            row.end(hash);
        }
    }

    /// Encrypts or decrypts a message, and hashes all of it except the last step.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn message(&mut self, direction: Direction, short: &mut Short<'_>) {
        let message = &short.message;
        let (mut src, mut dst, mut len) = (message.input, message.output, message.len);
        let bits = |bytes: usize| 8 * bytes as u128;
        let lengths = bits(message.aad.len()) << 64 | bits(len);
        let mut number = FIRST;
        let mut begins = true;
        // SAFETY: by this function's contract; whole steps lie in the text; of the last one, only
        // the part in the text is accessed.
        unsafe {
            let head = L::splat_iv(short.iv).xor(L::splat(&self.key.enc[0]));
            let start = L::One::load(short.tag.as_ptr()).reverse();
            while len >= Self::STEP {
                let mut blocks = [head; W];
                each!(W, i => {
                    blocks[i] = head.xor(numbers(number + L::N * i));
                });
                let hash = self.rounds(&mut blocks);
                self.y = self.behind(hash, begins, start);
                begins = false;
                let last = L::splat(&self.key.enc[self.key.rounds]);
                each!(W, i => {
                    let before = 16 * L::N * i;
                    let (src, dst) = (src.add(before), dst.add(before));
                    self.data[i] = whole(direction, blocks[i], last, src, dst);
                });
                self.count = L::N * W;
                number += L::N * W;
                (src, dst, len) = (src.add(Self::STEP), dst.add(Self::STEP), len - Self::STEP);
            }

            // The last step: the rest of the text, and the block after it.
            let count = len.div_ceil(16);
            debug_assert!(count < L::N * W);
            let of_text = |i: usize| count.saturating_sub(L::N * i);
            let mask = L::splat(&NUMBERS[MASK]);
            let mut blocks = [head; W];
            each!(W, i => {
                let mut numbers = numbers::<L>(number + L::N * i);
                if of_text(i) < L::N {
                    numbers = numbers.followed_by(of_text(i), mask);
                }
                blocks[i] = head.xor(numbers);
            });
            let hash = self.rounds(&mut blocks);
            self.y = self.behind(hash, begins, start);
            let last = L::splat(&self.key.enc[self.key.rounds]);
            let lengths = L::splat(&lengths.to_le_bytes());
            each!(W, i => {
                let before = 16 * L::N * i;
                let (src, dst) = (src.wrapping_add(before), dst.wrapping_add(before));
                if len >= before + 16 * L::N {
                    self.data[i] = whole(direction, blocks[i], last, src, dst);
                } else {
                    let len = len.saturating_sub(before);
                    let mut text = L::splat(&[0; 16]);
                    if len > 0 {
                        text = L::load_part(src, len);
                    }
                    let out = blocks[i].encrypt_last(last.xor(text));
                    if len > 0 {
                        out.store_part(dst, len);
                    }
                    let data = ciphertext(direction, text, out.first_bytes(len)).reverse();
                    self.data[i] = data.followed_by(of_text(i), lengths);
                    // All blocks after the text are the same.
                    self.mask = out.last();
                }
            });
            self.count = count + 1;
        }
        self.tag = short.tag.as_mut_ptr();
    }

    /// All rounds but the last, on blocks already XORed with the first round key; meanwhile, the
    /// hash of the previous step.
    ///
    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    unsafe fn rounds(&mut self, blocks: &mut [L; W]) -> L::One {
        (self.key, self.powers) = (opaque(self.key), opaque(self.powers));
        let powers = self.powers.of(self.count);
        // SAFETY: by this function's contract.
        let mut sums = [unsafe { L::splat(&[0; 16]) }; 2];
        // The register that waits for the hash before it comes last. Pins: see `body::gcm`.
        each!(W, i => {
            encrypt_round(&self.key.enc[1 + i], blocks);
            pin(blocks);
            // SAFETY: by this function's contract.
            unsafe { self.add(&mut sums, powers, (i + 1) % W) };
            pin(&mut sums);
        });
        encrypt_before_tenth::<L, W, W>(self.key, blocks);
        rounds_after_ninth(Direction::Encrypt, self.key, blocks);
        let [below, above] = sums;
        above.xor(below.fold()).sum()
    }

    /// Adds the products of register `i`.
    ///
    /// # Safety
    /// The machine has the instructions; the powers are those of the step.
    #[inline(always)]
    unsafe fn add(&self, sums: &mut [L; 2], powers: [*const u8; 2], i: usize) {
        let mut data = self.data[i];
        if i == 0 {
            data = data.xor(L::widen(self.y));
        }
        // SAFETY: by this function's contract.
        let powers = powers.map(|row| unsafe { L::load(row.add(16 * L::N * i)) });
        add_products(sums, data.hash_products(powers));
    }

    /// The hash that the next step continues from: that of the previous step, or if a message
    /// begins, its `start`; then the previous message gets its tag.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn behind(&self, hash: L::One, begins: bool, start: L::One) -> L::One {
        if !begins {
            return hash;
        }
        // SAFETY: by this function's contract.
        unsafe { self.end(hash) };
        start
    }

    /// The tag of the message that ended.
    ///
    /// # Safety
    /// Its place is valid.
    #[inline(always)]
    unsafe fn end(&self, hash: L::One) {
        // SAFETY: by this function's contract.
        unsafe { hash.reverse().xor(self.mask).store(self.tag) }
    }
}

/// Counters from a number on.
///
/// # Safety
/// There are that many, and the machine has the instructions.
#[inline(always)]
unsafe fn numbers<L: Lanes>(first: usize) -> L {
    debug_assert!(first + L::N <= NUMBERS.len());
    // SAFETY: by this function's contract.
    unsafe { L::load(NUMBERS.as_ptr().add(first).cast()) }
}

/// Ends the cipher of a whole register; returns what is to be hashed.
///
/// # Safety
/// The machine has the instructions, and a register can be read and written.
#[inline(always)]
unsafe fn whole<L: Lanes>(
    direction: Direction,
    block: L,
    last: L,
    src: *const u8,
    dst: *mut u8,
) -> L {
    // SAFETY: by this function's contract.
    unsafe {
        let text = L::load(src);
        let out = block.encrypt_last(last.xor(text));
        out.store(dst);
        ciphertext(direction, text, out).reverse()
    }
}

#[inline(always)]
fn ciphertext<L>(direction: Direction, text: L, out: L) -> L {
    match direction {
        Direction::Encrypt => out,
        Direction::Decrypt => text,
    }
}
