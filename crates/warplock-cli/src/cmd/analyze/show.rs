//! Results as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use warplock_analyze::trials::Summary;
use warplock_analyze::{LEVELS, Test};

use super::{Finding, SHORTEST, shown};
use crate::args::Change;
use crate::failure::escaped;

/// What all these results mean.
pub(super) const CLOSING: &str = "\
Such tests find flaws and never show security: a cipher that is trivial to break can pass them all. A
sound one is outside the bounds at 5 % in 1 of 20 results; --trials tells chance from flaw.
";

/// One finding: a line and a sentence for each result.
pub(super) fn finding(text: &mut String, finding: &Finding<'_>) {
    if finding.trials.is_some() {
        return trials(text, finding);
    }
    heading(text, finding);
    let _ = writeln!(
        text,
        "  {:<32}{:>14}{:>14}  {:<24}{:>8}",
        "", "value", "expected", "bounds at 5 %", "p"
    );
    let mut tests = Vec::new();
    for channel in &finding.report.channels {
        tests.extend(channel.tests.iter().map(|test| (channel.name, test)));
    }
    tests.extend(finding.report.tests.iter().map(|test| ("", test)));
    tests.extend(finding.with_plaintext.iter().map(|test| ("", test)));
    tests.iter().for_each(|(name, test)| line(text, name, test));
    if !tests.iter().any(|(_, test)| test.name == "histogram") {
        let _ = writeln!(
            text,
            "  Fewer than {SHORTEST} bytes a channel are too short for most tests: this says little."
        );
    }
    for pair in &finding.pairs {
        let _ = writeln!(text, "{}\n  {}", escaped(&pair.what), pair.meaning);
        pair.tests().for_each(|(name, test)| line(text, name, test));
    }
    let proper = finding
        .pairs
        .iter()
        .filter(|pair| pair.change != Some(Change::Pixel));
    tests.extend(proper.flat_map(|pair| pair.tests()));
    if tests.is_empty() {
        text.push('\n');
        return;
    }
    let outside = tests.iter().filter(|(_, test)| test.is_flagged(LEVELS[0]));
    let smallest = tests
        .iter()
        .map(|(_, test)| test.p_value)
        .fold(1.0, f64::min);
    let _ = writeln!(
        text,
        "{} of {} results{} are outside the bounds at 5 %; the smallest p-value, times their number, \
         is {:.4}: {}.\n",
        outside.count(),
        tests.len(),
        match finding
            .pairs
            .iter()
            .any(|pair| pair.change == Some(Change::Pixel))
        {
            true => ", without those of a changed pixel,",
            false => "",
        },
        (smallest * tests.len() as f64).min(1.0),
        match smallest * tests.len() as f64 {
            0.05.. => "nothing that random data would not show",
            0.001.. => "repeat it with other keys",
            _ => "this is not random data",
        }
    );
}

fn heading(text: &mut String, finding: &Finding<'_>) {
    let len = finding.data.as_bytes().len();
    let shape = finding.data.shape();
    let shape = shape.map_or(String::new(), |shape| format!(", {shape}"));
    let _ = writeln!(text, "{}: {len} bytes{shape}", escaped(&finding.title()));
}

fn line(text: &mut String, channel: &str, test: &Test) {
    let name = match shown(channel) {
        "" => test.title.to_owned(),
        channel => format!("{channel}: {}", test.title),
    };
    let [bounds, ..] = test.bounds;
    let bounds = match (bounds.low, bounds.high) {
        (Some(low), Some(high)) => format!("{} to {}", number(low), number(high)),
        (Some(low), None) => format!("at least {}", number(low)),
        (None, Some(high)) => format!("at most {}", number(high)),
        (None, None) => String::new(),
    };
    let marks = LEVELS.iter().filter(|level| test.is_flagged(**level));
    let _ = writeln!(
        text,
        "  {name:<32}{:>14}{:>14}  {bounds:<24}{:>8.4} {}\n      {}",
        number(test.value),
        number(test.expected),
        test.p_value,
        "*".repeat(marks.count()),
        test.sentence
    );
}

/// Six digits or so, which is what tells an entropy from another.
fn number(value: f64) -> String {
    match value.abs() {
        1000.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.4}"),
        0.000_001.. => format!("{value:.6}"),
        _ => "0".to_owned(),
    }
}

/// The trials of one finding.
pub(super) fn trials(text: &mut String, finding: &Finding<'_>) {
    heading(text, finding);
    for summary in finding.trials.iter().flatten() {
        let _ = writeln!(
            text,
            "  {:<34}{:>14} +- {:<12}\n      {}",
            summary.label,
            number(summary.mean),
            number(summary.deviation),
            summary.sentence()
        );
    }
    text.push('\n');
}

