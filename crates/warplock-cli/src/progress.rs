//! The progress bar on a terminal; nothing in a pipe.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::escaped;

/// Work that is over sooner needs no bar.
const DELAY: Duration = Duration::from_millis(400);
/// Between two looks at the counter.
const TICK: Duration = Duration::from_millis(100);

/// A bar that follows a counter until it is dropped.
pub(crate) struct Progress {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Follows what `done` says, in bytes, out of `total` if that is known. `wanted` is false where the bar
    /// would disturb.
    pub(crate) fn start(
        name: &str,
        total: Option<u64>,
        done: impl Fn() -> u64 + Send + 'static,
        wanted: bool,
    ) -> Self {
        if !wanted || !io::stderr().is_terminal() {
            return Progress { thread: None };
        }
        let name = escaped(name);
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().spawn(move || {
            let bar = hidden_bar(name, total);
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                bar.set_position(done());
                if bar.is_hidden() && bar.elapsed() >= DELAY {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
            }
            bar.finish_and_clear();
        });
        // Where no thread may start, the work goes on without a bar.
        Progress {
            thread: thread.ok().map(|thread| (stop, thread)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Not drawn yet, but it measures the rate from now on.
fn hidden_bar(name: String, total: Option<u64>) -> ProgressBar {
    let template = match total {
        Some(_) => {
            "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} left"
        }
        None => "{msg} {spinner} {binary_bytes} {binary_bytes_per_sec}",
    };
    let style = ProgressStyle::with_template(template).expect("the templates are constants");
    ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden())
        .with_style(style)
        .with_message(name)
}
