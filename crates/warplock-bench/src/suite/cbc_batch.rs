//! `cbc-batch`: AES-128-CBC on batches of 16 KiB messages, from host memory through the GPU and
//! back, next to a published measurement of a Tesla C2075.

use warplock::cuda::{
    DeviceBatch, DeviceBuffer, DeviceIvs, DeviceText, PinnedBuffer, Plan, Stream,
};
use warplock::{Algorithm, BackendChoice, Batch, Direction, Engine, Ivs, Key, Keys, Spans, Text};

use super::Suite;
use crate::error::Result;
use crate::gpu::{Gpu, cpu_engine};
use crate::measure::{interleave, time};
use crate::report::{Column, Report, Unit, Value};
use crate::table::grouped;
use crate::{Axis, Context, Error, Machine, Plot, Sample, Series, memory, random};

/// The source of the quoted columns.
const SOURCE: &str = "quoted from Zhang and Chen, AES Encryption and Decryption on Tesla C2075; \
                      not measured here";

/// The largest SSL record: the length of every message.
const RECORD: usize = 16 << 10;

const ALGORITHM: Algorithm = Algorithm::Aes128Cbc;

/// How many streams take batches in turn.
const STREAMS: [usize; 2] = [1, 4];

/// Its microseconds and Mbit/s for 1, 2, 4, ... 4,096 messages.
type Published = [(u32, u32); 13];

const ENCRYPT_1: Published = [
    (7363, 17),
    (7677, 34),
    (8417, 62),
    (10406, 100),
    (13837, 151),
    (18363, 228),
    (19351, 433),
    (20453, 820),
    (24846, 1350),
    (26261, 2555),
    (28953, 4635),
    (34472, 7787),
    (63400, 8467),
];

const ENCRYPT_4: Published = [
    (2199, 59),
    (2256, 116),
    (2428, 215),
    (2913, 359),
    (3783, 554),
    (4882, 859),
    (5081, 1650),
    (5843, 2871),
    (6057, 5539),
    (6448, 10407),
    (9319, 14402),
    (14013, 19156),
    (27270, 19687),
];

const DECRYPT_4: Published = [
    (46, 2849),
    (47, 5577),
    (48, 10922),
    (57, 18396),
    (113, 18558),
    (221, 18978),
    (437, 19195),
    (880, 19065),
    (1754, 19130),
    (3503, 19157),
    (7089, 18933),
    (14180, 18930),
    (28366, 18926),
];

/// The published numbers for a row: seconds, and bits a second.
fn published(direction: Direction, streams: usize, count: usize) -> Option<(f64, f64)> {
    let table = match (direction, streams) {
        (Direction::Encrypt, 1) => &ENCRYPT_1,
        (Direction::Encrypt, 4) => &ENCRYPT_4,
        (Direction::Decrypt, 4) => &DECRYPT_4,
        _ => return None,
    };
    let place = count.checked_ilog2()? as usize;
    let &(micros, mbit) = table.get(place).filter(|_| count.is_power_of_two())?;
    Some((f64::from(micros) * 1e-6, f64::from(mbit) * 1e6))
}

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct CbcBatch {
    /// How many messages a batch has.
    pub counts: Vec<usize>,
}

impl Default for CbcBatch {
    /// 1 to 65,536 messages in steps of four.
    fn default() -> Self {
        CbcBatch {
            counts: (0..9).map(|step| 1 << (2 * step)).collect(),
        }
    }
}

/// The data shared by all measurements of a number of messages and a direction.
struct Work {
    direction: Direction,
    count: usize,
    key: Key,
    ivs: Vec<u8>,
    input: PinnedBuffer,
    /// The CPU's result.
    expected: Vec<u8>,
}

/// What batches on one stream need.
struct Lane {
    // Dropped first: it waits for the device.
    plan: Plan,
    stream: Stream,
    text: DeviceBuffer,
    _ivs: DeviceBuffer,
    output: PinnedBuffer,
}

