//! Sizes as people write them.

/// A size exactly, in the unit that needs the fewest digits.
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
    fn sizes_are_named_exactly_or_to_three_digits() {
        assert_eq!(name(128 << 20), "128 MiB");
        assert_eq!(name(6_135_123), "6135123 B");
        assert_eq!(about(6_135_123), "6.14 MB");
        assert_eq!(title(102_800_000), "102,800,000 bytes");
        assert_eq!(title(1 << 30), "1 GiB");
    }
}
