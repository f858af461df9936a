//! Arbitrary text as values on the command line: ranges, hexadecimal digits, names of backends and
//! algorithms.

use warplock::{Algorithm, BackendChoice};

#[path = "../../crates/warplock-cli/src/hex.rs"]
mod hex;
#[allow(dead_code, reason = "the command line reads the fields")]
#[path = "../../crates/warplock-cli/src/range.rs"]
mod range;
#[path = "../../crates/warplock-cli/src/size.rs"]
mod size;

/// Whether any of the parsers took the input.
pub(crate) fn check(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let range = text.parse::<range::Range>();
    if let Ok(range) = range {
        assert!(range.end.is_none_or(|end| range.start <= end));
    }
    let bytes = hex::decode(text);
    match &bytes {
        Ok(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digits, text.to_ascii_lowercase());
        }
        // A sentence of its own: the digits may be a key.
        Err(error) => {
            assert!(error.starts_with("character ") || error.ends_with("one is missing"));
        }
    }
    let choice = text.parse::<BackendChoice>();
    if let Ok(choice) = &choice {
        let again = choice.to_string().parse::<BackendChoice>();
        assert_eq!(again.as_ref().ok(), Some(choice));
    }
    let algorithm = text.parse::<Algorithm>();
    if let Ok(algorithm) = &algorithm {
        assert!(algorithm.to_string().eq_ignore_ascii_case(text));
    }
    range.is_ok() | bytes.is_ok() | choice.is_ok() | algorithm.is_ok()
}