impl Suite for CbcBatch {
    fn name(&self) -> &'static str {
        "cbc-batch"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        let gpu = Gpu::open(context)?;
        let machine = Machine::here(context)?;
        let one = cpu_engine(std::num::NonZeroUsize::MIN)?;
        let all = cpu_engine(context.threads)?;
        let number = Some(gpu.device.gpu().number);
        let cuda = Engine::builder().backend(BackendChoice::Cuda(number));
        let auto = Engine::builder().backend(BackendChoice::Auto);
        let auto = auto.threads(context.threads).build()?;
        auto.wake();
        let engines = [one, all, cuda.threads(context.threads).build()?, auto];
        let mut rows = Vec::new();
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            for &count in &self.counts {
                (context.notify)(&format!(
                    "{direction:?}: {} messages",
                    grouped(count as u64)
                ));
                if count == 0 {
                    return Err(Error::Input("a batch has at least one message".to_owned()));
                }
                // Plaintexts, ciphertexts, one spare, and results of engines and streams.
                let needed = (count as u64).saturating_mul(8 * RECORD as u64);
                let batch = format!("a batch of {} messages", grouped(count as u64));
                memory::check(&batch, needed)?;
                let work = Work::new(&gpu, direction, count, &engines[1])?;
                let others = time_engines(context, &gpu, &engines, &work)?;
                for streams in STREAMS {
                    rows.push(row(context, &gpu, &work, streams, &others)?);
                }
            }
        }
        Ok(Report {
            suite: self.name(),
            title: format!(
                "cbc-batch: {ALGORITHM} on messages of 16 KiB, host to host through {}",
                gpu.device.gpu().name
            ),
            notes: vec![
                gpu.line(),
                "Copy in, kernel, copy out, from and to pinned memory, with plans made \
                 before. Batches take the streams in turn, and wait until the stream's last one \
                 is back; the latency is the time of all, divided by the number of batches, as \
                 in the quoted measurement."
                    .to_owned(),
                "Share of copies: of the time of a batch that is alone, on the device's clock."
                    .to_owned(),
                "Engine: what `--backend cuda` makes of the same call, which cuts a batch so that \
                 copies and kernels overlap. CPU: one thread and all."
                    .to_owned(),
                format!("Tesla C2075: {SOURCE}."),
            ],
            plot: plot(&rows),
            columns: columns(),
            rows,
            machine,
        })
    }
}

impl Work {
    fn new(gpu: &Gpu, direction: Direction, count: usize, cpu: &Engine) -> Result<Self> {
        let len = count * RECORD;
        let mut work = Work {
            direction,
            count,
            key: Key::generate(ALGORITHM)?,
            ivs: random::bytes(16 * count)?,
            input: gpu.device.pinned(len)?,
            expected: vec![0; len],
        };
        work.input.copy_from_slice(&random::bytes(len)?);
        let mut expected = std::mem::take(&mut work.expected);
        work.on_engine(cpu, &mut expected)?;
        work.expected = expected;
        Ok(work)
    }

    fn spans(&self) -> Spans<'static> {
        Spans::Even {
            count: self.count,
            len: RECORD,
            stride: RECORD,
        }
    }

    fn on_engine(&self, engine: &Engine, output: &mut [u8]) -> Result<()> {
        let text = Text::Apart {
            input: &self.input,
            input_spans: self.spans(),
            output,
            output_spans: self.spans(),
        };
        let batch = Batch::new(self.direction, Keys::One(&self.key), text);
        Ok(engine.run(batch.ivs(Ivs::Each(&self.ivs)))?)
    }

    fn lane(&self, gpu: &Gpu) -> Result<Lane> {
        let len = self.count * RECORD;
        let text = gpu.device.alloc(len)?;
        let mut ivs = gpu.device.alloc(self.ivs.len())?;
        ivs.write(0, &self.ivs)?;
        let place = DeviceText::InPlace {
            buffer: text.region(),
            spans: self.spans(),
        };
        let batch = DeviceBatch::new(self.direction, &self.key, place);
        let batch = batch.ivs(DeviceIvs::Each(ivs.region()));
        Ok(Lane {
            plan: Plan::new(&gpu.device, batch)?,
            stream: gpu.device.stream()?,
            text,
            _ivs: ivs,
            output: gpu.device.pinned(len)?,
        })
    }

    fn check(&self, output: &[u8], contender: &str) -> Result<()> {
        if output == self.expected {
            return Ok(());
        }
        Err(Error::Wrong(format!(
            "{ALGORITHM} on {} messages: {contender} does not agree with the CPU ({:?})",
            self.count, self.direction
        )))
    }
}

