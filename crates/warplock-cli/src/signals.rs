//! Ctrl-C and its relatives: leave nothing half-done, then die by the signal itself, so that a
//! shell sees it.

use std::fs::File;
use std::sync::OnceLock;
use std::{io, thread};

use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::output;

/// What to do instead of dying; whether it was done.
type Instead = Box<dyn Fn() -> bool + Send + Sync>;

/// Bytes of the waiting thread's stack, whatever the environment says: an unmount runs on it.
const STACK: usize = 2 << 20;

static INSTEAD: OnceLock<Instead> = OnceLock::new();

/// Has signals do something else than end this process; where it answers false, they do. The first
/// caller's is taken.
pub(crate) fn instead(work: Instead) {
    let _ = INSTEAD.set(work);
}

/// Starts the thread that waits for signals. A thread can act while all others are blocked in
/// reads and writes, and may do what a signal handler must not.
pub(crate) fn install() -> io::Result<()> {
    let ignored = ignored_signals();
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| {
        // `nohup` and background jobs of scripts count on this.
        ignored & (1 << (signal - 1)) == 0
    });
    let mut signals = Signals::new(wanted)?;
    // A prompt for a passphrase turns echo off.
    let terminal = File::open("/dev/tty").ok();
    let modes = terminal
        .as_ref()
        .and_then(|terminal| tcgetattr(terminal).ok());
    thread::Builder::new()
        .name("signals".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            for signal in signals.forever() {
                if INSTEAD.get().is_some_and(|instead| instead()) {
                    continue;
                }
                output::abandon_all();
                warplock_bench::abandon();
                if let (Some(terminal), Some(modes)) = (&terminal, &modes) {
                    let _ = tcsetattr(terminal, OptionalActions::Now, modes);
                }
                let _ = emulate_default_handler(signal);
            }
        })?;
    Ok(())
}

/// The signals that this process was started with as ignored, bit 0 for signal 1.
fn ignored_signals() -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let mask = status
                .lines()
                .find_map(|line| line.strip_prefix("SigIgn:"))?;
            u64::from_str_radix(mask.trim(), 16).ok()
        })
        .unwrap_or(0)
}
