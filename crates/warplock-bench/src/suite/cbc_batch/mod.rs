//! `cbc-batch`: AES-CBC on batches of messages, from host memory through the GPU and back, next to a
//! published measurement of a Tesla C2075.

mod published;
mod work;

use std::num::NonZeroUsize;

use warplock::cuda::{LinkRates, link_rates};
use warplock::{Algorithm, BackendChoice, Direction, Engine, Mode};

use self::published::{MAXIMUM, RECORD, SOURCE, published};
use self::work::{Parts, Shape, Work, time_engines, time_parts, time_streams};
use super::Suite;
use crate::error::Result;
use crate::gpu::{Gpu, cpu_engine};
use crate::report::{Column, Report, Unit, Value};
use crate::table::{grouped, scaled};
use crate::{Context, Error, Machine, Sample, memory, size};

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct CbcBatch {
    /// How many messages a batch has.
    pub counts: Vec<usize>,
    /// Bytes of a message.
    pub len: usize,
    /// How many streams take batches in turn, without GPU none.
    pub streams: Vec<usize>,
    /// Encryption, decryption or both.
    pub directions: Vec<Direction>,
    /// Cipher and mode, without authentication.
    pub algorithm: Algorithm,
}

impl Default for CbcBatch {
    /// The published shapes: AES-128-CBC on 1 to 65,536 messages of 16 KiB in powers of two (they
    /// stop at 4,096), both directions, one and four streams.
    fn default() -> Self {
        CbcBatch {
            counts: (0..=16).map(|power| 1 << power).collect(),
            len: RECORD,
            streams: vec![1, 4],
            directions: vec![Direction::Encrypt, Direction::Decrypt],
            algorithm: Algorithm::Aes128Cbc,
        }
    }
}

/// What runs the batches.
struct Contenders {
    gpu: Option<(Gpu, LinkRates)>,
    /// The CPU on one thread and on all; with a GPU that and `auto`.
    engines: Vec<Engine>,
}

impl Contenders {
    fn new(context: &Context<'_>) -> Result<Self> {
        let gpu = match (context.choice, Gpu::open(context)) {
            (Some(BackendChoice::Cpu(_)), _) | (_, Err(Error::NoGpu(_))) => None,
            (_, gpu) => Some(gpu?),
        };
        let mut engines = vec![cpu_engine(NonZeroUsize::MIN)?, cpu_engine(context.threads)?];
        let Some(gpu) = gpu else {
            return Ok(Contenders { gpu: None, engines });
        };
        let number = Some(gpu.device.gpu().number);
        let cuda = Engine::builder().backend(BackendChoice::Cuda(number));
        engines.push(cuda.threads(context.threads).build()?);
        let auto = Engine::builder().backend(BackendChoice::Auto);
        let auto = auto.threads(context.threads).build()?;
        auto.wake();
        engines.push(auto);
        let link = link_rates(number)?;
        Ok(Contenders {
            gpu: Some((gpu, link)),
            engines,
        })
    }

    fn gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref().map(|(gpu, _)| gpu)
    }
}

impl Suite for CbcBatch {
    fn name(&self) -> &'static str {
        "cbc-batch"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        self.check()?;
        let machine = Machine::here(context)?;
        let contenders = Contenders::new(context)?;
        let mut report = self.report(&contenders, machine);
        // Both directions' profiles, at their largest counts.
        let mut profiles: Vec<(Shape, Parts)> = Vec::new();
        let notes = report.notes.clone();
        for &direction in &self.directions {
            let mut last = None;
            for &count in &self.counts {
                (context.notify)(&format!(
                    "{direction:?}: {} messages",
                    grouped(count as u64)
                ));
                let shape = Shape {
                    algorithm: self.algorithm,
                    direction,
                    count,
                    len: self.len,
                };
                // Plaintexts, ciphertexts, one spare, and results of engines and streams.
                let needed = (count as u64).saturating_mul(8 * self.len as u64);
                let batch = format!("a batch of {} messages", grouped(count as u64));
                memory::check(&batch, needed)?;
                let work = Work::new(contenders.gpu(), shape, &contenders.engines[1])?;
                let (engines, gpu) = (&contenders.engines, contenders.gpu());
                let others = time_engines(context, gpu, engines, &work)?;
                let Some(gpu) = gpu else {
                    report.rows.push(row(shape, None, &others));
                    (context.progress)(&report);
                    continue;
                };
                let parts = time_parts(gpu, &work)?;
                for &streams in &self.streams {
                    let sample = time_streams(context, gpu, &work, streams)?;
                    let own = Some((streams, sample, parts.copies()));
                    report.rows.push(row(shape, own, &others));
                    (context.progress)(&report);
                }
                last = Some((shape, parts));
            }
            profiles.extend(last);
            // Now, so that a run that is stopped has those of its first direction.
            report.notes = maxima(&report, contenders.gpu.as_ref(), &profiles);
            let profiles = profiles.iter();
            let lines = profiles.flat_map(|(shape, parts)| profile(shape, parts));
            report.notes.extend(lines.chain(notes.iter().cloned()));
        }
        Ok(report)
    }
}

