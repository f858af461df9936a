//! Too little memory (`ulimit -v`) ends the program with a sentence and exit code 1, like every
//! other failure. Without this Rust would abort, and most libraries allocate in a way that does.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Cursor, Write};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::Exit;
use crate::system;

/// The system's allocator, but it gives memory or ends the process: for the program, not for a process
/// that only embeds the command line.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: each method hands its arguments to the system's allocator and returns what that returns,
// or does not return.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller follows the same rules.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller follows the same rules.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller follows the same rules.
        given(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller follows the same rules.
        unsafe { System.dealloc(memory, layout) };
    }
}

fn given(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        end(size);
    }
    memory
}

/// Ends the process. Allocates nothing, and waits for no lock: another thread may hold it.
#[cold]
fn end(size: usize) -> ! {
    static TOLD: AtomicBool = AtomicBool::new(false);
    // When memory runs out, it does so in several threads.
    if !TOLD.swap(true, Ordering::Relaxed) {
        /// With the default work, and with the most that is accepted. Large files that are held in
        /// memory may need as much.
        const PASSPHRASE: RangeInclusive<usize> = 100 << 20..=5 << 30;
        let mut line = Cursor::new([0; 256]);
        let what = match PASSPHRASE.contains(&size) {
            true => ", perhaps for stretching a passphrase",
            false => "",
        };
        let _ = writeln!(
            line,
            "warplock: not enough memory: {} KiB more are needed{what}; free some, or raise the \
             limit (ulimit -v)",
            size.div_ceil(1024)
        );
        let len = line.position() as usize;
        system::write_error(&line.get_ref()[..len]);
    }
    system::exit_now(Exit::Error as i32)
}
