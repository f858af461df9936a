//! The contenders and their times.

use std::num::NonZeroUsize;

use warplock::cuda::{
    DeviceBatch, DeviceBuffer, DeviceIvs, DeviceText, PinnedBuffer, Plan as DevicePlan,
};
use warplock::{Algorithm, BackendChoice, Direction, Engine, InstructionSet, Key, Tags, Text};

use crate::error::Result;
use crate::gpu::{Gpu, HostBytes};
use crate::measure::interleave;
use crate::table::grouped;
use crate::{Context, Error, Plan, message, random};

/// What is encrypted: pieces in sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) algorithm: Algorithm,
    /// Bytes of a piece.
    pub(super) len: usize,
    pub(super) pieces: usize,
}

impl Job {
    pub(super) fn bytes(&self) -> usize {
        self.len * self.pieces
    }

    /// Its size as a table has it.
    pub(super) fn size(&self) -> String {
        match self.pieces {
            1 => grouped(self.len as u64),
            pieces => format!("{pieces} x {}", grouped(self.len as u64)),
        }
    }
}

impl std::fmt::Display for Job {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}, {} bytes", self.algorithm, self.size())
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// The CPU with an instruction set, on one thread or on all.
    Cpu(InstructionSet, Threads),
    /// The GPU from pageable host memory.
    Pageable,
    /// From pinned memory, with several streams.
    Pinned,
    /// From pinned memory, with one stream.
    OneStream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    One,
    All,
}

impl Contender {
    pub(super) fn name(self) -> String {
        match self {
            Contender::Cpu(set, Threads::One) => format!("{} 1 thread", set.name()),
            Contender::Cpu(set, Threads::All) => format!("{} all threads", set.name()),
            Contender::Pageable => "GPU pageable".to_owned(),
            Contender::Pinned => "GPU pinned".to_owned(),
            Contender::OneStream => "GPU 1 stream".to_owned(),
        }
    }

    fn is_pinned(self) -> bool {
        matches!(self, Contender::Pinned | Contender::OneStream)
    }
}

/// Everything that is measured on this machine.
pub(super) struct Contenders {
    /// The simplest first.
    engines: Vec<(Contender, Engine)>,
    pub(super) gpu: Option<Gpu>,
}

/// Seconds of each.
pub(super) type Times = Vec<(Contender, f64)>;

impl Contenders {
    pub(super) fn new(context: &Context<'_>) -> Result<Self> {
        let gpu = match (context.choice, Gpu::open(context)) {
            (Some(BackendChoice::Cpu(_)), _) | (_, Err(Error::NoGpu(_))) => None,
            (_, gpu) => Some(gpu?),
        };
        let mut engines = Vec::new();
        for threads in [Threads::One, Threads::All] {
            for set in sets() {
                let number = match threads {
                    Threads::One => NonZeroUsize::MIN,
                    Threads::All => context.threads,
                };
                let builder = Engine::builder().backend(BackendChoice::Cpu(Some(set)));
                engines.push((
                    Contender::Cpu(set, threads),
                    builder.threads(number).build()?,
                ));
            }
        }
        if let Some(gpu) = &gpu {
            let cuda = BackendChoice::Cuda(Some(gpu.device.gpu().number));
            for contender in [Contender::Pageable, Contender::Pinned] {
                let builder = Engine::builder().backend(cuda).threads(context.threads);
                engines.push((contender, builder.build()?));
            }
        }
        Ok(Contenders { engines, gpu })
    }

    /// All contenders, the simplest first.
    pub(super) fn all(&self) -> impl Iterator<Item = Contender> {
        let engines = self.engines.iter().map(|(contender, _)| *contender);
        engines.chain(self.gpu.iter().map(|_| Contender::OneStream))
    }

    /// One run: each contender's median.
    pub(super) fn measure(&self, context: &Context<'_>, job: &Job) -> Result<Times> {
        let plan = Plan {
            min_runs: context.plan.min_runs.min(2),
            max_runs: context.plan.max_runs.min(31),
            budget: context.plan.budget / 20,
            ..context.plan
        };
        let mut times = Times::new();
        for pinned in [false, true] {
            let gpu = self.gpu.as_ref().filter(|_| pinned);
            if pinned && gpu.is_none() {
                continue;
            }
            let own = self
                .engines
                .iter()
                .filter(|(contender, _)| contender.is_pinned() == pinned);
            let own: Vec<_> = own.collect();
            let mut work = Work::new(job, gpu, &self.engines[0].1)?;
            let samples = interleave(
                &plan,
                own.len(),
                &mut work,
                Work::spoil,
                |work, number| work.run(&own[number].1),
                |work, number| work.check(&own[number].0.name()),
            )?;
            let medians = samples.iter().map(|sample| sample.median);
            times.extend(own.iter().map(|(contender, _)| *contender).zip(medians));
            if let Some(gpu) = gpu {
                let mut stream = OneStream::new(gpu, &work)?;
                let sample = interleave(
                    &plan,
                    1,
                    &mut stream,
                    OneStream::spoil,
                    |stream, _| stream.run(),
                    |stream, _| stream.check(&work),
                )?[0];
                times.push((Contender::OneStream, sample.median));
            }
        }
        Ok(times)
    }
}

