//! Axes: the places of numbers, and which of them are named.

use crate::Error;
use crate::error::Result;
use crate::table::{grouped, scaled};

/// How an axis writes its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Numbers {
    /// As they are: 0.05, 1,000. The label names the unit.
    Plain,
    /// With units of bytes.
    Bytes,
}

/// An axis on which each step multiplies: all values are above zero.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// The quantity and its unit.
    pub(crate) label: String,
    pub(crate) numbers: Numbers,
}

impl Axis {
    pub(crate) fn new(label: &str, numbers: Numbers) -> Self {
        Axis {
            label: label.to_owned(),
            numbers,
        }
    }

    /// The axis for some values, the extent of which it covers.
    pub(super) fn scale(&self, values: &[f64]) -> Result<Scale> {
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !(min.is_finite() && max.is_finite()) {
            return Err(Error::Plot("there are no numbers".to_owned()));
        }
        if min <= 0.0 {
            return Err(Error::Plot(format!(
                "{min} cannot be shown on a logarithmic axis"
            )));
        }
        // Powers of two are named as such.
        let is_binary = |value: f64| value.fract() == 0.0 && (value as u64).is_power_of_two();
        Ok(Scale {
            numbers: self.numbers,
            binary: values.iter().all(|&value| is_binary(value)),
            low: min / 1.2,
            high: max * 1.2,
        })
    }
}

/// An axis with its extent.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    numbers: Numbers,
    binary: bool,
    low: f64,
    high: f64,
}

impl Scale {
    /// Where a value lies, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        (value / self.low).ln() / (self.high / self.low).ln()
    }

    /// Round values and their names, at most about `most` of them.
    pub(super) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let values = match self.binary {
            true => self.powers_of_two(most),
            false => self.decades(most),
        };
        let name = |value: f64| (value, self.name(value));
        values.into_iter().map(name).collect()
    }

    fn powers_of_two(&self, most: usize) -> Vec<f64> {
        let (first, last) = (
            self.low.log2().ceil() as i32,
            self.high.log2().floor() as i32,
        );
        let step = (last - first) / most.max(1) as i32 + 1;
        let powers = (first..=last).step_by(step as usize);
        powers.map(|power| 2_f64.powi(power)).collect()
    }

    fn decades(&self, most: usize) -> Vec<f64> {
        let (first, last) = (
            self.low.log10().floor() as i32,
            self.high.log10().ceil() as i32,
        );
        let within = |value: &f64| (self.low..=self.high).contains(value);
        for digits in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
            let all =
                (first..=last).flat_map(|power| digits.iter().map(move |d| decimal(*d, power)));
            let all: Vec<f64> = all.filter(within).collect();
            if all.len() <= most && !all.is_empty() {
                // Of an extent within one step: its ends.
                return match all.len() {
                    1 if digits.len() == 3 => vec![all[0], self.high / 1.2],
                    _ => all,
                };
            }
        }
        let step = (last - first) / most.max(1) as i32 + 1;
        let powers = (first..=last).filter(|power| power % step == 0);
        powers
            .map(|power| decimal(1.0, power))
            .filter(within)
            .collect()
    }

    fn name(&self, value: f64) -> String {
        match self.numbers {
            Numbers::Bytes if self.binary => crate::size::name(value as u64),
            Numbers::Bytes => {
                let text = scaled(value, "B");
                let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
                format!("{} {unit}", without_zeros(number))
            }
            Numbers::Plain if value >= 1000.0 => grouped(value.round() as u64),
            Numbers::Plain => {
                // Enough digits for the first that is not zero, and one more.
                let first = value.abs().max(1e-12).log10().floor();
                let digits = (1.0 - first).clamp(0.0, 12.0) as usize;
                without_zeros(&format!("{value:.digits$}")).to_owned()
            }
        }
    }
}

/// `digit` at a power of ten, without the noise of multiplying.
fn decimal(digit: f64, power: i32) -> f64 {
    match power < 0 {
        true => digit / 10_f64.powi(-power),
        false => digit * 10_f64.powi(power),
    }
}

/// Without zeros at a decimal fraction's end.
fn without_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis, values: &[f64], most: usize) -> Vec<String> {
        let ticks = axis.scale(values).unwrap().ticks(most);
        ticks.into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn numbers_are_written_as_people_write_them() {
        let bytes = Axis::new("", Numbers::Bytes);
        let sizes = [64.0, 1024.0, f64::from(64 << 20)];
        assert_eq!(
            names(&bytes, &sizes, 6),
            ["64 B", "1 KiB", "16 KiB", "256 KiB", "4 MiB", "64 MiB"]
        );
        assert_eq!(
            names(&bytes, &[1028.0, 1e6], 6),
            ["1 kB", "10 kB", "100 kB", "1 MB"]
        );
        let plain = Axis::new("", Numbers::Plain);
        assert_eq!(
            names(&plain, &[0.001, 100.0], 8),
            ["0.001", "0.01", "0.1", "1", "10", "100"]
        );
        assert_eq!(names(&plain, &[0.2, 0.5], 8), ["0.2", "0.5"]);
        assert_eq!(
            names(&plain, &[1.0, 4096.0], 4),
            ["1", "16", "256", "4,096"]
        );
    }
}