impl CbcBatch {
    fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::Input(why));
        let mode = self.algorithm.info().mode;
        if !matches!(mode, Mode::Cbc | Mode::Ecb | Mode::Ctr) {
            return refuse(format!("{}: take cbc, ecb or ctr", self.algorithm));
        }
        if self.counts.contains(&0) {
            return refuse("a batch has at least one message".to_owned());
        }
        if self.len == 0 || (mode != Mode::Ctr && !self.len.is_multiple_of(16)) {
            return refuse(format!(
                "{} bytes: {} takes whole blocks of 16",
                self.len, self.algorithm
            ));
        }
        match self
            .streams
            .iter()
            .any(|&streams| streams == 0 || streams > 64)
        {
            true => refuse("take 1 to 64 streams".to_owned()),
            false => Ok(()),
        }
    }

    fn report(&self, contenders: &Contenders, machine: Machine) -> Report {
        let mut notes = Vec::new();
        let mut on = "in memory, on the CPU".to_owned();
        if let Some(gpu) = contenders.gpu() {
            on = format!("host to host through {}", gpu.device.gpu().name);
            notes = vec![
                gpu.line(),
                "Copy in, kernel, copy out, from and to pinned memory, with plans made before. \
                 Batches take the streams in turn, and wait until the stream's last one is back; \
                 the latency is the time of all, divided by the number of batches, as in the quoted \
                 measurement."
                    .to_owned(),
                "Copies: their share of the time of a batch that is alone, on the device's clock."
                    .to_owned(),
                "Engine: what `--backend cuda` makes of the same call, which cuts a batch so that \
                 copies and kernels overlap."
                    .to_owned(),
            ];
        }
        notes.push("CPU: one thread and all; its latency is that of all.".to_owned());
        notes.push(format!("Tesla C2075: {SOURCE}."));
        Report {
            suite: self.name().to_owned(),
            title: format!(
                "cbc-batch: {} on messages of {}, {on}",
                self.algorithm,
                size::title(self.len as u64)
            ),
            notes,
            columns: columns(),
            rows: Vec::new(),
            machine,
            stopped: false,
        }
    }
}

fn row(shape: Shape, streams: Option<(usize, Sample, f64)>, others: &[Sample]) -> Vec<Value> {
    let rate = |seconds: f64| (8 * shape.bytes()) as f64 / seconds / 1e6;
    let rates = |sample: Sample| sample.map(rate);
    let is_published = shape.algorithm == Algorithm::Aes128Cbc && shape.len == RECORD;
    let theirs = streams
        .filter(|_| is_published)
        .and_then(|(streams, ..)| published(shape.direction, streams, shape.count));
    // Without a GPU, their best figures stand next to the CPU's.
    let theirs = theirs.or_else(|| {
        (is_published && streams.is_none()).then(|| published(shape.direction, 4, shape.count))?
    });
    vec![
        shape.direction.name().into(),
        Value::Number(shape.count as f64),
        streams.map(|(streams, ..)| streams as f64).into(),
        streams.map(|(_, sample, _)| sample).into(),
        streams.map(|(_, sample, _)| rates(sample)).into(),
        streams.map(|(.., copies)| copies).into(),
        others.get(2).copied().map(rates).into(),
        others[1].into(),
        rates(others[0]).into(),
        rates(others[1]).into(),
        others.get(3).copied().map(rates).into(),
        theirs.map(|(seconds, _)| seconds).into(),
        theirs.map(|(_, rate)| rate / 1e6).into(),
    ]
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("direction", "", Unit::Text).table(),
        Column::new("messages", "messages", Unit::Count).name(),
        Column::new("streams", "streams", Unit::Count).name(),
        Column::new("latency", "latency", Unit::Seconds),
        Column::new("rate", "rate\nMbit/s", Unit::Count),
        Column::new("copy_share", "copies", Unit::Ratio),
        Column::new("engine", "engine\nMbit/s", Unit::Count),
        Column::new("cpu_latency", "CPU\nlatency", Unit::Seconds),
        Column::new("cpu_1", "CPU\n1 thread\nMbit/s", Unit::Count),
        Column::new("cpu_all", "CPU\nall threads\nMbit/s", Unit::Count),
        Column::new("auto", "auto\nMbit/s", Unit::Count),
        Column::new("their_latency", "C2075\nlatency", Unit::Seconds).quoted(SOURCE),
        Column::new("their_rate", "C2075\nMbit/s", Unit::Count).quoted(SOURCE),
    ]
}

