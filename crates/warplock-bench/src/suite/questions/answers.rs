//! Rows and sentences from the times of all runs.

use warplock::Algorithm;

use super::measure::{Contender, Contenders, Job, Threads, Times};
use crate::Sample;
use crate::measure::CLEARLY;
use crate::report::{Column, Unit, Value};
use crate::table::grouped;

const RQ1A: &str = "RQ1a: does the GPU outperform a core of the CPU?";
const RQ1B: &str = "RQ1b: does the GPU perform better than all cores?";
const RQ2: &str = "RQ2: do streams improve it?";
const CORES: &str = "And do all cores of the CPU beat one?";
const RQ3: &str = "RQ3: which is the fastest?";

pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::new("question", "question", Unit::Text).table(),
        Column::new("bits", "key", Unit::Count).name(),
        Column::new("size", "bytes", Unit::Text).name(),
        Column::new("comparison", "contenders", Unit::Text).name(),
        Column::new("answer", "answer", Unit::Text),
        Column::new("factor", "factor", Unit::Ratio),
        Column::new("least", "least", Unit::Ratio),
        Column::new("most", "most", Unit::Ratio),
        Column::new("paper", "paper", Unit::Text),
    ]
}

/// A question about two contenders.
struct Pair {
    question: &'static str,
    own: Contender,
    other: Contender,
}

/// All pairs that both are on this machine.
fn pairs(contenders: &Contenders) -> Vec<Pair> {
    let all: Vec<Contender> = contenders.all().collect();
    let cpus = |wanted: Threads| {
        all.iter().copied().filter(
            move |contender| matches!(contender, Contender::Cpu(_, threads) if *threads == wanted),
        )
    };
    let mut pairs = Vec::new();
    let mut add = |question, own, other| {
        if all.contains(&own) && all.contains(&other) && own != other {
            pairs.push(Pair {
                question,
                own,
                other,
            });
        }
    };
    for gpu in [Contender::Pageable, Contender::Pinned] {
        cpus(Threads::One).for_each(|cpu| add(RQ1A, gpu, cpu));
    }
    for gpu in [Contender::Pageable, Contender::Pinned] {
        cpus(Threads::All).for_each(|cpu| add(RQ1B, gpu, cpu));
    }
    add(RQ2, Contender::Pinned, Contender::OneStream);
    for own in cpus(Threads::All) {
        if let Contender::Cpu(set, _) = own {
            add(CORES, own, Contender::Cpu(set, Threads::One));
        }
    }
    pairs
}

fn bits(algorithm: Algorithm) -> usize {
    8 * algorithm.key_len()
}

/// What the paper says of a question at its sizes.
fn paper(question: &str, job: &Job) -> Option<&'static str> {
    let key = match bits(job.algorithm) {
        128 => 0,
        192 => 1,
        _ => 2,
    };
    let factors = match (question, job.len, job.pieces) {
        (RQ1A, 32_000, 1) => ["22 x", "21 x", "12 x"],
        (RQ1A, 32_000, 5) => ["13 x", "12 x", "12 x"],
        (RQ1B, 32_000, 1) => ["6 x", "5 x", "3 x"],
        (RQ1B, 32_000, 5) => ["3 x", "3 x", "2.5 x"],
        (RQ2, 32_000, 1) => ["no"; 3],
        (RQ2, 160_000, 1) | (RQ2, 32_000, 5) => ["yes"; 3],
        (RQ3, 32_000 | 160_000, _) => ["GPU"; 3],
        _ => return None,
    };
    Some(factors[key])
}

/// A factor of every run.
fn factors(runs: &[Times], own: Contender, other: Contender) -> Option<Sample> {
    let seconds = |times: &Times, contender: Contender| {
        let time = times.iter().find(|(of, _)| *of == contender);
        time.map(|(_, seconds)| *seconds)
    };
    let factor = |times: &Times| Some(seconds(times, other)? / seconds(times, own)?);
    let factors: Option<Vec<f64>> = runs.iter().map(factor).collect();
    factors
        .filter(|factors| !factors.is_empty())
        .map(Sample::of)
}

fn answer(factors: &Sample) -> &'static str {
    match factors {
        Sample { min, .. } if *min >= CLEARLY => "yes",
        Sample { max, .. } if *max <= 1.0 / CLEARLY => "no",
        _ => "same",
    }
}

