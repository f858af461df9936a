//! `questions`: the research questions of a paper about AES on GPUs, answered for this machine at the
//! paper's sizes and at others.

mod answers;
mod measure;

use warplock::Algorithm;

use self::answers::{columns, rows, summary};
use self::measure::{Contenders, Job};
use super::Suite;
use crate::error::Result;
use crate::report::Report;
use crate::{Context, Error, Machine, memory};

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct Questions {
    /// Sizes other than the paper's, in bytes: for AES-128 alone.
    pub sizes: Vec<usize>,
    /// How often everything is measured: a factor's range is over these runs.
    pub runs: usize,
}

impl Default for Questions {
    /// 1 KiB, 16 KiB, 1 MiB and 64 MiB, five runs.
    fn default() -> Self {
        Questions {
            sizes: vec![1 << 10, 16 << 10, 1 << 20, 64 << 20],
            runs: 5,
        }
    }
}

/// The paper's sizes: bytes of a piece, and how many of them in sequence. It names the last two as
/// one: 160,000 bytes.
const PAPER: [(usize, usize); 3] = [(32_000, 1), (160_000, 1), (32_000, 5)];

impl Questions {
    fn jobs(&self) -> Vec<Job> {
        use Algorithm::{Aes128Ctr, Aes192Ctr, Aes256Ctr};
        let mut jobs = Vec::new();
        for algorithm in [Aes128Ctr, Aes192Ctr, Aes256Ctr] {
            let paper = PAPER.map(|(len, pieces)| Job {
                algorithm,
                len,
                pieces,
            });
            jobs.extend(paper);
        }
        jobs.extend(self.sizes.iter().map(|&len| Job {
            algorithm: Aes128Ctr,
            len,
            pieces: 1,
        }));
        jobs
    }
}

impl Suite for Questions {
    fn name(&self) -> &'static str {
        "questions"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        if self.runs == 0 || self.sizes.contains(&0) {
            return Err(Error::Input(
                "take at least one run, and sizes from 1 byte on".to_owned(),
            ));
        }
        let longest = self.sizes.iter().copied().max().unwrap_or(0) as u64;
        // Inputs and outputs, pageable and pinned, and the right result.
        memory::check("the largest message", longest.saturating_mul(6))?;
        let machine = Machine::here(&context.on_cpu())?;
        let contenders = Contenders::new(context)?;
        let mut report = Report {
            suite: self.name().to_owned(),
            title: format!(
                "questions: AES-CTR from memory to memory, {}",
                match &contenders.gpu {
                    Some(gpu) => gpu.device.gpu().name.clone(),
                    None => "without a GPU".to_owned(),
                }
            ),
            notes: Vec::new(),
            columns: columns(),
            rows: Vec::new(),
            machine,
            stopped: false,
        };
        let mut all = Vec::new();
        for job in self.jobs() {
            (context.notify)(&job.to_string());
            let mut runs = Vec::new();
            for _ in 0..self.runs {
                runs.push(contenders.measure(context, &job)?);
            }
            all.push((job, runs));
            report.rows = rows(&contenders, &all);
            (context.progress)(&report);
        }
        report.notes = summary(&contenders, &all);
        if let Some(gpu) = &contenders.gpu {
            report.notes.push(gpu.line());
        }
        report
            .notes
            .extend(notes(self.runs, contenders.gpu.is_some()));
        Ok(report)
    }
}

fn notes(runs: usize, with_gpu: bool) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Factor: how many times as fast, the median of {runs} runs, each a median of repeated \
             jobs in turns; least and most: of these runs. yes: at least 1.05 times as fast in all \
             runs; no: slower by as much in all; same: anything else. The fastest: the simplest \
             that none beats so, and its factor over the slowest."
        ),
        "5 x 32,000: one piece after the other, each waited for, as the paper's program does. \
         Paper: its factor (it does not name the mode, nor whether its CPU code uses AES \
         instructions); quoted: the paper of the GPU file system; not measured here."
            .to_owned(),
    ];
    if with_gpu {
        notes.push(
            "GPU pageable, GPU pinned: from pageable or from pinned host memory and back, by the \
             engine, with up to four streams. 1 stream: one copy in, the kernel, one copy out, from \
             pinned memory."
                .to_owned(),
        );
        notes.push(
            "Granularity (1, 2, 4, 8 blocks per thread): these kernels have no such setting. A \
             launch has as many threads as the GPU holds at a time; a warp takes rows of 32 blocks, \
             one for each of its threads, so a thread does bytes / 16 / threads blocks."
                .to_owned(),
        );
    } else {
        notes.push(
            "RQ1 and RQ2 need a GPU, which is not here; RQ3 is about the CPU alone.".to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::report::Value;

    #[test]
    fn every_question_is_answered_at_the_papers_sizes() {
        let suite = Questions {
            sizes: vec![1 << 10],
            runs: 2,
        };
        let context = Context {
            plan: Plan::quick(),
            ..Context::default()
        };
        let report = suite.run(&context).unwrap();
        let asked = |start: &str| {
            let rows = report.rows.iter();
            rows.filter(|row| matches!(&row[0], Value::Text(text) if text.starts_with(start)))
                .count()
        };
        // Three key lengths at three sizes, and one more size.
        assert_eq!(asked("RQ3"), 10);
        let with_gpu = !report.machine.gpus.is_empty();
        assert_eq!(asked("RQ2"), if with_gpu { 10 } else { 0 });
        assert_eq!(asked("RQ1a") > 0, with_gpu);
        let table = report.table();
        assert!(table.contains("5 x 32,000"), "{table}");
        assert!(
            table.lines().all(|line| line.chars().count() <= 100),
            "{table}"
        );
    }
}
