//! State inherited from the parent process, read before Rust's runtime changes it.
//!
//! Before `main`, the runtime opens closed standard descriptors on /dev/null: output to them would
//! be lost without an error, and input from them would look like an empty input. It also ignores
//! SIGPIPE, whatever the parent wanted.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// A bit for each standard descriptor, from standard input on.
static CLOSED: AtomicU8 = AtomicU8::new(0);
static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);

// SAFETY: the section holds pointers to functions with C's calling convention, which are called
// once, on the only thread, before Rust's own start. This one needs nothing of that.
#[used]
#[cfg_attr(
    target_vendor = "apple",
    unsafe(link_section = "__DATA,__mod_init_func")
)]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for number in 0..3 {
        // SAFETY: it asks about a number, and touches neither memory nor what is open.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
    SIGPIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
}

/// Whether a signal is ignored at this moment.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action, the call only fills in the old one.
    let known = unsafe { libc::sigaction(signal, null(), action.as_mut_ptr()) } == 0;
    // SAFETY: it was filled in.
    known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Whether a descriptor was closed when this process began.
pub(crate) fn was_closed(number: RawFd) -> bool {
    (0..3).contains(&number) && CLOSED.load(Ordering::Relaxed) & (1 << number) != 0
}

/// Whether the parent wants writes to a pipe without a reader to be errors, not the end.
pub(crate) fn ignores_sigpipe() -> bool {
    SIGPIPE_IGNORED.load(Ordering::Relaxed)
}

/// Says that this is another program's process. Such a program (Python) ignores SIGPIPE itself:
/// what its parent wanted is not known. Nor does it open closed standard descriptors: the next file
/// that is opened, be it an output or the pipe on which signals arrive, would be read from as standard
/// input, or get what is written to standard error.
pub(crate) fn embed() {
    SIGPIPE_IGNORED.store(false, Ordering::Relaxed);
    for number in 0..3 {
        // SAFETY: both calls are about numbers and a constant path. What is opened stays open: it has
        // the lowest free number, which is this one, as those below are open.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) == -1 {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
        }
    }
}
