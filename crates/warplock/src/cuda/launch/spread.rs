//! The tables of a call, made on the device (`kernels/spread.cuh`): the host sends a few numbers, or
//! a span for each message, instead of some 170 bytes.

use super::abi::{Address, ROW};
use super::pieces::Unit;
use super::steps::{Grid, Parameter, Step};
use crate::cuda::driver::module::Family;

/// Something of each message: `base`, and an offset from an array, or `stride` for each message.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Column {
    pub(crate) base: Address,
    /// 64-bit numbers on the device, `step` apart; 0: by `stride`.
    pub(crate) offsets: Address,
    /// Likewise; 0: all have `len`.
    pub(crate) lens: Address,
    pub(crate) step: u64,
    pub(crate) stride: u64,
    pub(crate) len: u64,
}

impl Column {
    /// Things of `len` bytes, `stride` bytes apart.
    pub(crate) fn even(base: Address, stride: u64, len: u64) -> Self {
        Column {
            base,
            stride,
            len,
            ..Column::default()
        }
    }
}

/// Where tags are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum TagPlace {
    #[default]
    InColumn,
    AfterInput,
    AfterOutput,
}

/// IVs that the kernel writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum OwnIv {
    #[default]
    None,
    Sector,
    Xor,
    Add32,
}

/// The kernels' parameter.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Spread {
    pub(crate) input: Column,
    pub(crate) output: Column,
    pub(crate) iv: Column,
    pub(crate) aad: Column,
    pub(crate) tag: Column,
    pub(crate) count: u64,
    /// 0: none.
    pub(crate) pieces: Address,
    /// 0: none.
    pub(crate) messages: Address,
    /// ACORN's messages; 0: none.
    pub(crate) acorn: Address,
    /// The number of the message at each place of that array, 32 bits each, which the device makes;
    /// 0: in order.
    pub(crate) order: Address,
    /// [`CLASSES`] bytes of zeros, with which it does.
    pub(crate) classes: Address,
    /// 0: none.
    pub(crate) starts: Address,
    pub(crate) sums: Address,
    pub(crate) own_ivs: Address,
    /// A number of 128 bits: its low half, its high half.
    pub(crate) first: [u64; 2],
    /// A counter that the first number is taken from instead, for at most [`THREADS`] messages; 0: none.
    pub(crate) next: Address,
    pub(crate) base: [u8; 16],
    pub(crate) own: OwnIv,
    pub(crate) own_len: u32,
    pub(crate) tag_place: TagPlace,
    /// Bytes; 0: a unit is a message.
    pub(crate) unit: u32,
    pub(crate) steals: u32,
    pub(crate) padding: u32,
}

/// Threads of a block, and so messages.
pub(crate) const THREADS: usize = 256;

/// Messages of a block that counts lengths.
const COUNTED: usize = 16 * THREADS;

/// Bytes in which the lengths of ACORN's messages are counted.
pub(crate) const CLASSES: usize = 4 * 4096 + 16;

/// Bytes of [`Spread::sums`].
pub(crate) fn sums(count: usize) -> usize {
    8 * count.div_ceil(THREADS)
}

impl Spread {
    pub(crate) fn set_unit(&mut self, unit: Unit) {
        (self.unit, self.steals) = match unit {
            Unit::Message => (0, 0),
            Unit::Row => (ROW as u32, 0),
            Unit::Block => (16, 0),
            Unit::XtsBlock => (16, 1),
        };
    }

    pub(crate) fn steps(&self) -> Vec<Step<'_>> {
        let step = |name: &str, grid| Step {
            name: name.to_owned(),
            family: Family::PLAIN,
            grid,
            parameters: vec![Parameter::Spread(self)],
        };
        let all = || Grid::Threads(self.count.max(1));
        let mut steps = Vec::with_capacity(3);
        if self.order != 0 {
            let blocks = self.count.div_ceil(COUNTED as u64) as u32;
            steps.push(step("count_classes", Grid::Blocks(blocks)));
            steps.push(step("sort_messages", all()));
        }
        steps.extend((self.starts != 0).then(|| step("sum_units", all())));
        steps.push(step("spread_messages", all()));
        steps
    }
}

// The kernels check the same numbers.
const _: () = {
    assert!(size_of::<Column>() == 48 && size_of::<Spread>() == 376);
    assert!(std::mem::offset_of!(Spread, base) == 336);
};
