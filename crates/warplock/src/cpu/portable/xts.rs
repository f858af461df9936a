//! Tweaks of XTS (IEEE 1619, NIST SP 800-38E): a block is a polynomial whose coefficient of x^i
//! is bit `i` of the block as a little-endian integer, modulo x^128 + x^7 + x^2 + x + 1.

use super::clmul::{Factors, square, sum_of_products};

/// The tweak of the next block: times x.
pub(crate) fn xts_double(tweak: [u8; 16]) -> [u8; 16] {
    double(u128::from_le_bytes(tweak)).to_le_bytes()
}

/// The tweak `blocks` blocks further on: times x^blocks. Constant time in the tweak; the count is
/// public.
pub(crate) fn xts_skip(tweak: [u8; 16], blocks: u64) -> [u8; 16] {
    // The highest bits of the exponent, up to 127, are a shift; each lower one squares the power
    // and perhaps doubles it.
    let lower_bits = 64u32.saturating_sub(blocks.leading_zeros() + 7);
    let mut power = 1u128 << (blocks >> lower_bits);
    for bit in (0..lower_bits).rev() {
        power = reduce(square(power));
        if (blocks >> bit) & 1 == 1 {
            power = double(power);
        }
    }
    // The tweak is the secret, the power is not; the multiplication treats both alike.
    reduce(sum_of_products(
        [u128::from_le_bytes(tweak)],
        &Factors::new([power]),
    ))
    .to_le_bytes()
}

fn double(value: u128) -> u128 {
    (value << 1) ^ (0x87 & 0u128.wrapping_sub(value >> 127))
}

fn reduce((low, high): (u128, u128)) -> u128 {
    // Bits that folding the upper half pushes past degree 127 again are added to it first.
    let high = high ^ (high >> 127) ^ (high >> 126) ^ (high >> 121);
    low ^ high ^ (high << 1) ^ (high << 2) ^ (high << 7)
}
