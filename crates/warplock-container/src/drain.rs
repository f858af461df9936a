//! The end of the pipeline: output to its place, in any order, or in turn.

use std::io::Write;
use std::ptr::NonNull;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::sink::{self, Memory, Sink, WriteAt, write_full};
use crate::workers::lock;

/// The destination of segments.
pub(crate) enum Drain<'d> {
    Positioned {
        data: Box<dyn WriteAt + 'd>,
        start: u64,
        memory: Memory<'d>,
    },
    Sequential {
        turn: Mutex<Turn<'d>>,
        changed: Condvar,
    },
    Nowhere,
}

pub(crate) struct Turn<'d> {
    writer: Box<dyn Write + Send + 'd>,
    /// The next segment's turn.
    next: u64,
    /// The lowest segment that will never come.
    abandoned: u64,
}

/// Waits for the turn of segment `index`; `None` if an earlier one failed.
fn wait_for<'t, 'd>(
    index: u64,
    turn: &'t Mutex<Turn<'d>>,
    changed: &Condvar,
) -> Option<MutexGuard<'t, Turn<'d>>> {
    let waits = |turn: &mut Turn<'_>| turn.next != index && turn.abandoned > index;
    let turn = changed.wait_while(lock(turn), waits);
    let turn = turn.unwrap_or_else(PoisonError::into_inner);
    (turn.next == index).then_some(turn)
}

impl<'d> Drain<'d> {
    pub(crate) fn new(sink: Sink<'d>) -> Self {
        match sink.0 {
            sink::Kind::Positioned {
                data,
                start,
                memory,
            } => Drain::Positioned {
                data,
                start,
                memory,
            },
            sink::Kind::Sequential(writer) => Drain::Sequential {
                turn: Mutex::new(Turn {
                    writer,
                    next: 0,
                    abandoned: u64::MAX,
                }),
                changed: Condvar::new(),
            },
            sink::Kind::Nowhere => Drain::Nowhere,
        }
    }

    /// Whether output is given out front to back as it comes.
    pub(crate) fn is_sequential(&self) -> bool {
        matches!(self, Drain::Sequential { .. })
    }

    /// Where in memory `len` bytes of the output belong that start at `offset`, if they do.
    pub(crate) fn memory(&self, offset: u64, len: usize) -> Option<NonNull<u8>> {
        match self {
            Drain::Positioned {
                start,
                memory: Memory::Yes(file),
                ..
            } => file.memory(start + offset, len),
            Drain::Positioned {
                start,
                memory: Memory::Bytes(bytes),
                ..
            } => bytes.memory(start + offset, len),
            _ => None,
        }
    }

    /// Told when output is where it belongs.
    pub(crate) fn filled(&self, offset: u64, len: usize) {
        if let Drain::Positioned {
            start,
            memory: Memory::Yes(file),
            ..
        } = self
        {
            file.filled(start + offset, len);
        }
    }

    /// Writes the output of segment `index`, which belongs at `offset`; false if that is no
    /// longer wanted because an earlier segment failed.
    pub(crate) fn put(
        &self,
        index: u64,
        offset: u64,
        bytes: &[u8],
        cancelled: impl Fn() -> bool,
    ) -> Result<bool> {
        match self {
            Drain::Positioned { data, start, .. } => {
                let write = |rest: &[u8], done| data.write_at(rest, start + offset + done);
                write_full(write, bytes, cancelled).map_err(Error::Write)?;
                self.filled(offset, bytes.len());
            }
            Drain::Sequential { turn, changed } => {
                let Some(mut turn) = wait_for(index, turn, changed) else {
                    return Ok(false);
                };
                let write = |rest: &[u8], _| turn.writer.write(rest);
                write_full(write, bytes, cancelled).map_err(Error::Write)?;
                turn.next += 1;
                changed.notify_all();
            }
            Drain::Nowhere => {}
        }
        Ok(true)
    }

    /// Writes the beginning of segment `index`, after which nothing comes, where output is given out
    /// front to back.
    pub(crate) fn put_final(
        &self,
        index: u64,
        bytes: &[u8],
        cancelled: impl Fn() -> bool,
    ) -> Result<()> {
        let Drain::Sequential { turn, changed } = self else {
            return Ok(());
        };
        let Some(mut turn) = wait_for(index, turn, changed) else {
            return Ok(());
        };
        // The turn does not pass on.
        turn.abandoned = index;
        changed.notify_all();
        let write = |rest: &[u8], _| turn.writer.write(rest);
        write_full(write, bytes, cancelled).map_err(Error::Write)
    }

    /// Segment `index` will never come, so waiting for it ends.
    pub(crate) fn abandon(&self, index: u64) {
        if let Drain::Sequential { turn, changed } = self {
            let mut turn = lock(turn);
            turn.abandoned = turn.abandoned.min(index);
            changed.notify_all();
        }
    }

    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Drain::Sequential { turn, .. } => {
                let mut turn = turn.into_inner().unwrap_or_else(PoisonError::into_inner);
                turn.writer.flush().map_err(Error::Write)
            }
            Drain::Positioned { .. } | Drain::Nowhere => Ok(()),
        }
    }
}
