//! Batches in GPU memory: tests of refusals and of sheets need no GPU; results are compared with
//! the CPU's where there is one.

mod any_byte;
mod calls;
mod counted;
mod indirect;
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

/// Multiprocessors that only hash, in a table at an address that is never read.
const HASHERS: HashersAt = HashersAt {
    places: 0x77,
    count: 8,
    largest_gpc: 8,
};

/// A region that is never accessed.
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
