//! Nonces that need not be given one by one.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warplock::Algorithm;

use super::device;
use crate::buffer::Input;
use crate::errors;
use crate::fork::OfThisProcess;

/// A counter of nonces in GPU memory, which every launch that seals advances.
#[pyclass(frozen, module = "warplock._native")]
pub(crate) struct NonceCounter(OfThisProcess<warplock::cuda::NonceCounter>);

#[pymethods]
impl NonceCounter {
    /// On the GPU `number`, with a random start, or a prefix and a count from 0.
    #[new]
    #[pyo3(signature = (number, algorithm, prefix))]
    fn new(
        py: Python<'_>,
        number: u32,
        algorithm: &str,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let algorithm: Algorithm = algorithm
            .parse()
            .map_err(|error| errors::engine(py, error))?;
        let prefix = prefix.map(|given| Input::of(given, "prefix")).transpose()?;
        NonceCounter::make(py, number, algorithm, prefix.as_ref().map(Input::bytes))
    }
}

impl NonceCounter {
    pub(super) fn make(
        py: Python<'_>,
        number: u32,
        algorithm: Algorithm,
        prefix: Option<&[u8]>,
    ) -> PyResult<Self> {
        let device = device::device(py, number)?;
        let made = py.detach(|| warplock::cuda::NonceCounter::new(&device, algorithm, prefix));
        let made = made.map_err(|error| errors::engine(py, error))?;
        Ok(NonceCounter(OfThisProcess::new(made)))
    }

    pub(super) fn get(&self, py: Python<'_>) -> PyResult<&warplock::cuda::NonceCounter> {
        self.0.get(py)
    }
}

/// The nonces that follow from a base and a number: `base` XOR the number in its last eight bytes,
/// or `base` plus the number in its last four, big-endian and modulo 2^32.
#[pyclass(frozen, module = "warplock.cuda")]
pub(crate) struct CountedNonces {
    base: Vec<u8>,
    pub(super) first: First,
}

#[derive(Clone, Copy)]
pub(super) enum First {
    Xor(u64),
    Add32(u32),
}

#[pymethods]
impl CountedNonces {
    #[new]
    #[pyo3(signature = (kind, base, first))]
    fn new(kind: &str, base: &Bound<'_, PyAny>, first: u64) -> PyResult<Self> {
        let py = base.py();
        let base = Input::of(base, "base")?.bytes().to_vec();
        if base.len() < 8 {
            let problem = format!("the base of nonces has {} bytes: give a nonce", base.len());
            return Err(errors::batch(py, problem));
        }
        let first = match kind {
            "xor" => First::Xor(first),
            _ => First::Add32(
                u32::try_from(first)
                    .map_err(|_| errors::batch(py, "the first number to add must be below 2^32"))?,
            ),
        };
        Ok(CountedNonces { base, first })
    }

    /// The nonces themselves, one after the other, for host memory.
    fn bytes<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyBytes>> {
        let most = match self.first {
            First::Xor(first) => u64::MAX - first,
            First::Add32(_) => u64::from(u32::MAX),
        };
        if count as u64 > most {
            let problem = format!("there are no {count} different nonces from there on");
            return Err(errors::batch(py, problem));
        }
        let mut all = Vec::with_capacity(self.base.len() * count);
        for number in 0..count as u64 {
            let (start, end) = self.base.split_at(self.base.len() - 8);
            let end = u64::from_be_bytes(*end.first_chunk().expect("eight bytes"));
            let end = match self.first {
                First::Xor(first) => end ^ (first + number),
                First::Add32(first) => {
                    let low = (end as u32).wrapping_add(first).wrapping_add(number as u32);
                    end >> 32 << 32 | u64::from(low)
                }
            };
            all.extend_from_slice(start);
            all.extend_from_slice(&end.to_be_bytes());
        }
        Ok(PyBytes::new(py, &all))
    }

    fn __repr__(&self) -> &'static str {
        match self.first {
            First::Xor(_) => "<warplock.cuda.xor_nonces>",
            First::Add32(_) => "<warplock.cuda.add32_nonces>",
        }
    }
}

impl CountedNonces {
    pub(super) fn base(&self) -> &[u8] {
        &self.base
    }
}
