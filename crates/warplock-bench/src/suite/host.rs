//! `host`: a GPU on data in host memory, against copies of the same bytes over the link both ways,
//! and against the CPU.

use std::time::Duration;

use warplock::cuda::{DeviceBuffer, Stream};
use warplock::{Algorithm, BackendChoice, Direction, Engine, Key, Tags, Text};

use super::Suite;
use crate::error::Result;
use crate::gpu::{Gpu, HostBytes};
use crate::measure::{Plan, interleave};
use crate::report::{Column, Report, Unit, Value};
use crate::table::grouped;
use crate::{Context, Error, Machine, memory, message, random, size};

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct Host {
    /// Ciphers and modes.
    pub algorithms: Vec<Algorithm>,
    /// Sizes in bytes.
    pub sizes: Vec<usize>,
}

impl Default for Host {
    /// AES-128-CTR and AES-256-GCM on 64 MiB, 256 MiB and 1 GiB.
    fn default() -> Self {
        Host {
            algorithms: vec![Algorithm::Aes128Ctr, Algorithm::Aes256Gcm],
            sizes: vec![64 << 20, 256 << 20, 1 << 30],
        }
    }
}

/// How long a run lasts at least, as a series of jobs.
const ROW: Duration = Duration::from_millis(10);

/// A link that is busy both ways: the bytes up, and the bytes down.
struct Copies {
    up: (DeviceBuffer, Stream),
    down: (DeviceBuffer, Stream),
}

impl Copies {
    /// None for pageable memory, which the link does not reach.
    fn new(gpu: &Gpu, buffers: &mut Buffers) -> Result<Option<Self>> {
        let HostBytes::Pinned(input) = &mut buffers.input else {
            return Ok(None);
        };
        let side = || Ok::<_, Error>((gpu.device.alloc(input.len())?, gpu.device.stream()?));
        let (up, down) = (side()?, side()?);
        let text = input.to_vec();
        input.copy_from_slice(&buffers.expected);
        // SAFETY: the buffers live until the stream was waited for.
        unsafe { down.0.upload(input, &down.1)? };
        down.1.synchronize()?;
        input.copy_from_slice(&text);
        Ok(Some(Copies { up, down }))
    }

    /// Copies the input up and, at the same time, the expected result down to the output.
    fn run(&self, buffers: &mut Buffers) -> Result<()> {
        let (HostBytes::Pinned(input), HostBytes::Pinned(output)) =
            (&buffers.input, &mut buffers.output)
        else {
            return Ok(());
        };
        // SAFETY: the buffers live until both streams were waited for; if that fails, the device
        // is lost.
        unsafe {
            self.up.0.upload(input, &self.up.1)?;
            self.down.0.download(output, &self.down.1)?;
        }
        self.up.1.synchronize()?;
        Ok(self.down.1.synchronize()?)
    }
}

/// One message's buffers, shared by all contenders.
struct Buffers {
    key: Key,
    iv: Vec<u8>,
    input: HostBytes,
    output: HostBytes,
    tag: [u8; 16],
    expected: Vec<u8>,
    expected_tag: [u8; 16],
}

impl Buffers {
    fn new(
        gpu: &Gpu,
        algorithm: Algorithm,
        text: &[u8],
        pinned: bool,
        reference: &Engine,
    ) -> Result<Self> {
        let mut buffers = Buffers {
            key: Key::generate(algorithm)?,
            iv: random::bytes(message::iv_len(algorithm.info().mode))?,
            input: HostBytes::new(pinned.then_some(gpu), text.len())?,
            output: HostBytes::new(pinned.then_some(gpu), text.len())?,
            tag: [0; 16],
            expected: Vec::new(),
            expected_tag: [0; 16],
        };
        buffers.input.all().copy_from_slice(text);
        buffers.encrypt(reference)?;
        buffers.expected = buffers.output.all().to_vec();
        buffers.expected_tag = buffers.tag;
        Ok(buffers)
    }

    fn encrypt(&mut self, engine: &Engine) -> Result<()> {
        let text = Text::apart(self.input.all(), self.output.all());
        let tags = Tags::Apart(&mut self.tag);
        message::run(
            engine,
            Direction::Encrypt,
            (&self.key, &self.iv),
            text,
            tags,
        )
    }
}

