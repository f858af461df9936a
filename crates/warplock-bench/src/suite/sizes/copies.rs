//! The limit of a machine's memory when CPU and GPU both work: a row's bytes copied instead of
//! encrypted.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use warplock::cuda::{DeviceBuffer, PinnedBuffer, Stream};

use crate::Sample;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::measure::Plan;

/// Bytes that a thread copies at a time.
const PIECE: usize = 1 << 20;

/// Bytes that the link copies at a time, each way; all lanes together are larger than the caches.
const LANE: usize = 64 << 20;

const LANES: usize = 4;

/// Pinned memory, with both ways over the link.
struct Lane {
    from: PinnedBuffer,
    to: PinnedBuffer,
    up: (DeviceBuffer, Stream),
    down: (DeviceBuffer, Stream),
}

impl Lane {
    fn new(gpu: &Gpu) -> Result<Self> {
        let device = &gpu.device;
        Ok(Lane {
            from: device.pinned(LANE)?,
            to: device.pinned(LANE)?,
            up: (device.alloc(LANE)?, device.stream()?),
            down: (device.alloc(LANE)?, device.stream()?),
        })
    }

    fn wait(&self) -> Result<()> {
        self.up.1.synchronize()?;
        Ok(self.down.1.synchronize()?)
    }

    fn queue(&mut self) -> Result<()> {
        // SAFETY: the lane's buffers live until its streams are synchronized: `carry` does that,
        // and after an error the buffers' end.
        unsafe {
            self.up.0.upload(&self.from, &self.up.1)?;
            self.down.0.download(&mut self.to, &self.down.1)?;
        }
        Ok(())
    }
}

/// Seconds in which all threads but one copy `from` to `to`, while the last keeps the link busy
/// both ways; what goes over the link need not be copied by threads. Whichever is free takes the
/// next piece, as with `auto`.
pub(super) fn measure(
    plan: &Plan,
    gpu: &Gpu,
    threads: NonZeroUsize,
    (from, to): (&[u8], &mut [u8]),
) -> Result<Sample> {
    let lanes = (0..LANES)
        .map(|_| Lane::new(gpu))
        .collect::<Result<Vec<_>>>();
    let mut lanes = lanes?;
    let mut seconds = Vec::new();
    for run in 0..=plan.min_runs.max(2) {
        let pieces = Mutex::new(from.chunks(PIECE).zip(to.chunks_mut(PIECE)));
        let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
        let start = Instant::now();
        let carried = thread::scope(|scope| {
            for _ in 1..threads.get() {
                let copying = thread::Builder::new().spawn_scoped(scope, || {
                    while let Some((from, to)) = next() {
                        to.copy_from_slice(from);
                    }
                });
                copying.map_err(Error::NoThread)?;
            }
            carry(&mut lanes, || {
                (0..LANE / PIECE).filter_map(|_| next()).count() > 0
            })
        });
        carried?;
        // The first warms up.
        if run > 0 {
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(Sample::of(seconds))
}

/// Copies a lane's bytes both ways as long as there are more.
fn carry(lanes: &mut [Lane], more: impl Fn() -> bool) -> Result<()> {
    for number in 0.. {
        let lane = &mut lanes[number % LANES];
        lane.wait()?;
        if !more() {
            break;
        }
        lane.queue()?;
    }
    lanes.iter().try_for_each(Lane::wait)
}
