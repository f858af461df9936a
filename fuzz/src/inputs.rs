//! Pseudo-random inputs for the checks of a target, where no fuzzer makes them up.

use std::time::{Duration, Instant};

/// Runs a target's checks for two seconds. Every fourth input must get past the first of them.
pub(crate) fn try_nonsense(check: impl Fn(&[u8]) -> bool) {
    // xorshift64: any reproducible bytes will do.
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    let start = Instant::now();
    let (mut inputs, mut tried) = (0, 0);
    while inputs < 200 || start.elapsed() < Duration::from_secs(2) {
        let len = usize::from(next()) % 100;
        let data: Vec<u8> = (0..len).map(|_| next()).collect();
        tried += usize::from(check(&data));
        inputs += 1;
    }
    assert!(
        tried > inputs / 4,
        "{tried} of {inputs} inputs came through"
    );
}
