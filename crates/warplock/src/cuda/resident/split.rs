//! GCM with multiprocessors that only hash while others encrypt (`kernels/hopper`): which
//! multiprocessors, and for which batches.

use super::batch::DeviceKeys;
use super::check::Checked;
use super::sheet::is_at_any_byte;
use crate::Mode;
use crate::cuda::driver::api::{Failure, RawStream};
use crate::cuda::driver::memory::DeviceBytes;
use crate::cuda::driver::memory::{self, DeviceMemory};
use crate::cuda::driver::module::Family;
use crate::cuda::launch::abi::{Address, MULTIPROCESSORS, SPLIT_CAPABILITY, SPLIT_UNIT};
use crate::cuda::launch::link::{CudaLink, Link};
use crate::cuda::launch::policy::Policy;
use crate::cuda::launch::steps::{Grid, Parameter, Step};
use crate::{Keys, Span};

/// The sizes of clusters that are launched to find GPCs: clusters of eight alone may always get the
/// same eight multiprocessors of a GPC.
const CLUSTERS: std::ops::RangeInclusive<u32> = 2..=8;

/// Multiprocessors by GPC, whose multiprocessors share a clock.
pub(super) struct Hashers {
    /// By a multiprocessor's number: its place among all, from 1 on, those of the largest GPC first; 0
    /// if it has none.
    places: DeviceMemory,
    count: u32,
    largest_gpc: u32,
}

/// The device's table of multiprocessors that may hash, and their number.
#[derive(Clone, Copy)]
pub(super) struct HashersAt {
    pub(super) places: Address,
    pub(super) count: u32,
    /// How many of them are in the largest GPC: the first ones.
    pub(super) largest_gpc: u32,
}

impl Hashers {
    /// Finds the GPCs; none on a device without the kernels, such as one that compiles them
    /// from intermediate code. The context is bound. Synchronises.
    pub(super) fn find(
        link: &CudaLink,
        capability: (u32, u32),
        stream: &RawStream,
    ) -> Result<Option<Self>, Failure> {
        if capability != SPLIT_CAPABILITY {
            return Ok(None);
        }
        let mut gpcs = Gpcs::new();
        let blocks = 2 * link.multiprocessors();
        let out = link.device(4 * blocks as usize)?;
        for launch in 1..=16 {
            for cluster in CLUSTERS {
                // Different numbers of clusters find different multiprocessors free.
                let grid = cluster * (blocks / cluster * launch / 16).max(1);
                let step = Step {
                    name: format!("neighbours_{cluster}"),
                    family: Family::PLAIN,
                    grid: Grid::Blocks(grid),
                    parameters: vec![Parameter::Address(out.address())],
                };
                let mut bytes = vec![0; 4 * grid as usize];
                // SAFETY: each block writes its own four bytes of `out`, which is freed after the
                // wait.
                let launched = unsafe { link.launch(stream, &step) };
                if launched.is_err() {
                    // A partitioned GPU may have no room for clusters of this size.
                    continue;
                }
                // SAFETY: as above.
                unsafe {
                    memory::download(stream, bytes.as_mut_ptr(), out.address(), bytes.len())?;
                }
                stream.wait("finding neighbouring multiprocessors")?;
                let numbers = bytes.chunks_exact(4).map(|word| {
                    let word = word.try_into().expect("chunks of four");
                    u32::from_le_bytes(word) as usize
                });
                gpcs.add(&numbers.collect::<Vec<_>>(), cluster as usize);
            }
        }
        let gpcs = gpcs.by_size();
        let Some(largest) = gpcs.first() else {
            return Ok(None);
        };
        let numbers: Vec<usize> = gpcs.iter().flatten().copied().take(255).collect();
        let mut table = vec![0_u8; MULTIPROCESSORS];
        for (place, &number) in numbers.iter().enumerate() {
            table[number] = place as u8 + 1;
        }
        let places = link.device(table.len())?;
        // SAFETY: as above.
        unsafe { memory::upload(stream, places.address(), table.as_ptr(), table.len())? };
        stream.wait("numbering multiprocessors by GPC")?;
        Ok(Some(Hashers {
            places,
            count: numbers.len() as u32,
            largest_gpc: largest.len().min(numbers.len()) as u32,
        }))
    }

