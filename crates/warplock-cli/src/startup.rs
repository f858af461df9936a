//! State inherited from the parent process, read before Rust's runtime changes it.
//!
//! Before `main`, the runtime opens closed standard descriptors on /dev/null: output to them would
//! be lost without an error, and input from them would look like an empty input. It also ignores
//! SIGPIPE, whatever the parent wanted.

use std::env;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::process::Command;
use std::ptr::null;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// A bit for each standard descriptor, from standard input on.
static CLOSED: AtomicU8 = AtomicU8::new(0);
static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);

// SAFETY: the section holds pointers to functions with C's calling convention, which are called
// once, on the only thread, before Rust's own start. This one needs nothing of that.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for number in 0..3 {
        // SAFETY: it asks about a number, and touches neither memory nor what is open.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action, the call only fills in the old one.
    let known = unsafe { libc::sigaction(libc::SIGPIPE, null(), action.as_mut_ptr()) } == 0;
    // SAFETY: it was filled in.
    if known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN {
        SIGPIPE_IGNORED.store(true, Ordering::Relaxed);
    }
}

/// Whether a descriptor was closed when this process began.
pub(crate) fn was_closed(number: RawFd) -> bool {
    (0..3).contains(&number) && CLOSED.load(Ordering::Relaxed) & (1 << number) != 0
}

/// Whether the parent wants writes to a pipe without a reader to be errors, not the end.
pub(crate) fn ignores_sigpipe() -> bool {
    SIGPIPE_IGNORED.load(Ordering::Relaxed)
}

/// The words that start this command line again with the same arguments, if it runs in another
/// program's process.
static AGAIN: OnceLock<Vec<OsString>> = OnceLock::new();

/// Says that this is another program's process. Such a program (Python) ignores SIGPIPE itself:
/// what its parent wanted is not known.
pub(crate) fn embed(launcher: Vec<OsString>, arguments: &[OsString]) {
    SIGPIPE_IGNORED.store(false, Ordering::Relaxed);
    let _ = AGAIN.set([&launcher, arguments.get(1..).unwrap_or(&[])].concat());
}

/// A command that runs this one again, with the same arguments.
pub(crate) fn again() -> Command {
    if let Some((program, arguments)) = AGAIN.get().and_then(|words| words.split_first()) {
        let mut command = Command::new(program);
        command.args(arguments);
        return command;
    }
    // By its name, which `ps` then shows; a new version may have taken the old one's place.
    let program = env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1));
    command
}
