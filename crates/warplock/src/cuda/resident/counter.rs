//! Nonces that are counted: by a counter in GPU memory, or from a base that the caller gives.

use std::fmt;

use super::batch::DeviceIvs;
use super::check::Checked;
use super::device::Device;
use super::sheet::PlanSheet;
use crate::cuda::driver::memory::{DeviceBytes, DeviceMemory};
use crate::cuda::driver::module::Family;
use crate::cuda::launch::abi::Address;
use crate::cuda::launch::link::Link;
use crate::cuda::launch::steps::{Grid, Parameter, Step};
use crate::random::fill_random;
use crate::{Algorithm, AlgorithmInfo, BatchProblem, Error, Lack};

/// Nonces that the kernel writes that takes the numbers.
const FIRST_NONCES: u64 = 1024;

/// Bytes of a nonce that are counted.
const NUMBER: usize = 8;

/// A source of nonces in GPU memory: every launch that seals takes new ones, whatever its stream, and
/// also when a graph runs again.
///
/// A nonce is a prefix and a number of eight bytes that increases by one for each message. Without
/// a given prefix, prefix and first number are random, 96 bits for GCM: counters of any number of
/// processes may then seal under one key, and a common nonce is less likely than with random nonces
/// (2^32 counters of 2^20 messages each: 2^-12; NIST SP 800-38D, 8.2.1).
pub struct NonceCounter {
    /// The next number.
    memory: DeviceMemory,
    prefix: [u8; NUMBER],
    nonce_len: usize,
    device: Device,
}

impl NonceCounter {
    /// Makes a counter for an authenticated algorithm. `prefix`: none for a random one, or the nonce's
    /// bytes before the last eight (4 bytes for GCM, 8 for ACORN), which no other counter under the
    /// same keys may have; it counts from 0 then. Tests its kernels on the device. Allocates and synchronises.
    ///
    /// # Errors
    /// [`Error::Batch`] if the algorithm does not authenticate or the prefix has another length,
    /// [`Error::Randomness`], [`Error::Backend`] if the device fails.
    pub fn new(
        device: &Device,
        algorithm: Algorithm,
        prefix: Option<&[u8]>,
    ) -> Result<Self, Error> {
        let info = algorithm.info();
        if !algorithm.is_aead() {
            return Err(Lack::CountedNonces.of(algorithm));
        }
        let nonce_len = info.iv_len();
        let mut drawn = [0; 2 * NUMBER];
        let (start, random) = drawn.split_at_mut(NUMBER);
        let random = &mut random[..nonce_len - NUMBER];
        match prefix {
            None => {
                fill_random(start)?;
                fill_random(random)?;
            }
            Some(given) if given.len() == random.len() => random.copy_from_slice(given),
            Some(given) => {
                return Err(BatchProblem::NoncePrefix {
                    needed: random.len(),
                    found: given.len(),
                }
                .of_batch());
            }
        }
        let start = u64::from_le_bytes(*start.first_chunk().expect("eight bytes"));
        let mut own = [0; NUMBER];
        own[..random.len()].copy_from_slice(random);
        let memory = device.call(|device| device.link().device(NUMBER))?;
        let counter = NonceCounter {
            memory,
            prefix: own,
            nonce_len,
            device: device.clone(),
        };
        counter.test()?;
        // SAFETY: the memory is the counter's own, and nothing is queued that uses it.
        device.call(|device| unsafe {
            device.write(counter.memory.address(), &start.to_le_bytes())
        })?;
        Ok(counter)
    }

    /// Where the next number is.
    pub(super) fn next(&self) -> Address {
        self.memory.address()
    }

    /// The bytes before the number; zeros follow.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Refuses an algorithm with nonces of another kind.
    pub(super) fn check(&self, info: &AlgorithmInfo) -> Result<(), Error> {
        match info.algorithm.is_aead() && info.iv_len() == self.nonce_len {
            true => Ok(()),
            false => Err(Lack::CountedNonces.of(info.algorithm)),
        }
    }

