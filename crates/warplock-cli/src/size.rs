//! Sizes on the command line.

/// Reads a number of bytes: digits, then nothing or `B`, `kB`, `MB`, `GB`, `TB` (powers of 1000)
/// or `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024), in capitals or not.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is no size: write digits and a unit, as in 512, 100kB or 1MiB");
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let scale: u64 = match unit.as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(scale).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_nonsense_is_refused() {
        for (text, bytes) in [
            ("0", 0),
            ("999", 999),
            ("1 kB", 1_000),
            ("1K", 1_000),
            ("1001 B", 1_001),
            ("128 KiB", 1 << 17),
            ("1 MiB", 1 << 20),
            ("4GB", 4_000_000_000),
            ("4 gib", 1 << 32),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "kB", "-1", "1.5MB", "1 parsec", "99999999999TB"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }
}