impl Suite for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        if self.sizes.contains(&0) {
            return Err(Error::Input("nothing to measure with --size 0".to_owned()));
        }
        let longest = self.sizes.iter().copied().max().unwrap_or(0);
        // Text, input, output, the expected result, and one spare.
        let needed = (longest as u64).saturating_mul(5);
        memory::check(
            &format!("a message of {} bytes", grouped(longest as u64)),
            needed,
        )?;
        let cpu = context.on_cpu();
        let machine = Machine::here(&cpu)?;
        let number = match context.choice {
            Some(BackendChoice::Cuda(number)) => number,
            _ => None,
        };
        let card = Gpu::open(context)?;
        let gpu = Engine::builder()
            .backend(BackendChoice::Cuda(number))
            .threads(context.threads)
            .build()?;
        let cpu = cpu.all_threads()?;
        let auto = Engine::builder()
            .backend(BackendChoice::Auto)
            .threads(context.threads)
            .build()?;
        // Its start would disturb the others.
        auto.wake();
        let text = random::bytes(longest)?;
        let mut report = Report {
            suite: self.name().to_owned(),
            title: format!(
                "host: from host memory to host memory through {}, against {} on {} threads",
                gpu.backend(),
                cpu.backend(),
                context.threads
            ),
            notes: notes(),
            columns: columns(),
            rows: Vec::new(),
            machine,
            stopped: false,
        };
        for &algorithm in &self.algorithms {
            for pinned in [false, true] {
                let memory = if pinned { "pinned" } else { "pageable" };
                for &len in &self.sizes {
                    (context.notify)(&format!(
                        "{algorithm}, {memory}, {}",
                        size::name(len as u64)
                    ));
                    let mut buffers = Buffers::new(&card, algorithm, &text[..len], pinned, &cpu)?;
                    let copies = Copies::new(&card, &mut buffers)?;
                    let engines = [&gpu, &cpu, &auto];
                    let mut measure = |plan: &Plan, count| {
                        interleave(
                            plan,
                            count,
                            &mut buffers,
                            |buffers| {
                                buffers.output.all().fill(0xa5);
                                buffers.tag.fill(0xa5);
                            },
                            |buffers, number| match (engines.get(number), &copies) {
                                (Some(engine), _) => buffers.encrypt(engine),
                                (None, Some(copies)) => copies.run(buffers),
                                (None, None) => unreachable!("as many as were counted"),
                            },
                            |buffers, number| check(buffers, engines.get(number).copied()),
                        )
                    };
                    let single = measure(&context.plan, 1)?[0];
                    let plan = Plan {
                        shortest: context.plan.shortest.max(ROW),
                        ..context.plan
                    };
                    let samples = measure(&plan, engines.len() + usize::from(copies.is_some()))?;
                    let rates = samples.iter().map(|own| own.map(|s| len as f64 / s));
                    let rates: Vec<_> = rates.collect();
                    let of_link = |number: usize| {
                        rates.get(engines.len()).map_or(Value::None, |copies| {
                            (rates[number].median / copies.median).into()
                        })
                    };
                    report.rows.push(vec![
                        algorithm.to_string().into(),
                        memory.into(),
                        Value::Number(len as f64),
                        single.into(),
                        samples[0].into(),
                        rates[0].into(),
                        rates
                            .get(engines.len())
                            .map_or(Value::None, |&rate| rate.into()),
                        of_link(0),
                        rates[1].into(),
                        (rates[0].median / rates[1].median).into(),
                        rates[2].into(),
                        of_link(2),
                    ]);
                    (context.progress)(&report);
                }
            }
        }
        Ok(report)
    }
}

fn notes() -> Vec<String> {
    vec![
        "copies: the same pinned bytes copied over the link instead, both ways at \
                 once, in the same turns; link: the GPU's rate over theirs."
            .to_owned(),
        "auto: the default backend, which shares the work out where that is faster.".to_owned(),
        format!(
            "Rates are of jobs, or copies, in a row that takes {} ms, one begun when the \
                     one before has ended; first: a single job of a thread that did other things \
                     before, so that the driver's code and data are in no cache.",
            ROW.as_millis()
        ),
    ]
}

/// Checks what an engine wrote, or else the copies.
fn check(buffers: &Buffers, engine: Option<&Engine>) -> Result<()> {
    let output: &[u8] = &buffers.output;
    // Without authentication no tag is written.
    let sealed = engine.is_some() && buffers.key.algorithm().is_aead();
    if output == buffers.expected && (!sealed || buffers.tag == buffers.expected_tag) {
        return Ok(());
    }
    Err(Error::Wrong(format!(
        "{} on {} bytes: {} differs from the CPU's result",
        buffers.key.algorithm(),
        output.len(),
        engine.map_or("a copy".to_owned(), |engine| engine.backend().to_string())
    )))
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("algorithm", "algorithm", Unit::Text).name(),
        Column::new("memory", "memory", Unit::Text).name(),
        Column::new("bytes", "bytes", Unit::Bytes).name(),
        Column::new("first_seconds", "first", Unit::Seconds),
        Column::new("gpu_seconds", "GPU", Unit::Seconds),
        Column::new("gpu_rate", "GPU", Unit::BytesPerSecond),
        Column::new("copies_rate", "copies", Unit::BytesPerSecond),
        Column::new("of_link", "GPU\n/ link", Unit::Ratio),
        Column::new("cpu_rate", "CPU", Unit::BytesPerSecond),
        Column::new("of_cpu", "GPU\n/ CPU", Unit::Ratio),
        Column::new("auto_rate", "auto", Unit::BytesPerSecond),
        Column::new("auto_of_link", "auto\n/ link", Unit::Ratio),
    ]
}
