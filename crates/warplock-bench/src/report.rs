//! Results as data: rows and columns, the machine that they were measured on, and their output
//! formats.

use serde_json::{Map, json};

use crate::error::Result;
use crate::plot::Plot;
use crate::{Machine, Sample, table};

/// What a column's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// No numbers: names.
    Text,
    /// Whole numbers, or numbers whose unit the title names.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Something per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// One number divided by another.
    Ratio,
}

impl Unit {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Text => "text",
            Unit::Count => "number",
            Unit::Bytes => "bytes",
            Unit::Seconds => "seconds",
            Unit::PerSecond => "per second",
            Unit::BytesPerSecond => "bytes per second",
            Unit::Ratio => "ratio",
        }
    }
}

/// A column of a report.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name in JSON.
    pub key: String,
    /// Its heading for people; may have several lines.
    pub title: String,
    /// What its numbers are.
    pub unit: Unit,
    /// Where the numbers come from, if they were not measured in this run.
    pub source: Option<&'static str>,
}

impl Column {
    /// A column of this run's own numbers.
    pub fn new(key: impl Into<String>, title: impl Into<String>, unit: Unit) -> Self {
        Column {
            key: key.into(),
            title: title.into(),
            unit,
            source: None,
        }
    }

    /// The column with published numbers of others.
    #[must_use]
    pub fn quoted(mut self, source: &'static str) -> Self {
        self.source = Some(source);
        self
    }
}

/// One cell of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing to say.
    None,
    /// A name.
    Text(String),
    /// A given, quoted or derived number, in the column's unit.
    Number(f64),
    /// Measured in this run and verified.
    Measured(Sample),
}

impl Value {
    /// The number, or the median of the measured ones.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Measured(sample) => Some(sample.median),
            Value::None | Value::Text(_) => None,
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Value::None => serde_json::Value::Null,
            Value::Text(text) => json!(text),
            Value::Number(number) => json!(number),
            Value::Measured(sample) => json!({
                "median": sample.median,
                "min": sample.min,
                "max": sample.max,
                "runs": sample.runs,
            }),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Number(number)
    }
}

impl From<Sample> for Value {
    fn from(sample: Sample) -> Self {
        Value::Measured(sample)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::None, Into::into)
    }
}

/// The results of one suite.
#[derive(Clone, Debug)]
pub struct Report {
    /// The suite's name.
    pub suite: &'static str,
    /// What the table shows, in one line.
    pub title: String,
    /// What is needed to judge the numbers, a line each.
    pub notes: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with a value for every column.
    pub rows: Vec<Vec<Value>>,
    /// What to draw.
    pub plot: Plot,
    /// Where this was measured.
    pub machine: Machine,
}

impl Report {
    /// The table for people, with the title above and the machine and the notes below.
    pub fn table(&self) -> String {
        let mut text = format!("{}\n\n", self.title);
        text.push_str(&table::render(&self.columns, &self.rows));
        text.push('\n');
        for line in self.machine.lines().iter().chain(&self.notes) {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// Everything, for machines. Rows are objects whose names are the columns' keys; a measured
    /// value is an object with `median`, `min`, `max` and `runs`.
    pub fn json(&self) -> serde_json::Value {
        let column = |column: &Column| {
            json!({
                "key": column.key,
                "title": column.title.replace('\n', " "),
                "unit": column.unit.name(),
                "quoted_from": column.source,
            })
        };
        let row = |row: &Vec<Value>| {
            let keys = self.columns.iter().map(|column| column.key.clone());
            keys.zip(row.iter().map(Value::json)).collect::<Map<_, _>>()
        };
        json!({
            "suite": self.suite,
            "title": self.title,
            "notes": self.notes,
            "machine": self.machine.json(),
            "columns": self.columns.iter().map(column).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// The plot as an SVG document.
    ///
    /// # Errors
    /// [`crate::Error::Plot`] if there is nothing to draw.
    pub fn svg(&self) -> Result<String> {
        self.plot.svg()
    }
}
