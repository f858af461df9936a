//! The machine that a report comes from.

use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use warplock::InstructionSet;

use crate::Context;
use crate::error::Result;
use crate::table::scaled;

/// What is needed to compare a report with another machine's.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The CPU's name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Threads of the columns with all threads.
    pub threads: usize,
    /// Instruction sets that Warplock has code for and this machine has.
    pub instruction_sets: Vec<String>,
    /// GPUs that the engine can use.
    pub gpus: Vec<String>,
    /// The backend that was chosen, such as `cpu:aesni`.
    pub backend: String,
    /// Main memory in bytes, if known.
    pub memory: Option<u64>,
    /// The operating system's name.
    pub os: String,
    /// The kernel's version.
    pub kernel: String,
    /// Warplock's version.
    pub warplock: String,
    /// The commit that it was built from; unknown outside of a repository and in debug builds.
    pub commit: Option<String>,
    /// When, in UTC: `2026-01-31T23:59:59Z`.
    pub date: String,
    /// Runnable tasks in the minute before the run (load average), if known; see
    /// [`Machine::is_busy`].
    pub load: Option<f64>,
    /// The arguments of this process.
    pub command: Vec<String>,
}

impl Machine {
    /// Looks at this machine, at the start of a run.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the chosen backend cannot run here.
    pub fn here(context: &Context<'_>) -> Result<Self> {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let line = |text: &str, name: &str, mark: char| {
            let mut lines = text.lines().filter_map(|line| line.split_once(mark));
            lines
                .find(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim().trim_matches('"').to_owned())
        };
        let unknown = || "unknown".to_owned();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Machine {
            // ARM kernels give no name.
            cpu: line(&read("/proc/cpuinfo"), "model name", ':')
                .unwrap_or_else(|| format!("unnamed {} processor", std::env::consts::ARCH)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            threads: context.threads.get(),
            instruction_sets: InstructionSet::all()
                .filter(|set| set.is_available())
                .map(|set| set.name().to_owned())
                .collect(),
            gpus: gpus(),
            backend: context.one_thread()?.backend(),
            memory: line(&read("/proc/meminfo"), "MemTotal", ':')
                .and_then(|text| text.strip_suffix(" kB")?.parse::<u64>().ok())
                .map(|kib| kib << 10),
            os: line(&read("/etc/os-release"), "PRETTY_NAME", '=').unwrap_or_else(unknown),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            warplock: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("WARPLOCK_COMMIT").map(str::to_owned),
            date: utc(now.map_or(0, |since| since.as_secs())),
            load: read("/proc/loadavg")
                .split_whitespace()
                .next()
                .and_then(|load| load.parse().ok()),
            command: std::env::args().collect(),
        })
    }

    /// For JSON.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "cpu": self.cpu,
            "cores": self.cores,
            "threads": self.threads,
            "instruction_sets": self.instruction_sets,
            "backend": self.backend,
            "memory_bytes": self.memory,
            "os": self.os,
            "kernel": self.kernel,
            "gpus": self.gpus,
            "warplock": self.warplock,
            "commit": self.commit,
            "date": self.date,
            "load": self.load,
            "busy": self.is_busy(),
            "command": self.command,
        })
    }

    /// Whether other programs were using the CPU before the run.
    pub fn is_busy(&self) -> bool {
        let quiet = QUIET.max(self.cores as f64 / 16.0);
        self.load.is_some_and(|load| load > quiet)
    }

    /// Warplock's version and commit.
    pub(crate) fn build(&self) -> String {
        match &self.commit {
            Some(commit) => format!("warplock {} ({commit})", self.warplock),
            None => format!("warplock {}", self.warplock),
        }
    }

    /// The machine in one line, for a figure's caption.
    pub(crate) fn caption(&self) -> String {
        let gpus = self.gpus.iter().map(|gpu| format!(", {gpu}"));
        let day = self.date.split('T').next().unwrap_or_default();
        format!(
            "{}, {} cores{}; {}; {day}",
            self.cpu,
            self.cores,
            gpus.collect::<String>(),
            self.build()
        )
    }

    /// A machine from [`Machine::json`]; what is missing is empty.
    pub(crate) fn from_json(json: &serde_json::Value) -> Self {
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| json[key].as_u64().unwrap_or(0) as usize;
        let list = |key: &str| {
            let items = json[key].as_array().into_iter().flatten();
            items
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect()
        };
        Machine {
            cpu: text("cpu"),
            cores: number("cores"),
            threads: number("threads"),
            instruction_sets: list("instruction_sets"),
            gpus: list("gpus"),
            backend: text("backend"),
            memory: json["memory_bytes"].as_u64(),
            os: text("os"),
            kernel: text("kernel"),
            warplock: text("warplock"),
            commit: json["commit"].as_str().map(str::to_owned),
            date: text("date"),
            load: json["load"].as_f64(),
            command: list("command"),
        }
    }

    /// For people.
    pub fn lines(&self) -> Vec<String> {
        let memory = self
            .memory
            .map_or_else(|| "unknown".to_owned(), |bytes| scaled(bytes as f64, "B"));
        let load = self.load.map_or_else(
            || "load unknown".to_owned(),
            |load| format!("load {load:.2} at the start"),
        );
        vec![
            format!(
                "{}; {} cores usable, all threads: {}; {} memory; {load}",
                self.cpu, self.cores, self.threads, memory
            ),
            format!(
                "{}, Linux {}; {} on {} (of {}); {}",
                self.os,
                self.kernel,
                self.build(),
                self.backend,
                self.instruction_sets.join(", "),
                self.date
            ),
        ]
    }
}

/// Load averages up to this are noise, and with many cores up to a sixteenth of them.
const QUIET: f64 = 0.5;

/// The caches of the first core: `L1 48K, L2 2048K, L3 260M`; empty if unknown.
pub(crate) fn caches() -> String {
    let all = (0..8).filter_map(|index| {
        let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
        let read = |file| fs::read_to_string(format!("{folder}/{file}")).ok();
        let (kind, level, size) = (read("type")?, read("level")?, read("size")?);
        // Instructions have a first cache of their own.
        (kind.trim() != "Instruction").then(|| format!("L{} {}iB", level.trim(), size.trim()))
    });
    all.collect::<Vec<_>>().join(", ")
}

/// Names of the GPUs; the driver is asked once.
fn gpus() -> Vec<String> {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let found = warplock::cuda::devices();
        let gpus = found.map(|found| found.gpus).unwrap_or_default();
        gpus.into_iter().map(|gpu| gpu.name).collect()
    });
    names.clone()
}

/// Seconds since 1970 as a date and time of the Gregorian calendar.
fn utc(seconds: u64) -> String {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut day, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    let february = 28 + u64::from(is_leap(year));
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let day = day + 1;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        // As `date -u -d @N` prints them.
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(utc(4_102_444_800), "2100-01-01T00:00:00Z");
    }

    #[test]
    fn this_machine_has_a_processor_and_the_portable_code() {
        let machine = Machine::here(&Context::default()).unwrap();
        assert!(machine.instruction_sets.contains(&"portable".to_owned()));
        assert!(machine.backend.starts_with("cpu:"));
        assert!(machine.cores > 0 && !machine.cpu.is_empty());
        let json = machine.json();
        for key in [
            "cpu",
            "cores",
            "memory_bytes",
            "os",
            "kernel",
            "date",
            "command",
            "load",
        ] {
            assert!(!json[key].is_null(), "{key}");
        }
    }
}
