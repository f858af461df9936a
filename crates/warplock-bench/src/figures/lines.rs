//! Figures of lines over sizes or numbers of messages.

use super::{GIGA, Table, gb};
use crate::plot::{Axis, Chart, Lines, Numbers, Panel, Point, Series};
use crate::report::Value;

fn lines(title: &str, x: &str, y: &str, series: Vec<Series>) -> Panel {
    Panel {
        title: title.to_owned(),
        chart: Chart::Lines(Lines {
            x: match x {
                "messages" => Axis::new(x, Numbers::Plain),
                _ => Axis::new(x, Numbers::Bytes),
            },
            y: Axis::new(y, Numbers::Plain),
            series,
            limits: Vec::new(),
            marks: Vec::new(),
        }),
    }
}

pub(super) fn file_sizes(table: &Table<'_>) -> Vec<Panel> {
    let groups = [
        "portable_1",
        "best_1",
        "best_all",
        "gpu",
        "gpu_pinned",
        "their_cpu",
        "their_gpu",
    ];
    let bytes = |row: &[Value]| table.number(row, "bytes").unwrap_or_default();
    let mut series: Vec<_> = groups
        .into_iter()
        .map(|group| {
            let key = format!("{group}_total");
            let points = table.points(
                |_| true,
                ("bytes", &key),
                |row, seconds| 2.0 * bytes(row) / seconds / GIGA,
            );
            let title = table.title(&key);
            table.series(
                title.trim_end_matches("total").trim_end_matches([',', ' ']),
                &key,
                points,
            )
        })
        .collect();
    let copies = table.points(
        |_| true,
        ("bytes", "copy"),
        |row, seconds| bytes(row) / seconds / GIGA,
    );
    series.push(table.series("limit: a copy", "copy", copies));
    vec![lines(
        "",
        "bytes of the buffer",
        "GB/s, there and back",
        series,
    )]
}

pub(super) fn entries(table: &Table<'_>) -> Vec<Panel> {
    let mega = |_: &[Value], rate: f64| rate / 1e6;
    let quoted = |row: &[Value]| *table.value(row, "source") != Value::None;
    let loops = |theirs: bool| {
        table.points(
            |row| quoted(row) == theirs,
            ("chunk", "aes_per_second"),
            mega,
        )
    };
    let (ours, theirs) = (loops(false), loops(true));
    let xs = || ours.iter().chain(&theirs).map(|point| point.x);
    let ends = [xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max)];
    let mut series = Vec::new();
    for (name, points, quoted) in [("simple loop", ours, false), ("fastAES V2", theirs, true)] {
        series.push(Series {
            name: name.to_owned(),
            points,
            quoted,
        });
    }
    // Ways without chunks are level.
    for row in table
        .rows()
        .filter(|row| *table.value(row, "chunk") == Value::None)
    {
        if let Some(rate) = table.number(row, "aes_per_second") {
            series.push(Series {
                name: table.text(row, "way"),
                points: ends.map(|x| Point::new(x, rate / 1e6)).to_vec(),
                quoted: quoted(row),
            });
        }
    }
    let mut panel = lines("", "bytes of a chunk", "million AES/s", series);
    let copy = table
        .rows()
        .find(|row| table.text(row, "way").starts_with("limit: plain copy"));
    if let (Chart::Lines(lines), Some(row)) = (&mut panel.chart, copy)
        && let Some((entries, seconds)) = table
            .number(row, "entries")
            .zip(table.number(row, "wall_seconds"))
    {
        lines
            .limits
            .push(("limit: a plain copy".to_owned(), entries / seconds / 1e6));
    }
    vec![panel]
}

pub(super) fn aead_batch(table: &Table<'_>) -> Vec<Panel> {
    let first = |key| table.rows().next().and_then(|row| table.number(row, key));
    let (count, aad) = (first("messages"), first("aad_bytes"));
    let rates = [
        "acorn_128_kernel",
        "aes_128_gcm_kernel",
        "aes_256_gcm_kernel",
        "acorn_128_all",
        "aes_128_gcm_all",
        "aes_256_gcm_all",
        "v100",
        "fpga",
    ];
    let panel = |direction: String| {
        let shown = |row: &[Value]| {
            table.text(row, "direction") == direction
                && table.number(row, "messages") == count
                && table.number(row, "aad_bytes") == aad
        };
        let series = rates.map(|key| {
            let points = table.points(shown, ("text_bytes", key), gb);
            table.series(table.title(key), key, points)
        });
        lines(&direction, "bytes of text", "GB/s", series.into())
    };
    table.texts("direction").into_iter().map(panel).collect()
}

