//! `calls`: batches in GPU memory as programs have them: many lengths, any address, each once.

use std::time::Instant;

use warplock::cuda::{
    DeviceAad, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceKey, DeviceTags, DeviceText,
    DeviceVerdicts, Plan,
};
use warplock::{
    Aad, Algorithm, Batch, Direction, Engine, Ivs, Key, Keys, Mode, Span, Spans, Tags, Text,
};

use super::Suite;
use crate::error::Result;
use crate::gpu::{Gpu, LAUNCHES, cpu_engine};
use crate::report::{Column, Report, Unit, Value};
use crate::{Context, Error, Machine, Sample, random};

/// The suite.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls;

/// Some messages, with the fewest and the most bytes that one has.
struct Shape {
    name: &'static str,
    count: usize,
    least: usize,
    most: usize,
    /// Bytes of associated data of each.
    aad: usize,
}

const fn shape(name: &'static str, count: usize, least: usize, most: usize) -> Shape {
    Shape {
        name,
        count,
        least,
        most,
        aad: 0,
    }
}

const SHAPES: [Shape; 12] = [
    shape("16,000 x 9..115 KB", 16_000, 9_000, 115_000),
    shape("1,000 x 1 MiB", 1_000, 1 << 20, 1 << 20),
    shape("1 x 100 MB", 1, 100_000_000, 100_000_000),
    shape("100,000 x 8 KB", 100_000, 8_000, 8_000),
    shape("65,536 x 1..2 KB", 65_536, 1_000, 2_000),
    shape("200 x 9..115 KB", 200, 9_000, 115_000),
    shape("32 x 1 MiB", 32, 1 << 20, 1 << 20),
    shape("256 x 32 KiB", 256, 32 << 10, 32 << 10),
    shape("1,000 x 16 KiB", 1_000, 16 << 10, 16 << 10),
    shape("1 x 16 MiB", 1, 16 << 20, 16 << 20),
    shape("200,000 x 20..70 B", 200_000, 20, 70),
    Shape {
        aad: 16,
        ..shape("200,000 x 20..70 B + 16 B AD", 200_000, 20, 70)
    },
];

/// ACORN takes a lane a message: with fewer messages its rows would only take time.
const FEWEST_LANES: usize = 200;

const WAYS: [(Algorithm, Direction); 6] = [
    (Algorithm::Aes128Gcm, Direction::Encrypt),
    (Algorithm::Aes256Gcm, Direction::Encrypt),
    (Algorithm::Aes256Gcm, Direction::Decrypt),
    (Algorithm::Aes128Ctr, Direction::Encrypt),
    (Algorithm::Aes128Xts, Direction::Encrypt),
    (Algorithm::Acorn128, Direction::Encrypt),
];