    /// The kernels, which are loaded with their first launch, on known numbers.
    fn test(&self) -> Result<(), Error> {
        const COUNT: usize = FIRST_NONCES as usize + 2;
        let first = u64::MAX - 1;
        let mut found = vec![0; COUNT * self.nonce_len];
        self.device.call(|device| {
            let memory = device.link().device(NUMBER + found.len())?;
            let (taken, nonces) = (memory.address(), memory.address() + NUMBER as Address);
            // SAFETY: the memory is this function's own, and lives until the copy has completed.
            unsafe {
                device.write(self.memory.address(), &first.to_le_bytes())?;
                for step in self.steps(COUNT as u64, taken, nonces) {
                    device.link().launch(device.own_stream(), &step)?;
                }
                device.own_stream().wait("testing the kernels of nonces")?;
                device.read(&mut found, nonces)
            }
        })?;
        let mut wanted = Vec::new();
        for number in 0..COUNT as u64 {
            wanted.extend_from_slice(&self.prefix[..self.nonce_len - NUMBER]);
            wanted.extend_from_slice(&first.wrapping_add(number).to_be_bytes());
        }
        match found == wanted {
            true => Ok(()),
            false => Err(self.device.failed("its kernels make wrong nonces")),
        }
    }

    /// Takes numbers for `count` nonces, notes the first one at `taken`, and writes the nonces.
    fn steps(&self, count: u64, taken: Address, nonces: Address) -> Vec<Step<'static>> {
        let nonce = [
            Parameter::Count(u64::from_le_bytes(self.prefix)),
            Parameter::Number(self.nonce_len as u32),
            Parameter::Count(count),
            Parameter::Address(nonces),
        ];
        let step = |name: &str, grid, mut parameters: Vec<Parameter<'static>>| {
            parameters.extend(nonce);
            Step {
                name: name.to_owned(),
                family: Family::PLAIN,
                grid,
                parameters,
            }
        };
        let numbers = [
            Parameter::Address(self.memory.address()),
            Parameter::Address(taken),
        ];
        let mut steps = vec![step("take_nonces", Grid::Blocks(1), numbers.into())];
        if let Some(rest) = count.checked_sub(FIRST_NONCES).filter(|&rest| rest > 0) {
            steps.push(step("write_nonces", Grid::Threads(rest), vec![numbers[1]]));
        }
        steps
    }
}

impl fmt::Debug for NonceCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NonceCounter(on {:?})", self.device)
    }
}

impl Drop for NonceCounter {
    /// Waits for the whole device.
    fn drop(&mut self) {
        self.device.settle();
    }
}

/// The launches before all others of a batch whose sheet lies at `sheet`.
pub(super) fn steps(batch: &Checked<'_>, layout: &PlanSheet, sheet: Address) -> Vec<Step<'static>> {
    match batch.ivs {
        DeviceIvs::Counter { counter, nonces } => {
            let taken = sheet + layout.counted as Address;
            let count = batch.count() as u64;
            counter.steps(count, taken, nonces.address())
        }
        _ => Vec::new(),
    }
}

/// The nonce of message `number` of [`DeviceIvs::Xor`].
pub(super) fn xor(nonce: &mut [u8], base: &[u8], first: u64, number: usize) {
    nonce.copy_from_slice(base);
    let end = nonce.last_chunk_mut().expect("nonces have eight bytes");
    *end = (u64::from_be_bytes(*end) ^ (first + number as u64)).to_be_bytes();
}

/// The nonce of message `number` of [`DeviceIvs::Add32`].
pub(super) fn add32(nonce: &mut [u8], base: &[u8], first: u32, number: usize) {
    nonce.copy_from_slice(base);
    let end = nonce.last_chunk_mut().expect("nonces have four bytes");
    let number = first.wrapping_add(number as u32);
    *end = u32::from_be_bytes(*end).wrapping_add(number).to_be_bytes();
}

/// Checks a base of counted nonces, and that the count does not overflow.
pub(super) fn check_base(
    info: &AlgorithmInfo,
    base: &[u8],
    first: u64,
    count: usize,
) -> Result<(), Error> {
    if !info.algorithm.is_aead() {
        return Err(Lack::CountedNonces.of(info.algorithm));
    }
    if base.len() != info.iv_len() {
        return Err(BatchProblem::NonceBase {
            needed: info.iv_len(),
            found: base.len(),
        }
        .of_batch());
    }
    match first.checked_add(count as u64) {
        Some(_) => Ok(()),
        None => Err(BatchProblem::NonceNumbers.of_batch()),
    }
}
