//! Hexadecimal digits on the command line.

use zeroize::Zeroizing;

/// The bytes that `text` stands for; an error does not show it, as it may be a key.
pub(crate) fn decode(text: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let digits = text.as_bytes();
    let value = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
    // The digit itself stays unsaid: it may be part of a key.
    if let Some(place) = digits.iter().position(|&digit| value(digit).is_none()) {
        return Err(format!(
            "character {} is not a hex digit; give hex digits without spaces, or @FILE",
            place + 1
        ));
    }
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(format!(
            "{} hex digits are no whole bytes: one is missing",
            digits.len()
        ));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
    bytes.extend(
        pairs
            .iter()
            .filter_map(|&[high, low]| Some(value(high)? << 4 | value(low)?)),
    );
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_in_either_case() {
        assert_eq!(*decode("00fFAa10").unwrap(), [0, 0xFF, 0xAA, 0x10]);
        assert!(decode("").unwrap().is_empty());
    }

    #[test]
    fn errors_do_not_show_the_value() {
        for (text, says) in [
            ("abc", "one is missing"),
            ("secret", "character 1 "),
            ("00 11", "character 3 "),
        ] {
            let error = decode(text).unwrap_err();
            assert!(error.contains(says) && !error.contains(text), "{error}");
        }
    }
}
