//! Work cut over threads.

use std::panic::resume_unwind;
use std::thread;

/// The results of `work` for each item, in order, each in a thread of its own. Where no more threads
/// may start, the caller's thread does the work.
pub(crate) fn in_threads<T: Clone + Send, R: Send>(
    items: impl Iterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let started = items.map(|item| {
            let own = item.clone();
            let thread = thread::Builder::new().spawn_scoped(scope, move || work(own));
            thread.map_err(|_| work(item))
        });
        // All start before the first is waited for.
        let started: Vec<_> = started.collect();
        let results = started.into_iter().map(|one| match one {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(result) => result,
        });
        results.collect()
    })
}