/// The simplest contender that no other one beats, and how far it is ahead of the slowest.
fn fastest(contenders: &Contenders, runs: &[Times]) -> Option<(Contender, Sample)> {
    let all: Vec<Contender> = contenders.all().collect();
    let is_beaten = |contender: &Contender| {
        all.iter().any(|&other| {
            factors(runs, other, *contender).is_some_and(|factors| answer(&factors) == "yes")
        })
    };
    let own = all
        .iter()
        .copied()
        .find(|contender| !is_beaten(contender))?;
    let over = all.iter().filter_map(|&other| factors(runs, own, other));
    let most = over.max_by(|a, b| a.median.total_cmp(&b.median))?;
    Some((own, most))
}

/// All rows, question by question.
pub(super) fn rows(contenders: &Contenders, all: &[(Job, Vec<Times>)]) -> Vec<Vec<Value>> {
    let row = |question: &str, job: &Job, contender: String, answer: &str, factors: Sample| {
        vec![
            question.into(),
            Value::Number(bits(job.algorithm) as f64),
            job.size().into(),
            contender.into(),
            answer.into(),
            factors.into(),
            factors.min.into(),
            factors.max.into(),
            paper(question, job).into(),
        ]
    };
    let mut rows = Vec::new();
    for Pair {
        question,
        own,
        other,
    } in pairs(contenders)
    {
        for (job, runs) in all {
            if let Some(factors) = factors(runs, own, other) {
                let contender = format!("{} / {}", own.name(), other.name());
                rows.push(row(question, job, contender, answer(&factors), factors));
            }
        }
    }
    for (job, runs) in all {
        if let Some((contender, over)) = fastest(contenders, runs) {
            rows.push(row(RQ3, job, contender.name(), "fastest", over));
        }
    }
    rows
}

/// A sentence for each pair, about AES-128: from which size on, and the factors at the paper's.
pub(super) fn summary(contenders: &Contenders, all: &[(Job, Vec<Times>)]) -> Vec<String> {
    let mut lines = Vec::new();
    for pair in pairs(contenders) {
        let own = all.iter().filter(|(job, _)| bits(job.algorithm) == 128);
        let known = own.filter_map(|(job, runs)| Some((job, factors(runs, pair.own, pair.other)?)));
        let known: Vec<(&Job, Sample)> = known.collect();
        let single = || known.iter().filter(|(job, _)| job.pieces == 1);
        let of = |wanted: &'static str| {
            single()
                .filter(move |(_, sample)| answer(sample) == wanted)
                .map(|(job, _)| job.len)
        };
        let last_slower = of("no").max();
        let from = of("yes").filter(|&len| Some(len) > last_slower).min();
        let at = known
            .iter()
            .filter(|(job, _)| matches!(job.len, 32_000 | 160_000));
        let at = at.map(|(job, sample)| {
            let paper =
                paper(pair.question, job).map_or(String::new(), |said| format!(" (paper: {said})"));
            format!("{:.2} x at {}{paper}", sample.median, job.size())
        });
        let question = pair.question.split(':').next().unwrap_or_default();
        let question = if pair.question == CORES {
            "Cores"
        } else {
            question
        };
        lines.push(format!(
            "{question}, {} over {}: {}; {}.",
            pair.own.name(),
            pair.other.name(),
            match from {
                Some(len) => format!("yes, from {} bytes on", grouped(len as u64)),
                None => "no".to_owned(),
            },
            at.collect::<Vec<_>>().join(", ")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_in_all_runs() {
        assert_eq!(answer(&Sample::of([1.2, 1.06, 3.0])), "yes");
        assert_eq!(answer(&Sample::of([1.2, 1.0, 3.0])), "same");
        assert_eq!(answer(&Sample::of([0.9, 0.5])), "no");
        assert_eq!(answer(&Sample::of([0.9, 0.99])), "same");
    }

    #[test]
    fn the_papers_factors_stand_at_its_sizes() {
        let job = |algorithm, len, pieces| Job {
            algorithm,
            len,
            pieces,
        };
        assert_eq!(
            paper(RQ1A, &job(Algorithm::Aes128Ctr, 32_000, 1)),
            Some("22 x")
        );
        assert_eq!(
            paper(RQ1B, &job(Algorithm::Aes256Ctr, 32_000, 5)),
            Some("2.5 x")
        );
        assert_eq!(paper(RQ1A, &job(Algorithm::Aes128Ctr, 1024, 1)), None);
        assert_eq!(paper(CORES, &job(Algorithm::Aes128Ctr, 32_000, 1)), None);
    }
}
