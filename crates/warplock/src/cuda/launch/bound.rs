//! A launch with its kernel found and its parameters copied: only one call of the driver remains.

use std::ptr::null_mut;

use zeroize::Zeroizing;

use super::steps::Step;
use crate::cuda::driver::api::{Failure, RawStream};
use crate::cuda::driver::module::{Argument, Kernel, Module};

/// The most parameters of any kernel.
const PARAMETERS: usize = 9;

/// A launch that owns its parameters, which may hold round keys and are wiped when dropped.
pub(crate) struct BoundLaunch {
    kernel: Kernel,
    name: String,
    grid: u32,
    threads: u32,
    /// The parameters' values, each at a multiple of 16 bytes.
    values: Zeroizing<Vec<u128>>,
    /// The index of each parameter's first value.
    starts: Vec<usize>,
}

impl BoundLaunch {
    /// Prepares a step. The context is bound.
    pub(crate) fn new(
        step: &Step<'_>,
        module: &Module,
        multiprocessors: u32,
    ) -> Result<Self, Failure> {
        let (kernel, grid, threads) = step.shape(module, multiprocessors)?;
        assert!(
            step.parameters.len() <= PARAMETERS,
            "kernels take few parameters"
        );
        let (values, starts) = pack(step.parameters.iter().map(|parameter| parameter.bytes()));
        Ok(BoundLaunch {
            kernel,
            name: step.name.clone(),
            grid,
            threads,
            values,
            starts,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Queues the launch, without allocating. The context is bound.
    ///
    /// # Safety
    /// As [`Step::launch`].
    pub(crate) unsafe fn launch(&self, stream: &RawStream) -> Result<(), Failure> {
        let mut arguments: [Argument; PARAMETERS] = [null_mut(); PARAMETERS];
        for (argument, &start) in arguments.iter_mut().zip(&self.starts) {
            *argument = self.values[start..].as_ptr().cast_mut().cast();
        }
        let arguments = &mut arguments[..self.starts.len()];
        // SAFETY: the values are those of the step; the rest by this function's contract.
        unsafe {
            self.kernel
                .launch(&self.name, stream, self.grid, self.threads, arguments)
        }
    }
}

/// Copies values of any length to multiples of 16 bytes; also returns the index of each.
fn pack<'a>(values: impl Iterator<Item = &'a [u8]> + Clone) -> (Zeroizing<Vec<u128>>, Vec<usize>) {
    // Allocated in one piece: a growing vector would leave copies that are not wiped.
    let room = values.clone().map(|value| value.len().div_ceil(16)).sum();
    let mut packed = Zeroizing::new(Vec::with_capacity(room));
    let mut starts = Vec::new();
    for value in values {
        starts.push(packed.len());
        for part in value.chunks(16) {
            let mut block = Zeroizing::new([0; 16]);
            block[..part.len()].copy_from_slice(part);
            packed.push(u128::from_ne_bytes(*block));
        }
    }
    (packed, starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_bytes_and_begin_at_multiples_of_16() {
        let long: Vec<u8> = (0..40).collect();
        let values = [&[1, 2, 3, 4][..], &long, &[9; 16]];
        let (packed, starts) = pack(values.into_iter());
        assert_eq!(starts, [0, 1, 4]);
        for (start, value) in starts.into_iter().zip(values) {
            let bytes: Vec<u8> = packed[start..]
                .iter()
                .flat_map(|block| block.to_ne_bytes())
                .take(value.len())
                .collect();
            assert_eq!(bytes, value);
        }
    }
}
