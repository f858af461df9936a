//! Turns errors and panics into a status and the thread's last error sentence.

use std::cell::RefCell;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::memory;
use crate::status::{WL_ERR_ARGUMENT, WL_ERR_INTERNAL, WL_OK, wl_status};

/// A status with its sentence.
pub(crate) struct Fault {
    status: wl_status,
    sentence: String,
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    #[cold]
    pub(crate) fn new(status: wl_status, sentence: impl Into<String>) -> Self {
        Fault {
            status,
            sentence: sentence.into(),
        }
    }

    /// An argument that cannot be used.
    #[cold]
    pub(crate) fn argument(sentence: impl Into<String>) -> Self {
        Fault::new(WL_ERR_ARGUMENT, sentence)
    }

    /// The same with the file that it is about.
    pub(crate) fn about(mut self, path: &std::path::Path) -> Self {
        self.sentence = format!("{}: {}", path.display(), self.sentence);
        self
    }
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the body of an exported function. No panic leaves it.
#[inline]
pub(crate) fn run(body: impl FnOnce() -> Result<()>) -> wl_status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => WL_OK,
        Ok(Err(fault)) => remember(fault),
        Err(panic) => {
            let text = match panic.downcast_ref::<&str>() {
                Some(text) => (*text).to_owned(),
                None => panic.downcast_ref::<String>().cloned().unwrap_or_default(),
            };
            // Dropping it could panic again.
            std::mem::forget(panic);
            let sentence = format!("a fault in the library: {text}; please report it");
            remember(Fault::new(WL_ERR_INTERNAL, sentence))
        }
    }
}

/// Runs the body of an exported function that returns nothing. No panic leaves it.
pub(crate) fn run_void(body: impl FnOnce() -> Result<()>) {
    let _ = run(body);
}

#[cold]
fn remember(fault: Fault) -> wl_status {
    // While a thread ends, there may be no place for it any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = fault.sentence);
    fault.status
}

/// Copies the sentence of this thread's last error into `buffer` of `size` bytes, cut if necessary
/// and always ended with a zero byte. Returns the whole sentence's length in bytes without the zero
/// byte, 0 if there was no error. `buffer` may be NULL if `size` is 0. Functions that succeed leave
/// the sentence as it is. It contains no secrets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_last_error(buffer: *mut c_char, size: usize) -> usize {
    let copy = |last: &RefCell<String>| {
        let last = last.borrow();
        // SAFETY: by this function's documentation.
        let _ = unsafe { memory::put_text(&last, buffer, size) };
        last.len()
    };
    catch_unwind(AssertUnwindSafe(|| LAST.try_with(copy).unwrap_or(0))).unwrap_or(0)
}
