//! The checks of the fuzz target `batch` over pseudo-random inputs, for two seconds.

use std::time::{Duration, Instant};

use crate::common::random::Random;

#[path = "../../../../fuzz/src/batch.rs"]
mod batch;

#[test]
fn batches() {
    let mut random = Random::new(1);
    let start = Instant::now();
    let (mut inputs, mut accepted) = (0, 0);
    while inputs < 10_000 || start.elapsed() < Duration::from_secs(2) {
        let len = random.below(600);
        accepted += usize::from(batch::check(&random.bytes(len)));
        inputs += 1;
    }
    assert!(
        accepted > inputs / 100,
        "{accepted} of {inputs} batches ran"
    );
    println!("{accepted} of {inputs}");
}
