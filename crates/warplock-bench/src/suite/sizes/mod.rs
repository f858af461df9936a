//! `sizes`: speed against size, from 64 bytes to 4 GiB, on the CPU alone, on each GPU alone and as
//! `auto` combines them; and what that answers to the questions of a paper about AES on GPUs.

mod answers;
mod buffers;
mod copies;
mod rows;
mod run;

use std::time::Duration;

use warplock::{Algorithm, Direction};

use self::rows::{Place, Row, Task};
use self::run::Places;
use super::Suite;
use crate::error::Result;
use crate::measure::Plan;
use crate::report::{Column, Report, Unit, Value};
use crate::table::grouped;
use crate::{Context, Machine, memory, message};

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Ciphers and modes.
    pub algorithms: Vec<Algorithm>,
    /// Sizes in bytes, ascending.
    pub sizes: Vec<usize>,
    /// Sizes for [`Sizes::huge_algorithms`], encryption alone, and without portable code; those
    /// that do not fit into memory are left out.
    pub huge: Vec<usize>,
    /// Fewer algorithms: huge sizes take long.
    pub huge_algorithms: Vec<Algorithm>,
    /// Batches of messages: cipher and mode, how many, and bytes of each. Their jobs, and those of
    /// long texts, take several buffers in turn, so that they come from memory.
    pub batches: Vec<(Algorithm, usize, usize)>,
    /// Fewer sizes and fewer runs: minutes instead of half an hour.
    pub quick: bool,
}

impl Default for Sizes {
    /// AES-128, AES-192, AES-256 with CTR and GCM; 64 bytes to 64 MiB in steps of four, and 4 GiB.
    /// 64 MiB in messages of AES-128-CBC and ACORN-128, which are chains.
    fn default() -> Self {
        use Algorithm::*;
        Sizes {
            algorithms: vec![
                Aes128Ctr, Aes192Ctr, Aes256Ctr, Aes128Gcm, Aes192Gcm, Aes256Gcm,
            ],
            sizes: (0..11).map(|step| 64 << (2 * step)).collect(),
            huge: vec![4 << 30],
            huge_algorithms: vec![Aes128Ctr, Aes256Gcm],
            batches: vec![(Aes128Cbc, 4096, 16 << 10), (Acorn128, 16384, 4 << 10)],
            quick: false,
        }
    }
}

impl Sizes {
    /// The same algorithms; 64 bytes to 64 MiB in steps of sixteen, fewer runs.
    pub fn quick() -> Self {
        Sizes {
            sizes: (0..6).map(|step| 64 << (4 * step)).collect(),
            quick: true,
            ..Sizes::default()
        }
    }

    fn plan(&self, context: &Context<'_>, huge: bool) -> Plan {
        // Work of a microsecond is easily disturbed.
        let shortest = Duration::from_micros(100);
        match (huge, self.quick) {
            (true, _) => Plan {
                min_runs: context.plan.min_runs.min(3),
                max_runs: 3,
                ..context.plan
            },
            (false, true) => Plan {
                min_runs: context.plan.min_runs.min(2),
                max_runs: context.plan.max_runs.min(51),
                budget: context.plan.budget / 16,
                shortest,
                ..context.plan
            },
            // Work of 0.1 ms on all cores sometimes takes three times as long: the median of a
            // hundred turns is wrong by 3 or 4 %.
            (false, false) => Plan {
                max_runs: 4 * context.plan.max_runs,
                shortest,
                ..context.plan
            },
        }
    }

    /// The tasks that are measured.
    fn tasks(&self) -> Vec<Task> {
        let one = |algorithm, direction, len, huge| Task {
            algorithm,
            direction,
            count: 1,
            len: message::padded(algorithm, len),
            huge,
        };
        let mut tasks = Vec::new();
        for &algorithm in &self.algorithms {
            for direction in DIRECTIONS {
                let sizes = self.sizes.iter();
                tasks.extend(sizes.map(|&size| one(algorithm, direction, size, false)));
            }
        }
        for &(algorithm, count, len) in &self.batches {
            tasks.extend(DIRECTIONS.map(|direction| Task {
                count,
                ..one(algorithm, direction, len, false)
            }));
        }
        for &algorithm in &self.huge_algorithms {
            let sizes = self.huge.iter();
            tasks.extend(sizes.map(|&size| one(algorithm, Direction::Encrypt, size, true)));
        }
        tasks
    }
}

const DIRECTIONS: [Direction; 2] = [Direction::Encrypt, Direction::Decrypt];