impl Lane {
    /// Queues a batch.
    ///
    /// # Safety
    /// The lane and the work live until the stream was waited for, and nothing else uses them.
    unsafe fn queue(&mut self, work: &Work) -> Result<()> {
        // SAFETY: by this function's contract; the stream keeps the order.
        unsafe {
            self.text.upload(&work.input, &self.stream)?;
            self.plan.launch(&self.stream)?;
            Ok(self.text.download(&mut self.output, &self.stream)?)
        }
    }
}

/// The time of engines: the CPU's on one thread and on all, and the GPU's.
fn time_engines(
    context: &Context<'_>,
    gpu: &Gpu,
    engines: &[Engine; 4],
    work: &Work,
) -> Result<Vec<Sample>> {
    let mut output = gpu.device.pinned(work.expected.len())?;
    // Filling and comparing the output takes longer than most runs.
    let plan = crate::Plan {
        max_runs: context.plan.max_runs.min(21),
        ..context.plan
    };
    interleave(
        &plan,
        engines.len(),
        &mut output,
        |output| output.fill(0xa5),
        |output, engine| work.on_engine(&engines[engine], output),
        |output, engine| work.check(output, &engines[engine].backend()),
    )
}

/// How many batches each stream takes in a run: few large ones, so that a run stays short.
fn turns(count: usize) -> usize {
    (4096 / count).clamp(2, 64)
}

/// Seconds a batch, over streams that take batches in turn.
fn time_streams(context: &Context<'_>, gpu: &Gpu, work: &Work, streams: usize) -> Result<Sample> {
    let lanes = (0..streams)
        .map(|_| work.lane(gpu))
        .collect::<Result<Vec<_>>>();
    let mut lanes = lanes?;
    let turns = turns(work.count);
    let mut seconds = Vec::new();
    let runs = 2 + context.plan.min_runs.max(5);
    for run in 0..runs {
        for lane in &mut lanes {
            lane.output.fill(0xa5);
        }
        let ((), timing) = time(|| {
            for _ in 0..turns {
                for lane in &mut lanes {
                    // The batch before on this stream must have come back.
                    lane.stream.synchronize()?;
                    // SAFETY: everything lives until the streams were waited for, here or, after
                    // an error, when a plan is dropped.
                    unsafe { lane.queue(work)? };
                }
            }
            lanes
                .iter()
                .try_for_each(|lane| Ok(lane.stream.synchronize()?))
        })?;
        for lane in &lanes {
            work.check(&lane.output, "the GPU")?;
        }
        // The first two warm up.
        if run >= 2 {
            seconds.push(timing.wall / (turns * streams) as f64);
        }
    }
    Ok(Sample::of(seconds))
}

/// The copies' share of the time of a single batch.
fn copy_share(gpu: &Gpu, work: &Work) -> Result<f64> {
    let mut lane = work.lane(gpu)?;
    let copies = gpu.time(|stream| {
        // SAFETY: everything lives until `time` has waited, or the lane's plan is dropped.
        unsafe {
            lane.text.upload(&work.input, stream)?;
            Ok(lane.text.download(&mut lane.output, stream)?)
        }
    })?;
    // SAFETY: as above.
    let kernels = unsafe { gpu.time_plan(&lane.plan)? };
    Ok(copies.median / (copies.median + kernels.median))
}

