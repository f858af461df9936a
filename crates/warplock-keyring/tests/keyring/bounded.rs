//! Runs hostile inputs in a child process that has little memory, and measures them.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What one input may allocate.
const MEMORY: u64 = 64 << 20;
/// A guard against hanging only: how long an input takes is measured and printed, but decides
/// nothing, as the machine may be busy.
const HANGS: Duration = Duration::from_secs(60);
const IS_CHILD: &str = "WARPLOCK_BOUNDED_CHILD";

/// The inputs measured so far.
pub(crate) struct Meter {
    slowest: (Duration, String),
    largest: (u64, String),
    count: usize,
    /// The process's memory before the first.
    before: u64,
}

impl Meter {
    /// Runs one input.
    pub(crate) fn input(&mut self, name: &str, run: impl FnOnce()) {
        eprintln!("input: {name}");
        // The kernel counts the peak from here on.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        *STARTED.lock().unwrap() = Some(Instant::now());
        let start = Instant::now();
        run();
        let time = start.elapsed();
        *STARTED.lock().unwrap() = None;
        let peak = status("VmHWM:").saturating_sub(self.before);
        self.count += 1;
        if time > self.slowest.0 {
            self.slowest = (time, name.into());
        }
        if peak > self.largest.0 {
            self.largest = (peak, name.into());
        }
    }
}

static STARTED: Mutex<Option<Instant>> = Mutex::new(None);

/// Runs `inputs` in a child process: `test` is the path of the test that calls this. An input
/// that needs more memory than there is, crashes or hangs fails the test and is named.
pub(crate) fn run(test: &str, inputs: impl FnOnce(&mut Meter)) {
    if std::env::var_os(IS_CHILD).is_none() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(IS_CHILD, "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&child.stderr);
        let last = errors.lines().rev().take(8).collect::<Vec<_>>();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
        assert!(child.status.success(), "{}:\n{last}", child.status);
        let measured = errors.lines().rfind(|line| line.starts_with("measured"));
        println!("{}", measured.expect("the child runs this very test"));
        return;
    }
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let started = *STARTED.lock().unwrap();
            if started.is_some_and(|start| start.elapsed() > HANGS) {
                eprintln!("it hangs");
                std::process::abort();
            }
        }
    });
    let limit = Rlimit {
        current: Some(status("VmData:") + MEMORY),
        maximum: getrlimit(Resource::Data).maximum,
    };
    setrlimit(Resource::Data, limit).unwrap();
    let mut meter = Meter {
        slowest: (Duration::ZERO, String::new()),
        largest: (0, String::new()),
        count: 0,
        before: status("VmRSS:"),
    };
    inputs(&mut meter);
    eprintln!(
        "measured {} inputs: slowest {:?} ({}), largest {} KiB ({})",
        meter.count,
        meter.slowest.0,
        meter.slowest.1,
        meter.largest.0 >> 10,
        meter.largest.1
    );
}

/// A field of `/proc/self/status`, in bytes.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}
