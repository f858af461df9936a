//! Results as data: rows and columns, the machine that they were measured on, and their output
//! formats.

use std::borrow::Cow;

use serde_json::{Map, json};

use crate::error::Result;
use crate::{Error, Machine, Sample, figures, table};

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

    fn from_name(name: &str) -> Option<Self> {
        use Unit::{Bytes, BytesPerSecond, Count, PerSecond, Ratio, Seconds, Text};
        let all = [
            Text,
            Count,
            Bytes,
            Seconds,
            PerSecond,
            BytesPerSecond,
            Ratio,
        ];
        all.into_iter().find(|unit| unit.name() == name)
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
    pub source: Option<Cow<'static, str>>,
    /// What the column is for in the table.
    pub role: Role,
}

/// What a column is for in the table for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A result.
    Result,
    /// Says what the row is: stands in front of every part of a table that is too wide for one.
    Name,
    /// Each of its values has a table of its own.
    Table,
}

impl Column {
    /// A column of this run's own numbers.
    pub fn new(key: impl Into<String>, title: impl Into<String>, unit: Unit) -> Self {
        Column {
            key: key.into(),
            title: title.into(),
            unit,
            source: None,
            role: Role::Result,
        }
    }

    /// The column as one that says what the row is.
    #[must_use]
    pub fn name(mut self) -> Self {
        self.role = Role::Name;
        self
    }

    /// The column as one whose values have a table each.
    #[must_use]
    pub fn table(mut self) -> Self {
        self.role = Role::Table;
        self
    }

    /// The column with published numbers of others.
    #[must_use]
    pub fn quoted(mut self, source: &'static str) -> Self {
        self.source = Some(Cow::Borrowed(source));
        self
    }

    fn json(&self) -> serde_json::Value {
        let role = match self.role {
            Role::Result => "result",
            Role::Name => "name",
            Role::Table => "table",
        };
        json!({
            "key": self.key,
            "title": self.title.replace('\n', " "),
            "unit": self.unit.name(),
            "role": role,
            "quoted_from": self.source,
        })
    }

    fn from_json(json: &serde_json::Value) -> Option<Self> {
        Some(Column {
            key: json["key"].as_str()?.to_owned(),
            title: json["title"].as_str()?.to_owned(),
            unit: Unit::from_name(json["unit"].as_str()?)?,
            source: json["quoted_from"]
                .as_str()
                .map(|text| text.to_owned().into()),
            role: match json["role"].as_str() {
                Some("name") => Role::Name,
                Some("table") => Role::Table,
                _ => Role::Result,
            },
        })
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
                "p10": sample.low,
                "p90": sample.high,
                "runs": sample.runs,
            }),
        }
    }

    fn from_json(json: &serde_json::Value) -> Self {
        let sample = || {
            let number = |key: &str| json[key].as_f64();
            Some(Sample {
                median: number("median")?,
                min: number("min")?,
                max: number("max")?,
                low: number("p10").or(number("min"))?,
                high: number("p90").or(number("max"))?,
                runs: json["runs"].as_u64()? as usize,
            })
        };
        match json {
            serde_json::Value::String(text) => text.clone().into(),
            serde_json::Value::Number(_) => json.as_f64().into(),
            serde_json::Value::Object(_) => sample().into(),
            _ => Value::None,
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

/// The results of one suite, or of its beginning.
#[derive(Clone, Debug)]
pub struct Report {
    /// The suite's name.
    pub suite: String,
    /// What the table shows, in one line.
    pub title: String,
    /// What is needed to judge the numbers, a line each.
    pub notes: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with a value for every column.
    pub rows: Vec<Vec<Value>>,
    /// Where this was measured.
    pub machine: Machine,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
}

impl Report {
    /// The table for people, with the title above and the machine and the notes below.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let mut lines = |line: &str| {
            for line in table::wrapped(line, table::WIDTH) {
                text.push_str(&line);
                text.push('\n');
            }
        };
        lines(&self.title);
        if self.stopped {
            lines("Stopped before its end: these rows were measured until then.");
        }
        if self.machine.is_busy() {
            lines(&format!(
                "Warning: the machine was busy (load {:.2} before the run): times may be too long, \
                 and vary.",
                self.machine.load.unwrap_or_default()
            ));
        }
        text.push('\n');
        text.push_str(&table::render(&self.columns, &self.rows));
        text.push('\n');
        let mut notes = self.machine.lines();
        if self.has_spread() {
            notes.push(
                "±: distance of the 10th or 90th percentile of the runs from the median, where it \
                 is over 5 %. JSON has all extremes."
                    .to_owned(),
            );
        }
        for line in notes.iter().chain(&self.notes) {
            for line in table::wrapped(line, table::WIDTH) {
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }

    /// A row in one line, to be shown while others are measured.
    pub fn line(&self, row: usize) -> String {
        table::line(&self.columns, &self.rows[row])
    }

    fn has_spread(&self) -> bool {
        let mut values = self.rows.iter().flatten();
        values.any(|value| matches!(value, Value::Measured(sample) if table::varies(sample)))
    }

    /// The place of a column.
    pub(crate) fn column(&self, key: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.key == key)
    }

    /// Everything, for machines. Rows are objects whose names are the columns' keys; a measured
    /// value is an object with `median`, `min`, `max`, `p10`, `p90` and `runs`.
    pub fn json(&self) -> serde_json::Value {
        let row = |row: &Vec<Value>| {
            let keys = self.columns.iter().map(|column| column.key.clone());
            keys.zip(row.iter().map(Value::json)).collect::<Map<_, _>>()
        };
        json!({
            "suite": self.suite,
            "title": self.title,
            "stopped": self.stopped,
            "notes": self.notes,
            "machine": self.machine.json(),
            "columns": self.columns.iter().map(Column::json).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// A report from [`Report::json`].
    ///
    /// # Errors
    /// [`Error::Input`] if it is something else.
    pub fn from_json(json: &serde_json::Value) -> Result<Self> {
        let parsed = || {
            let list = |key: &str| json[key].as_array();
            let columns = list("columns")?.iter().map(Column::from_json);
            let columns = columns.collect::<Option<Vec<_>>>()?;
            let row = |row: &serde_json::Value| {
                let cell = |column: &Column| Value::from_json(&row[&column.key]);
                columns.iter().map(cell).collect()
            };
            let note = |note: &serde_json::Value| note.as_str().map(str::to_owned);
            Some(Report {
                suite: json["suite"].as_str()?.to_owned(),
                title: json["title"].as_str()?.to_owned(),
                notes: list("notes")?.iter().filter_map(note).collect(),
                rows: list("rows")?.iter().map(row).collect(),
                machine: Machine::from_json(&json["machine"]),
                stopped: json["stopped"].as_bool().unwrap_or(false),
                columns,
            })
        };
        parsed().ok_or_else(|| Error::Input("this JSON is no report of a suite".to_owned()))
    }

    /// The results as a figure: an SVG document of its own, with the machine and the sources of
    /// quoted points in its caption.
    ///
    /// # Errors
    /// [`crate::Error::Plot`] if there is nothing to draw.
    pub fn svg(&self) -> Result<String> {
        figures::figure(self)?.svg()
    }

    /// The same figure as a PNG file.
    ///
    /// # Errors
    /// As [`Report::svg`].
    #[cfg(feature = "png")]
    pub fn png(&self) -> Result<Vec<u8>> {
        figures::figure(self)?.png()
    }
}