fn row(
    context: &Context<'_>,
    gpu: &Gpu,
    work: &Work,
    streams: usize,
    others: &[Sample],
) -> Result<Vec<Value>> {
    let bits = (8 * work.expected.len()) as f64;
    let rate = |seconds: f64| bits / seconds;
    let sample = time_streams(context, gpu, work, streams)?;
    let theirs = published(work.direction, streams, work.count);
    Ok(vec![
        work.direction.name().into(),
        Value::Number(work.count as f64),
        Value::Number(streams as f64),
        sample.map(|seconds| seconds * 1e6).into(),
        sample.map(|seconds| rate(seconds) / 1e6).into(),
        Value::Number(copy_share(gpu, work)?),
        others[2].map(|seconds| rate(seconds) / 1e6).into(),
        others[0].map(|seconds| rate(seconds) / 1e6).into(),
        others[1].map(|seconds| rate(seconds) / 1e6).into(),
        others[3].map(|seconds| rate(seconds) / 1e6).into(),
        theirs.map(|(seconds, _)| seconds * 1e6).into(),
        theirs.map(|(_, rate)| rate / 1e6).into(),
    ])
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("direction", "", Unit::Text),
        Column::new("messages", "messages", Unit::Count),
        Column::new("streams", "streams", Unit::Count),
        Column::new("latency", "latency\nus", Unit::Count),
        Column::new("rate", "rate\nMbit/s", Unit::Count),
        Column::new("copy_share", "share of\ncopies", Unit::Ratio),
        Column::new("engine", "engine\nMbit/s", Unit::Count),
        Column::new("cpu_1", "CPU, 1 thread\nMbit/s", Unit::Count),
        Column::new("cpu_all", "CPU, all\nMbit/s", Unit::Count),
        Column::new("auto", "auto\nMbit/s", Unit::Count),
        Column::new("their_latency", "Tesla C2075\nlatency us", Unit::Count).quoted(SOURCE),
        Column::new("their_rate", "Tesla C2075\nMbit/s", Unit::Count).quoted(SOURCE),
    ]
}

fn plot(rows: &[Vec<Value>]) -> Plot {
    let mut series = Vec::new();
    for direction in ["encrypt", "decrypt"] {
        for (column, contender) in [(4, "GPU"), (8, "CPU, all threads"), (11, "Tesla C2075")] {
            let points: Vec<_> = rows
                .iter()
                .filter(|row| row[0] == Value::from(direction) && row[2].number() == Some(4.0))
                .filter_map(|row| row[1].number().zip(row[column].number()))
                .collect();
            series.push(Series {
                name: format!("{direction}, {contender}"),
                points,
                quoted: column == 11,
            });
        }
    }
    Plot {
        title: "AES-128-CBC, messages of 16 KiB, four streams".to_owned(),
        x_label: "messages".to_owned(),
        x: Axis::Log,
        y_label: "Mbit/s".to_owned(),
        y: Axis::Log,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_numbers_stand_where_the_counts_match() {
        let (seconds, bits) = published(Direction::Encrypt, 4, 4096).unwrap();
        assert_eq!((seconds, bits), (0.02727, 19_687e6));
        assert_eq!(published(Direction::Decrypt, 4, 1).unwrap().1, 2_849e6);
        assert!(published(Direction::Decrypt, 1, 1).is_none());
        assert!(published(Direction::Encrypt, 1, 16384).is_none());
        assert!(published(Direction::Encrypt, 1, 3).is_none());
        // Their columns agree with each other: 16 KiB messages over latency, to their precision
        // for large batches.
        for table in [ENCRYPT_1, ENCRYPT_4, DECRYPT_4] {
            for (place, (micros, mbit)) in table.into_iter().enumerate().skip(6) {
                let derived = f64::from(131_072_u32 << place) / f64::from(micros);
                assert!((derived / f64::from(mbit) - 1.0).abs() < 0.03, "{place}");
            }
        }
    }

    #[test]
    fn without_a_gpu_it_says_so() {
        let suite = CbcBatch { counts: vec![1, 4] };
        match suite.run(&Context::default()) {
            Err(Error::NoGpu(reason)) => println!("skipped: no GPU ({reason})"),
            Err(error) => panic!("{error}"),
            Ok(report) => {
                assert_eq!(report.rows.len(), 8);
                assert!(report.rows.iter().all(|row| row[4].number().unwrap() > 0.0));
            }
        }
    }
}
