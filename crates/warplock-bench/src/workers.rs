//! Threads that take numbered pieces of a range until all are done.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::error::{Error, Result};

/// Cuts `0..total` into pieces of `piece` and runs `work` on each, on `threads` threads, each with
/// its own state. After an error no further piece is begun.
pub(crate) fn run<S>(
    threads: NonZeroUsize,
    total: u64,
    piece: u64,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, Range<u64>) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicU64::new(0);
    let worker = || {
        let mut state = state();
        loop {
            let start = next.fetch_add(piece, Ordering::Relaxed);
            if start >= total {
                return Ok(());
            }
            let outcome = work(&mut state, start..total.min(start + piece));
            if outcome.is_err() {
                next.store(total, Ordering::Relaxed);
                return outcome;
            }
        }
    };
    // No more threads than pieces: each state may be large.
    let threads = total.div_ceil(piece).min(threads.get() as u64);
    thread::scope(|scope| {
        let start = |_| {
            let thread = thread::Builder::new().spawn_scoped(scope, worker);
            thread.map_err(|error| {
                next.store(total, Ordering::Relaxed);
                Error::NoThread(error)
            })
        };
        let others = (1..threads).map(start).collect::<Result<Vec<_>>>()?;
        let mut outcome = worker();
        for other in others {
            let theirs = other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(theirs);
        }
        outcome
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn every_piece_once_and_an_error_stops() {
        let seen = Mutex::new(Vec::new());
        let threads = NonZeroUsize::new(3).unwrap();
        let note = |(): &mut (), piece: Range<u64>| {
            seen.lock().unwrap().push(piece);
            Ok(())
        };
        run(threads, 10, 4, || (), note).unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort_by_key(|piece| piece.start);
        assert_eq!(seen, [0..4, 4..8, 8..10]);

        let calls = AtomicU64::new(0);
        let fail = |(): &mut (), _| {
            calls.fetch_add(1, Ordering::Relaxed);
            Err(Error::Input("no".to_owned()))
        };
        assert!(run(NonZeroUsize::MIN, 100, 1, || (), fail).is_err());
        assert_eq!(calls.into_inner(), 1);
        run(threads, 0, 4, || (), |(): &mut (), _| panic!("no piece")).unwrap();
    }
}