impl Suite for Sizes {
    fn name(&self) -> &'static str {
        "sizes"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        let places = Places::new(context)?;
        let mut report = Report {
            suite: self.name().to_owned(),
            title: format!(
                "sizes: from host memory to host memory, {} threads{}",
                context.threads,
                places
                    .gpu_name()
                    .map_or(String::new(), |name| format!(", {name}"))
            ),
            notes: places.notes(),
            columns: Vec::new(),
            rows: Vec::new(),
            machine: Machine::here(context)?,
            stopped: false,
        };
        let mut rows: Vec<Row> = Vec::new();
        for task in self.tasks() {
            let name = task.to_string();
            // Inputs and outputs, one more input to fill them, and the expected result.
            let copies = 2 * task.buffers() as u64 + 2;
            let needed = (task.bytes() as u64).saturating_mul(copies);
            if !memory::fits(needed) {
                report.notes.push(format!(
                    "{name}: left out, it needs {} bytes of memory",
                    grouped(needed)
                ));
                continue;
            }
            (context.notify)(&name);
            let plan = self.plan(context, task.huge);
            rows.push(places.measure(&plan, &task)?);
            let is_used = |place: &Place| rows.iter().any(|row| row.seconds(*place).is_some());
            let used: Vec<Place> = Place::ALL.into_iter().filter(is_used).collect();
            report.columns = columns(&used);
            report.rows = rows.iter().map(|row| values(row, &used)).collect();
            (context.progress)(&report);
        }
        report.notes.extend(answers::all(&rows));
        Ok(report)
    }
}

/// What a row reports of one of its places.
type Tells = fn(&Row, Place) -> Option<f64>;

/// The speed of places relative to their rivals, and the part of the text that `auto` gave to GPUs:
/// keys and titles of these columns.
const RATIOS: [(Place, Tells, &str, &str); 8] = {
    use Place::{Auto, AutoPinned, AutoPortable, CpuAgain, CpuAgainPinned};
    const SHARE: Tells = Row::against_best;
    const PART: Tells = Row::on_gpus;
    [
        (Auto, SHARE, "auto_share", "auto\n/ best"),
        (
            AutoPinned,
            SHARE,
            "auto_pinned_share",
            "auto\npinned\n/ best",
        ),
        (
            AutoPortable,
            SHARE,
            "auto_portable_share",
            "auto with\nportable CPU\n/ best",
        ),
        (CpuAgain, SHARE, "control_share", "CPU\n/ CPU"),
        (
            CpuAgainPinned,
            SHARE,
            "control_pinned_share",
            "CPU\npinned\n/ CPU",
        ),
        (Auto, PART, "auto_on_gpus", "auto\non GPUs"),
        (
            AutoPinned,
            PART,
            "auto_pinned_on_gpus",
            "auto\npinned\non GPUs",
        ),
        (
            AutoPortable,
            PART,
            "auto_portable_on_gpus",
            "auto with\nportable CPU\non GPUs",
        ),
    ]
};

fn values(row: &Row, used: &[Place]) -> Vec<Value> {
    let mut values: Vec<Value> = vec![
        row.algorithm.to_string().into(),
        row.way().into(),
        Value::Number(row.count as f64),
        Value::Number(row.bytes as f64),
    ];
    let rate = |place: &Place| {
        let seconds = row.seconds(*place);
        Value::from(seconds.map(|sample| sample.map(|seconds| row.bytes as f64 / seconds)))
    };
    values.extend(used.iter().map(rate));
    values.extend(RATIOS.map(|(place, tells, ..)| Value::from(tells(row, place))));
    values
}

fn columns(used: &[Place]) -> Vec<Column> {
    let mut columns = vec![
        Column::new("algorithm", "algorithm", Unit::Text).name(),
        Column::new("direction", "", Unit::Text).name(),
        Column::new("messages", "messages", Unit::Count).name(),
        Column::new("bytes", "bytes", Unit::Bytes).name(),
    ];
    let rate = |place: &Place| Column::new(place.key(), place.title(), Unit::BytesPerSecond);
    columns.extend(used.iter().map(rate));
    columns.extend(RATIOS.map(|(.., key, title)| Column::new(key, title, Unit::Ratio)));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_this_machine_is_measured_at_every_size() {
        let suite = Sizes {
            algorithms: vec![
                Algorithm::Aes192Ctr,
                Algorithm::Aes256Gcm,
                Algorithm::Aes128Ecb,
            ],
            sizes: vec![64, 1000, 300_000],
            huge: vec![1 << 20, 1 << 50],
            huge_algorithms: vec![Algorithm::Aes192Ctr, Algorithm::Aes256Gcm],
            batches: vec![
                (Algorithm::Aes128Cbc, 30, 1600),
                (Algorithm::Acorn128, 40, 70),
            ],
            quick: true,
        };
        let context = Context {
            plan: Plan::quick(),
            ..Context::default()
        };
        let report = suite.run(&context).unwrap();
        // The one that fits into no memory is left out, for both algorithms.
        assert_eq!(report.rows.len(), 3 * 2 * 3 + 2 * 2 + 2);
        let left_out = |note: &&String| note.contains("left out");
        assert_eq!(report.notes.iter().filter(left_out).count(), 2);
        let column = |key| {
            let mut columns = report.columns.iter();
            columns.position(|column| column.key == key).unwrap()
        };
        let (best, on_gpus) = (column("auto_share"), column("auto_on_gpus"));
        for row in &report.rows {
            // The huge ones are left to all threads.
            assert!(row[4..8].iter().any(|value| value.number().is_some()));
            assert!(row[best].number().unwrap() > 0.0);
            let part = row[on_gpus].number();
            assert_eq!(part.is_some(), !report.machine.gpus.is_empty());
            assert!((0.0..=1.0).contains(&part.unwrap_or_default()));
        }
        assert!(report.svg().unwrap().contains("aes-192-ctr"));
    }
}
