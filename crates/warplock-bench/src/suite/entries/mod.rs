//! `entries`: AES-128 with a key for each 16-byte entry, from files of keys and plaintexts to a
//! file of ciphertexts, compared with the right ones.

mod access;
mod files;
mod memory;
mod ways;

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use self::files::Files;
use self::ways::Way;
use super::Suite;
use crate::error::Result;
use crate::generate::ENTRY;
use crate::measure::{Timing, rounds};
use crate::output::Output;
use crate::report::{Column, Report, Unit, Value};
use crate::table::grouped;
use crate::{Axis, Context, Error, Machine, Plot, Sample, Series};

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct Entries {
    /// The folder with `keys.bin`, `plains.bin` and `ciphers.bin`; [`crate::Generate`] makes
    /// them. `ciphers.out.bin` is written there.
    pub dir: PathBuf,
    /// Sizes of the simple loop's buffers, in bytes; rounded down to whole entries.
    pub chunks: Vec<u64>,
    /// Drop the inputs from the page cache before each run, and count the time until the output
    /// is on the disk. Otherwise inputs that fit are in memory, and the system writes later.
    pub cold: bool,
}

impl Entries {
    /// The suite on a folder, warm, with buffers from 1 kB to 100 MB.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Entries {
            dir: dir.into(),
            chunks: (3..=8).map(|power| 10_u64.pow(power)).collect(),
            cold: false,
        }
    }
}

/// The source of the quoted rows.
const SOURCE: &str = "quoted: fastAES's README, 10^9 entries on an Intel Core Ultra 5 226V with \
                      an SSD; not measured here";

/// The published numbers: version and buffer, CPU seconds and wall seconds for 10^9 entries.
const PUBLISHED: [(&str, Option<u64>, f64, f64); 9] = [
    ("fastAES V1, an entry at a time", None, 100.0, 102.0),
    ("fastAES V2", Some(4_000_000_000), 59.0, 95.0),
    ("fastAES V2", Some(1_000_000_000), 51.0, 81.0),
    ("fastAES V2", Some(100_000_000), 46.0, 79.0),
    ("fastAES V2", Some(10_000_000), 46.0, 78.0),
    ("fastAES V2", Some(1_000_000), 45.0, 76.0),
    ("fastAES V2", Some(100_000), 42.0, 53.0),
    ("fastAES V2", Some(10_000), 47.0, 55.0),
    ("fastAES V2", Some(1_000), 53.0, 59.0),
];

/// Entries of the quoted rows.
const PUBLISHED_ENTRIES: f64 = 1e9;

impl Suite for Entries {
    fn name(&self) -> &'static str {
        "entries"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        let cpu = context.on_cpu();
        let machine = Machine::here(&cpu)?;
        let engine = cpu.one_thread()?;
        // A missing one is refused before minutes of work.
        let gpu = context.gpu()?;
        let files = Files::open(&self.dir, context.threads)?;
        let ways = self.ways(context.threads)?;

        if !self.cold {
            (context.notify)("reading the inputs");
            files.read_inputs()?;
        }
        let last: RefCell<Option<(usize, Output)>> = RefCell::new(None);
        let run = |number: usize| -> Result<Timing> {
            let way = &ways[number];
            (context.notify)(&way.name());
            // One output at a time: the room of the older one may be needed.
            last.take();
            let (output, timing) = files.run(way, &engine, self.cold)?;
            files.compare(way, output.file())?;
            last.replace(Some((number, output)));
            Ok(timing)
        };
        let runs = rounds(&context.plan, ways.len(), &run)?;
        // The tool's own output is left; the order of the rounds may end with another.
        let own = ways.len() - 1;
        let ended = last.borrow().as_ref().map(|(number, _)| *number);
        if ended != Some(own) {
            run(own)?;
        }
        if let Some((_, output)) = last.take() {
            output.publish()?;
        }

        let copy = ways
            .iter()
            .position(|way| matches!(way, Way::PlainCopy))
            .map(|number| wall(&runs[number]).median);
        let mut rows: Vec<_> = ways
            .iter()
            .zip(&runs)
            .map(|(way, runs)| row(way, runs, files.entries(), copy))
            .collect();
        (context.notify)("in memory");
        rows.extend(memory::rows(context, &engine, gpu.as_ref())?);
        rows.extend(PUBLISHED.map(published_row));
        Ok(Report {
            suite: self.name(),
            title: format!(
                "entries: AES-128 with a key for each block, {} entries ({} bytes read, {} \
                 written)",
                grouped(files.entries()),
                grouped(2 * ENTRY * files.entries()),
                grouped(ENTRY * files.entries()),
            ),
            notes: self.notes(&runs),
            columns: columns(),
            plot: plot(&rows),
            rows,
            machine,
        })
    }
}

