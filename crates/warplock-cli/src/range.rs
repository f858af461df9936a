//! A range of bytes on the command line: `A..B`, `A..`, `..B`.

use std::str::FromStr;

use super::size;

/// From `start` up to, but not including, `end`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// First byte.
    pub(crate) start: u64,
    /// The byte after the last one; `None`: to the end.
    pub(crate) end: Option<u64>,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = || {
            "a range is A..B, with B not below A, in bytes or as in 1MiB..2GB; either may be left out"
                .to_owned()
        };
        let number = |text: &str| size::parse(text).map_err(|_| rule());
        let (start, end) = text.split_once("..").ok_or_else(rule)?;
        let start = if start.is_empty() { 0 } else { number(start)? };
        let end = if end.is_empty() {
            None
        } else {
            Some(number(end)?)
        };
        if end.is_some_and(|end| end < start) {
            return Err(rule());
        }
        Ok(Range { start, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (text, start, end) in [
            ("5..9", 5, Some(9)),
            ("5..", 5, None),
            ("..9", 0, Some(9)),
            ("..", 0, None),
            ("7..7", 7, Some(7)),
            ("1KiB..2kB", 1024, Some(2000)),
            ("1MiB..", 1 << 20, None),
            ("0..18446744073709551615", 0, Some(u64::MAX)),
        ] {
            assert_eq!(text.parse(), Ok(Range { start, end }), "{text}");
        }
        for text in [
            "",
            "5",
            "9..5",
            "a..b",
            "-1..5",
            "1...5",
            "1..5 apples",
            "2k..1KiB",
            "18446744073709551616..",
        ] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }
}
