//! Where a way's time goes: CPU time of reading, of the cipher and of writing, and waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use crate::error::Result;

/// What a worker does in turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Read,
    Cipher,
    Write,
}

/// Adds up the steps of all workers; off, it costs nothing.
#[derive(Debug, Default)]
pub(super) struct Meter {
    is_on: bool,
    /// Nanoseconds of CPU time, and on the clock.
    steps: [(AtomicU64, AtomicU64); 3],
}

/// Shares of the time of all workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) read: f64,
    pub(super) cipher: f64,
    pub(super) write: f64,
    /// For the disk, for memory that another thread fills, for a core.
    pub(super) waiting: f64,
}

impl Meter {
    pub(super) fn on() -> Self {
        Meter {
            is_on: true,
            ..Meter::default()
        }
    }

    pub(super) fn step<T>(&self, step: Step, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.is_on {
            return work();
        }
        let (cpu, wall) = (thread_nanos(), Instant::now());
        let done = work();
        let (sum_cpu, sum_wall) = &self.steps[step as usize];
        sum_cpu.fetch_add(thread_nanos() - cpu, Ordering::Relaxed);
        sum_wall.fetch_add(wall.elapsed().as_nanos() as u64, Ordering::Relaxed);
        done
    }

    /// The shares; none before anything was measured.
    pub(super) fn shares(&self) -> Option<Shares> {
        let load = |sum: &AtomicU64| sum.load(Ordering::Relaxed) as f64;
        let total: f64 = self.steps.iter().map(|step| load(&step.1)).sum();
        let share = |step: Step| load(&self.steps[step as usize].0) / total;
        let (read, cipher, write) = (share(Step::Read), share(Step::Cipher), share(Step::Write));
        (total > 0.0).then(|| Shares {
            read,
            cipher,
            write,
            waiting: (1.0 - read - cipher - write).max(0.0),
        })
    }
}

fn thread_nanos() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn waiting_is_what_takes_no_cpu_time() {
        let meter = Meter::on();
        let sleep = || {
            std::thread::sleep(Duration::from_millis(30));
            Ok(())
        };
        let spin = || {
            let start = thread_nanos();
            while thread_nanos() < start + 10_000_000 {}
            Ok(())
        };
        meter.step(Step::Read, sleep).unwrap();
        meter.step(Step::Cipher, spin).unwrap();
        let shares = meter.shares().unwrap();
        assert!(shares.waiting > 0.2 && shares.cipher > 0.0, "{shares:?}");
        assert!(shares.cipher > shares.read, "{shares:?}");
        let off = Meter::default();
        off.step(Step::Read, sleep).unwrap();
        assert!(off.shares().is_none());
    }
}
