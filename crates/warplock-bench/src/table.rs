//! Tables for people: aligned columns, numbers with three digits that matter, no line over
//! [`WIDTH`] characters if that can be had.

use crate::Sample;
use crate::report::{Column, Role, Unit, Value};

/// Characters of a line.
pub(crate) const WIDTH: usize = 100;

/// Spreads up to this are not shown.
const STEADY: f64 = 0.05;

/// Whether a sample's spread is shown.
pub(crate) fn varies(sample: &Sample) -> bool {
    sample.spread() > STEADY
}

/// The table's text: a table for each value of the columns that have one each, cut into parts where
/// it is too wide. Columns without any value are left out.
pub(crate) fn render(columns: &[Column], rows: &[Vec<Value>]) -> String {
    let tables = tables(columns, rows).into_iter().map(|(heading, rows)| {
        let rows: Vec<_> = rows.into_iter().cloned().collect();
        let text = parts(columns, &rows);
        match heading {
            None => text,
            Some(heading) if heading.ends_with('?') => format!("{heading}\n{text}"),
            Some(heading) => format!("{heading}:\n{text}"),
        }
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// A table's heading, if it has one, and rows.
type Part<'a> = (Option<String>, Vec<&'a Vec<Value>>);

/// The rows, table by table.
pub(crate) fn tables<'a>(columns: &[Column], rows: &'a [Vec<Value>]) -> Vec<Part<'a>> {
    let Some(by) = columns.iter().position(|column| column.role == Role::Table) else {
        return vec![(None, rows.iter().collect())];
    };
    let mut values: Vec<&Value> = Vec::new();
    for row in rows {
        if !values.contains(&&row[by]) {
            values.push(&row[by]);
        }
    }
    let table = |value: &Value| {
        let own = rows.iter().filter(|row| row[by] == *value);
        (Some(format(value, columns[by].unit).0), own.collect())
    };
    values.into_iter().map(table).collect()
}

fn parts(columns: &[Column], rows: &[Vec<Value>]) -> String {
    let is_used = |place: &usize| {
        let column = &columns[*place];
        let has_value = rows.iter().any(|row| row[*place] != Value::None);
        column.role != Role::Table && (has_value || column.role == Role::Name)
    };
    let used: Vec<Shown> = (0..columns.len())
        .filter(is_used)
        .map(|place| Shown::new(&columns[place], rows, place))
        .collect();
    let (names, results): (Vec<_>, Vec<_>) = used.into_iter().partition(|shown| shown.is_name);
    let width = |shown: &[&Shown]| shown.iter().map(|one| one.width() + 2).sum::<usize>();
    let mut text = String::new();
    let mut part: Vec<&Shown> = names.iter().collect();
    for shown in &results {
        if part.len() > names.len() && width(&part) + shown.width() > WIDTH {
            text.push_str(&lines(&part, rows.len()));
            text.push('\n');
            part.truncate(names.len());
        }
        part.push(shown);
    }
    text + &lines(&part, rows.len())
}

/// A column as text.
struct Shown {
    is_name: bool,
    is_left: bool,
    heading: Vec<String>,
    /// Numbers, and their spreads.
    cells: Vec<(String, String)>,
    widths: (usize, usize),
}

impl Shown {
    fn new(column: &Column, rows: &[Vec<Value>], place: usize) -> Self {
        let cells = rows.iter().map(|row| format(&row[place], column.unit));
        let cells: Vec<_> = cells.collect();
        let widest = |of: fn(&(String, String)) -> &String| {
            let lens = cells.iter().map(|cell| of(cell).chars().count());
            lens.max().unwrap_or(0)
        };
        Shown {
            is_name: column.role == Role::Name,
            is_left: column.unit == Unit::Text,
            heading: column.title.lines().map(str::to_owned).collect(),
            widths: (widest(|cell| &cell.0), widest(|cell| &cell.1)),
            cells,
        }
    }

    fn width(&self) -> usize {
        let heading = self.heading.iter().map(|line| line.chars().count());
        heading
            .max()
            .unwrap_or(0)
            .max(self.widths.0 + self.widths.1)
    }

    fn cell(&self, row: usize) -> String {
        let ((number, spread), (_, right)) = (&self.cells[row], self.widths);
        self.aligned(&format!("{number}{spread:<right$}"))
    }

    fn aligned(&self, text: &str) -> String {
        let width = self.width();
        match self.is_left {
            true => format!("{text:<width$}"),
            false => format!("{text:>width$}"),
        }
    }
}

