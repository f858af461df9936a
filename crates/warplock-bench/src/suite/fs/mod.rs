//! `fs`: mounted file systems on one folder, each doing the daily work of programs.

mod contender;
mod peers;
mod tree;
mod vault;
mod work;

use std::fs;
use std::path::{Path, PathBuf};

use warplock::{BackendChoice, InstructionSet};

use self::contender::{Contender, Standing};
use self::tree::Tree;
use self::work::{File, TASKS, Task};
use super::Suite;
use crate::error::Result;
use crate::report::{Column, Report, Unit, Value};
use crate::{Axis, Context, Error, Machine, Plot, Sample, Series, size};

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct Fs {
    /// Where the files go; best a RAM disk, so that no disk is measured.
    pub dir: PathBuf,
    /// Length of the one large file, in bytes.
    pub size: u64,
    /// How many small files.
    pub files: usize,
    /// Backends of the vault, a row each; none: the chosen one.
    pub backends: Vec<BackendChoice>,
    /// The CPU's instruction set where a backend names none: what `auto` does on slower machines.
    pub instruction_set: Option<InstructionSet>,
    /// Other file systems by name; those not installed are left out.
    pub peers: Vec<String>,
}

impl Default for Fs {
    /// 512 MiB and 4,000 small files on the RAM disk, with all peers that are installed.
    fn default() -> Self {
        let ram = Path::new("/dev/shm");
        Fs {
            dir: match ram.is_dir() {
                true => ram.to_owned(),
                false => std::env::temp_dir(),
            },
            size: 512 << 20,
            files: 4000,
            backends: Vec::new(),
            instruction_set: None,
            peers: peers::ALL.iter().map(|peer| peer.name.to_owned()).collect(),
        }
    }
}

/// Every file system does every task this often.
const ROUNDS: usize = 3;

impl Suite for Fs {
    fn name(&self) -> &'static str {
        "fs"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        if !Path::new("/dev/fuse").exists() {
            return Err(Error::NoFuse);
        }
        let machine = Machine::here(context)?;
        let on_disk = self.size.saturating_mul(3);
        // A number for each block.
        let folder = crate::output::work_folder(&self.dir, on_disk, self.size / 512)?;
        let contenders = self.contenders(context)?;
        (context.notify)("making the files");
        let tree = Tree::make(&folder.path().join("source"), self.files)?;
        let file = File::new(self.size)?;
        let rounds = ROUNDS.min(context.plan.max_runs.max(1));
        let mut seconds = vec![vec![Vec::new(); TASKS.len()]; contenders.len()];
        for round in 0..rounds {
            let mut turn: Vec<_> = contenders.iter().zip(&mut seconds).collect();
            // Not always after the same neighbour.
            if round % 2 == 1 {
                turn.reverse();
            }
            for (contender, seconds) in turn {
                (context.notify)(&format!(
                    "round {} of {rounds}: {}",
                    round + 1,
                    contender.name()
                ));
                let place = folder.path().join("place");
                let times = all_tasks(contender.as_ref(), &place, &file, &tree)?;
                for (all, time) in seconds.iter_mut().zip(times) {
                    all.push(time);
                }
                fs::remove_dir_all(&place).map_err(Error::file("remove", &place))?;
            }
        }
        let names: Vec<String> = contenders.iter().map(|one| one.name().to_owned()).collect();
        let rates: Vec<Vec<Sample>> = seconds
            .into_iter()
            .map(|tasks| {
                let of = |(task, seconds): (&Task, Vec<f64>)| {
                    Sample::of(seconds).map(|seconds| task.value(seconds, &file, &tree))
                };
                TASKS.iter().zip(tasks).map(of).collect()
            })
            .collect();
        Ok(Report {
            suite: self.name(),
            title: format!(
                "fs: one file of {} and {} small ones ({}) in {}",
                size::name(self.size),
                self.files,
                size::name(tree.bytes()),
                self.dir.display()
            ),
            notes: notes(rounds),
            plot: plot(&names, &rates),
            columns: columns(),
            rows: rows(&names, &rates),
            machine,
        })
    }
}

