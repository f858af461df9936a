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
use self::work::{CHUNK, File, Task, tasks};
use super::Suite;
use crate::error::Result;
use crate::report::{Column, Report, Unit, Value};
use crate::{Context, Error, Machine, Sample, folder, size};

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct Fs {
    /// Where the files go; best a RAM disk, so that no disk is measured.
    pub dir: PathBuf,
    /// Length of the one large file, in bytes.
    pub size: u64,
    /// How many small files.
    pub files: usize,
    /// Bytes of a request to write or read large files.
    pub requests: Vec<usize>,
    /// How many large files are written or read at the same time; they share the length.
    pub jobs: Vec<usize>,
    /// Backends of the vault, a row each; none: the chosen one.
    pub backends: Vec<BackendChoice>,
    /// The CPU's instruction set where a backend names none: what `auto` does on slower machines.
    pub instruction_set: Option<InstructionSet>,
    /// Other file systems by name; those not installed are left out.
    pub peers: Vec<String>,
}

impl Default for Fs {
    /// 512 MiB by requests of 1 MiB, and 4,000 small files, on the RAM disk, with all peers that are installed.
    fn default() -> Self {
        let ram = Path::new("/dev/shm");
        Fs {
            dir: match ram.is_dir() {
                true => ram.to_owned(),
                false => std::env::temp_dir(),
            },
            size: 512 << 20,
            files: 4000,
            requests: vec![1 << 20],
            jobs: vec![1],
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
        if self
            .requests
            .iter()
            .any(|&request| !(1..=64 << 20).contains(&request))
        {
            return Err(Error::Input("a request has 1 byte to 64 MiB".to_owned()));
        }
        if self.jobs.iter().any(|&jobs| !(1..=64).contains(&jobs)) {
            return Err(Error::Input(
                "take 1 to 64 files at the same time".to_owned(),
            ));
        }
        let machine = Machine::here(context)?;
        // The large file, its copy, and the small ones.
        let on_disk = self.size.saturating_mul(3);
        // A number for each block.
        let folder = crate::output::work_folder(&self.dir, on_disk, self.size / 512)?;
        let contenders = self.contenders(context)?;
        (context.notify)("making the files");
        let tree = Tree::make(&folder.path().join("source"), self.files)?;
        let file = File::new(self.size)?;
        let tasks = tasks(&self.requests, &self.jobs);
        let rounds = ROUNDS.min(context.plan.max_runs.max(1));
        let mut report = Report {
            suite: self.name().to_owned(),
            title: format!(
                "fs: one file of {} and {} small ones ({}) in {}",
                size::title(self.size),
                self.files,
                size::about(tree.bytes()),
                folder::describe(&self.dir)
            ),
            notes: notes(rounds),
            columns: columns(&tasks),
            rows: Vec::new(),
            machine,
            stopped: false,
        };
        let mut results: Vec<Results> = contenders
            .iter()
            .map(|one| Results {
                name: one.name().to_owned(),
                seconds: vec![Vec::new(); tasks.len()],
                on_gpus: None,
            })
            .collect();
        for round in 0..rounds {
            let mut turn: Vec<usize> = (0..contenders.len()).collect();
            // Not always after the same neighbour.
            if round % 2 == 1 {
                turn.reverse();
            }
            for number in turn {
                let contender = contenders[number].as_ref();
                let name = contender.name();
                (context.notify)(&format!("round {} of {rounds}: {name}", round + 1));
                let place = folder.path().join("place");
                prepare(contender, &place)?;
                for (task_number, task) in tasks.iter().enumerate() {
                    let seconds = one_task(contender, &place, task, &file, &tree)?;
                    results[number].seconds[task_number].push(seconds);
                    results[number].on_gpus = contender.on_gpus();
                    report.rows = rows(&results, &tasks, &file);
                    (context.progress)(&report);
                }
                fs::remove_dir_all(&place).map_err(Error::file("remove", &place))?;
            }
        }
        report.notes.extend(gpu_helps(&report, &self.requests));
        Ok(report)
    }
}

/// What a contender did so far.
struct Results {
    name: String,
    /// Of each task.
    seconds: Vec<Vec<f64>>,
    /// Bytes that GPUs did.
    on_gpus: Option<u64>,
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

/// An empty place for a contender.
fn prepare(contender: &dyn Contender, place: &Path) -> Result<()> {
    for folder in ["store", "mount"].map(|name| place.join(name)) {
        fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
    }
    contender.make(&place.join("store"))
}

/// A task's seconds. It is mounted for each, so that all caches are cold.
fn one_task(
    contender: &dyn Contender,
    place: &Path,
    task: &Task,
    file: &File,
    tree: &Tree,
) -> Result<f64> {
    let standing = Standing::new(contender, &place.join("store"), &place.join("mount"))?;
    let time = task.run(standing.folder(), file, tree);
    let time = time.map_err(|error| match error {
        Error::Wrong(what) => Error::Wrong(format!("{}: {what}", contender.name())),
        other => other,
    });
    standing.end()?;
    time
}

fn notes(rounds: usize) -> Vec<String> {
    vec![
        format!(
            "Medians of {rounds} rounds in turns; each task starts with empty caches on a fresh \
             mount; writing ends with fsync; what was read is compared with what was written."
        ),
        "write, read: one large file by requests of this size. The kernel gathers small ones: a \
         program that writes 4 KiB at a time sends the file system up to 1 MiB."
            .to_owned(),
        "random: 4 KiB at places that do not repeat, by four threads, operations a second. photos: \
         240 files of 64 to 256 KiB, by four threads. cp: within the mount."
            .to_owned(),
        "pass-through: the same adapter to FUSE as the vault's, without encryption.".to_owned(),
        "on GPUs: bytes that `auto` gave to GPUs in all tasks and rounds.".to_owned(),
    ]
}

fn columns(tasks: &[Task]) -> Vec<Column> {
    let mut columns = vec![Column::new("fs", "file system", Unit::Text).name()];
    let column = |task: &Task| Column::new(task.key.clone(), task.title.clone(), task.unit);
    columns.extend(tasks.iter().map(column));
    columns.push(Column::new("on_gpus", "on\nGPUs", Unit::Bytes));
    columns
}

/// The rows of the contenders that have begun.
fn rows(results: &[Results], tasks: &[Task], file: &File) -> Vec<Vec<Value>> {
    let row = |own: &Results| {
        let mut row = vec![Value::from(own.name.clone())];
        row.extend(tasks.iter().zip(&own.seconds).map(|(task, seconds)| {
            let sample = (!seconds.is_empty()).then(|| Sample::of(seconds.iter().copied()));
            Value::from(sample.map(|sample| sample.map(|seconds| task.value(seconds, file))))
        }));
        row.push(own.on_gpus.map(|bytes| bytes as f64).into());
        row
    };
    let begun = results.iter().filter(|own| !own.seconds[0].is_empty());
    begun.map(row).collect()
}

/// From which request size on a vault with a GPU is faster than one on the CPU alone, if both were
/// measured.
fn gpu_helps(report: &Report, requests: &[usize]) -> Vec<String> {
    let row = |has: &[&str]| {
        report.rows.iter().find(|row| {
            let Value::Text(name) = &row[0] else {
                return false;
            };
            name.starts_with("warplock ") && has.iter().any(|part| name.contains(part))
        })
    };
    let (Some(cpu), Some(gpu)) = (row(&["warplock cpu"]), row(&["cuda", "auto"])) else {
        return Vec::new();
    };
    let mut sizes = requests.to_vec();
    sizes.sort_unstable();
    let sentence = |way: &str| {
        let faster = |request: &usize| {
            let key = match *request {
                CHUNK => way.to_owned(),
                request => format!("{way}_{request}"),
            };
            let place = report.column(&key)?;
            Some(gpu[place].number()? > 1.05 * cpu[place].number()?)
        };
        let sizes: Vec<_> = sizes.iter().filter(|size| faster(size).is_some()).collect();
        let last_slower = sizes.iter().rposition(|size| faster(size) == Some(false));
        let from = sizes.get(last_slower.map_or(0, |place| place + 1));
        match from {
            Some(&&size) => format!("from requests of {} on", size::name(size as u64)),
            None => "at no measured size".to_owned(),
        }
    };
    vec![format!(
        "A GPU helps here when reading {}, when writing {}.",
        sentence("read"),
        sentence("write")
    )]
}
