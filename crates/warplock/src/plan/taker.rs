//! Who takes portions from the queue: how much at a time, and how fast he has shown to be.

use std::time::Instant;

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

/// Somebody who takes portions.
pub(super) struct Taker {
    pub(super) limits: Limits,
    /// Bytes a nanosecond: expected at first, then more and more as it was.
    expected: f64,
    pub(super) rate: f64,
    /// When its first portion was done, and how much it has done since.
    first: Option<Instant>,
    done: u64,
    /// How much it has taken and not done.
    pub(super) held: u64,
    /// It will take more.
    pub(super) active: bool,
    /// Bytes of text it has done.
    pub(super) text: u64,
}

impl Taker {
    pub(super) fn new(limits: Limits, rate: f64) -> Self {
        Taker {
            limits,
            expected: rate,
            rate,
            first: None,
            done: 0,
            held: 0,
            active: true,
            text: 0,
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_expected_gives_way_to_what_is_seen() {
        let mut taker = Taker::new(Limits::CPU, 10.0);
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