    /// The parameters of kernels and policy.
    pub(super) fn at(&self) -> HashersAt {
        HashersAt {
            places: self.places.address(),
            count: self.count,
            largest_gpc: self.largest_gpc,
        }
    }
}

/// The multiprocessors that were seen in one cluster with others, directly or through others.
struct Gpcs {
    /// Union-find: another one of the same GPC, closer to its root.
    parents: Vec<usize>,
}

impl Gpcs {
    fn new() -> Self {
        Gpcs {
            parents: (0..MULTIPROCESSORS).collect(),
        }
    }

    fn root(&self, mut number: usize) -> usize {
        while self.parents[number] != number {
            number = self.parents[number];
        }
        number
    }

    /// Adds clusters of `cluster` blocks, whose multiprocessors are consecutive.
    fn add(&mut self, numbers: &[usize], cluster: usize) {
        for cluster in numbers.chunks_exact(cluster) {
            // An impossible number would be a fault of the driver.
            if cluster.iter().any(|&number| number >= MULTIPROCESSORS) {
                continue;
            }
            for &number in cluster {
                let (root, first) = (self.root(number), self.root(cluster[0]));
                self.parents[root] = first;
            }
        }
    }

    /// Those with several multiprocessors, the largest first; their multiprocessors ascending.
    fn by_size(&self) -> Vec<Vec<usize>> {
        let mut all = vec![Vec::new(); MULTIPROCESSORS];
        for number in 0..MULTIPROCESSORS {
            all[self.root(number)].push(number);
        }
        all.retain(|gpc| gpc.len() > 1);
        all.sort_by_key(|gpc| std::cmp::Reverse(gpc.len()));
        all
    }
}

/// Whether these kernels could take the batch: GCM with a large text under one key, in pieces with
/// the same number of units, nearly full, and results that lie as far into their lines of 16 bytes as
/// their texts.
pub(super) fn may_split(batch: &Checked<'_>, policy: &Policy) -> bool {
    let one = matches!(batch.keys, DeviceKeys::Host(Keys::One(_)));
    // Less than twice as much is done faster by the others where texts are not aligned.
    let much = |from: u64| {
        batch.text_bytes / 2 >= from || batch.text_bytes >= from && !is_at_any_byte(batch)
    };
    if batch.info.mode != Mode::Gcm || !one || !policy.gcm_split.is_some_and(much) {
        return false;
    }
    let spans = |number: usize| {
        (
            batch.input_spans.get(number),
            batch.output_spans.get(number),
        )
    };
    let units = |span: Span| span.len.div_ceil(SPLIT_UNIT);
    let first = units(batch.input_spans.get(0));
    // Where messages are even, the first two tell.
    let looked_at = match batch.input_spans.is_even() && batch.output_spans.is_even() {
        true => batch.count().min(2),
        false => batch.count(),
    };
    let fits = (0..looked_at).map(spans).all(|(from, to)| {
        let input = batch.input.address() + from.offset as Address;
        let output = batch.output.address() + to.offset as Address;
        units(from) == first && (input ^ output).is_multiple_of(16)
    });
    let all = first as u64 * batch.count() as u64;
    fits && u32::try_from(all).is_ok() && batch.text_bytes >= all * (SPLIT_UNIT as u64) / 10 * 9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpcs_grow_by_shared_members() {
        let mut gpcs = Gpcs::new();
        gpcs.add(&[0, 16, 1, 17, 2, 18], 2);
        gpcs.add(&[16, 32, 1], 3);
        // An incomplete cluster, and one with an impossible number.
        gpcs.add(&[2, 0, 40], 2);
        gpcs.add(&[7, MULTIPROCESSORS], 2);
        gpcs.add(&[50, 60, 70, 50], 2);
        let largest = vec![0, 1, 2, 16, 17, 18, 32];
        assert_eq!(gpcs.by_size(), [largest, vec![50, 60, 70]]);
        assert!(Gpcs::new().by_size().is_empty());
    }
}
