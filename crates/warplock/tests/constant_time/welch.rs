//! Do times of two classes differ?

/// Above this |t|, dudect calls a function not constant time; chance gives 5 once in a million
/// tests.
pub(crate) const THRESHOLD: f64 = 10.0;

/// Welch's t of two sets of times: the difference of the means in units of its own deviation.
fn welch(a: &[f64], b: &[f64]) -> f64 {
    let moments = |values: &[f64]| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| (value - mean).powi(2));
        (mean, squares.sum::<f64>() / (n - 1.0) / n)
    };
    let ((mean_a, error_a), (mean_b, error_b)) = (moments(a), moments(b));
    (mean_a - mean_b) / (error_a + error_b).sqrt().max(f64::MIN_POSITIVE)
}

/// The largest |t| over all times and over those below some percentiles, as the long ones tell of
/// interruptions and not of the code.
pub(crate) fn largest_t(times: &[(bool, f64)]) -> f64 {
    let mut sorted: Vec<f64> = times.iter().map(|&(_, time)| time).collect();
    sorted.sort_by(f64::total_cmp);
    let crops = [1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.5];
    let t = crops.map(|part| {
        let limit = sorted[(part * (sorted.len() - 1) as f64) as usize];
        let class = |wanted: bool| -> Vec<f64> {
            let kept = times
                .iter()
                .filter(|(fixed, time)| *fixed == wanted && *time <= limit);
            kept.map(|&(_, time)| time).collect()
        };
        welch(&class(true), &class(false)).abs()
    });
    t.into_iter().fold(0.0, f64::max)
}

#[test]
fn welch_tells_means_apart() {
    let near = |mean: f64| -> Vec<f64> { (0..100).map(|i| mean + f64::from(i % 10)).collect() };
    assert_eq!(welch(&near(5.0), &near(5.0)), 0.0);
    assert!(welch(&near(15.0), &near(5.0)) > THRESHOLD);
    assert!(welch(&near(5.0), &near(15.0)) < -THRESHOLD);
}
