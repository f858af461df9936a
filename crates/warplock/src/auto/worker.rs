//! Who takes portions from the queue: how much at a time, and how fast he has shown to be.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How much a taker takes at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most bytes of a portion; a multiple of 512.
    pub(crate) most: usize,
    /// What a portion has at most where messages can be divided so; at most `most`.
    pub(crate) usual: usize,
    /// The fewest that are worth its while.
    pub(crate) least: usize,
    /// The most messages.
    pub(crate) messages: usize,
    /// Portions that it has under way at once.
    pub(crate) depth: usize,
    /// Whether a portion must fit into `most` bytes and `messages` with all padding, and messages
    /// that do not are for others.
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

/// How fast somebody is expected to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Bytes a nanosecond.
    pub(crate) rate: f64,
    /// Nanoseconds that each portion takes besides, during which others can be under way: a GPU's
    /// chain takes as long as hundreds of them.
    pub(crate) latency: f64,
}

impl Pace {
    /// So many bytes a nanosecond from the start.
    pub(crate) fn of(rate: f64) -> Self {
        Pace { rate, latency: 0.0 }
    }
}

/// At most an hour: who is next to nothing fast is free at some time, too.
fn nanoseconds(count: f64) -> Duration {
    Duration::from_nanos((count as u64).min(3_600_000_000_000))
}

/// Somebody who takes portions.
pub(super) struct Worker {
    pub(super) limits: Limits,
    pub(super) latency: f64,
    /// Bytes a nanosecond: expected at first, then more and more as it was.
    expected: f64,
    pub(super) rate: f64,
    /// When its first portion was done, and how much it has done since.
    first: Option<Instant>,
    done: u64,
    /// How much it has taken and not done.
    held: u64,
    /// With a latency: when the last of these portions is up, and each is done, probably.
    free: Option<Instant>,
    ends: VecDeque<Instant>,
    /// It will take more.
    pub(super) active: bool,
    /// Bytes of text it has done.
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

    /// It takes a portion.
    pub(super) fn take(&mut self, weight: u64, now: Instant) {
        self.held += weight;
        if self.latency > 0.0 {
            let (begin, bytes) = (self.begin(now), weight as f64);
            let after = |bytes: f64| begin + nanoseconds(bytes / self.rate);
            self.free = Some(after(bytes));
            self.ends.push_back(after(self.alone(bytes)));
        }
    }

    /// It has done the oldest of its portions, with this weight.
    pub(super) fn put(&mut self, weight: u64) {
        self.held = self.held.saturating_sub(weight);
        self.ends.pop_front();
    }

    /// When it can begin with another portion, if portions have a latency: when the last one is
    /// only waited for, and not too many are.
    fn begin(&self, now: Instant) -> Instant {
        let full = self.ends.len().checked_sub(self.limits.depth);
        let place = full.and_then(|oldest| self.ends.get(oldest).copied());
        self.free.into_iter().chain(place).fold(now, Instant::max)
    }

    /// How many bytes it could do in the time of a portion of so many: with a latency, they go up
    /// before it and come down after it.
    pub(super) fn alone(&self, bytes: f64) -> f64 {
        match self.latency > 0.0 {
            true => 2.0 * bytes + self.rate * self.latency,
            false => bytes,
        }
    }

    /// How many bytes it could do before it can begin with another portion.
    pub(super) fn backlog(&self, now: Instant) -> f64 {
        match self.latency > 0.0 {
            true => (self.begin(now) - now).as_secs_f64() * 1e9 * self.rate,
            false => self.held as f64,
        }
    }

    /// Corrects its rate. The first portion is no measure: of a GPU's, only one is under way at
    /// the beginning. What was expected counts like what it has under way at once.
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
    fn a_place_must_be_free_before_another_portion_begins() {
        let limits = Limits {
            depth: 2,
            ..Limits::CPU
        };
        let pace = Pace {
            rate: 1.0,
            latency: 1e6,
        };
        let mut taker = Worker::new(limits, pace);
        let start = Instant::now();
        let at = |microseconds| start + Duration::from_micros(microseconds);
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 10.0, "{found}");
        assert_eq!(taker.backlog(start), 0.0);
        // One after the other, but the second need not wait until the first is done.
        taker.take(100_000, start);
        near(taker.backlog(start), 100_000.0);
        taker.take(100_000, start);
        // A third must: 100 us up, the latency, and 100 us down.
        near(taker.backlog(start), 1_200_000.0);
        near(taker.backlog(at(500)), 700_000.0);
        taker.put(100_000);
        near(taker.backlog(at(1200)), 0.0);
        // Without a latency, what it has counts.
        let mut worker = Worker::new(Limits::CPU, Pace::of(1.0));
        worker.take(100_000, start);
        assert_eq!(worker.backlog(at(50)), 100_000.0);
        worker.put(100_000);
        assert_eq!(worker.backlog(at(50)), 0.0);
    }

    #[test]
    fn what_was_expected_gives_way_to_what_is_seen() {
        let mut taker = Worker::new(Limits::CPU, Pace::of(10.0));
        let start = Instant::now();
        let step = Duration::from_micros(250);
        // A MiB in 250 us, where 105 us were expected; the first tells nothing.
        taker.learn(1 << 20, start);
        assert_eq!(taker.rate, 10.0);
        taker.learn(1 << 20, start + step);
        assert!((5.0..9.0).contains(&taker.rate), "{}", taker.rate);
        (2..50).for_each(|turn| taker.learn(1 << 20, start + turn * step));
        assert!((4.0..4.6).contains(&taker.rate), "{}", taker.rate);
    }
}
