//! Sizes as people write them.

use crate::Error;

/// Reads a number of bytes: digits, then nothing or `B`, `kB`, `MB`, `GB`, `TB` (powers of 1000)
/// or `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024), in capitals or not.
///
/// # Errors
/// [`Error::Input`] if it is something else, or more than 2^64 bytes.
///
/// ```
/// use warplock_bench::size::parse;
/// assert_eq!(parse("100kB")?, 100_000);
/// assert_eq!(parse("1 MiB")?, 1 << 20);
/// assert!(parse("ten").is_err());
/// # Ok::<(), warplock_bench::Error>(())
/// ```
pub fn parse(text: &str) -> Result<u64, Error> {
    let wrong = || {
        Error::Input(format!(
            "'{text}' is no size: write digits and a unit, as in 512, 100kB or 1MiB"
        ))
    };
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

/// A size exactly, as [`parse`] reads it, in the unit that needs the fewest digits.
///
/// ```
/// use warplock_bench::size::name;
/// assert_eq!(name(100_000), "100 kB");
/// assert_eq!(name(128 << 20), "128 MiB");
/// ```
pub fn name(bytes: u64) -> String {
    let units = [
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "kB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
        (1, "B"),
    ];
    let (scale, unit) = units
        .into_iter()
        .filter(|(scale, _)| bytes >= *scale && bytes.is_multiple_of(*scale))
        .min_by_key(|(scale, _)| bytes / scale)
        .unwrap_or((1, "B"));
    format!("{} {unit}", bytes / scale)
}

/// A size exactly, for people: with commas where a unit would leave many digits.
pub(crate) fn title(bytes: u64) -> String {
    let name = name(bytes);
    match name.split_once(' ') {
        Some((digits, _)) if digits.len() <= 4 => name,
        _ => format!("{} bytes", crate::table::grouped(bytes)),
    }
}

/// A size to three digits, where the rest does not matter.
pub fn about(bytes: u64) -> String {
    crate::table::scaled(bytes as f64, "B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip_and_nonsense_is_refused() {
        for bytes in [
            0,
            1,
            999,
            1_000,
            1_001,
            1 << 17,
            100_000,
            4_000_000_000,
            1 << 32,
        ] {
            assert_eq!(parse(&name(bytes)).unwrap(), bytes);
        }
        assert_eq!(name(128 << 20), "128 MiB");
        assert_eq!(name(6_135_123), "6135123 B");
        assert_eq!(about(6_135_123), "6.14 MB");
        assert_eq!(title(102_800_000), "102,800,000 bytes");
        assert_eq!(title(1 << 30), "1 GiB");
        for text in ["", "kB", "-1", "1.5MB", "1 parsec", "99999999999TB"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }
}
