//! Carry-less multiplication of 128-bit polynomials with integer multiplications, in constant time
//! wherever the CPU's multiplication is.
//!
//! The idea is Thomas Pornin's ("holes", in BearSSL's notes on GHASH): keep only every fourth bit
//! of both factors. Each column of their integer product then sums up at most as many bits as a
//! factor has left, so carries stay within the three bits between columns, and a column's lowest
//! bit is the carry-less result. Where BearSSL multiplies 64-bit words for the lower half of a
//! product and reversed ones for the upper half, we multiply 32-bit words with all 64 bits of the
//! result, nine times (two levels of Karatsuba) for a block, and several blocks side by side:
//! such products are what vector units have even on old processors (`pmuludq` of SSE2).

use zeroize::Zeroize;

/// Every fourth bit of a product.
const QUARTER: u64 = 0x1111_1111_1111_1111;

/// Every fourth bit of a 32-bit factor.
const WORD_QUARTER: u32 = 0x1111_1111;

/// What one of a block's nine multiplications has in each of L lanes.
type Words<const L: usize> = [u32; L];

/// L factors, their 32-bit words and sums taken apart into quarters.
#[derive(Clone, Zeroize)]
pub(super) struct Factors<const L: usize>([[Words<L>; 4]; 9]);

impl<const L: usize> Factors<L> {
    pub(super) fn new(values: [u128; L]) -> Self {
        let words = side_by_side(&values);
        Self(
            words
                .map(|lanes| std::array::from_fn(|i| lanes.map(|word| word & (WORD_QUARTER << i)))),
        )
    }
}

/// The four words of a value and the five sums that Karatsuba's method multiplies.
fn karatsuba(value: u128) -> [u32; 9] {
    let [a, b, c, d] = std::array::from_fn(|i| (value >> (32 * i)) as u32);
    [a, b, a ^ b, c, d, c ^ d, a ^ c, b ^ d, a ^ b ^ c ^ d]
}

#[inline(always)]
fn side_by_side<const L: usize>(values: &[u128; L]) -> [Words<L>; 9] {
    let mut words = [[0; L]; 9];
    for (lane, &value) in values.iter().enumerate() {
        for (words, word) in words.iter_mut().zip(karatsuba(value)) {
            words[lane] = word;
        }
    }
    words
}

/// The sum of the products of `values` with as many `factors`: the lower and the upper 128 bits.
#[inline(always)]
pub(super) fn sum_of_products<const L: usize>(
    values: [u128; L],
    factors: &Factors<L>,
) -> (u128, u128) {
    let sums = word_products(&values, factors);
    let join = |low: u64, high: u64, both: u64| {
        u128::from(low) ^ u128::from(low ^ high ^ both) << 32 ^ u128::from(high) << 64
    };
    let low = join(sums[0], sums[1], sums[2]);
    let high = join(sums[3], sums[4], sums[5]);
    let middle = low ^ high ^ join(sums[6], sums[7], sums[8]);
    (low ^ (middle << 64), high ^ (middle >> 64))
}

/// For each of the nine words, the sum over all lanes of its products.
#[inline(always)]
fn word_products<const L: usize>(values: &[u128; L], factors: &Factors<L>) -> [u64; 9] {
    #[cfg(target_arch = "x86_64")]
    if const { L.is_multiple_of(FOUR) } && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: this machine has the instructions.
        return unsafe { by_fours(values, factors) };
    }
    let words = side_by_side(values);
    let mut sums = [0; 9];
    for ((sum, words), quarters) in sums.iter_mut().zip(&words).zip(&factors.0) {
        *sum = multiply(words, quarters);
    }
    sums
}

/// Products in a register of AVX2.
#[cfg(target_arch = "x86_64")]
const FOUR: usize = 4;

/// [`word_products`] with four lanes at a time in loops that become single instructions of AVX2
/// (1.5 times as fast as [`multiply`], which is faster with SSE2).
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn by_fours<const L: usize>(values: &[u128; L], factors: &Factors<L>) -> [u64; 9] {
    let words = side_by_side(values);
    let mut sums = [0; 9];
    for ((sum, words), quarters) in sums.iter_mut().zip(&words).zip(&factors.0) {
        let mut lanes = [0; FOUR];
        for start in (0..L).step_by(FOUR) {
            let mut columns = [[0; FOUR]; 4];
            for i in 0..4 {
                let mut quarter = [0; FOUR];
                for lane in 0..FOUR {
                    quarter[lane] = u64::from(words[start + lane] & (WORD_QUARTER << i));
                }
                for j in 0..4 {
                    for lane in 0..FOUR {
                        let other = u64::from(quarters[j][start + lane]);
                        columns[(i + j) % 4][lane] ^= quarter[lane] * other;
                    }
                }
            }
            for (residue, column) in columns.iter().enumerate() {
                for lane in 0..FOUR {
                    lanes[lane] ^= column[lane] & (QUARTER << residue);
                }
            }
        }
        *sum = lanes.into_iter().fold(0, |sum, lane| sum ^ lane);
    }
    sums
}

/// The sum over all lanes of the 64-bit products of 32-bit words.
///
/// A function of its own and never inlined, so that the compiler vectorises its loop.
#[inline(never)]
fn multiply<const L: usize>(words: &Words<L>, quarters: &[Words<L>; 4]) -> u64 {
    // Columns of the same residue; the carries between them are cut off once for all lanes.
    let mut columns = [0; 4];
    for lane in 0..L {
        for i in 0..4 {
            let quarter = words[lane] & (WORD_QUARTER << i);
            for j in 0..4 {
                let other = quarters[j][lane];
                columns[(i + j) % 4] ^= u64::from(quarter) * u64::from(other);
            }
        }
    }
    (0..4).fold(0, |sum, residue| {
        sum ^ columns[residue] & (QUARTER << residue)
    })
}

/// The square of a polynomial, whose coefficients are its own with zeros between them.
pub(super) fn square(value: u128) -> (u128, u128) {
    (spread(value as u64), spread((value >> 64) as u64))
}

fn spread(value: u64) -> u128 {
    const MASKS: [(u32, u128); 6] = [
        (32, 0x0000_0000_ffff_ffff_0000_0000_ffff_ffff),
        (16, 0x0000_ffff_0000_ffff_0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff_00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333_3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555_5555_5555_5555_5555),
    ];
    MASKS.iter().fold(u128::from(value), |x, (shift, mask)| {
        (x | (x << shift)) & mask
    })
}
