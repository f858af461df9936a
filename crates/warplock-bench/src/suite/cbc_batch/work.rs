//! A batch: its data, and the ways through it.

use warplock::cuda::{
    DeviceBatch, DeviceBuffer, DeviceIvs, DeviceText, PinnedBuffer, Plan, Stream,
};
use warplock::{Algorithm, Batch, Direction, Engine, Ivs, Key, Keys, Spans, Text};

use crate::error::Result;
use crate::gpu::{Gpu, HostBytes};
use crate::measure::{interleave, time};
use crate::{Context, Error, Sample, message, random};

/// The shape of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) algorithm: Algorithm,
    pub(super) direction: Direction,
    /// How many messages.
    pub(super) count: usize,
    /// Bytes of each.
    pub(super) len: usize,
}

impl Shape {
    pub(super) fn bytes(&self) -> usize {
        self.count * self.len
    }

    fn spans(&self) -> Spans<'static> {
        Spans::Even {
            count: self.count,
            len: self.len,
            stride: self.len,
        }
    }
}

/// The data shared by all measurements of a shape.
pub(super) struct Work {
    pub(super) shape: Shape,
    key: Key,
    ivs: Vec<u8>,
    input: HostBytes,
    /// The CPU's result.
    expected: Vec<u8>,
}

/// What batches on one stream need.
pub(super) struct Lane {
    // Dropped first: it waits for the device.
    plan: Plan,
    stream: Stream,
    text: DeviceBuffer,
    _ivs: Option<DeviceBuffer>,
    output: PinnedBuffer,
}

/// Seconds of a batch's parts when it is alone, on the device's clock.
pub(super) struct Parts {
    pub(super) copy_in: Sample,
    pub(super) kernels: Sample,
    pub(super) copy_out: Sample,
    /// The kernels' names, as profilers show them.
    names: String,
}

impl Parts {
    /// The parts with their names, in order.
    pub(super) fn named(&self) -> [(&str, Sample); 3] {
        [
            ("copy to the GPU", self.copy_in),
            (&self.names, self.kernels),
            ("copy from the GPU", self.copy_out),
        ]
    }

    pub(super) fn total(&self) -> f64 {
        self.named().iter().map(|part| part.1.median).sum()
    }

    /// The share of both copies.
    pub(super) fn copies(&self) -> f64 {
        (self.copy_in.median + self.copy_out.median) / self.total()
    }
}

impl Work {
    /// Random data, in pinned memory if there is a GPU, and the CPU's result.
    pub(super) fn new(gpu: Option<&Gpu>, shape: Shape, cpu: &Engine) -> Result<Self> {
        let len = shape.bytes();
        let iv_len = message::iv_len(shape.algorithm.info().mode);
        let mut work = Work {
            shape,
            key: Key::generate(shape.algorithm)?,
            ivs: random::bytes(iv_len * shape.count)?,
            input: HostBytes::new(gpu, len)?,
            expected: vec![0; len],
        };
        work.input.copy_from_slice(&random::bytes(len)?);
        let mut expected = std::mem::take(&mut work.expected);
        work.on_engine(cpu, &mut expected)?;
        work.expected = expected;
        Ok(work)
    }

    fn on_engine(&self, engine: &Engine, output: &mut [u8]) -> Result<()> {
        let text = Text::Apart {
            input: &self.input,
            input_spans: self.shape.spans(),
            output,
            output_spans: self.shape.spans(),
        };
        let mut batch = Batch::new(self.shape.direction, Keys::One(&self.key), text);
        if !self.ivs.is_empty() {
            batch = batch.ivs(Ivs::Each(&self.ivs));
        }
        Ok(engine.run(batch)?)
    }

    fn lane(&self, gpu: &Gpu) -> Result<Lane> {
        let len = self.shape.bytes();
        let text = gpu.device.alloc(len)?;
        let place = DeviceText::InPlace {
            buffer: text.region(),
            spans: self.shape.spans(),
        };
        let mut batch = DeviceBatch::new(self.shape.direction, &self.key, place);
        let mut ivs = None;
        if !self.ivs.is_empty() {
            let device = ivs.insert(gpu.device.alloc(self.ivs.len())?);
            device.write(0, &self.ivs)?;
            batch = batch.ivs(DeviceIvs::Each(device.region()));
        }
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
            "{} on {} messages: {contender} does not agree with the CPU ({:?})",
            self.shape.algorithm, self.shape.count, self.shape.direction
        )))
    }

    fn pinned(&self) -> &PinnedBuffer {
        match &self.input {
            HostBytes::Pinned(input) => input,
            HostBytes::Pageable(_) => {
                unreachable!("lanes are made for a GPU, whose input is pinned")
            }
        }
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
            self.text.upload(work.pinned(), &self.stream)?;
            self.plan.launch(&self.stream)?;
            Ok(self.text.download(&mut self.output, &self.stream)?)
        }
    }
}

/// The times of engines, in turn.
pub(super) fn time_engines(
    context: &Context<'_>,
    gpu: Option<&Gpu>,
    engines: &[Engine],
    work: &Work,
) -> Result<Vec<Sample>> {
    let mut output = HostBytes::new(gpu, work.expected.len())?;
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
pub(super) fn time_streams(
    context: &Context<'_>,
    gpu: &Gpu,
    work: &Work,
    streams: usize,
) -> Result<Sample> {
    let lanes = (0..streams)
        .map(|_| work.lane(gpu))
        .collect::<Result<Vec<_>>>();
    let mut lanes = lanes?;
    let turns = turns(work.shape.count);
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

/// The parts of a single batch.
pub(super) fn time_parts(gpu: &Gpu, work: &Work) -> Result<Parts> {
    let mut lane = work.lane(gpu)?;
    // SAFETY: everything lives until `time` has waited, or the lane's plan is dropped; here and
    // below.
    let copy_in = gpu.time(|stream| Ok(unsafe { lane.text.upload(work.pinned(), stream) }?))?;
    // SAFETY: as above.
    let kernels = unsafe { gpu.time_plan(&lane.plan)? };
    let copy_out =
        // SAFETY: as above.
        gpu.time(|stream| Ok(unsafe { lane.text.download(&mut lane.output, stream) }?))?;
    Ok(Parts {
        copy_in,
        kernels,
        copy_out,
        names: lane.plan.kernels().collect::<Vec<_>>().join(", "),
    })
}
