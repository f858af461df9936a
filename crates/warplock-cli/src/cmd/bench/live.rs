//! A run that is watched: rows appear as they are measured, and a signal leaves what there is.

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warplock_bench::{Report, Role, Section, Value, page};

use crate::args::Common;
use crate::console::{print, say};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::system::signals;

/// Where the results go, and those so far. Shared with the thread that waits for signals.
#[derive(Clone)]
pub(super) struct Live(Arc<Mutex<State>>);

struct State {
    common: Common,
    /// Whether standard error is a terminal, or `-v` was given.
    is_watched: bool,
    /// Until the results were given out.
    outputs: Option<Outputs>,
    so_far: Option<Report>,
    /// Of a page: what is finished.
    sections: Vec<Section>,
    /// The names of rows that were shown.
    shown: HashSet<String>,
}

/// The files that were asked for.
#[derive(Default)]
pub(super) struct Outputs {
    pub(super) json: Option<Output>,
    pub(super) plot: Option<(Output, Picture)>,
    pub(super) page: Option<Output>,
}

/// Formats of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Picture {
    Svg,
    #[cfg(feature = "png")]
    Png,
}

impl Picture {
    /// By the end of a file's name.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let is_png = path
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("png"));
        #[cfg(feature = "png")]
        if is_png {
            return Ok(Picture::Png);
        }
        match is_png {
            true => Err(Failure::usage(
                "--plot: this build draws SVG only; name a file .svg",
            )),
            false => Ok(Picture::Svg),
        }
    }
}

impl Live {
    /// From now on, a signal prints and writes what there is before the process dies.
    pub(super) fn start(outputs: Outputs, common: &Common) -> Self {
        let live = Live(Arc::new(Mutex::new(State {
            common: common.clone(),
            is_watched: common.verbose || (!common.quiet && io::stderr().is_terminal()),
            outputs: Some(outputs),
            so_far: None,
            sections: Vec::new(),
            shown: HashSet::new(),
        })));
        let own = live.clone();
        signals::before_death(Box::new(move || own.stop()));
        live
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the rows so far and shows those that are new.
    pub(super) fn progress(&self, report: &Report) {
        let mut state = self.state();
        for row in 0..report.rows.len() {
            let is_measured = |value: &Value| matches!(value, Value::Measured(_));
            let is_new =
                report.rows[row].iter().any(is_measured) && state.shown.insert(names(report, row));
            if is_new && state.is_watched {
                say(report.line(row));
            }
        }
        state.so_far = Some(report.clone());
    }

    /// Gives out the results of the whole run.
    pub(super) fn finish(&self, report: &Report) -> Result<()> {
        // If a signal came first, this waits for the end of the process.
        let mut state = self.state();
        match state.outputs.take() {
            Some(outputs) => give_out(report, outputs, &state.common),
            None => Ok(()),
        }
    }

    /// Shows a line if rows are shown.
    pub(super) fn say(&self, line: &str) {
        if self.state().is_watched {
            say(line);
        }
    }

    /// Adds a part of a page.
    pub(super) fn add(&self, section: Section) {
        let mut state = self.state();
        state.so_far = None;
        state.shown.clear();
        state.sections.push(section);
    }

    /// Writes the page.
    pub(super) fn finish_page(&self) -> Result<()> {
        let mut state = self.state();
        match state.outputs.take().and_then(|outputs| outputs.page) {
            Some(output) => write(output, page(&state.sections).as_bytes()),
            None => Ok(()),
        }
    }

    /// Gives out nothing, after a failure.
    pub(super) fn discard(&self) {
        // Of a child that a signal has killed as well: what there is is given out now.
        signals::wait_if_ending();
        self.state().outputs.take();
    }

    /// Gives out the rows so far.
    fn stop(&self) {
        let mut state = self.state();
        let so_far = state.so_far.take().map(|mut report| {
            report.stopped = true;
            report
        });
        let given = match (state.outputs.take(), so_far) {
            (
                Some(Outputs {
                    page: Some(output), ..
                }),
                so_far,
            ) => {
                let last = so_far.map(|report| Section::Report(Box::new(report)));
                state.sections.extend(last);
                match state.sections.is_empty() {
                    true => Ok(()),
                    false => write(output, page(&state.sections).as_bytes()),
                }
            }
            (Some(outputs), Some(report)) => give_out(&report, outputs, &state.common),
            _ => Ok(()),
        };
        // The process dies by its signal, whatever happens here.
        if let Err(failure) = given {
            say(format_args!("warplock: {failure}"));
        }
        // Nothing is given out or shown after this.
        std::mem::forget(state);
    }
}

/// What a row is.
fn names(report: &Report, row: usize) -> String {
    let cells = report.columns.iter().zip(&report.rows[row]);
    let names = cells.filter(|(column, _)| column.role != Role::Result);
    names.map(|(_, value)| format!("{value:?}\n")).collect()
}

/// Files first: the reader of the table may leave before its end. And the table even if a file
/// failed: the measurement must not be lost.
fn give_out(report: &Report, outputs: Outputs, common: &Common) -> Result<()> {
    let written = files(report, outputs);
    let printed = match common.json {
        true => common.emit(&report.json()),
        false => print(&report.table()),
    };
    written.and(printed)
}

fn files(report: &Report, outputs: Outputs) -> Result<()> {
    if let Some(output) = outputs.json {
        write(output, format!("{:#}\n", report.json()).as_bytes())?;
    }
    match outputs.plot {
        Some((output, Picture::Svg)) => write(output, report.svg()?.as_bytes()),
        #[cfg(feature = "png")]
        Some((output, Picture::Png)) => write(output, &report.png()?),
        None => Ok(()),
    }
}

fn write(output: Output, bytes: &[u8]) -> Result<()> {
    let written = output.file().write_all(bytes);
    written.map_err(|error| Failure::writing(&error).about(&output.name))?;
    output.publish()
}