/// Portable code, the CPU's AES instructions, and their widest form.
fn sets() -> Vec<InstructionSet> {
    let available: Vec<_> = InstructionSet::all()
        .filter(|set| set.is_available())
        .collect();
    let mut sets: Vec<_> = available.iter().copied().take(2).collect();
    sets.extend(available.last().filter(|last| !sets.contains(last)));
    sets
}

/// A job's data.
struct Work {
    job: Job,
    key: Key,
    ivs: Vec<u8>,
    input: HostBytes,
    output: HostBytes,
    expected: Vec<u8>,
}

const IV: usize = 16;

impl Work {
    fn new(job: &Job, gpu: Option<&Gpu>, reference: &Engine) -> Result<Self> {
        let mut work = Work {
            job: *job,
            key: Key::generate(job.algorithm)?,
            ivs: random::bytes(IV * job.pieces)?,
            input: HostBytes::new(gpu, job.bytes())?,
            output: HostBytes::new(gpu, job.bytes())?,
            expected: Vec::new(),
        };
        work.input.copy_from_slice(&random::bytes(job.bytes())?);
        work.run(reference)?;
        work.expected = work.output.to_vec();
        Ok(work)
    }

    /// One piece after the other.
    fn run(&mut self, engine: &Engine) -> Result<()> {
        let len = self.job.len;
        let pieces = self
            .input
            .chunks(len)
            .zip(self.output.all().chunks_mut(len));
        for ((input, output), iv) in pieces.zip(self.ivs.chunks(IV)) {
            let text = Text::apart(input, output);
            let own = (&self.key, iv);
            message::run(engine, Direction::Encrypt, own, text, Tags::Apart(&mut []))?;
        }
        Ok(())
    }

    fn spoil(&mut self) {
        self.output.fill(0xa5);
    }

    fn check(&self, name: &str) -> Result<()> {
        check(&self.job, &self.output, &self.expected, name)
    }
}

fn check(job: &Job, output: &[u8], expected: &[u8], name: &str) -> Result<()> {
    match output == expected {
        true => Ok(()),
        false => Err(Error::Wrong(format!(
            "{job}: {name} differs from the result of cpu:portable"
        ))),
    }
}

/// A piece in GPU memory.
struct Piece {
    // Dropped first: it waits for the device.
    plan: DevicePlan,
    text: DeviceBuffer,
    _iv: DeviceBuffer,
    input: PinnedBuffer,
    output: PinnedBuffer,
}

/// The GPU's own way, one step after the other.
struct OneStream<'a> {
    gpu: &'a Gpu,
    pieces: Vec<Piece>,
}

impl<'a> OneStream<'a> {
    fn new(gpu: &'a Gpu, work: &Work) -> Result<Self> {
        let len = work.job.len;
        let piece = |(input, iv): (&[u8], &[u8])| {
            let text = gpu.device.alloc(len)?;
            let mut device_iv = gpu.device.alloc(IV)?;
            device_iv.write(0, iv)?;
            let place = DeviceText::in_place(text.region());
            let batch = DeviceBatch::new(Direction::Encrypt, &work.key, place);
            let batch = batch.ivs(DeviceIvs::Each(device_iv.region()));
            let mut own = Piece {
                plan: DevicePlan::new(&gpu.device, batch)?,
                text,
                _iv: device_iv,
                input: gpu.device.pinned(len)?,
                output: gpu.device.pinned(len)?,
            };
            own.input.copy_from_slice(input);
            Ok(own)
        };
        let pieces = work.input.chunks(len).zip(work.ivs.chunks(IV)).map(piece);
        Ok(OneStream {
            gpu,
            pieces: pieces.collect::<Result<_>>()?,
        })
    }

    fn run(&mut self) -> Result<()> {
        let stream = &self.gpu.stream;
        for piece in &mut self.pieces {
            // SAFETY: all buffers live until the stream was waited for; after an error, until the
            // plan is dropped, which waits.
            unsafe {
                piece.text.upload(&piece.input, stream)?;
                piece.plan.launch(stream)?;
                piece.text.download(&mut piece.output, stream)?;
            }
            stream.synchronize()?;
        }
        Ok(())
    }

    fn spoil(&mut self) {
        self.pieces
            .iter_mut()
            .for_each(|piece| piece.output.fill(0xa5));
    }

    fn check(&self, work: &Work) -> Result<()> {
        let right = work.expected.chunks(work.job.len);
        self.pieces
            .iter()
            .zip(right)
            .try_for_each(|(piece, expected)| {
                check(&work.job, &piece.output, expected, "one stream")
            })
    }
}
