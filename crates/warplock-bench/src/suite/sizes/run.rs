//! The places where a size is measured, each result compared with the CPU's.

use std::num::NonZeroUsize;
use std::ops::DerefMut;

use warplock::cuda::{
    self, Device, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceTags, DeviceText, PinnedBuffer,
    Plan as DevicePlan, Stream,
};
use warplock::{
    BackendChoice, Batch, Direction, Engine, InstructionSet, Ivs, Key, Keys, Spans, Tags, Text,
};

use super::buffers::Buffers;
use super::copies;
use super::rows::{Of, Place, Row, Task};
use crate::error::Result;
use crate::gpu::{Gpu, done_on_gpus};
use crate::measure::{Plan, interleave, interleaved_runs};
use crate::{Context, Error, Sample, message, random};

/// The data shared by all places of a row.
struct Work {
    direction: Direction,
    key: Key,
    /// How many messages of equal length.
    count: usize,
    ivs: Vec<u8>,
    /// Of the sealed messages.
    tags: Vec<u8>,
    expected: Vec<u8>,
}

/// The GPU's own way, one step after the other.
struct Lane<'a> {
    // Dropped first: it waits for the device.
    plan: DevicePlan,
    gpu: &'a Gpu,
    text: DeviceBuffer,
    tag: DeviceBuffer,
    _iv: DeviceBuffer,
}

/// The engines, made once.
pub(super) struct Places {
    pageable: Vec<(Place, Engine)>,
    pinned: Vec<(Place, Engine)>,
    gpu: Option<Gpu>,
    threads: NonZeroUsize,
}

impl Places {
    pub(super) fn new(context: &Context<'_>) -> Result<Self> {
        let one = NonZeroUsize::MIN;
        let engine = |choice, threads| -> Result<Engine> {
            Ok(Engine::builder().backend(choice).threads(threads).build()?)
        };
        let auto = |set: InstructionSet| -> Result<Engine> {
            let builder = Engine::builder().backend(BackendChoice::Auto);
            let engine = builder
                .threads(context.threads)
                .instruction_set(set)
                .build()?;
            // A start takes as long as many of the jobs here.
            engine.wake();
            Ok(engine)
        };
        let portable = BackendChoice::Cpu(Some(InstructionSet::Portable));
        let gpu = match (context.choice, Gpu::open(context)) {
            (Some(BackendChoice::Cpu(_)), _) | (_, Err(Error::NoGpu(_))) => None,
            (_, gpu) => Some(gpu?),
        };
        let mut pageable = vec![
            (Place::PortableOne, engine(portable, one)?),
            (Place::PortableAll, engine(portable, context.threads)?),
            (Place::CpuOne, engine(BackendChoice::Cpu(None), one)?),
            (
                Place::CpuAll,
                engine(BackendChoice::Cpu(None), context.threads)?,
            ),
        ];
        let mut pinned = Vec::new();
        if let Some(gpu) = &gpu {
            let cuda = BackendChoice::Cuda(Some(gpu.device.gpu().number));
            pageable.push((Place::Gpu, engine(cuda, context.threads)?));
            pinned.push((Place::GpuStreams, engine(cuda, context.threads)?));
            let cpu = engine(BackendChoice::Cpu(None), context.threads)?;
            pinned.push((Place::CpuAllPinned, cpu));
            let slow = engine(portable, context.threads)?;
            pinned.push((Place::PortablePinned, slow));
            pinned.push((Place::AutoPinned, auto(InstructionSet::best())?));
            pinned.push((Place::AutoPortable, auto(InstructionSet::Portable)?));
            let again = engine(BackendChoice::Cpu(None), context.threads)?;
            pinned.push((Place::CpuAgainPinned, again));
        }
        pageable.push((Place::Auto, auto(InstructionSet::best())?));
        // Engines made late are a few percent slower than those made early, for an unknown reason:
        // in each kind of memory, the CPU has one before and one after `auto`.
        pageable.push((
            Place::CpuAgain,
            engine(BackendChoice::Cpu(None), context.threads)?,
        ));
        Ok(Places {
            pageable,
            pinned,
            gpu,
            threads: context.threads,
        })
    }