impl Suite for Calls {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        let gpu = Gpu::open(context)?;
        let machine = Machine::here(context)?;
        let engine = cpu_engine(context.threads)?;
        let mut report = Report {
            suite: self.name().to_owned(),
            title: format!("calls: batches in the memory of {}", gpu.device.gpu().name),
            notes: vec![
                gpu.line(),
                format!(
                    "One key, in place, tags apart; AD: each message has its own. Times are the device's own, \
                     medians of {LAUNCHES} launches after a warm-up. Aligned: messages begin at \
                     multiples of 16. Any byte: up to 15 bytes further, each message otherwise, the \
                     same lengths but for that."
                ),
                "By a call: the same aligned messages queued with a key that is ready on the device, \
                 with the copy of their places. Host: what it takes to make a plan, the median of 5, \
                 and to queue a call."
                    .to_owned(),
                "Every output byte and tag of a plan and of a call is compared with the CPU's."
                    .to_owned(),
            ],
            columns: vec![
                Column::new("batch", "batch", Unit::Text).name(),
                Column::new("messages", "messages", Unit::Count),
                Column::new("bytes", "bytes", Unit::Bytes),
                Column::new("aligned", "aligned", Unit::BytesPerSecond),
                Column::new("any_byte", "any byte", Unit::BytesPerSecond),
                Column::new("ratio", "any byte\nover aligned", Unit::Ratio),
                Column::new("called", "by a call", Unit::BytesPerSecond),
                Column::new("plan", "host: plan", Unit::Seconds),
                Column::new("call", "host: call", Unit::Seconds),
            ],
            rows: Vec::new(),
            machine,
            stopped: false,
        };
        for (algorithm, direction) in WAYS {
            for shape in &SHAPES {
                let few = algorithm == Algorithm::Acorn128 && shape.count < FEWEST_LANES;
                if few || shape.aad > 0 && !algorithm.is_aead() {
                    continue;
                }
                let name = format!("{algorithm} {}, {}", verb(algorithm, direction), shape.name);
                (context.notify)(&name);
                let [even, odd] = [16, 1].map(|step| {
                    let messages = Messages::new(shape, algorithm, step)?;
                    messages.measure(&gpu, &engine, direction, &name)
                });
                let (even, odd) = (even?, odd?);
                let bytes = even.bytes as f64;
                let rate = even.launch.map(|seconds| bytes / seconds);
                let odd_rate = odd.launch.map(|seconds| odd.bytes as f64 / seconds);
                report.rows.push(vec![
                    name.into(),
                    Value::Number(shape.count as f64),
                    Value::Number(bytes),
                    rate.into(),
                    odd_rate.into(),
                    Value::Number(odd_rate.median / rate.median),
                    even.called.map(|seconds| bytes / seconds).into(),
                    even.plan.into(),
                    even.call.into(),
                ]);
                (context.progress)(&report);
            }
        }
        Ok(report)
    }
}

fn verb(algorithm: Algorithm, direction: Direction) -> &'static str {
    match (algorithm.is_aead(), direction) {
        (true, Direction::Encrypt) => "sealed",
        (true, Direction::Decrypt) => "opened",
        (false, Direction::Encrypt) => "encrypted",
        (false, Direction::Decrypt) => "decrypted",
    }
}

/// Plaintexts and what belongs to them.
struct Messages {
    algorithm: Algorithm,
    key: Key,
    spans: Vec<Span>,
    text: Vec<u8>,
    ivs: Vec<u8>,
    /// As many bytes for each.
    aad: Vec<u8>,
}

struct Measured {
    bytes: usize,
    launch: Sample,
    called: Sample,
    /// What the host takes.
    plan: Sample,
    call: Sample,
}

impl Messages {
    /// Messages that begin at multiples of `step`.
    fn new(shape: &Shape, algorithm: Algorithm, step: usize) -> Result<Self> {
        let draws = random::bytes(8 * shape.count)?;
        let mut end = 0;
        let spans: Vec<Span> = (draws.as_chunks::<8>().0.iter())
            .map(|draw| {
                let draw = u64::from_le_bytes(*draw) as usize;
                let offset = usize::next_multiple_of(end, 16) + draw % 16 / step * step;
                let len = shape.least + (draw >> 8) % (shape.most - shape.least + 1);
                end = offset + len;
                Span { offset, len }
            })
            .collect();
        let iv_len = match algorithm.info().mode {
            Mode::Gcm => 12,
            _ => 16,
        };
        Ok(Messages {
            algorithm,
            key: Key::generate(algorithm)?,
            text: random::bytes(end)?,
            ivs: random::bytes(iv_len * spans.len())?,
            aad: random::bytes(shape.aad * spans.len())?,
            spans,
        })
    }

