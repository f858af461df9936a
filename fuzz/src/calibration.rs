//! Arbitrary bytes as a calibration file, and a valid one with arbitrary changes.

use std::sync::OnceLock;

use warplock::fuzzing;

use super::changes::change;

/// Whether the file was used.
pub(crate) fn check(data: &[u8]) -> bool {
    static VALID: OnceLock<String> = OnceLock::new();
    let Some((&choice, rest)) = data.split_first() else {
        return false;
    };
    if choice % 4 == 0 {
        return fuzzing::calibration(&String::from_utf8_lossy(rest));
    }
    let valid = VALID.get_or_init(fuzzing::calibration_text);
    let mut changed = valid.clone().into_bytes();
    change(&mut changed, rest, 4);
    fuzzing::calibration(&String::from_utf8_lossy(&changed))
}
