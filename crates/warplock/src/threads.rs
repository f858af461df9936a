//! Threads that help the one that calls. It takes part in its own work from the start and waits for
//! nobody who has not begun by its end: who comes late finds nothing. So threads that the system
//! wakes late cost what it takes to call them, and no more.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Nanoseconds from a ring to the first step of the one that slept, as it mostly was lately in this
/// process; more on virtual machines with many cores. Nobody knows more than the others of it.
static WAKE: AtomicU64 = AtomicU64::new(10_000);

/// No wake is taken for shorter or longer, in nanoseconds: a clock's step, a neighbour's turn.
const WAKES: (u64, u64) = (2_000, 200_000);

/// A caller rings for so many, and so does each that comes: rings cost the one that rings.
const RINGS: usize = 2;

/// A wait for those who are still at work looks so many times before it sleeps.
const LOOKS: usize = 2_000;

/// Threads that help whoever calls.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

struct Shared {
    desk: Mutex<Desk>,
    bell: Condvar,
    /// Tasks so far: who looks out for work sees it change, without the lock.
    tasks: AtomicUsize,
}

/// What is to be done, and who could.
struct Desk {
    open: VecDeque<Arc<Task>>,
    /// Threads that sleep, and nobody has rung for.
    asleep: usize,
    /// Threads that somebody has rung for.
    coming: usize,
    /// Threads that look out for work.
    looking: usize,
    rung: Instant,
    end: bool,
}

/// Work that several threads may join.
struct Task {
    body: Body,
    /// How many have joined, and how many may; both change under the desk's lock alone.
    joined: AtomicUsize,
    seats: usize,
    /// How many are at work.
    inside: AtomicUsize,
    caller: Thread,
    failed: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The caller's closure, which lives until it has closed its task.
struct Body(*const (dyn Fn(usize) + Sync));

// SAFETY: a shared reference to what may be shared between threads.
unsafe impl Send for Body {}
// SAFETY: as above.
unsafe impl Sync for Body {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many threads, of so many at most, are worth waking for what takes one of them `work`
/// nanoseconds, where a wake takes `wake`: each has at least that much to do.
pub(crate) fn worth(work: f64, wake: f64, most: usize) -> usize {
    ((work / wake.max(1.0)) as usize).clamp(1, most.max(1))
}

impl Threads {
    /// So many, named after what they do, who `begin` first.
    pub(crate) fn new(
        count: usize,
        name: &str,
        begin: impl Fn() + Send + Clone + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            desk: Mutex::new(Desk {
                open: VecDeque::new(),
                asleep: 0,
                coming: 0,
                looking: 0,
                rung: Instant::now(),
                end: false,
            }),
            bell: Condvar::new(),
            tasks: AtomicUsize::new(0),
        });
        let mut threads = Threads {
            shared,
            handles: Vec::with_capacity(count),
        };
        for number in 0..count {
            let (shared, begin) = (Arc::clone(&threads.shared), begin.clone());
            let body = move || {
                begin();
                shared.serve();
            };
            // After an error, those that there are end with `threads`.
            let handle = thread::Builder::new()
                .name(format!("warplock-{name}-{number}"))
                .spawn(body)?;
            threads.handles.push(handle);
        }
        Ok(threads)
    }

    /// How many there are, the caller not counted.
    pub(crate) fn count(&self) -> usize {
        self.handles.len()
    }

    /// How many threads, the caller's with them, are worth having for what takes one of them so
    /// many nanoseconds.
    pub(crate) fn worth(&self, work: f64) -> usize {
        let wake = WAKE.load(Ordering::Relaxed) as f64;
        worth(work, wake, self.count() + 1)
    }