    pub(super) fn gpu_name(&self) -> Option<String> {
        self.gpu.as_ref().map(|gpu| gpu.device.gpu().name.clone())
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.gpu.iter().map(Gpu::line).collect();
        if self.gpu.is_none() {
            let why = match cuda::devices() {
                Ok(_) => "not wanted".to_owned(),
                Err(error) => error.to_string(),
            };
            notes.push(format!("Without the columns of GPUs: {why}."));
        }
        notes.push(
            "auto / best: the speed of auto over the fastest of the CPU and the GPU alone, \
             from the same memory, turn by turn, and the median of that. For the CPU with all \
             threads there are two equal engines, made before and after that of auto, and a \
             turn's time is the mean of theirs. The GPUs of auto were started before. CPU / CPU: \
             the ratio of these two: their difference is chance, and which was made first."
                .to_owned(),
        );
        notes
    }

    /// Measures one row.
    pub(super) fn measure(&self, plan: &Plan, task: &Task) -> Result<Row> {
        let &Task {
            algorithm,
            direction,
            count,
            ..
        } = task;
        let bytes = task.bytes();
        let plain = random::bytes(bytes)?;
        let iv_len = message::iv_len(algorithm.info().mode);
        let mut work = Work {
            direction,
            key: Key::generate(algorithm)?,
            count,
            ivs: random::bytes(count * iv_len)?,
            tags: Vec::new(),
            expected: Vec::new(),
        };
        let reference = &self.engine(Place::CpuAll).expect("it is always there").1;
        let mut sealed = vec![0; bytes];
        let mut tags = vec![0; 16 * count];
        work.run(
            reference,
            Direction::Encrypt,
            (&plain, &mut sealed),
            &mut tags,
        )?;
        work.tags = tags;
        let input = match direction {
            Direction::Encrypt => {
                work.expected = sealed;
                plain
            }
            Direction::Decrypt => {
                work.expected = plain;
                sealed
            }
        };
        let fits = |(place, _): &&(Place, Engine)| {
            let portable = matches!(place, Place::PortableOne | Place::PortableAll);
            let slow = portable || matches!(place, Place::PortablePinned | Place::AutoPortable);
            !(task.huge && (slow || *place == Place::CpuOne))
        };
        let mut seconds = Vec::new();
        let sets = task.buffers();
        let mut memory = Buffers::new(sets, &input, || Ok(vec![0; bytes]))?;
        let engines: Vec<_> = self.pageable.iter().filter(fits).collect();
        let (mut runs, mut on_gpus) = work.time(plan, &engines, &mut memory)?;
        if self.gpu.is_none() {
            on_gpus.clear();
        }
        if let Some(gpu) = &self.gpu {
            drop(memory);
            let mut pinned = Buffers::new(sets, &input, || Ok(gpu.device.pinned(bytes)?))?;
            let engines: Vec<_> = self.pinned.iter().filter(fits).collect();
            let (more, parts) = work.time(plan, &engines, &mut pinned)?;
            runs.extend(more);
            on_gpus.extend(parts);
            if task.huge {
                let (input, output) = pinned.both();
                let sample = copies::measure(plan, gpu, self.threads, (input, output))?;
                seconds.push((Place::Copies, sample));
            }
            let room = gpu.device.free_memory()? > bytes as u64 + (256 << 20);
            if count == 1 && room {
                seconds.extend(work.on_device(plan, gpu, &mut pinned)?);
            }
        }
        Ok(Row {
            algorithm,
            direction,
            count,
            bytes,
            seconds,
            runs,
            on_gpus,
        })
    }

    fn engine(&self, place: Place) -> Option<&(Place, Engine)> {
        self.pageable.iter().find(|(of, _)| *of == place)
    }
}

