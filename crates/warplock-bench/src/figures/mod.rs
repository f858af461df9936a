//! The figure of each suite, drawn from its table: from a run's own or from a recorded one.

mod bars;
mod lines;
#[cfg(test)]
mod tests;

use self::bars::{calls, files, fs, kernels, peers, questions};
use self::lines::{aead_batch, cbc_batch, entries, file_sizes, host, sizes};
use crate::Error;
use crate::error::Result;
use crate::plot::{Figure, Panel, Point, Series};
use crate::report::{Report, Value};

/// The figure of a report, with its origin in the caption.
pub(crate) fn figure(report: &Report) -> Result<Figure> {
    let table = Table(report);
    let (title, panels) = match report.suite.as_str() {
        "file-sizes" => (
            "Encrypt and decrypt one buffer in memory",
            file_sizes(&table),
        ),
        "files" => ("From one file to another and back", files(&table)),
        "entries" => (
            "AES-128 with a key for each block of 16 bytes",
            entries(&table),
        ),
        "aead-batch" => (
            "Batches of messages with associated data",
            aead_batch(&table),
        ),
        "cbc-batch" => ("Batches of messages, host to host", cbc_batch(&table)),
        "host" => ("From host memory to host memory", host(&table)),
        "sizes" => (
            "Speed by size, from host memory to host memory",
            sizes(&table),
        ),
        "kernels" => ("Data in GPU memory", kernels(&table)),
        "calls" => (
            "Batches in GPU memory: many lengths, at any byte",
            calls(&table),
        ),
        "fs" => (
            "Mounted file systems: share of the bare folder's speed",
            fs(&table),
        ),
        "questions" => ("The questions: how many times as fast", questions(&table)),
        "peers" => (
            "One thread: Warplock over the fastest other library",
            peers(&table),
        ),
        other => return Err(Error::Plot(format!("the suite {other} has no figure"))),
    };
    let caption = caption(report, panels.iter().any(Panel::has_quoted));
    Ok(Figure {
        title: title.to_owned(),
        panels,
        caption,
    })
}

/// `quotes`: whether the figure shows numbers of others.
fn caption(report: &Report, quotes: bool) -> Vec<String> {
    let mut lines = vec![report.title.clone(), report.machine.caption()];
    let mut state = Vec::new();
    if report.stopped {
        state.push("The run was stopped before its end.");
    }
    if report.machine.is_busy() {
        state.push("The machine was busy.");
    }
    state.push("Points are medians; whiskers: 10th to 90th percentile of the runs.");
    lines.push(state.join(" "));
    if !quotes {
        return lines;
    }
    let mut sources: Vec<&str> = Vec::new();
    let quoted = report
        .columns
        .iter()
        .filter_map(|column| column.source.as_deref());
    let marked = report
        .notes
        .iter()
        .filter_map(|note| note.split_once("quoted: "));
    for source in quoted.chain(marked.map(|(_, source)| source)) {
        let source = source
            .trim_start_matches("quoted from ")
            .trim_start_matches("quoted: ");
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    lines.extend(sources.iter().map(|source| format!("Pale: {source}")));
    lines
}

/// A report's cells by the keys of its columns.
struct Table<'a>(&'a Report);

const GIGA: f64 = 1e9;

impl Table<'_> {
    fn value<'a>(&self, row: &'a [Value], key: &str) -> &'a Value {
        self.0.column(key).map_or(&Value::None, |place| &row[place])
    }

    fn number(&self, row: &[Value], key: &str) -> Option<f64> {
        self.value(row, key).number()
    }

    fn text(&self, row: &[Value], key: &str) -> String {
        match self.value(row, key) {
            Value::Text(text) => text.clone(),
            Value::None => String::new(),
            other => size_or_number(other.number().unwrap_or_default()),
        }
    }

    fn rows(&self) -> impl Iterator<Item = &Vec<Value>> {
        self.0.rows.iter()
    }

    /// The heading of a column in one line.
    fn title(&self, key: &str) -> String {
        let column = self.0.column(key).map(|place| &self.0.columns[place]);
        column.map_or(String::new(), |column| column.title.replace('\n', ", "))
    }

    fn is_quoted(&self, key: &str) -> bool {
        let column = self.0.column(key).map(|place| &self.0.columns[place]);
        column.is_some_and(|column| column.source.is_some())
    }

    /// The points of some rows.
    fn points(
        &self,
        shown: impl Fn(&[Value]) -> bool,
        (x, y): (&str, &str),
        unit: impl Fn(&[Value], f64) -> f64,
    ) -> Vec<Point> {
        let rows = self.rows().filter(|row| shown(row));
        let point = |row: &Vec<Value>| {
            Point::of(self.number(row, x)?, self.value(row, y), |value| {
                unit(row, value)
            })
        };
        let mut points: Vec<_> = rows.filter_map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    }

    fn series(&self, name: impl Into<String>, key: &str, points: Vec<Point>) -> Series {
        Series {
            name: name.into(),
            points,
            quoted: self.is_quoted(key),
        }
    }

    /// Different texts of a column, in order.
    fn texts(&self, key: &str) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for text in self.rows().map(|row| self.text(row, key)) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }
}

fn size_or_number(number: f64) -> String {
    crate::table::grouped(number.round() as u64)
}

fn gb(_: &[Value], rate: f64) -> f64 {
    rate / GIGA
}
