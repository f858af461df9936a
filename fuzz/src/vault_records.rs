//! Arbitrary bytes as what a vault finds when it has opened a sealed record. Whoever wraps a vault
//! of its own for somebody else's public key chooses these.

use warplock_vault::fuzzing::RECORDS;

/// Whether the parser took the input.
pub(crate) fn check(data: &[u8]) -> bool {
    let Some((&choice, rest)) = data.split_first() else {
        return false;
    };
    let (_, parse) = RECORDS[usize::from(choice) % RECORDS.len()];
    // Records of a fixed length are reached from few bytes.
    let [low, high, tail @ ..] = rest else {
        return parse(rest);
    };
    let mut long = tail.to_vec();
    long.resize(usize::from(u16::from_le_bytes([*low, *high])) % 4096, 0);
    parse(rest) | parse(&long)
}