impl Work {
    fn run(
        &self,
        engine: &Engine,
        direction: Direction,
        (input, output): (&[u8], &mut [u8]),
        tags: &mut [u8],
    ) -> Result<()> {
        let text = match self.count {
            1 => Text::apart(input, output),
            count => {
                let len = input.len() / count;
                let spans = Spans::Even {
                    count,
                    len,
                    stride: len,
                };
                Text::Apart {
                    input,
                    input_spans: spans,
                    output,
                    output_spans: spans,
                }
            }
        };
        let mut batch = Batch::new(direction, Keys::One(&self.key), text);
        if !self.ivs.is_empty() {
            batch = batch.ivs(Ivs::Each(&self.ivs));
        }
        if self.key.algorithm().is_aead() {
            batch = match direction {
                Direction::Encrypt => batch.tags(Tags::Apart(tags)),
                Direction::Decrypt => batch.tags(Tags::Given(&self.tags)),
            };
        }
        Ok(engine.run(batch)?)
    }

    fn check(&self, output: &[u8], tags: Option<&[u8]>, contender: &str) -> Result<()> {
        if output == self.expected && tags.is_none_or(|tags| tags == self.tags) {
            return Ok(());
        }
        Err(Error::Wrong(format!(
            "{} on {} bytes: {contender} differs from the CPU's result",
            self.key.algorithm(),
            output.len()
        )))
    }

    /// Whether a run makes a tag.
    fn seals(&self) -> bool {
        self.key.algorithm().is_aead() && self.direction == Direction::Encrypt
    }

    /// Each place's times in seconds, round by round; and which part of all text it gave to GPUs, if
    /// it chooses.
    fn time<B: DerefMut<Target = [u8]>>(
        &self,
        plan: &Plan,
        engines: &[&(Place, Engine)],
        memory: &mut Buffers<B>,
    ) -> Result<(Of<Vec<f64>>, Of<f64>)> {
        let before: Vec<u64> = engines
            .iter()
            .map(|(_, engine)| done_on_gpus(engine))
            .collect();
        let mut jobs = vec![0_u64; engines.len()];
        let names = engines.iter().map(|(_, engine)| engine.backend());
        let names: Vec<_> = names.collect();
        let runs = self.turns(plan, &names, memory, |place, texts, tags| {
            jobs[place] += 1;
            self.run(&engines[place].1, self.direction, texts, tags)
        })?;
        let places = || engines.iter().map(|(place, _)| *place);
        let parts = engines.iter().zip(before).zip(jobs);
        let parts = parts.map(|(((_, engine), before), jobs)| {
            (done_on_gpus(engine) - before) as f64 / (jobs * self.expected.len() as u64) as f64
        });
        Ok((places().zip(runs).collect(), places().zip(parts).collect()))
    }

    /// The times of contenders with these names, which take the buffers in turn.
    fn turns<B: DerefMut<Target = [u8]>>(
        &self,
        plan: &Plan,
        names: &[String],
        memory: &mut Buffers<B>,
        mut run: impl FnMut(usize, (&[u8], &mut [u8]), &mut [u8]) -> Result<()>,
    ) -> Result<Vec<Vec<f64>>> {
        interleaved_runs(
            plan,
            names.len(),
            &mut (memory, vec![0; 16 * self.count]),
            |(memory, tags)| {
                memory.spoil(&self.expected);
                tags.fill(0);
            },
            |(memory, tags), place| {
                memory.turn();
                let (input, output) = memory.both();
                run(place, (input, output), tags)
            },
            |(memory, tags), place| {
                let tags = self.seals().then_some(&tags[..]);
                self.check(memory.output(), tags, &names[place])
            },
        )
    }