    fn aad_spans(&self) -> Spans<'static> {
        let (count, len) = (self.spans.len(), self.aad.len() / self.spans.len());
        let stride = len;
        Spans::Even { count, len, stride }
    }

    /// The CPU's result and tags.
    fn expected(&self, engine: &Engine) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut text = self.text.clone();
        let aead = self.algorithm.is_aead();
        let mut tags = vec![0; if aead { 16 * self.spans.len() } else { 0 }];
        let place = Text::InPlace {
            buffer: &mut text,
            spans: Spans::Ragged(&self.spans),
        };
        let mut batch = Batch::encrypt(Keys::One(&self.key), place).ivs(Ivs::Each(&self.ivs));
        if aead {
            batch = batch.tags(Tags::Apart(&mut tags));
        }
        if !self.aad.is_empty() {
            let (bytes, spans) = (&self.aad[..], self.aad_spans());
            batch = batch.aad(Aad::Each { bytes, spans });
        }
        engine.run(batch)?;
        Ok((text, tags))
    }

    fn measure(
        &self,
        gpu: &Gpu,
        engine: &Engine,
        direction: Direction,
        name: &str,
    ) -> Result<Measured> {
        let upload = |bytes: &[u8]| -> Result<DeviceBuffer> {
            let mut buffer = gpu.device.alloc(bytes.len())?;
            buffer.write(0, bytes)?;
            Ok(buffer)
        };
        let (sealed, tags) = self.expected(engine)?;
        let (given, wanted) = match direction {
            Direction::Encrypt => (&self.text, &sealed),
            Direction::Decrypt => (&sealed, &self.text),
        };
        let text = upload(given)?;
        let (ivs, aad) = (upload(&self.ivs)?, upload(&self.aad)?);
        let aad = match self.aad.is_empty() {
            true => DeviceAad::None,
            false => DeviceAad::Each {
                bytes: aad.region(),
                spans: self.aad_spans(),
            },
        };
        let mut there = upload(&tags)?;
        if direction == Direction::Encrypt {
            there.fill(0xa5)?;
        }
        let place = DeviceText::InPlace {
            buffer: text.region(),
            spans: Spans::Ragged(&self.spans),
        };
        let mut batch =
            DeviceBatch::new(direction, &self.key, place).ivs(DeviceIvs::Each(ivs.region()));
        if self.algorithm.is_aead() {
            batch = batch.tags(DeviceTags::Apart(there.region())).aad(aad);
        }
        let mut plans = Vec::new();
        for _ in 0..5 {
            let start = Instant::now();
            let plan = Plan::new(&gpu.device, batch)?;
            plans.push(start.elapsed().as_secs_f64());
            drop(plan);
        }
        let plan = Plan::new(&gpu.device, batch)?;
        // SAFETY: everything lives until the stream was waited for, and nothing else uses it.
        unsafe { plan.launch(&gpu.stream)? };
        if !plan.failed(&gpu.stream)?.is_empty() {
            return Err(Error::Wrong(format!("{name}: right messages were refused")));
        }
        let mut found = vec![0; wanted.len()];
        text.read(0, &mut found)?;
        let mut found_tags = vec![0; tags.len()];
        there.read(0, &mut found_tags)?;
        if &found != wanted || found_tags != tags {
            return Err(Error::Wrong(format!(
                "{name}: differs from the CPU's result"
            )));
        }
        // Opened in place once more, texts would be refused: the ciphertexts come back before.
        let source = upload(given)?;
        let key = DeviceKey::new(&gpu.device, &self.key)?;
        let mut called =
            DeviceBatch::new(direction, &key, place).ivs(DeviceIvs::Each(ivs.region()));
        if self.algorithm.is_aead() {
            called = called.tags(DeviceTags::Apart(there.region())).aad(aad);
        }
        let workspace = gpu.device.alloc(key.workspace_len(&called)?)?;
        let mut calls = Vec::new();
        let samples = gpu.time_in_turn(4, |turn, stream| {
            match turn {
                // SAFETY: everything lives until `time_in_turn` has waited, and nothing else uses it.
                0 | 2 => unsafe { text.copy_from(&source, stream) }?,
                // SAFETY: as above.
                1 => unsafe { plan.launch(stream) }?,
                _ => {
                    let start = Instant::now();
                    let none = DeviceVerdicts::default();
                    // SAFETY: as above.
                    unsafe { key.enqueue(called, none, workspace.region(), stream) }?;
                    calls.push(start.elapsed().as_secs_f64());
                }
            }
            Ok(())
        })?;
        text.read(0, &mut found)?;
        there.read(0, &mut found_tags)?;
        if &found != wanted || found_tags != tags {
            return Err(Error::Wrong(format!("{name}: a call gave something else")));
        }
        Ok(Measured {
            bytes: self.spans.iter().map(|span| span.len).sum(),
            launch: samples[1],
            called: samples[3],
            plan: Sample::of(plans),
            call: Sample::of(calls),
        })
    }
}