/// From this share of the link's rate on, it is what bounds a batch.
const AT_THE_LINK: f64 = 0.85;

/// A line for each direction: the highest rate, and what bounds it.
fn maxima(
    report: &Report,
    gpu: Option<&(Gpu, LinkRates)>,
    profiles: &[(Shape, Parts)],
) -> Vec<String> {
    let column = |key: &str| report.column(key).expect("it is a column of this suite");
    let rate = column(if gpu.is_some() { "rate" } else { "cpu_all" });
    let mut lines = Vec::new();
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let own = report
            .rows
            .iter()
            .filter(|row| row[0] == direction.name().into());
        let best = own.filter_map(|row| Some((row[rate].number()?, row)));
        let Some((rate, row)) = best.max_by(|a, b| a.0.total_cmp(&b.0)) else {
            continue;
        };
        let count = row[1].number().unwrap_or_default() as u64;
        let count = match count {
            1 => "1 message".to_owned(),
            _ => format!("{} messages", grouped(count)),
        };
        let most = format!(
            "{}: maximum {} at {count}",
            direction.name(),
            scaled(rate * 1e6, "bit/s")
        );
        lines.push(match gpu {
            None => format!("{most}, all threads of the CPU."),
            Some((_, link)) => {
                let share = rate * 1e6 / 8.0 / link.both;
                let kernels = profiles
                    .iter()
                    .find(|(shape, _)| shape.direction == direction);
                let kernels =
                    kernels.map_or(0.0, |(_, parts)| parts.kernels.median / parts.total());
                let bound = match (share >= AT_THE_LINK, kernels > 0.5) {
                    (true, _) => "the link",
                    (false, true) => "the kernels",
                    (false, false) => "neither the link nor the kernels alone",
                };
                format!(
                    "{most} x {} streams; bound by {bound}: {share:.2} of the link's {} each way, \
                     kernels are {kernels:.2} of a large batch that is alone.",
                    row[2].number().unwrap_or_default(),
                    scaled(link.both, "B/s")
                )
            }
        });
    }
    lines.push(MAXIMUM.to_owned());
    lines
}

/// The profile of a batch, laid out as nvprof does.
fn profile(shape: &Shape, parts: &Parts) -> Vec<String> {
    let mut lines = vec![format!(
        "Profile: {} messages to {}, one batch that is alone:",
        grouped(shape.count as u64),
        shape.direction.name()
    )];
    lines.push("share    calls    median       min       max  what".to_owned());
    for (name, sample) in parts.named() {
        lines.push(format!(
            "{:4.1} %  {:>7}  {:>8}  {:>8}  {:>8}  {name}",
            100.0 * sample.median / parts.total(),
            sample.runs,
            scaled(sample.median, "s"),
            scaled(sample.min, "s"),
            scaled(sample.max, "s"),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn both_directions_with_and_without_a_gpu() {
        let suite = CbcBatch {
            counts: vec![1, 4],
            ..CbcBatch::default()
        };
        let context = Context {
            plan: Plan::quick(),
            ..Context::default()
        };
        let report = suite.run(&context).unwrap();
        let with_gpu = !report.machine.gpus.is_empty();
        assert_eq!(report.rows.len(), if with_gpu { 8 } else { 4 });
        let rate = report
            .column(if with_gpu { "rate" } else { "cpu_all" })
            .unwrap();
        assert!(
            report
                .rows
                .iter()
                .all(|row| row[rate].number().unwrap() > 0.0)
        );
        let theirs = report.column("their_rate").unwrap();
        assert_eq!(report.rows.last().unwrap()[theirs].number(), Some(10_922.0));
        assert!(
            report.notes[0].starts_with("encrypt: maximum"),
            "{:?}",
            report.notes
        );
    }

    #[test]
    fn other_shapes_and_other_algorithms() {
        let suite = CbcBatch {
            counts: vec![3],
            len: 80,
            directions: vec![Direction::Decrypt],
            algorithm: Algorithm::Aes256Ecb,
            ..CbcBatch::default()
        };
        let context = Context {
            plan: Plan::quick(),
            choice: Some(BackendChoice::Cpu(None)),
            ..Context::default()
        };
        assert_eq!(suite.run(&context).unwrap().rows.len(), 1);
        let refusals = [
            CbcBatch {
                len: 17,
                ..suite.clone()
            },
            CbcBatch {
                counts: vec![0],
                ..suite.clone()
            },
            CbcBatch {
                streams: vec![0],
                ..suite.clone()
            },
            CbcBatch {
                algorithm: Algorithm::Aes128Gcm,
                ..suite
            },
        ];
        for refused in refusals {
            assert!(
                matches!(refused.run(&context), Err(Error::Input(_))),
                "{refused:?}"
            );
        }
    }
}