impl Entries {
    /// What is measured: the loops, the limits, then the tool's own way.
    fn ways(&self, threads: NonZeroUsize) -> Result<Vec<Way>> {
        let mut ways = Vec::new();
        for &bytes in &self.chunks {
            if bytes < ENTRY {
                return Err(Error::Input(format!(
                    "a chunk of {bytes} bytes holds no entry: take at least {ENTRY}"
                )));
            }
            ways.push(Way::Simple { chunk: bytes });
        }
        ways.push(Way::PlainCopy);
        ways.push(Way::ParallelCopy { threads });
        // Its output stays.
        ways.push(Way::Overlapped { threads });
        Ok(ways)
    }

    fn notes(&self, runs: &[Vec<Timing>]) -> Vec<String> {
        let cache = if self.cold {
            "cold: inputs dropped from the page cache before each run, outputs synced to the disk \
             within the time."
        } else {
            "warm: inputs read once before, so that they are in the page cache where they fit, \
             outputs left to the system to write (--cold changes both)."
        };
        let mut notes = vec![
            "CPU time: all threads, user and system. AES/s and ns per AES are by wall time. copy: \
             wall time against the plain copy's."
                .to_owned(),
            cache.to_owned(),
            "overlapped: inputs that are in memory through the page cache, others past it (direct \
             I/O), with many concurrent requests."
                .to_owned(),
            "Each output was compared with ciphers.bin (copies: with plains.bin), outside of the \
             time."
                .to_owned(),
            format!("fastAES {SOURCE}."),
        ];
        if runs.iter().any(|runs| runs.len() == 1) {
            notes.insert(
                0,
                "One run of each way: what disturbed a row then is in it.".to_owned(),
            );
        }
        notes
    }
}

fn wall(runs: &[Timing]) -> Sample {
    Sample::of(runs.iter().map(|timing| timing.wall))
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("way", "way", Unit::Text),
        Column::new("chunk", "chunk bytes", Unit::Bytes),
        Column::new("entries", "entries", Unit::Bytes),
        Column::new("cpu_seconds", "CPU time", Unit::Seconds),
        Column::new("wall_seconds", "wall time", Unit::Seconds),
        Column::new("aes_per_second", "AES/s", Unit::PerSecond),
        Column::new("seconds_per_aes", "1 AES", Unit::Seconds),
        Column::new("of_copy", "copy", Unit::Ratio),
        Column::new("source", "", Unit::Text),
    ]
}

fn row(way: &Way, runs: &[Timing], entries: u64, copy: Option<f64>) -> Vec<Value> {
    let wall = wall(runs);
    let count = entries as f64;
    let is_cipher = way.is_cipher();
    vec![
        way.name().into(),
        way.chunk().map(|bytes| bytes as f64).into(),
        count.into(),
        Sample::of(runs.iter().map(|timing| timing.cpu)).into(),
        wall.into(),
        is_cipher
            .then(|| wall.map(|seconds| count / seconds))
            .into(),
        is_cipher
            .then(|| wall.map(|seconds| seconds / count))
            .into(),
        copy.map(|copy| wall.median / copy).into(),
        Value::None,
    ]
}

fn published_row((name, chunk, cpu, wall): (&str, Option<u64>, f64, f64)) -> Vec<Value> {
    vec![
        name.into(),
        chunk.map(|bytes| bytes as f64).into(),
        PUBLISHED_ENTRIES.into(),
        cpu.into(),
        wall.into(),
        (PUBLISHED_ENTRIES / wall).into(),
        (wall / PUBLISHED_ENTRIES).into(),
        Value::None,
        "quoted".into(),
    ]
}

/// AES/s by the loop's chunk; ways without a chunk are drawn as a level line.
fn plot(rows: &[Vec<Value>]) -> Plot {
    let rate = |row: &Vec<Value>| row[5].number();
    let quoted = |row: &Vec<Value>| row[8] != Value::None;
    let chunks = |ours: bool| {
        let rows = rows.iter().filter(move |row| quoted(row) != ours);
        rows.filter_map(|row| row[1].number().zip(rate(row)))
            .collect::<Vec<_>>()
    };
    let (ours, theirs) = (chunks(true), chunks(false));
    let xs = || ours.iter().chain(&theirs).map(|point| point.0);
    let ends = [xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max)];
    let mut series = Vec::new();
    for row in rows.iter().filter(|row| row[1] == Value::None) {
        if let (Some(rate), Value::Text(name)) = (rate(row), &row[0]) {
            series.push(Series {
                name: name.clone(),
                points: ends.map(|x| (x, rate)).to_vec(),
                quoted: quoted(row),
            });
        }
    }
    let loops = [("simple loop", ours, false), ("fastAES V2", theirs, true)];
    series.extend(loops.into_iter().map(|(name, mut points, quoted)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series {
            name: name.to_owned(),
            points,
            quoted,
        }
    }));
    Plot {
        title: "AES-128 with a key for each block".to_owned(),
        x_label: "bytes of a chunk".to_owned(),
        x: Axis::Log,
        y_label: "AES per second".to_owned(),
        y: Axis::Log,
        series,
    }
}
