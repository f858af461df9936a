//! Figures of bars: contenders and tasks with names.

use super::{GIGA, Table};
use crate::plot::{Bar, Bars, Chart, Origin, Panel, Point};
use crate::report::Value;
use crate::size;
use crate::suite::{KERNELS_COPY, RATE_OF_COPY};

fn bars(title: &str, bars: Vec<Bar>, limit: Option<(String, f64)>) -> Vec<Panel> {
    panel(title, bars, Origin::Zero, limit)
}

fn panel(title: &str, bars: Vec<Bar>, origin: Origin, limit: Option<(String, f64)>) -> Vec<Panel> {
    vec![Panel {
        title: title.to_owned(),
        chart: Chart::Bars(Bars {
            bars,
            origin,
            limit,
        }),
    }]
}

pub(super) fn files(table: &Table<'_>) -> Vec<Panel> {
    let bar = |row: &Vec<Value>| {
        Some(Bar {
            group: String::new(),
            name: table.text(row, "contender"),
            value: Point::of(0.0, table.value(row, "rate"), |rate| rate / GIGA)?,
            quoted: false,
        })
    };
    let is_copy = |row: &&Vec<Value>| table.text(row, "contender") == RATE_OF_COPY;
    let copy = table
        .rows()
        .find(is_copy)
        .and_then(|row| table.number(row, "rate"));
    let others = table.rows().filter(|row| !is_copy(row)).filter_map(bar);
    let limit = copy.map(|rate| ("limit: a copy", rate / GIGA));
    let limit = limit.map(|(name, rate)| (name.to_owned(), rate));
    bars("GB/s of encryption and decryption", others.collect(), limit)
}

pub(super) fn kernels(table: &Table<'_>) -> Vec<Panel> {
    let largest = table
        .rows()
        .filter_map(|row| table.number(row, "bytes"))
        .fold(0.0, f64::max);
    // Larger sizes have fewer cases: the size with the most rows is shown.
    let count = |size: f64| {
        table
            .rows()
            .filter(|row| table.number(row, "bytes") == Some(size))
            .count()
    };
    let sizes = table.rows().filter_map(|row| table.number(row, "bytes"));
    let shown = sizes
        .max_by_key(|&size| (count(size), size as u64))
        .unwrap_or(largest);
    let rows = || {
        table
            .rows()
            .filter(|row| table.number(row, "bytes") == Some(shown))
    };
    let rate = |row: &Vec<Value>| Point::of(0.0, table.value(row, "rate"), |rate| rate / GIGA);
    let is_copy = |row: &&Vec<Value>| table.text(row, "kernel") == KERNELS_COPY;
    let bar = |row: &Vec<Value>| {
        let name = table.text(row, "kernel");
        let (algorithm, rest) = match name.split_once(' ') {
            Some((algorithm, rest)) => {
                (algorithm.trim_end_matches(',').to_owned(), rest.to_owned())
            }
            None => (name.clone(), "one key".to_owned()),
        };
        Some(Bar {
            group: algorithm,
            name: rest,
            value: rate(row)?,
            quoted: false,
        })
    };
    let copy = rows().find(is_copy).and_then(rate);
    let limit = copy.map(|copy| ("limit: a copy".to_owned(), copy.y));
    let title = format!("GB/s on {}", size::name(shown as u64));
    bars(
        &title,
        rows().filter(|row| !is_copy(row)).filter_map(bar).collect(),
        limit,
    )
}

pub(super) fn calls(table: &Table<'_>) -> Vec<Panel> {
    let bar = |row: &Vec<Value>| {
        let name = table.text(row, "batch");
        let (group, name) = name.split_once(", ").unwrap_or(("", &name));
        Some(Bar {
            group: group.to_owned(),
            name: name.to_owned(),
            value: Point::of(0.0, table.value(row, "any_byte"), |rate| rate / GIGA)?,
            quoted: false,
        })
    };
    bars(
        "GB/s, messages at any byte",
        table.rows().filter_map(bar).collect(),
        None,
    )
}

pub(super) fn fs(table: &Table<'_>) -> Vec<Panel> {
    let Some(bare) = table.rows().next() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    let tasks = table
        .0
        .columns
        .iter()
        .filter(|column| !matches!(column.key.as_str(), "fs" | "on_gpus"));
    for column in tasks {
        let Some(base) = table.number(bare, &column.key) else {
            continue;
        };
        let seconds = column.unit == crate::Unit::Seconds;
        for row in table.rows().skip(1) {
            let share = |value: f64| if seconds { base / value } else { value / base };
            if let Some(value) = Point::of(0.0, table.value(row, &column.key), share) {
                all.push(Bar {
                    group: column.title.replace('\n', " "),
                    name: table.text(row, "fs"),
                    value,
                    quoted: false,
                });
            }
        }
    }
    bars(
        "bare folder = 1",
        all,
        Some(("bare folder".to_owned(), 1.0)),
    )
}

pub(super) fn questions(table: &Table<'_>) -> Vec<Panel> {
    let bar = |row: &Vec<Value>| {
        Some(Bar {
            group: table.text(row, "comparison"),
            name: format!("{} bytes", table.text(row, "size")),
            value: Point::of(0.0, table.value(row, "factor"), |factor| factor)?,
            quoted: false,
        })
    };
    let is_paper = |row: &Vec<Value>| {
        let factor = table.text(row, "comparison").contains(" / ");
        let size = table.text(row, "size");
        let size = size.ends_with("32,000") || size == "67,108,864";
        factor && size && table.number(row, "bits") == Some(128.0)
    };
    let shown = table.rows().filter(|row| is_paper(row));
    let equal = Some(("equally fast".to_owned(), 1.0));
    panel(
        "AES-128, times as fast",
        shown.filter_map(bar).collect(),
        Origin::One,
        equal,
    )
}

pub(super) fn peers(table: &Table<'_>) -> Vec<Panel> {
    let bar = |row: &Vec<Value>| {
        let name = table.text(row, "task");
        let (group, name) = name.split_once(", ").unwrap_or(("", &name));
        Some(Bar {
            group: group.to_owned(),
            name: name.to_owned(),
            value: Point::of(0.0, table.value(row, "ratio"), |ratio| ratio)?,
            quoted: false,
        })
    };
    let limit = Some(("fastest other".to_owned(), 1.0));
    bars(
        "speed over the fastest other library",
        table.rows().filter_map(bar).collect(),
        limit,
    )
}