    /// Does `own` on this thread, while up to `helpers` others call `body`, with numbers from 0 in
    /// the order in which they come. Returns once all who came are done; a panic of theirs goes on
    /// here.
    pub(crate) fn run(&self, helpers: usize, body: &(dyn Fn(usize) + Sync), own: impl FnOnce()) {
        let seats = helpers.min(self.count());
        if seats == 0 {
            return own();
        }
        // SAFETY: only the lifetime changes. Who calls the body has joined before; `closing` lets
        // nobody join any more and waits for those who have, also when `own` panics.
        let body = unsafe {
            std::mem::transmute::<
                *const (dyn Fn(usize) + Sync + '_),
                *const (dyn Fn(usize) + Sync + 'static),
            >(body)
        };
        let task = Arc::new(Task {
            body: Body(body),
            joined: AtomicUsize::new(0),
            seats,
            inside: AtomicUsize::new(0),
            caller: thread::current(),
            failed: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        self.shared.open(&task);
        let closing = Closing(&self.shared, &task);
        own();
        drop(closing);
        if task.failed.load(Ordering::Acquire)
            && let Some(panic) = lock(&task.panic).take()
        {
            resume_unwind(panic);
        }
    }

    /// Does pieces 0 to `count` on up to `threads` threads, this one with them; who is free takes
    /// the next.
    pub(crate) fn share(&self, threads: usize, count: usize, work: impl Fn(usize) + Sync) {
        let next = AtomicUsize::new(0);
        let take = || {
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                if piece >= count {
                    return;
                }
                work(piece);
            }
        };
        let helpers = threads.min(count).saturating_sub(1);
        self.run(helpers, &|_| take(), take);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        lock(&self.shared.desk).end = true;
        self.shared.tasks.fetch_add(1, Ordering::Release);
        self.shared.bell.notify_all();
        for handle in self.handles.drain(..) {
            // It panics for nobody: what tasks panic with goes to their callers.
            let _ = handle.join();
        }
    }
}

/// Closes a task: nobody joins it any more, and all who have are done.
struct Closing<'a>(&'a Shared, &'a Arc<Task>);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let Closing(shared, task) = self;
        lock(&shared.desk)
            .open
            .retain(|open| !Arc::ptr_eq(open, task));
        let mut looks = 0;
        while task.inside.load(Ordering::Acquire) > 0 {
            looks += 1;
            match looks < LOOKS {
                true => std::hint::spin_loop(),
                false => thread::park(),
            }
        }
    }
}

impl Task {
    /// Does what the caller asked for. The one that does has joined.
    fn work(&self, number: usize) {
        // SAFETY: the caller waits for those inside, of whom this thread is one.
        let body = unsafe { &*self.body.0 };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(number))) {
            *lock(&self.panic) = Some(panic);
            self.failed.store(true, Ordering::Release);
        }
        if self.inside.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.caller.unpark();
        }
    }

    fn free(&self) -> usize {
        self.seats - self.joined.load(Ordering::Relaxed)
    }
}

impl Desk {
    /// Joins the first open task.
    fn join(&mut self) -> Option<(Arc<Task>, usize)> {
        let task = Arc::clone(self.open.front()?);
        task.inside.fetch_add(1, Ordering::Relaxed);
        let number = task.joined.fetch_add(1, Ordering::Relaxed);
        if task.free() == 0 {
            self.open.pop_front();
        }
        Some((task, number))
    }

    /// How many of those who sleep are to be woken now; they count as coming.
    fn ring(&mut self) -> usize {
        let free: usize = self.open.iter().map(|task| task.free()).sum();
        let awaited = self.coming + self.looking;
        let rings = free.saturating_sub(awaited).min(self.asleep).min(RINGS);
        if rings > 0 {
            self.asleep -= rings;
            self.coming += rings;
            self.rung = Instant::now();
        }
        rings
    }
}

impl Shared {
    fn open(&self, task: &Arc<Task>) {
        let mut desk = lock(&self.desk);
        desk.open.push_back(Arc::clone(task));
        let rings = desk.ring();
        self.tasks.fetch_add(1, Ordering::Release);
        drop(desk);
        (0..rings).for_each(|_| self.bell.notify_one());
    }

    /// A thread's life.
    fn serve(&self) {
        let mut desk = lock(&self.desk);
        let mut looked = true;
        while !desk.end {
            if let Some((task, number)) = desk.join() {
                let rings = desk.ring();
                drop(desk);
                (0..rings).for_each(|_| self.bell.notify_one());
                task.work(number);
                drop(task);
                desk = lock(&self.desk);
                looked = false;
            } else if !looked {
                desk = self.look_out(desk);
                looked = true;
            } else {
                desk = self.sleep(desk);
                looked = false;
            }
        }
    }

