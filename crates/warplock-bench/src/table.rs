//! Tables for people: aligned columns, numbers with three digits that matter.

use crate::report::{Column, Unit, Value};

/// The table's text. Headings may have several lines; numbers stand right, names left.
pub(crate) fn render(columns: &[Column], rows: &[Vec<Value>]) -> String {
    let headings: Vec<Vec<&str>> = columns
        .iter()
        .map(|column| column.title.lines().collect())
        .collect();
    let depth = headings.iter().map(Vec::len).max().unwrap_or(0);
    let mut lines: Vec<Vec<String>> = (0..depth)
        .map(|line| {
            let part = |heading: &Vec<&str>| {
                let line = (line + heading.len()).checked_sub(depth);
                line.map_or_else(String::new, |line| heading[line].to_owned())
            };
            headings.iter().map(part).collect()
        })
        .collect();
    for row in rows {
        let cell = |(value, column): (&Value, &Column)| format(value, column.unit);
        lines.push(row.iter().zip(columns).map(cell).collect());
    }
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| {
            let width = |line: &Vec<String>| line[column].chars().count();
            lines.iter().map(width).max().unwrap_or(0)
        })
        .collect();
    let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    lines.insert(depth, rule);

    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for ((cell, column), &width) in line.iter().zip(columns).zip(&widths) {
            if !row.is_empty() {
                row.push_str("  ");
            }
            row.push_str(&match column.unit {
                Unit::Text => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

fn format(value: &Value, unit: Unit) -> String {
    let number = match value {
        Value::None => return String::new(),
        Value::Text(text) => return text.clone(),
        Value::Number(number) => *number,
        Value::Measured(sample) => sample.median,
    };
    match unit {
        Unit::Text => number.to_string(),
        // One digit after the point where it matters.
        Unit::Count if number < 100.0 && number.fract() != 0.0 => format!("{number:.1}"),
        Unit::Count | Unit::Bytes => grouped(number.round() as u64),
        Unit::Seconds => scaled(number, "s"),
        Unit::PerSecond => scaled(number, "").trim_end().to_owned(),
        Unit::BytesPerSecond => scaled(number, "B/s"),
        Unit::Ratio => format!("{number:.2}"),
    }
}

/// A whole number with commas.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits that matter, with an SI prefix: `12.3 ms`.
pub(crate) fn scaled(number: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 8] = [
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
        (1.0, ""),
        (1e-3, "m"),
        (1e-6, "u"),
        (1e-9, "n"),
    ];
    if number == 0.0 {
        return format!("0 {unit}");
    }
    // The prefix fits the rounded number: 999.9 is 1.00 k.
    let (scale, prefix) = PREFIXES
        .into_iter()
        .find(|(scale, _)| number.abs() / scale >= 0.9995)
        .unwrap_or(PREFIXES[PREFIXES.len() - 1]);
    let number = number / scale;
    let digits = match number.abs() {
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$} {prefix}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;

    #[test]
    fn numbers_have_three_digits_that_matter() {
        assert_eq!(scaled(0.012_345, "s"), "12.3 ms");
        assert_eq!(scaled(999.96, "B/s"), "1.00 kB/s");
        assert_eq!(scaled(2.5e9, "B/s"), "2.50 GB/s");
        assert_eq!(scaled(1.5e-7, "s"), "150 ns");
        assert_eq!(scaled(1e-12, "s"), "0.00 ns");
        assert_eq!(scaled(0.0, "s"), "0 s");
        assert_eq!(grouped(102_800_000), "102,800,000");
        assert_eq!(grouped(999), "999");
    }

    #[test]
    fn columns_are_aligned_under_headings_of_several_lines() {
        let columns = [
            Column::new("name", "name", Unit::Text),
            Column::new("time", "one thread\ntime", Unit::Seconds),
            Column::new("ratio", "ratio", Unit::Ratio),
        ];
        let rows = [
            vec!["a".into(), Sample::of([0.5]).into(), 1.5.into()],
            vec!["longer".into(), Value::None, 10.0.into()],
        ];
        let expected = "        one thread
name          time  ratio
------  ----------  -----
a           500 ms   1.50
longer              10.00
";
        assert_eq!(render(&columns, &rows), expected);
    }
}
