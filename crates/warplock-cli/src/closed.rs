//! Which of the standard descriptors this process was started without.
//!
//! Before `main`, Rust opens those on /dev/null: what goes there would be lost without an error,
//! and what comes from there would pass for an empty input.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each, from standard input on.
static CLOSED: AtomicU8 = AtomicU8::new(0);

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
}

/// Whether a descriptor was closed when this process began.
pub(crate) fn was_closed(number: RawFd) -> bool {
    (0..3).contains(&number) && CLOSED.load(Ordering::Relaxed) & (1 << number) != 0
}