    /// The GPU with one stream, and with data that lies in its memory.
    fn on_device(
        &self,
        plan: &Plan,
        gpu: &Gpu,
        memory: &mut Buffers<PinnedBuffer>,
    ) -> Result<Vec<(Place, Sample)>> {
        let mut lane = Lane::new(self, gpu, self.expected.len())?;
        let mut state = (memory, &mut lane);
        let streamed = interleave(
            plan,
            1,
            &mut state,
            |(memory, _)| memory.spoil(&self.expected),
            |(memory, lane), _| lane.pass(memory.both()),
            |(memory, lane), _| {
                let tag = match self.seals() {
                    true => Some(lane.read_tag()?),
                    false => None,
                };
                self.check(
                    memory.output(),
                    tag.as_ref().map(|tag| &tag[..]),
                    "one stream",
                )
            },
        )?;
        // SAFETY: the lane's buffers live, and nothing else uses them.
        let resident = unsafe { gpu.time_plan(&lane.plan)? };
        let mut samples = vec![(Place::Resident, resident)];
        samples.extend(
            streamed
                .into_iter()
                .map(|sample| (Place::GpuOneStream, sample)),
        );
        Ok(samples)
    }
}

impl<'a> Lane<'a> {
    fn new(work: &Work, gpu: &'a Gpu, bytes: usize) -> Result<Self> {
        let device: &Device = &gpu.device;
        let text = device.alloc(bytes)?;
        // The GPU has no empty buffers.
        let (mut tag, mut iv) = (device.alloc(16)?, device.alloc(work.ivs.len().max(1))?);
        tag.write(0, &work.tags)?;
        let place = DeviceText::in_place(text.region());
        let mut batch = DeviceBatch::new(work.direction, &work.key, place);
        if !work.ivs.is_empty() {
            iv.write(0, &work.ivs)?;
            batch = batch.ivs(DeviceIvs::Each(iv.region()));
        }
        if work.key.algorithm().is_aead() {
            batch = batch.tags(DeviceTags::Apart(tag.region()));
        }
        Ok(Lane {
            plan: DevicePlan::new(device, batch)?,
            gpu,
            text,
            tag,
            _iv: iv,
        })
    }

    /// Copies in, runs the kernels, copies out, and waits.
    fn pass(&mut self, (input, output): (&PinnedBuffer, &mut PinnedBuffer)) -> Result<()> {
        let stream: &Stream = &self.gpu.stream;
        // SAFETY: all buffers live until the stream was waited for; after an error, until the plan
        // is dropped, which waits.
        unsafe {
            self.text.upload(input, stream)?;
            self.plan.launch(stream)?;
            self.text.download(output, stream)?;
        }
        Ok(stream.synchronize()?)
    }

    fn read_tag(&self) -> Result<[u8; 16]> {
        let mut tag = [0; 16];
        self.tag.read(0, &mut tag)?;
        Ok(tag)
    }
}

#[cfg(test)]
mod tests {
    use warplock::Algorithm;

    use super::*;

    #[test]
    fn missing_output_is_refused_whatever_was_there_before() {
        let work = Work {
            direction: Direction::Encrypt,
            key: Key::generate(Algorithm::Aes128Ctr).unwrap(),
            count: 1,
            ivs: vec![0; 16],
            tags: Vec::new(),
            expected: random::bytes(10_000).unwrap(),
        };
        let plan = Plan {
            // A turn is one job.
            shortest: std::time::Duration::ZERO,
            ..Plan::quick()
        };
        for sets in [1, 4] {
            for writers in 1..=4 {
                let names: Vec<_> = (0..=writers).map(|place| format!("{place}.")).collect();
                let measure = |idle: Option<usize>| {
                    let make = || Ok(vec![0; work.expected.len()]);
                    let mut memory = Buffers::new(sets, &work.expected, make).unwrap();
                    work.turns(&plan, &names, &mut memory, |place, (input, output), _| {
                        if Some(place) != idle {
                            output.copy_from_slice(input);
                        }
                        Ok(())
                    })
                };
                measure(None).unwrap();
                let refused = measure(Some(writers)).unwrap_err().to_string();
                assert!(refused.contains(&names[writers]), "{refused}");
            }
        }
    }
}