pub(super) fn cbc_batch(table: &Table<'_>) -> Vec<Panel> {
    let giga = |_: &[Value], mega: f64| mega / 1e3;
    let streams = table.texts("streams");
    let panel = |direction: String| {
        let own = |row: &[Value]| table.text(row, "direction") == direction;
        let mut series = Vec::new();
        for streams in &streams {
            let shown = |row: &[Value]| own(row) && table.text(row, "streams") == *streams;
            let points = table.points(shown, ("messages", "rate"), giga);
            let name = match streams.as_str() {
                "1" => "GPU, 1 stream".to_owned(),
                many => format!("GPU, {many} streams"),
            };
            series.push(table.series(name, "rate", points));
        }
        let most = streams.last().cloned().unwrap_or_default();
        let last = |row: &[Value]| own(row) && table.text(row, "streams") == most;
        for (key, name) in [
            ("engine", "engine on the GPU"),
            ("cpu_1", "CPU, 1 thread"),
            ("cpu_all", "CPU, all threads"),
            ("auto", "auto"),
            ("their_rate", "Tesla C2075, 4 streams"),
        ] {
            let points = table.points(last, ("messages", key), giga);
            series.push(table.series(name, key, points));
        }
        lines(&direction, "messages", "Gbit/s", series)
    };
    table.texts("direction").into_iter().map(panel).collect()
}

pub(super) fn host(table: &Table<'_>) -> Vec<Panel> {
    let panel = |algorithm: String| {
        let mut series = Vec::new();
        for (key, name) in [
            ("gpu_rate", "GPU"),
            ("cpu_rate", "CPU"),
            ("auto_rate", "auto"),
            ("copies_rate", "limit: copies over the link"),
        ] {
            for memory in table.texts("memory") {
                let shown = |row: &[Value]| {
                    table.text(row, "algorithm") == algorithm && table.text(row, "memory") == memory
                };
                let points = table.points(shown, ("bytes", key), gb);
                series.push(table.series(format!("{name}, {memory}"), key, points));
            }
        }
        lines(&algorithm, "bytes", "GB/s", series)
    };
    table
        .texts("algorithm")
        .into_iter()
        .take(2)
        .map(panel)
        .collect()
}

pub(super) fn sizes(table: &Table<'_>) -> Vec<Panel> {
    let Some(algorithm) = table.texts("algorithm").into_iter().next() else {
        return Vec::new();
    };
    let places = [
        "portable_1",
        "portable_all",
        "cpu_1",
        "cpu_all",
        "gpu_pageable",
        "gpu_1_stream",
        "gpu_streams",
        "auto_pinned",
        "resident",
    ];
    let panel = |direction: String| {
        let shown = |row: &[Value]| {
            table.text(row, "algorithm") == algorithm
                && table.text(row, "direction") == direction
                && table.number(row, "messages") == Some(1.0)
        };
        let series: Vec<_> = places
            .into_iter()
            .map(|key| {
                table.series(
                    table.title(key),
                    key,
                    table.points(shown, ("bytes", key), gb),
                )
            })
            .collect();
        let mut panel = lines(
            &format!("{algorithm}, {direction}"),
            "bytes",
            "GB/s",
            series,
        );
        let from = first_faster(table, shown, "gpu_streams", "portable_1");
        let best = first_faster(table, shown, "gpu_streams", "cpu_1");
        if let Chart::Lines(lines) = &mut panel.chart {
            let named = [(from, "GPU > portable"), (best, "GPU > CPU")];
            let marks = named
                .into_iter()
                .filter_map(|(at, name)| Some((name.to_owned(), at?)));
            lines.marks = marks.collect();
        }
        panel
    };
    let directions = table.texts("direction").into_iter();
    directions.map(panel).collect()
}

fn first_faster(
    table: &Table<'_>,
    shown: impl Fn(&[Value]) -> bool,
    own: &str,
    other: &str,
) -> Option<f64> {
    let rows = table.rows().filter(|row| shown(row));
    let ratio = |row: &Vec<Value>| {
        let ratio = table.number(row, own)? / table.number(row, other)?;
        Some((table.number(row, "bytes")?, ratio))
    };
    let ratios: Vec<_> = rows.filter_map(ratio).collect();
    let slower = ratios
        .iter()
        .filter(|own| own.1 < crate::measure::CLEARLY)
        .map(|own| own.0);
    let last = slower.fold(0.0, f64::max);
    ratios
        .iter()
        .map(|own| own.0)
        .filter(|&size| size > last)
        .reduce(f64::min)
}
