//! `entries`: AES-128 with a key for each 16-byte entry, from files of keys and plaintexts to a
//! file of ciphertexts, compared with the right ones.

mod access;
mod files;
mod generated;
mod memory;
mod profile;
mod ways;

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use self::files::Files;
pub use self::generated::GeneratedEntries;
use self::profile::{Meter, Shares};
use self::ways::Way;
use super::Suite;
use crate::error::Result;
use crate::generate::ENTRY;
use crate::measure::{Timing, rounds};
use crate::output::Output;
use crate::report::{Column, Report, Unit, Value};
use crate::table::grouped;
use crate::{Context, Error, Machine, Sample, folder, machine, size};

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct Entries {
    /// The folder with `keys.bin`, `plains.bin` and `ciphers.bin`; [`crate::Generate`] makes
    /// them. `ciphers.out.bin` is written there.
    pub dir: PathBuf,
    /// Sizes of the simple loop's buffers, in bytes; rounded down to whole entries, and cut to the
    /// files' length. None: the published ones.
    pub chunks: Vec<u64>,
    /// Drop the inputs from the page cache before each run, and count the time until the output
    /// is on the disk. Otherwise inputs that fit are in memory, and the system writes later.
    pub cold: bool,
    /// Also say where the time of each way goes, from one run more.
    pub profile: bool,
}

impl Entries {
    /// The suite on a folder, warm, with the published buffers: 1 kB to 1 GB, and 4 GB. Those that
    /// are larger than the files are left out.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Entries {
            dir: dir.into(),
            chunks: Vec::new(),
            cold: false,
            profile: false,
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
        let ways = self.ways(context.threads, files.len())?;
        let mut report = Report {
            suite: self.name().to_owned(),
            title: format!(
                "entries: AES-128 with a key for each block, {} entries ({} read, {} written) in {}",
                grouped(files.entries()),
                size::about(2 * ENTRY * files.entries()),
                size::about(ENTRY * files.entries()),
                folder::describe(&self.dir),
            ),
            notes: Vec::new(),
            columns: columns(),
            rows: Vec::new(),
            machine,
            stopped: false,
        };
        (context.notify)("in memory");
        let mut in_memory = Vec::new();
        memory::rows(context, &engine, gpu.as_ref(), |row| {
            in_memory.push(row);
            report.rows.clone_from(&in_memory);
            (context.progress)(&report);
        })?;
        if !self.cold {
            (context.notify)("reading the inputs");
            files.read_inputs()?;
        }
        let last: RefCell<Option<(usize, Output)>> = RefCell::new(None);
        // All runs so far, with those of the warm-up: for a run that is stopped.
        let mut so_far: Vec<Vec<Timing>> = vec![Vec::new(); ways.len()];
        let run = |number: usize, meter: &Meter| -> Result<Timing> {
            let way = &ways[number];
            (context.notify)(&way.name());
            // One output at a time: the room of the older one may be needed.
            last.take();
            let (output, timing) = files.run(way, &engine, self.cold, meter)?;
            files.compare(way, output.file())?;
            last.replace(Some((number, output)));
            Ok(timing)
        };
        let off = Meter::default();
        let runs = rounds(&context.plan, ways.len(), |number| {
            let timing = run(number, &off)?;
            so_far[number].push(timing);
            report.rows = rows(&ways, &so_far, files.entries(), &[], &in_memory);
            (context.progress)(&report);
            Ok(timing)
        })?;
        let mut profiles = vec![None; ways.len()];
        if self.profile {
            for (number, profile) in profiles.iter_mut().enumerate() {
                let meter = Meter::on();
                run(number, &meter)?;
                *profile = meter.shares();
            }
        }
        // The tool's own output is left; the order of the rounds may end with another.
        let own = ways.len() - 1;
        let ended = last.borrow().as_ref().map(|(number, _)| *number);
        if ended != Some(own) {
            run(own, &off)?;
        }
        if let Some((_, output)) = last.take() {
            output.publish()?;
        }
        report.rows = rows(&ways, &runs, files.entries(), &profiles, &in_memory);
        report.notes = self.notes(&ways, &runs, &profiles);
        Ok(report)
    }
}

/// The published loop's buffers.
const CHUNKS: [u64; 8] = [
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    4_000_000_000,
];

impl Entries {
    /// What is measured: the loops, the limits, then the tool's own way.
    fn ways(&self, threads: NonZeroUsize, len: u64) -> Result<Vec<Way>> {
        let mut ways = vec![Way::OneByOne];
        let mut chunks = self.chunks.clone();
        if chunks.is_empty() {
            chunks.extend(CHUNKS.iter().filter(|&&chunk| chunk <= len.max(CHUNKS[0])));
        }
        for chunk in &mut chunks {
            if *chunk < ENTRY {
                return Err(Error::Input(format!(
                    "a chunk of {chunk} bytes holds no entry: take at least {ENTRY}"
                )));
            }
            *chunk = (*chunk).min(len);
        }
        chunks.dedup();
        ways.extend(chunks.into_iter().map(|chunk| Way::Simple { chunk }));
        ways.push(Way::PlainCopy);
        ways.push(Way::ParallelCopy { threads });
        // Its output stays.
        ways.push(Way::Overlapped { threads });
        Ok(ways)
    }