/// A row for each algorithm.
pub(super) fn overview(text: &mut String, findings: &[Finding<'_>]) {
    *text += "\
| algorithm   | chi-square | entropy  | local    | horizontal | vertical | diagonal | repeats | NPCR pixel | NPCR key | NPCR nonce | UACI key | UACI nonce | flagged at 0.1 % |
|-------------|-----------:|---------:|---------:|-----------:|---------:|---------:|--------:|-----------:|---------:|-----------:|---------:|-----------:|------------------|
";
    for finding in findings {
        let name = finding.algorithm.map_or("", |algorithm| algorithm.name());
        // Of several channels the one that is furthest off.
        let value = |change: Option<Change>, name: &str, digits: usize| {
            let of_pairs = finding.pairs.iter().filter(|pair| pair.change == change);
            let of_pairs = of_pairs.flat_map(|pair| pair.tests()).map(|(_, test)| test);
            let of_report = finding.report.tests().filter(|_| change.is_none());
            let tests = of_report.chain(of_pairs).filter(|test| test.name == name);
            let worst = tests.reduce(|a, b| if b.p_value < a.p_value { b } else { a });
            worst.map_or("-".to_owned(), |test| format!("{:.digits$}", test.value))
        };
        let flagged = finding
            .report
            .tests()
            .filter(|test| test.is_flagged(LEVELS[2]));
        let mut flagged: Vec<_> = flagged.map(|test| family(test.name)).collect();
        flagged.dedup();
        for pair in &finding.pairs {
            if pair.change != Some(Change::Pixel)
                && pair.tests().any(|(_, test)| test.is_flagged(LEVELS[2]))
            {
                flagged.push(pair.change.map_or("", Change::name).to_owned());
            }
        }
        let (pixel, key, nonce) = (Some(Change::Pixel), Some(Change::Key), Some(Change::Nonce));
        let _ = writeln!(
            text,
            "| {name:<11} | {:>10} | {:>8} | {:>8} | {:>10} | {:>8} | {:>8} | {:>7} | {:>10} | \
             {:>8} | {:>10} | {:>8} | {:>10} | {:<16} |",
            value(None, "histogram", 1),
            value(None, "entropy", 6),
            value(None, "local_entropy", 6),
            value(None, "correlation_horizontal", 5),
            value(None, "correlation_vertical", 5),
            value(None, "correlation_diagonal", 5),
            value(None, "repeated_blocks", 0),
            value(pixel, "npcr", 4),
            value(key, "npcr", 4),
            value(nonce, "npcr", 4),
            value(key, "uaci", 4),
            value(nonce, "uaci", 4),
            flagged.join(", "),
        );
    }
    text.push('\n');
}

/// Correlations of all kinds are one column's worth of news.
fn family(name: &str) -> String {
    match name.starts_with("correlation") || name.starts_with("sampled") {
        true => "correlation".to_owned(),
        false => name.replace('_', " "),
    }
}

/// A finding for programs. docs/analyze.md lists the fields.
pub(super) fn object(finding: &Finding<'_>) -> Value {
    let shape = finding.data.shape();
    let shape = shape.map(|shape| [shape.width, shape.height, shape.channels]);
    let mut tests = Vec::new();
    for channel in &finding.report.channels {
        let of_channel = channel.tests.iter();
        tests.extend(of_channel.map(|test| test_object(channel.name, None, test)));
    }
    let whole = finding.report.tests.iter().chain(&finding.with_plaintext);
    tests.extend(whole.map(|test| test_object("", None, test)));
    for pair in &finding.pairs {
        let change = pair.change.map_or("against", Change::name);
        tests.extend(
            pair.tests()
                .map(|(name, test)| test_object(name, Some(change), test)),
        );
    }
    let changes = finding.pairs.iter().map(|pair| {
        json!({
            "change": pair.change.map_or("against", Change::name),
            "what": pair.what,
            "meaning": pair.meaning,
            "first_difference": pair.comparison.first,
        })
    });
    let mut object = json!({
        "file": finding.name,
        "algorithm": finding.algorithm.map(|algorithm| algorithm.name()),
        "bytes": finding.data.as_bytes().len(),
        "shape": shape,
    });
    match &finding.trials {
        Some(summaries) => {
            object["trials"] = summaries.iter().map(summary_object).collect();
        }
        None => {
            object["tests"] = tests.into();
            object["changes"] = changes.collect();
        }
    }
    object
}

fn test_object(channel: &str, change: Option<&str>, test: &Test) -> Value {
    let bounds = test
        .bounds
        .iter()
        .map(|bounds| json!({"level": bounds.level, "low": bounds.low, "high": bounds.high}));
    json!({
        "channel": channel,
        "change": change,
        "name": test.name,
        "value": test.value,
        "expected": test.expected,
        "deviation": test.deviation,
        "bounds": bounds.collect::<Vec<_>>(),
        "p": test.p_value,
        "sentence": test.sentence,
    })
}

fn summary_object(summary: &Summary) -> Value {
    json!({
        "label": summary.label,
        "trials": summary.trials,
        "mean": summary.mean,
        "deviation": summary.deviation,
        "outside": summary.flagged,
        "p_outside": summary.p_flagged,
        "p_uniform": summary.p_uniform,
        "sentence": summary.sentence(),
    })
}