/// One part: headings that may have several lines, a rule, the rows.
fn lines(shown: &[&Shown], rows: usize) -> String {
    let depth = shown.iter().map(|one| one.heading.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut line = |cell: &dyn Fn(&Shown) -> String| {
        let cells: Vec<_> = shown.iter().map(|one| cell(one)).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    };
    for level in 0..depth {
        line(&|one| {
            let own = (level + one.heading.len()).checked_sub(depth);
            one.aligned(own.map_or("", |level| &one.heading[level]))
        });
    }
    line(&|one| "-".repeat(one.width()));
    for row in 0..rows {
        line(&|one| one.cell(row));
    }
    text
}

/// A row in one line of at most [`WIDTH`] characters: its names, and then its first results.
pub(crate) fn line(columns: &[Column], row: &[Value]) -> String {
    let cells = || {
        columns
            .iter()
            .zip(row)
            .filter(|cell| *cell.1 != Value::None)
    };
    let shown = |(column, value): (&Column, &Value)| {
        let (number, spread) = format(value, column.unit);
        let title = column.title.replace('\n', " ");
        match column.unit {
            Unit::Text => number,
            _ if title.is_empty() => format!("{number}{spread}"),
            _ => format!("{title} {number}{spread}"),
        }
    };
    let names = cells().filter(|(column, _)| column.role != Role::Result);
    let mut text = names.map(shown).collect::<Vec<_>>().join(", ");
    for cell in cells().filter(|(column, _)| column.role == Role::Result && column.source.is_none())
    {
        let next = format!("; {}", shown(cell));
        if text.chars().count() + next.chars().count() > WIDTH {
            break;
        }
        text.push_str(&next);
    }
    text
}

/// A text in lines of at most `width` characters, which break at spaces.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A value, and its spread if that matters.
pub(crate) fn format(value: &Value, unit: Unit) -> (String, String) {
    let (number, spread) = match value {
        Value::None => return Default::default(),
        Value::Text(text) => return (text.clone(), String::new()),
        Value::Number(number) => (*number, String::new()),
        Value::Measured(sample) if varies(sample) => {
            (sample.median, format!(" ±{:.0}%", 100.0 * sample.spread()))
        }
        Value::Measured(sample) => (sample.median, String::new()),
    };
    let text = match unit {
        Unit::Text => number.to_string(),
        // One digit after the point where it matters.
        Unit::Count if number < 100.0 && number.fract() != 0.0 => format!("{number:.1}"),
        Unit::Count | Unit::Bytes => grouped(number.round() as u64),
        Unit::Seconds => scaled(number, "s"),
        Unit::PerSecond => scaled(number, "/s"),
        Unit::BytesPerSecond => scaled(number, "B/s"),
        Unit::Ratio if number >= 100.0 => grouped(number.round() as u64),
        Unit::Ratio => format!("{number:.2}"),
    };
    (text, spread)
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
        (1e-6, "µ"),
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
    let (number, unit) = (number / scale, format!("{prefix}{unit}"));
    format!("{} {unit}", three_digits(number))
}

/// Three digits that matter, of a number up to a few thousands.
pub(crate) fn three_digits(number: f64) -> String {
    let digits = match number.abs() {
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_matter() {
        assert_eq!(scaled(0.012_345, "s"), "12.3 ms");
        assert_eq!(scaled(999.96, "B/s"), "1.00 kB/s");
        assert_eq!(scaled(2.5e9, "B/s"), "2.50 GB/s");
        assert_eq!(scaled(1.5e-6, "s"), "1.50 µs");
        assert_eq!(scaled(1e-12, "s"), "0.00 ns");
        assert_eq!(scaled(0.0, "s"), "0 s");
        assert_eq!(grouped(102_800_000), "102,800,000");
        assert_eq!(grouped(999), "999");
    }

    #[test]
    fn columns_are_aligned_under_headings_of_several_lines() {
        let columns = [
            Column::new("name", "name", Unit::Text).name(),
            Column::new("time", "one thread\ntime", Unit::Seconds),
            Column::new("empty", "nothing in it", Unit::Seconds),
            Column::new("ratio", "ratio", Unit::Ratio),
        ];
        let rows = [
            vec![
                "a".into(),
                Sample::of([0.5]).into(),
                Value::None,
                1.5.into(),
            ],
            vec![
                "longer".into(),
                Sample::of([0.9, 1.0, 1.3]).into(),
                Value::None,
                10.0.into(),
            ],
        ];
        let expected = "         one thread
name           time  ratio
------  -----------  -----
a       500 ms        1.50
longer  1.00 s ±30%  10.00
";
        assert_eq!(render(&columns, &rows), expected);
    }

    #[test]
    fn wide_tables_are_cut_and_each_part_says_what_its_rows_are() {
        let mut columns = vec![
            Column::new("way", "", Unit::Text).table(),
            Column::new("bytes", "bytes", Unit::Bytes).name(),
        ];
        columns.extend(
            (0..20).map(|n| Column::new(n.to_string(), format!("column {n}"), Unit::Ratio)),
        );
        let row = |way: &str, bytes: f64| {
            let mut row = vec![way.into(), bytes.into()];
            row.extend((0..20).map(|n| Value::Number(f64::from(n))));
            row
        };
        let rows = [row("seal", 64.0), row("open", 64.0), row("seal", 5e6)];
        let table = render(&columns, &rows);
        assert!(
            table.lines().all(|line| line.chars().count() <= WIDTH),
            "{table}"
        );
        assert!(table.starts_with("seal:\n"), "{table}");
        assert!(table.contains("\n\nopen:\n"), "{table}");
        // Three parts for each of two tables.
        assert_eq!(table.matches("    bytes").count(), 3, "{table}");
        assert_eq!(table.matches("5,000,000").count(), 3, "{table}");
    }

    #[test]
    fn a_row_in_one_line() {
        let columns = [
            Column::new("bytes", "bytes", Unit::Bytes).name(),
            Column::new("time", "one\nthread", Unit::Seconds),
            Column::new("theirs", "theirs", Unit::Seconds).quoted("a book"),
        ];
        let row = [1028.0.into(), Sample::of([1e-6]).into(), 5.0.into()];
        assert_eq!(line(&columns, &row), "bytes 1,028; one thread 1.00 µs");
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    }
}
