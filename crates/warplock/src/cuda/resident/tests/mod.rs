//! Batches in GPU memory: what is refused, and what kernels are told, need no GPU; whether the
//! results are those of the CPU is tested where there is one.

mod large;
mod layout;
mod on_gpu;
mod random;
mod refusals;
mod selftest;
mod split;

use super::split::HashersAt;
use super::{DeviceText, Region};
use crate::Spans;

/// Multiprocessors that only hash, told of at a place that nobody reads.
const HASHERS: HashersAt = HashersAt {
    places: 0x77,
    count: 8,
};

/// A region that nobody follows.
fn region(address: u64, len: usize) -> Region {
    // SAFETY: these tests never launch anything on it.
    unsafe { Region::new(address, len) }
}

fn even(count: usize, len: usize) -> Spans<'static> {
    Spans::Even {
        count,
        len,
        stride: len,
    }
}

/// `count` messages of `len` bytes from one made-up place to another.
fn apart(count: usize, len: usize) -> DeviceText<'static> {
    DeviceText::Apart {
        input: region(0x10_0000, count * len),
        input_spans: even(count, len),
        output: region(0x1000_0000, count * len),
        output_spans: even(count, len),
    }
}
