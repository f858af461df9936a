//! A calibration: the measured speed of a machine, and the file that stores it.
//!
//! The file is text, one name with its values per line, in the user's cache folder. It says what it
//! was measured on; on any other machine, driver or version of Warplock it is ignored. Whatever it
//! says, it decides where work is done, never the result.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::model::{Cost, Costs, CpuModel, GpuModel, Model, ways};
use crate::{Algorithm, Direction, InstructionSet};

/// The first line, with the format's version.
const TITLE: &str = "warplock calibration 2";

/// The most bytes of a file.
const LONGEST: u64 = 256 << 10;

/// The most lines: a few facts, and two per cipher and instruction set.
const MOST_LINES: usize = 4096;

/// The most characters of a line in an error message.
const SHOWN: usize = 60;

/// The largest valid value, in nanoseconds: a quarter of an hour.
const LARGEST: f64 = 1e12;

/// The measured speed of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    pub(crate) machine: Machine,
    /// Nanoseconds to wake all threads.
    pub(crate) wake: f64,
    /// Nanoseconds per byte that all threads together cannot beat, in caches and beyond.
    pub(crate) memory: [f64; 2],
    /// The slowdown of a thread while all others work.
    pub(crate) crowded: f64,
    pub(crate) sets: Vec<(InstructionSet, Costs)>,
    pub(crate) gpu: Option<GpuModel>,
}

/// The machine, driver and version that a calibration is valid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine(Vec<(&'static str, String)>);

impl Machine {
    /// This one. Reads a few files and starts nothing.
    pub(crate) fn here() -> Self {
        let read = |path: &str| {
            let mut text = String::new();
            // The CPU's name is at the beginning; the file has an entry for each core.
            let read = File::open(path).and_then(|file| file.take(8192).read_to_string(&mut text));
            if read.is_err() {
                text.clear();
            }
            text
        };
        let info = read("/proc/cpuinfo");
        let model = info.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            (field.trim() == "model name").then(|| value.trim().to_owned())
        });
        let sets = InstructionSet::all().filter(|set| set.is_available());
        let sets: Vec<_> = sets.map(InstructionSet::name).collect();
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let mut gpus: Vec<String> = fs::read_dir("/proc/driver/nvidia/gpus")
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        gpus.sort();
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
        let driver = read("/proc/driver/nvidia/version");
        let facts = [
            ("processor", model.unwrap_or_default()),
            ("instructions", sets.join(" ")),
            ("cores", cores.to_string()),
            ("driver", driver.lines().next().unwrap_or("").to_owned()),
            ("gpus", gpus.join(" ")),
            ("visible", visible),
            ("warplock", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        Machine(facts.map(|(name, value)| (name, one_line(&value))).to_vec())
    }
}

/// The beginning of a text, without control characters.
fn shown(text: &str) -> String {
    text.chars()
        .take(SHOWN)
        .filter(|c| !c.is_control())
        .collect()
}

/// The value as one line, which is the same when it is read back.
fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ")
}

/// The name of a line of costs; `place` is what has them.
fn cost_name(place: &str, algorithm: Algorithm, direction: Direction) -> String {
    format!("{place}/{algorithm}/{}", direction.name())
}

/// The lines of costs.
fn cost_lines(place: &str, costs: &Costs) -> impl Iterator<Item = (String, Vec<f64>)> {
    ways().map(move |(algorithm, direction)| {
        let Cost {
            fixed,
            byte,
            message,
            chain,
        } = costs.of(algorithm, direction);
        let name = cost_name(place, algorithm, direction);
        (name, vec![fixed, byte, message, chain])
    })
}

/// The file's lines by their names.
struct Lines<'a>(HashMap<&'a str, &'a str>);

impl Lines<'_> {
    fn numbers<const N: usize>(&mut self, name: &str) -> Result<[f64; N], String> {
        let text = self.0.remove(name);
        let text = text.ok_or_else(|| format!("it has no line '{name}'"))?;
        let numbers: Vec<f64> = text
            .split(' ')
            .take(N + 1)
            .map_while(|word| word.parse().ok())
            .filter(|number| (0.0..=LARGEST).contains(number))
            .collect();
        let wrong = || format!("its line '{name}' does not have {N} numbers that make sense");
        numbers.try_into().map_err(|_| wrong())
    }

    fn costs(&mut self, place: &str) -> Result<Costs, String> {
        let mut costs = Costs::new(|_, _| Cost::default());
        for (algorithm, direction) in ways() {
            let line = cost_name(place, algorithm, direction);
            let [fixed, byte, message, chain] = self.numbers(&line)?;
            let cost = Cost {
                fixed,
                byte,
                message,
                chain,
            };
            costs.set(algorithm, direction, cost);
        }
        Ok(costs)
    }
}

