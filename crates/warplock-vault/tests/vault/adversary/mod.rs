//! The promise itself: unless something is reported, the tree is what its owner made.
//!
//! Random histories of honest work on one machine or two, with crashes, and between and during them
//! an attacker without a key, that changes the store at random and has old copies of all of it.
//! Excused is only what `docs/vault-format.md` lists: attributes that are missing or old (`xattrs`
//! in [`oracle::Ask`]); without a memory, whatever is an older state or missing
//! ([`model::Window`]); after a crash, what was not synced. Not tried: exchanges in sessions that
//! crash; crashes after going back to a snapshot, with states from before that have the same
//! numbers.
//!
//! `WARPLOCK_VAULT_ATTACKS` says how many steps to take (4000 from seed 1 on without it), and after a
//! colon from which seed on; `scripts/vault-attack` does that for long.

mod attacks;
mod model;
mod oracle;
mod work;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::common::rng::Rng;
use world::World;

/// How long a step may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// The test ends after this many failures.
const FAILURES: u32 = 5;

/// What is printed if something is wrong.
struct Trace {
    seed: u64,
    lines: Vec<String>,
    failed: bool,
}

impl Drop for Trace {
    fn drop(&mut self) {
        if self.failed || std::thread::panicking() {
            eprintln!("seed {}:", self.seed);
            self.lines.iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}

/// Ends the program if it hangs.
fn watch(steps: &'static AtomicU64) {
    std::thread::spawn(move || {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            std::thread::sleep(Duration::from_secs(1));
            match steps.load(Ordering::Relaxed) {
                u64::MAX => return,
                now if now == seen => {}
                now => (seen, since) = (now, Instant::now()),
            }
            if since.elapsed() > PATIENCE {
                eprintln!("it hangs after {seen} steps");
                std::process::abort();
            }
        }
    });
}

#[test]
fn if_nobody_said_anything_the_tree_is_what_its_owner_made() {
    static STEPS: AtomicU64 = AtomicU64::new(0);
    let wanted = std::env::var("WARPLOCK_VAULT_ATTACKS").unwrap_or_default();
    let (steps, seed) = wanted.split_once(':').unwrap_or((&wanted, ""));
    let steps: u64 = steps.parse().unwrap_or(4000);
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let first = match wanted.is_empty() {
        true => 1,
        false => seed.parse().unwrap_or_else(|_| now()),
    };
    eprintln!("{steps} steps from seed {first} on");
    watch(&STEPS);
    let (mut seed, mut failures) = (first, 0);
    while STEPS.load(Ordering::Relaxed) < steps && failures < FAILURES {
        let mut trace = Trace {
            seed,
            lines: Vec::new(),
            failed: false,
        };
        let mut world = World::new(Rng::new(seed), &STEPS, &mut trace.lines);
        if let Err(wrong) = world.live() {
            trace.lines.push(format!("WRONG: {wrong}"));
            trace.failed = true;
            failures += 1;
        }
        seed += 1;
    }
    let done = STEPS.swap(u64::MAX, Ordering::Relaxed);
    eprintln!("{done} steps, {} histories", seed - first);
    assert_eq!(failures, 0);
}
