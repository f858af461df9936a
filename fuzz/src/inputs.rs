//! Inputs for the checks of a target, where no fuzzer makes them up.

use std::path::Path;
use std::time::{Duration, Instant};

/// Pseudo-random numbers, the same each time: xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Changes `seed` at a few places, as fuzzers do.
    fn mutate(&mut self, seed: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
        let mut data = seed.to_vec();
        for _ in 0..=self.below(4) {
            let place = self.below(data.len() + 1);
            let end = data.len().min(place + 1 + self.below(16));
            match self.below(6) {
                0 if place < data.len() => data[place] ^= 1 << self.below(8),
                1 if place < data.len() => data[place] = self.next() as u8,
                2 => drop(data.drain(place..end)),
                3 => {
                    let len = self.below(8);
                    let piece = self.bytes(len);
                    drop(data.splice(place..place, piece));
                }
                4 => {
                    let piece = data[place..end].to_vec();
                    let to = self.below(data.len() + 1);
                    drop(data.splice(to..to, piece));
                }
                _ => {
                    let other = &others[self.below(others.len())];
                    let (from, len) = (self.below(other.len() + 1), self.below(64));
                    let piece = other[from..].iter().copied().take(len);
                    drop(data.splice(place..end, piece));
                }
            }
        }
        data
    }
}

/// The committed inputs of a target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let Ok(listed) = std::fs::read_dir(folder.join(target)) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// Runs a target's checks over its seeds, then for two seconds, or `WARPLOCK_FUZZ_SECONDS`, over
/// changed seeds and random bytes of up to `longest`. At least one input in `one_in` must get past
/// the first of the checks.
pub(crate) fn try_inputs(
    target: &str,
    longest: usize,
    one_in: usize,
    check: impl Fn(&[u8]) -> bool,
) {
    let seeds = seeds(target);
    let (mut inputs, mut passed) = (0, 0);
    let mut run = |data: &[u8]| {
        passed += usize::from(check(data));
        inputs += 1;
        inputs
    };
    for seed in &seeds {
        run(seed);
    }
    let seconds = std::env::var("WARPLOCK_FUZZ_SECONDS");
    let seconds = seconds.map_or(2, |text| text.parse().expect("a number of seconds"));
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let start = Instant::now();
    loop {
        let len = random.below(longest + 1);
        let done = run(&random.bytes(len));
        if !seeds.is_empty() {
            let seed = &seeds[random.below(seeds.len())];
            run(&random.mutate(seed, &seeds));
        }
        if done > 200 && start.elapsed() > Duration::from_secs(seconds) {
            break;
        }
    }
    println!("{target}: {passed} of {inputs} inputs passed the first check");
    assert!(passed >= inputs / one_in, "{passed} of {inputs}");
}
