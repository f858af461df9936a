//! Bytes a second of the pass for histogram, entropy and the three correlations, on one core:
//! `cargo run --release -p warplock-analyze --example speed`.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

use warplock_analyze::{Correlation, Direction, Entropy, Plane, Random, Tables};

fn main() {
    let width = 8192;
    let mut bytes = vec![0; width * width];
    Random::new(1).fill(&mut bytes);
    let plane = Plane::rows(&bytes, width);
    let mut best = f64::INFINITY;
    for _ in 0..9 {
        let start = Instant::now();
        let tables = Tables::of(&plane, NonZeroUsize::MIN);
        black_box(Entropy::of(&tables.histogram));
        for direction in Direction::ALL {
            black_box(Correlation::of(&plane, &tables, direction));
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{:.2} GB/s", bytes.len() as f64 / best / 1e9);
}
