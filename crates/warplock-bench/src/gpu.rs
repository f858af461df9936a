//! The GPU that suites run on.

use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};

use warplock::cuda::{Device, Event, PinnedBuffer, Plan, Stream, devices};
use warplock::{BackendChoice, Engine};

use crate::error::Result;
use crate::{Context, Error, Sample};

/// Launches before the measured ones.
const WARM_UP: usize = 2;

/// Measured launches, at least.
pub(crate) const LAUNCHES: usize = 15;

/// Pageable memory or pinned memory.
pub(crate) enum HostBytes {
    Pageable(Vec<u8>),
    Pinned(PinnedBuffer),
}

impl HostBytes {
    /// Zeros, pinned for a GPU.
    pub(crate) fn new(gpu: Option<&Gpu>, len: usize) -> Result<Self> {
        Ok(match gpu {
            Some(gpu) => HostBytes::Pinned(gpu.device.pinned(len)?),
            None => HostBytes::Pageable(vec![0; len]),
        })
    }

    pub(crate) fn all(&mut self) -> &mut [u8] {
        self
    }
}

impl Deref for HostBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            HostBytes::Pageable(bytes) => bytes,
            HostBytes::Pinned(bytes) => bytes,
        }
    }
}

impl DerefMut for HostBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            HostBytes::Pageable(bytes) => bytes,
            HostBytes::Pinned(bytes) => bytes,
        }
    }
}

/// A GPU, a stream and two events in it.
pub(crate) struct Gpu {
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    start: Event,
    end: Event,
}

impl Gpu {
    /// The GPU of `--backend cuda:N`, or the first one.
    pub(crate) fn open(context: &Context<'_>) -> Result<Self> {
        let number = match context.choice {
            Some(BackendChoice::Cuda(number)) => number.unwrap_or(0),
            _ => {
                // None was named, so its absence is not a failure.
                devices().map_err(|error| Error::NoGpu(error.to_string()))?;
                0
            }
        };
        let device = Device::open(number)?;
        Ok(Gpu {
            stream: device.stream()?,
            start: device.event()?,
            end: device.event()?,
            device,
        })
    }

    /// A line for the report.
    pub(crate) fn line(&self) -> String {
        let gpu = self.device.gpu();
        let (major, minor) = gpu.capability;
        format!(
            "GPU: cuda:{} {}, compute capability {major}.{minor}, {} multiprocessors, {} memory",
            gpu.number,
            gpu.name,
            gpu.multiprocessors,
            crate::table::scaled(gpu.memory as f64, "B"),
        )
    }

    /// Seconds that queued work takes, on the device's clock, after a warm-up.
    pub(crate) fn time(&self, mut queue: impl FnMut(&Stream) -> Result<()>) -> Result<Sample> {
        let samples = self.time_in_turn(1, |_, stream| queue(stream))?;
        Ok(samples[0])
    }

    /// The same for several kinds of work, numbered from 0 on: in turn, so that all run at the same
    /// clock rates. The highest number comes last.
    pub(crate) fn time_in_turn(
        &self,
        count: usize,
        mut queue: impl FnMut(usize, &Stream) -> Result<()>,
    ) -> Result<Vec<Sample>> {
        let mut seconds = vec![Vec::new(); count];
        for round in 0..WARM_UP + LAUNCHES {
            for (number, seconds) in seconds.iter_mut().enumerate() {
                self.start.record(&self.stream)?;
                queue(number, &self.stream)?;
                self.end.record(&self.stream)?;
                let taken = self.end.seconds_since(&self.start)?;
                if round >= WARM_UP {
                    seconds.push(taken);
                }
            }
        }
        Ok(seconds.into_iter().map(Sample::of).collect())
    }

    /// Seconds that a plan's launches take.
    ///
    /// # Safety
    /// What the plan names lives, and nothing else uses it.
    pub(crate) unsafe fn time_plan(&self, plan: &Plan) -> Result<Sample> {
        // SAFETY: by this function's contract; `time` waits for the last launch.
        self.time(|stream| Ok(unsafe { plan.launch(stream) }?))
    }
}

/// Bytes of text that an engine's GPUs did so far.
pub(crate) fn done_on_gpus(engine: &Engine) -> u64 {
    engine.gpu_bytes().iter().map(|share| share.bytes).sum()
}

/// The CPU with all threads, which results are compared with.
pub(crate) fn cpu_engine(threads: NonZeroUsize) -> Result<Engine> {
    let builder = Engine::builder().backend(BackendChoice::Cpu(None));
    Ok(builder.threads(threads).build()?)
}