impl Fs {
    fn contenders(&self, context: &Context<'_>) -> Result<Vec<Box<dyn Contender>>> {
        let mut contenders: Vec<Box<dyn Contender>> = vec![
            Box::new(contender::Bare),
            Box::new(contender::PassThroughMount),
        ];
        match &self.backends[..] {
            [] => contenders.push(Box::new(self.vault(context, context.choice)?)),
            backends => {
                for &choice in backends {
                    contenders.push(Box::new(self.vault(context, Some(choice))?));
                }
            }
        }
        for name in &self.peers {
            let peer = peers::ALL.iter().find(|peer| peer.name == name);
            let peer = peer.ok_or_else(|| {
                let known: Vec<_> = peers::ALL.iter().map(|peer| peer.name).collect();
                Error::Input(format!(
                    "{name} is no file system that can be measured; take from {}",
                    known.join(", ")
                ))
            })?;
            match peer.is_installed() {
                true => contenders.push(Box::new(peer)),
                false => (context.notify)(&format!("{name} is not installed: left out")),
            }
        }
        Ok(contenders)
    }

    fn vault(
        &self,
        context: &Context<'_>,
        choice: Option<BackendChoice>,
    ) -> Result<vault::VaultMount> {
        vault::VaultMount::new(context, choice, self.instruction_set)
    }
}

/// Everything once, in an empty place; the seconds of each task.
fn all_tasks(
    contender: &dyn Contender,
    place: &Path,
    file: &File,
    tree: &Tree,
) -> Result<Vec<f64>> {
    let (store, point) = (place.join("store"), place.join("mount"));
    for folder in [&store, &point] {
        fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
    }
    contender.make(&store)?;
    let mut times = Vec::new();
    for task in &TASKS {
        // Mounted again, so that all caches are cold.
        let standing = Standing::new(contender, &store, &point)?;
        let time = task.run(standing.folder(), file, tree);
        let time = time.map_err(|error| match error {
            Error::Wrong(what) => Error::Wrong(format!("{}: {what}", contender.name())),
            other => other,
        });
        standing.end()?;
        times.push(time?);
    }
    Ok(times)
}

fn notes(rounds: usize) -> Vec<String> {
    vec![
        format!(
            "medians of {rounds} rounds in turns; each task starts with empty caches on a fresh \
             mount; writing ends with fsync; what was read is compared with what was written."
        ),
        "random: 4 KiB at places that do not repeat, by four threads.".to_owned(),
        "pass-through: the same adapter to FUSE as the vault's, without encryption.".to_owned(),
    ]
}

fn columns() -> Vec<Column> {
    let mut columns = vec![Column::new("fs", "file system", Unit::Text)];
    columns.extend(
        TASKS
            .iter()
            .map(|task| Column::new(task.key, task.title, task.unit)),
    );
    columns
}

fn rows(names: &[String], rates: &[Vec<Sample>]) -> Vec<Vec<Value>> {
    let row = |(name, rates): (&String, &Vec<Sample>)| {
        let mut row = vec![Value::from(name.clone())];
        row.extend(rates.iter().map(|&sample| Value::from(sample)));
        row
    };
    names.iter().zip(rates).map(row).collect()
}

/// Speed of each as a share of the bare folder's.
fn plot(names: &[String], rates: &[Vec<Sample>]) -> Plot {
    let share = |task: usize, own: &[Sample]| {
        let (own, bare) = (own[task].median, rates[0][task].median);
        match TASKS[task].unit {
            Unit::Seconds => bare / own,
            _ => own / bare,
        }
    };
    let series = names.iter().zip(rates).skip(1).map(|(name, own)| Series {
        name: name.clone(),
        points: (0..TASKS.len())
            .map(|task| (task as f64, share(task, own)))
            .collect(),
        quoted: false,
    });
    Plot {
        title: "speed of mounted file systems, bare folder = 1".to_owned(),
        x_label: "task".to_owned(),
        x: Axis::Names(
            TASKS
                .iter()
                .map(|task| task.title.replace('\n', " "))
                .collect(),
        ),
        y_label: "share of the bare folder's speed".to_owned(),
        y: Axis::Log,
        series: series.collect(),
    }
}