    fn sleep<'a>(&'a self, mut desk: MutexGuard<'a, Desk>) -> MutexGuard<'a, Desk> {
        desk.asleep += 1;
        while desk.coming == 0 && !desk.end {
            desk = self.bell.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
        if !desk.end {
            desk.coming -= 1;
            note_wake(desk.rung.elapsed());
        }
        desk
    }

    /// Looks out for the next task for as long as a wake would take: it often comes at once.
    fn look_out<'a>(&'a self, mut desk: MutexGuard<'a, Desk>) -> MutexGuard<'a, Desk> {
        let seen = self.tasks.load(Ordering::Acquire);
        desk.looking += 1;
        drop(desk);
        let patience = Duration::from_nanos(WAKE.load(Ordering::Relaxed));
        let start = Instant::now();
        while self.tasks.load(Ordering::Acquire) == seen && start.elapsed() < patience {
            (0..32).for_each(|_| std::hint::spin_loop());
        }
        let mut desk = lock(&self.desk);
        desk.looking -= 1;
        desk
    }
}

/// Takes note of how long a wake took: a step up or down, so that half of them take longer than
/// what is known. A mean would follow the few that take a neighbour's turn.
fn note_wake(took: Duration) {
    let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    let before = WAKE.load(Ordering::Relaxed);
    let step = before / 16;
    let after = match took > before {
        true => before + step,
        false => before - step,
    };
    WAKE.store(after.clamp(WAKES.0, WAKES.1), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(count: usize) -> Threads {
        Threads::new(count, "test", || {}).unwrap()
    }

    #[test]
    fn every_piece_is_done_once_whoever_comes() {
        let threads = threads(3);
        for round in 0..2_000 {
            let count = round % 37;
            let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            threads.share(1 + round % 5, count, |piece| {
                done[piece].fetch_add(1, Ordering::Relaxed);
            });
            assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn helpers_do_come_and_are_waited_for() {
        let threads = threads(2);
        let (came, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let body = |number| {
            assert!(number < 2);
            came.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
            left.fetch_add(1, Ordering::SeqCst);
        };
        threads.run(2, &body, || {
            while came.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
        });
        assert_eq!(left.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn nobody_waits_for_one_who_has_not_come() {
        let threads = threads(1);
        let (held, free) = (AtomicBool::new(false), AtomicBool::new(false));
        let wait = |flag: &AtomicBool| {
            while !flag.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            let (threads, held, free) = (&threads, &held, &free);
            let hold = move |_| {
                held.store(true, Ordering::SeqCst);
                wait(free);
            };
            scope.spawn(move || threads.run(1, &hold, || wait(held)));
            wait(held);
            // The only helper is held: this ends all the same, and a call inside a call, too.
            let pieces = AtomicUsize::new(0);
            threads.share(2, 10, |_| {
                threads.share(2, 10, |_| {
                    pieces.fetch_add(1, Ordering::Relaxed);
                });
            });
            assert_eq!(pieces.load(Ordering::Relaxed), 100);
            free.store(true, Ordering::SeqCst);
        });
    }

    #[test]
    fn many_callers_share_them() {
        let threads = threads(2);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let sum = AtomicUsize::new(0);
                        threads.share(3, 20, |piece| {
                            sum.fetch_add(piece, Ordering::Relaxed);
                        });
                        assert_eq!(sum.load(Ordering::Relaxed), 190);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_breaks_nothing() {
        let threads = threads(2);
        let share = || {
            threads.share(3, 100, |piece| {
                thread::sleep(Duration::from_micros(50));
                assert!(piece != 57);
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(share)).is_err());
        let sum = AtomicUsize::new(0);
        threads.share(3, 20, |piece| {
            sum.fetch_add(piece, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 190);
    }

    #[test]
    fn each_has_as_much_to_do_as_a_wake_takes() {
        let found: Vec<_> = [0.0, 9e3, 2.5e4, 1e6]
            .map(|work| worth(work, 1e4, 16))
            .into();
        assert_eq!(found, [1, 1, 2, 16]);
        assert_eq!(worth(1e9, 0.0, 0), 1);
    }
}