    fn notes(
        &self,
        ways: &[Way],
        runs: &[Vec<Timing>],
        profiles: &[Option<Shares>],
    ) -> Vec<String> {
        let cache = if self.cold {
            "cold: inputs dropped from the page cache before each run, outputs synced to the disk \
             within the time."
        } else {
            "warm: inputs read once before, so that they are in the page cache where they fit, \
             outputs left to the system to write (--cold changes both)."
        };
        let mut notes = vec![
            "CPU time: all threads, user and system. AES/s and the time of 1 AES are by wall time. \
             / copy: wall time over the plain copy's. An entry at a time: read and written \
             one by one through buffers of 4 KiB, encrypted a buffer at a time."
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
        if profiles.iter().any(Option::is_some) {
            notes.push(
                "read, cipher, write: CPU time of each as shares of the time of all workers, from \
                 one run more; waiting: the rest, for the disk, for memory or for a core."
                    .to_owned(),
            );
        }
        notes.splice(0..0, findings(ways, runs));
        if runs.iter().any(|runs| runs.len() == 1) {
            notes.insert(
                0,
                "One run of each way: what disturbed a row then is in it.".to_owned(),
            );
        }
        notes
    }
}

/// What the rows say: the best chunk, the sizes of the caches, and limits that noise has passed.
fn findings(ways: &[Way], runs: &[Vec<Timing>]) -> Vec<String> {
    let timed = || {
        ways.iter()
            .zip(runs)
            .map(|(way, runs)| (way, wall(runs).median))
    };
    let mut notes = Vec::new();
    let loops = timed().filter_map(|(way, seconds)| Some((way.chunk()?, seconds)));
    let loops: Vec<_> = loops.collect();
    let best = loops.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    if let (Some(best), true) = (best, loops.len() > 1) {
        let caches = machine::caches();
        let sizes = match caches.is_empty() {
            true => String::new(),
            false => format!(" A core's caches: {caches}."),
        };
        notes.push(format!(
            "The simple loop is fastest with chunks of {}; published: 100 kB.{sizes}",
            size::name(best.0)
        ));
    }
    let of = |wanted: fn(&Way) -> bool| timed().find(|(way, _)| wanted(way)).map(|own| own.1);
    let limit = of(|way| matches!(way, Way::ParallelCopy { .. }));
    let own = of(|way| matches!(way, Way::Overlapped { .. }));
    if let (Some(limit), Some(own)) = (limit, own)
        && limit > own
    {
        notes.push(
            "The limit of overlapped took longer than what it limits: the difference is noise."
                .to_owned(),
        );
    }
    notes
}

fn wall(runs: &[Timing]) -> Sample {
    Sample::of(runs.iter().map(|timing| timing.wall))
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("way", "way", Unit::Text).name(),
        Column::new("chunk", "chunk bytes", Unit::Bytes),
        Column::new("entries", "entries", Unit::Count),
        Column::new("cpu_seconds", "CPU time", Unit::Seconds),
        Column::new("wall_seconds", "wall time", Unit::Seconds),
        Column::new("aes_per_second", "AES/s", Unit::PerSecond),
        Column::new("seconds_per_aes", "1 AES", Unit::Seconds),
        Column::new("of_copy", "/ copy", Unit::Ratio),
        Column::new("read", "read", Unit::Ratio),
        Column::new("cipher", "cipher", Unit::Ratio),
        Column::new("write", "write", Unit::Ratio),
        Column::new("waiting", "waiting", Unit::Ratio),
        Column::new("source", "", Unit::Text).name(),
    ]
}

/// The rows of all ways that have run, those in memory, and the quoted ones.
fn rows(
    ways: &[Way],
    runs: &[Vec<Timing>],
    entries: u64,
    profiles: &[Option<Shares>],
    in_memory: &[Vec<Value>],
) -> Vec<Vec<Value>> {
    let timed = || ways.iter().zip(runs).filter(|(_, runs)| !runs.is_empty());
    let copy = timed()
        .find(|(way, _)| matches!(way, Way::PlainCopy))
        .map(|(_, runs)| wall(runs).median);
    let mut rows = Vec::new();
    for (number, (way, runs)) in ways.iter().zip(runs).enumerate() {
        if !runs.is_empty() {
            let profile = profiles.get(number).copied().flatten();
            rows.push(row(way, runs, entries, copy, profile));
        }
    }
    rows.extend_from_slice(in_memory);
    rows.extend(PUBLISHED.map(published_row));
    rows
}

fn row(
    way: &Way,
    runs: &[Timing],
    entries: u64,
    copy: Option<f64>,
    profile: Option<Shares>,
) -> Vec<Value> {
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
        profile.map(|shares| shares.read).into(),
        profile.map(|shares| shares.cipher).into(),
        profile.map(|shares| shares.write).into(),
        profile.map(|shares| shares.waiting).into(),
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
        Value::None,
        Value::None,
        Value::None,
        Value::None,
        "quoted".into(),
    ]
}
