//! Statistics of ciphertexts.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warplock_analyze::{Data, Options, Shape, Test, analyze, compare};

use crate::buffer::Input;

/// A result as a tuple: channel, name, title, value, expected, deviation, bounds (level, low, high),
/// p-value, sentence.
type Result = (
    &'static str,
    &'static str,
    &'static str,
    f64,
    f64,
    f64,
    Vec<(f64, Option<f64>, Option<f64>)>,
    f64,
    String,
);

fn told(channel: &'static str, test: &Test) -> Result {
    let bounds = test.bounds.iter();
    (
        channel,
        test.name,
        test.title,
        test.value,
        test.expected,
        test.deviation,
        bounds
            .map(|bound| (bound.level, bound.low, bound.high))
            .collect(),
        test.p_value,
        test.sentence.clone(),
    )
}

fn data<'a>(bytes: &'a [u8], shape: Option<(usize, usize, usize)>) -> PyResult<Data<'a>> {
    let Some((height, width, channels)) = shape else {
        return Ok(Data::bytes(bytes));
    };
    let shape = Shape {
        width,
        height,
        channels,
    };
    Data::image(bytes, shape).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Every statistic of a ciphertext. `shape`: rows, columns and channels of an image.
#[pyfunction]
pub(crate) fn analyze_data(
    py: Python<'_>,
    object: &Bound<'_, PyAny>,
    shape: Option<(usize, usize, usize)>,
    seed: u64,
) -> PyResult<Vec<Result>> {
    let input = Input::of(object, "the ciphertext")?;
    let data = data(input.bytes(), shape)?;
    let options = Options {
        seed,
        ..Options::default()
    };
    let report = py.detach(|| analyze(&data, &options));
    let channels = report.channels.iter();
    let each =
        channels.flat_map(|channel| channel.tests.iter().map(|test| told(channel.name, test)));
    Ok(each
        .chain(report.tests.iter().map(|test| told("", test)))
        .collect())
}

/// Every statistic of two ciphertexts of one size, and the first byte that differs.
#[pyfunction]
pub(crate) fn compare_data(
    py: Python<'_>,
    left: &Bound<'_, PyAny>,
    right: &Bound<'_, PyAny>,
    shape: Option<(usize, usize, usize)>,
) -> PyResult<(Vec<Result>, Option<u64>)> {
    let left = Input::of(left, "the first ciphertext")?;
    let right = Input::of(right, "the second ciphertext")?;
    let (left, right) = (data(left.bytes(), shape)?, data(right.bytes(), shape)?);
    let found = py.detach(|| compare(&left, &right));
    let found = found.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let channels = found.channels.iter();
    let each =
        channels.flat_map(|channel| channel.tests.iter().map(|test| told(channel.name, test)));
    Ok((each.collect(), found.first))
}
