//! Statistics of ciphertexts.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warplock_analyze::{Comparison, Data, Options, Report, Test, analyze, compare};

use crate::buffer::Input;

/// A result as a tuple: channel, name, title, value, expected, deviation, bounds (level, low, high),
/// p-value, sentence.
pub(crate) type Result = (
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

/// Rows, columns and channels.
pub(crate) type Shape = (usize, usize, usize);

pub(crate) fn shape_of((height, width, channels): Shape) -> warplock_analyze::Shape {
    warplock_analyze::Shape {
        width,
        height,
        channels,
    }
}

fn data<'a>(bytes: &'a [u8], shape: Option<Shape>) -> PyResult<Data<'a>> {
    let Some(shape) = shape else {
        return Ok(Data::bytes(bytes));
    };
    let made = Data::image(bytes, shape_of(shape));
    made.map_err(|error| PyValueError::new_err(error.to_string()))
}

pub(crate) fn reported(report: &Report) -> Vec<Result> {
    let channels = report.channels.iter();
    let each =
        channels.flat_map(|channel| channel.tests.iter().map(|test| told(channel.name, test)));
    each.chain(report.tests.iter().map(|test| told("", test)))
        .collect()
}

pub(crate) fn compared(found: &Comparison) -> (Vec<Result>, Option<u64>) {
    let channels = found.channels.iter();
    let each =
        channels.flat_map(|channel| channel.tests.iter().map(|test| told(channel.name, test)));
    (each.collect(), found.first)
}

/// Every statistic of a ciphertext. `shape`: rows, columns and channels of an image.
#[pyfunction]
pub(crate) fn analyze_data(
    py: Python<'_>,
    object: &Bound<'_, PyAny>,
    shape: Option<Shape>,
    seed: u64,
) -> PyResult<Vec<Result>> {
    let input = Input::of(object, "the ciphertext")?;
    let data = data(input.bytes(), shape)?;
    let options = Options {
        seed,
        ..Options::default()
    };
    let report = py.detach(|| analyze(&data, &options));
    Ok(reported(&report))
}

/// Every statistic of two ciphertexts of one size, and the first byte that differs.
#[pyfunction]
pub(crate) fn compare_data(
    py: Python<'_>,
    left: &Bound<'_, PyAny>,
    right: &Bound<'_, PyAny>,
    shape: Option<Shape>,
) -> PyResult<(Vec<Result>, Option<u64>)> {
    let left = Input::of(left, "the first ciphertext")?;
    let right = Input::of(right, "the second ciphertext")?;
    let (left, right) = (data(left.bytes(), shape)?, data(right.bytes(), shape)?);
    let found = py.detach(|| compare(&left, &right));
    let found = found.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(compared(&found))
}
