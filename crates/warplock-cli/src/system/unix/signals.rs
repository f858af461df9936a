//! Ctrl-C and its relatives: leave nothing half-done, then die by the signal itself, so that a
//! shell sees it.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;
use std::{io, thread};

use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use warplock_container::OutputFile;

use super::startup::is_ignored;

/// What to do instead of dying; whether it was done.
type Instead = Box<dyn Fn() -> bool + Send + Sync>;

/// What to do before dying.
type Last = Box<dyn Fn() + Send + Sync>;

/// Bytes of the waiting thread's stack, whatever the environment says: an unmount runs on it.
const STACK: usize = 2 << 20;
/// The most that the waiting thread is given to end the process.
const PATIENCE: Duration = Duration::from_secs(5);

static INSTEAD: OnceLock<Instead> = OnceLock::new();
static LAST: OnceLock<Last> = OnceLock::new();
/// Set by the signal handlers themselves.
static RECEIVED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Makes signals do something else than end this process; if that returns false, they do. The first
/// caller's function is used.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "there are no mounts")
)]
pub(crate) fn instead(work: Instead) {
    let _ = INSTEAD.set(work);
}

/// Makes signals do something before they end this process, such as printing what there is. The
/// first caller's function is used.
pub(crate) fn before_death(work: Last) {
    let _ = LAST.set(work);
}

/// Ends this process as one whose reader is gone.
pub(crate) fn die_of_pipe() {
    die(SIGPIPE);
}

/// Removes temporary files and ends this process by `signal`.
pub(crate) fn die(signal: i32) {
    OutputFile::abandon_all();
    #[cfg(target_os = "linux")]
    warplock_bench::abandon();
    let _ = emulate_default_handler(signal);
}

/// Waits for the end if a signal is about to end this process: the error that the signal caused,
/// such as an interrupted prompt, needs no message.
pub(crate) fn wait_if_ending() {
    if RECEIVED.load(Ordering::Relaxed) && INSTEAD.get().is_none() {
        thread::sleep(PATIENCE);
    }
}

/// Starts the thread that waits for signals. A thread can act while all others are blocked in
/// reads and writes, and may do what a signal handler must not.
pub(crate) fn install() -> io::Result<()> {
    let ending = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
    // `nohup` and background jobs of scripts count on what is ignored.
    let wanted = ending.into_iter().filter(|&signal| !is_ignored(signal));
    let wanted: Vec<_> = wanted.collect();
    for &signal in &wanted {
        flag::register(signal, Arc::clone(&RECEIVED))?;
    }
    // A file that grows past the limit of `ulimit -f` is then a failed write.
    let mut signals = Signals::new(wanted.into_iter().chain([SIGXFSZ]))?;
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
                if signal == SIGXFSZ || INSTEAD.get().is_some_and(|instead| instead()) {
                    continue;
                }
                if let (Some(terminal), Some(modes)) = (&terminal, &modes) {
                    let _ = tcsetattr(terminal, OptionalActions::Now, modes);
                }
                if let Some(last) = LAST.get() {
                    last();
                }
                die(signal);
            }
        })?;
    Ok(())
}
