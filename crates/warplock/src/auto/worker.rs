//! The workers of a queue: the sizes of their portions, and their measured rates.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The sizes of a worker's portions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most bytes of a portion; a multiple of 512.
    pub(crate) most: usize,
    /// The usual number of bytes, if messages allow it; at most `most`.
    pub(crate) usual: usize,
    /// The fewest bytes that are worth a portion.
    pub(crate) least: usize,
    /// The most messages.
    pub(crate) messages: usize,
    /// The number of portions that are under way at the same time.
    pub(crate) depth: usize,
    /// Whether a portion must fit into `most` bytes and `messages` with all padding; messages that
    /// do not fit are left to other workers.
    pub(crate) fits: bool,
}

impl Limits {
    /// For a CPU thread: large against the cost of taking a portion, small against a second.
    pub(crate) const CPU: Limits = Limits {
        most: 1 << 20,
        usual: 1 << 20,
        least: 64 << 10,
        messages: usize::MAX,
        depth: 2,
        fits: false,
    };
}

/// How fast a worker is expected to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Bytes per nanosecond.
    pub(crate) rate: f64,
    /// Nanoseconds that each portion takes in addition, while other portions can be under way: a
    /// GPU takes as long for one chain as for hundreds.
    pub(crate) latency: f64,
}

impl Pace {
    /// `rate` bytes per nanosecond, without latency.
    pub(crate) fn of(rate: f64) -> Self {
        Pace { rate, latency: 0.0 }
    }
}

/// At most an hour, also for a worker with a rate near zero.
fn nanoseconds(count: f64) -> Duration {
    Duration::from_nanos((count as u64).min(3_600_000_000_000))
}

/// A worker that takes portions.
pub(super) struct Worker {
    pub(super) limits: Limits,
    pub(super) latency: f64,
    /// Bytes per nanosecond: the expected rate, which measurements replace bit by bit.
    expected: f64,
    pub(super) rate: f64,
    /// When the first portion was done, and the bytes done since.
    first: Option<Instant>,
    done: u64,
    /// Bytes taken and not done.
    held: u64,
    /// With a latency: when the last of these portions will be uploaded, and when each will be
    /// done, as estimated.
    free: Option<Instant>,
    ends: VecDeque<Instant>,
    /// Whether it will take more portions.
    pub(super) active: bool,
    /// Bytes of text done.
    pub(super) text: u64,
}

impl Worker {
    pub(super) fn new(limits: Limits, pace: Pace) -> Self {
        Worker {
            limits,
            latency: pace.latency,
            expected: pace.rate,
            rate: pace.rate,
            first: None,
            done: 0,
            held: 0,
            free: None,
            ends: VecDeque::new(),
            active: true,
            text: 0,
        }
    }

    /// Records that it takes a portion.
    pub(super) fn take(&mut self, weight: u64, now: Instant) {
        self.held += weight;
        if self.latency > 0.0 {
            let (begin, bytes) = (self.begin(now), weight as f64);
            let after = |bytes: f64| begin + nanoseconds(bytes / self.rate);
            self.free = Some(after(bytes));
            self.ends.push_back(after(self.alone(bytes)));
        }
    }

    /// Records that its oldest portion, of this weight, is done.
    pub(super) fn put(&mut self, weight: u64) {
        self.held = self.held.saturating_sub(weight);
        self.ends.pop_front();
    }

    /// When it can start another portion, if portions have a latency: when the last one is uploaded
    /// and fewer than `depth` are under way.
    fn begin(&self, now: Instant) -> Instant {
        let full = self.ends.len().checked_sub(self.limits.depth);
        let place = full.and_then(|oldest| self.ends.get(oldest).copied());
        self.free.into_iter().chain(place).fold(now, Instant::max)
    }

    /// The bytes that it could do in the time of a portion of `bytes`: with a latency, a portion is
    /// uploaded first and downloaded last.
    pub(super) fn alone(&self, bytes: f64) -> f64 {
        match self.latency > 0.0 {
            true => 2.0 * bytes + self.rate * self.latency,
            false => bytes,
        }
    }

    /// The bytes that it could do before it can start another portion.
    pub(super) fn backlog(&self, now: Instant) -> f64 {
        match self.latency > 0.0 {
            true => (self.begin(now) - now).as_secs_f64() * 1e9 * self.rate,
            false => self.held as f64,
        }
    }

    /// Corrects its rate. The first portion does not count: at the start, a GPU has only one under
    /// way. The expected rate counts as much as one set of portions under way.
    pub(super) fn learn(&mut self, weight: u64, now: Instant) {
        let Some(first) = self.first else {
            self.first = Some(now);
            return;
        };
        self.done += weight;
        let prior = (self.limits.depth * self.limits.usual) as f64;
        let nanoseconds = (now - first).as_secs_f64() * 1e9;
        let all = nanoseconds + prior / self.expected.max(f64::MIN_POSITIVE);
        self.rate = (self.done as f64 + prior) / all;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_must_be_free_before_another_portion_starts() {
        let limits = Limits {
            depth: 2,
            ..Limits::CPU
        };
        let pace = Pace {
            rate: 1.0,
            latency: 1e6,
        };
        let mut worker = Worker::new(limits, pace);
        let start = Instant::now();
        let at = |microseconds| start + Duration::from_micros(microseconds);
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 10.0, "{found}");
        assert_eq!(worker.backlog(start), 0.0);
        // One after the other, but the second need not wait until the first is done.
        worker.take(100_000, start);
        near(worker.backlog(start), 100_000.0);
        worker.take(100_000, start);
        // A third must wait: 100 us up, the latency, and 100 us down.
        near(worker.backlog(start), 1_200_000.0);
        near(worker.backlog(at(500)), 700_000.0);
        worker.put(100_000);
        near(worker.backlog(at(1200)), 0.0);
        // Without a latency, the bytes taken and not done count.
        let mut worker = Worker::new(Limits::CPU, Pace::of(1.0));
        worker.take(100_000, start);
        assert_eq!(worker.backlog(at(50)), 100_000.0);
        worker.put(100_000);
        assert_eq!(worker.backlog(at(50)), 0.0);
    }

    #[test]
    fn measured_rates_replace_the_expected_one() {
        let mut worker = Worker::new(Limits::CPU, Pace::of(10.0));
        let start = Instant::now();
        let step = Duration::from_micros(250);
        // A MiB in 250 us, where 105 us were expected; the first portion does not count.
        worker.learn(1 << 20, start);
        assert_eq!(worker.rate, 10.0);
        worker.learn(1 << 20, start + step);
        assert!((5.0..9.0).contains(&worker.rate), "{}", worker.rate);
        (2..50).for_each(|turn| worker.learn(1 << 20, start + turn * step));
        assert!((4.0..4.6).contains(&worker.rate), "{}", worker.rate);
    }
}