impl Calibration {
    /// The file of this user's calibration: `warplock/calibration` in `XDG_CACHE_HOME`, or in
    /// `~/.cache` (Windows: `%LOCALAPPDATA%`); none if neither is known.
    pub fn path() -> Option<PathBuf> {
        let absolute = |name| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let usual = || match cfg!(windows) {
            true => absolute("LOCALAPPDATA"),
            false => Some(absolute("HOME")?.join(".cache")),
        };
        let cache = absolute("XDG_CACHE_HOME").or_else(usual)?;
        Some(cache.join("warplock").join("calibration"))
    }

    /// The calibration of this machine; none if it was never calibrated.
    ///
    /// # Errors
    /// A sentence that says why the file cannot be used: it is of another machine, driver or
    /// version, or damaged.
    pub fn load() -> Result<Option<Self>, String> {
        match Calibration::path() {
            None => Ok(None),
            Some(path) => Calibration::load_from(&path),
        }
    }

    pub(super) fn load_from(path: &Path) -> Result<Option<Self>, String> {
        let mut text = String::new();
        let mut read = || {
            // Opening a fifo would block, and a device has no end.
            if !fs::metadata(path)?.is_file() {
                return Err(io::Error::other("it is not a regular file"));
            }
            File::open(path)?.take(LONGEST).read_to_string(&mut text)
        };
        match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
            Ok(_) => {}
        }
        let parsed = Calibration::parse(&text, Machine::here());
        parsed.map(Some).map_err(|reason| {
            format!(
                "the calibration {} is ignored: {reason}; calibrate this machine again",
                path.display()
            )
        })
    }

    /// A calibration of this machine with guessed values: for tests and fuzz targets.
    pub(super) fn guessed() -> Self {
        let model = Model::guess(InstructionSet::best(), 2);
        let sets = InstructionSet::all().filter(|set| set.is_available());
        Calibration {
            machine: Machine::here(),
            wake: 12_345.5,
            memory: [0.012, 0.031],
            crowded: 1.5,
            sets: sets
                .map(|set| (set, Model::guess(set, 2).cpu.costs))
                .collect(),
            gpu: Some(model.gpu),
        }
    }

    pub(super) fn parse(text: &str, here: Machine) -> Result<Self, String> {
        let body = text
            .strip_prefix(TITLE)
            .and_then(|rest| rest.strip_prefix('\n'));
        let body = body.ok_or("it is not one that this version understands")?;
        let mut lines = Lines(HashMap::new());
        for (number, line) in body.lines().enumerate() {
            if number == MOST_LINES {
                return Err(format!("it has more than {MOST_LINES} lines"));
            }
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            if lines.0.insert(name, value).is_some() {
                return Err(format!("its line '{}' is there twice", shown(name)));
            }
        }
        if !body.ends_with('\n') {
            return Err("it is cut off".to_owned());
        }
        for (name, value) in &here.0 {
            let found = lines.0.remove(name).unwrap_or("");
            if found != value {
                let found = shown(found);
                return Err(format!(
                    "it was measured with another {name} ('{found}', not '{value}')"
                ));
            }
        }
        let [wake, cached, beyond, crowded] = lines.numbers("cpu")?;
        let mut sets = Vec::new();
        for set in InstructionSet::all().filter(|set| set.is_available()) {
            sets.push((set, lines.costs(&format!("cpu:{}", set.name()))?));
        }
        let gpu = match lines.0.contains_key("gpu") {
            false => None,
            true => {
                let [start, staged, staged_by_one, join, shared] = lines.numbers("gpu")?;
                Some(GpuModel {
                    start,
                    costs: lines.costs("gpu")?,
                    staged,
                    staged_by_one,
                    join,
                    shared,
                })
            }
        };
        if let Some(name) = lines.0.keys().next() {
            return Err(format!("it has the unknown line '{}'", shown(name)));
        }
        Ok(Calibration {
            machine: here,
            wake,
            memory: [cached, beyond],
            crowded,
            sets,
            gpu,
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{TITLE}\n");
        // Writing to a string does not fail.
        for (name, value) in &self.machine.0 {
            let _ = writeln!(text, "{name} {value}");
        }
        for (name, values) in self.values() {
            let values: Vec<_> = values.iter().map(f64::to_string).collect();
            let _ = writeln!(text, "{name} {}", values.join(" "));
        }
        text
    }

    /// Stores it for this user's next programs; the file appears when it is complete. Returns its
    /// path.
    ///
    /// # Errors
    /// If no cache folder is known, or the file cannot be written.
    pub fn save(&self) -> io::Result<PathBuf> {
        let path = Calibration::path()
            .ok_or_else(|| io::Error::other("no cache folder is known: set XDG_CACHE_HOME"))?;
        self.save_to(&path)?;
        Ok(path)
    }

    pub(super) fn save_to(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let draft = path.with_extension(format!("{}.new", std::process::id()));
        let written = fs::write(&draft, self.text()).and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            // Removes the draft if possible.
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// The model of the machine when the CPU uses `set`.
    pub(crate) fn model(&self, set: InstructionSet, threads: usize) -> Model {
        let guess = Model::guess(set, threads);
        let measured = self.sets.iter().find(|(of, _)| *of == set);
        let costs = measured.map_or(guess.cpu.costs, |(_, costs)| costs.clone());
        Model {
            cpu: CpuModel {
                costs,
                wake: if threads > 1 { self.wake } else { 0.0 },
                memory: self.memory,
                crowded: self.crowded,
            },
            gpu: self.gpu.clone().unwrap_or(guess.gpu),
        }
    }

    /// All measured values by name, for programs: nanoseconds, in all, per byte or per message.
    pub fn values(&self) -> Vec<(String, Vec<f64>)> {
        let [cached, beyond] = self.memory;
        let cpu = vec![self.wake, cached, beyond, self.crowded];
        let mut values = vec![("cpu".to_owned(), cpu)];
        for (set, costs) in &self.sets {
            values.extend(cost_lines(&format!("cpu:{}", set.name()), costs));
        }
        if let Some(gpu) = &self.gpu {
            let own = [
                gpu.start,
                gpu.staged,
                gpu.staged_by_one,
                gpu.join,
                gpu.shared,
            ];
            values.push(("gpu".to_owned(), own.into()));
            values.extend(cost_lines("gpu", &gpu.costs));
        }
        values
    }

    /// A few lines for people.
    pub fn lines(&self) -> Vec<String> {
        let rate = |costs: &Costs, algorithm, direction| {
            let byte = costs.of(algorithm, direction).byte;
            format!("{:.2}", 1.0 / byte.max(1e-6))
        };
        let some = [
            Algorithm::Aes128Ctr,
            Algorithm::Aes256Gcm,
            Algorithm::Aes128Cbc,
        ];
        let row = |costs: &Costs| {
            let rates = some.map(|algorithm| {
                let [seal, open] = Direction::BOTH.map(|way| rate(costs, algorithm, way));
                format!("{algorithm} {seal}, {open}")
            });
            format!("{} GB/s (encrypt, decrypt)", rates.join("; "))
        };
        let mut lines = Vec::new();
        for (set, costs) in &self.sets {
            lines.push(format!("cpu:{}, one thread: {}", set.name(), row(costs)));
        }
        let [cached, beyond] = self.memory.map(|byte| 1.0 / byte.max(1e-6));
        lines.push(format!(
            "all threads: {:.0} us to wake, each takes {:.1} times as long, at most {cached:.1} \
             GB/s, {beyond:.1} beyond caches",
            self.wake / 1e3,
            self.crowded,
        ));
        if let Some(gpu) = &self.gpu {
            lines.push(format!("GPU, pinned memory: {}", row(&gpu.costs)));
            let fixed = some.map(|algorithm| {
                let cost = gpu.costs.of(algorithm, Direction::Encrypt);
                format!("{algorithm} {:.0}", cost.fixed / 1e3)
            });
            lines.push(format!(
                "GPU: {:.2} s to start, smallest batch {} us, pageable memory at most {:.1} GB/s",
                gpu.start / 1e9,
                fixed.join(", "),
                1.0 / gpu.staged.max(1e-6)
            ));
            lines.push(format!(
                "all together: {:.0} us to share a job, at most {:.1} GB/s beyond caches",
                gpu.join / 1e3,
                1.0 / gpu.shared.max(1e-6)
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests;
