//! A pool of threads that help a caller. The caller works on its own task from the start and, when
//! it runs out of work, waits only for helpers that have joined; late helpers find no work. So a
//! thread that the system wakes late costs no more than the call that woke it.
//!
//! A helper that has finished spins for a while and joins the next task without a lock. The lock is
//! for sleeping threads.

mod task_slot;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::task_slot::{Task, TaskSlot};
use crate::lock::lock;

/// Nanoseconds from a wake-up call to the first step of the sleeping thread, as measured recently
/// in this process; more on virtual machines with many cores. One value for all pools.
static WAKE_NANOSECONDS: AtomicU64 = AtomicU64::new(10_000);

/// The least and largest value, in nanoseconds: outliers are clock steps or other programs.
const WAKE_LIMITS: (u64, u64) = (2_000, 200_000);

/// The cost of getting a spinning helper, including the caller's part.
const JOIN_NANOSECONDS: f64 = 2_000.0;

/// The longest time that a thread spins.
const LONGEST_SPIN: Duration = Duration::from_micros(100);

/// After this many consecutive misses a thread spins no longer than one wake-up costs. Every hit
/// (or near hit) cancels two misses.
const SPIN_CREDIT: u32 = 8;

/// A spinning thread yields its core after this many spins, of some 0.1 to 0.5 us each.
const SPINS_BEFORE_YIELD: u32 = 10;

/// The caller wakes this many threads, and so does each woken thread: a wake-up takes the waking
/// thread's time.
const WAKES_PER_CALL: usize = 2;

/// This many tasks can have helpers at the same time; further callers work alone.
const SLOTS: usize = 8;

/// The most CPU threads of an engine. No machine has more, and with some ten thousand the process
/// would end when one cannot start.
pub const MOST_THREADS: usize = 4096;

/// Threads that help any caller.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    /// The process that has started them; its children have none of them.
    process: u32,
}

struct Shared {
    slots: [TaskSlot; SLOTS],
    /// Counts tasks. Spinning threads watch it.
    tasks: Line<AtomicUsize>,
    /// Threads that sleep and were not called. Changes under the bell's lock only.
    asleep: Line<AtomicUsize>,
    /// All threads of the pool.
    count: usize,
    bell: Mutex<Bell>,
    rings: Condvar,
}

/// In a cache line of its own.
#[repr(align(128))]
struct Line<T>(T);

/// The number of free seats, and of threads that could take one.
struct Seats {
    /// Seats that are not taken.
    free: usize,
    /// Threads that would take one without a wake-up: those that spin, and those on their way.
    awake: usize,
}

struct Bell {
    /// When the threads that have not come yet were called.
    rung: VecDeque<Instant>,
    end: bool,
}

/// How many of at most `most` threads are worth waking for a task that takes one of them `work`
/// nanoseconds, if a wake-up takes `wake`: each gets at least that much work.
pub(crate) fn worth(work: f64, wake: f64, most: usize) -> usize {
    ((work / wake.max(1.0)) as usize).clamp(1, most.max(1))
}

impl Pool {
    /// Starts `count` threads, named after their purpose, which call `begin` first.
    pub(crate) fn new(
        count: usize,
        name: &str,
        begin: impl Fn() + Send + Clone + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            slots: Default::default(),
            tasks: Line(AtomicUsize::new(0)),
            asleep: Line(AtomicUsize::new(0)),
            count,
            bell: Mutex::new(Bell {
                rung: VecDeque::with_capacity(count),
                end: false,
            }),
            rings: Condvar::new(),
        });
        let mut threads = Pool {
            shared,
            handles: Vec::with_capacity(count),
            process: process::id(),
        };
        for number in 0..count {
            let (shared, begin) = (Arc::clone(&threads.shared), begin.clone());
            let body = move || {
                begin();
                shared.serve();
            };
            // After an error, the threads that exist end with `threads`.
            let handle = thread::Builder::new()
                .name(format!("warplock-{name}-{number}"))
                .spawn(body)?;
            threads.handles.push(handle);
        }
        Ok(threads)
    }

    /// The number of threads, not counting the caller.
    pub(crate) fn count(&self) -> usize {
        self.shared.count
    }

    /// How many threads, counting the caller, are worth having for a task that takes one of them
    /// `work` nanoseconds.
    pub(crate) fn worth(&self, work: f64) -> usize {
        let wake = wake().as_nanos() as f64;
        let awake = match self.shared.seats().awake {
            0 => 0,
            // If jobs follow each other, each calls some more threads for the next one.
            awake => (awake + WAKES_PER_CALL).min(self.count()),
        };
        worth(work, wake, self.count() + 1).max(worth(work, JOIN_NANOSECONDS, awake + 1))
    }

    /// Calls `own` on this thread while up to `helpers` others call `body`, with numbers from 0 in
    /// the order in which they come. Returns once all that came are done. A panic of theirs
    /// continues here.
    pub(crate) fn run(&self, helpers: usize, body: &(dyn Fn(usize) + Sync), own: impl FnOnce()) {
        let seats = helpers.min(self.count());
        if seats == 0 || self.is_forked() {
            return own();
        }
        let task = Task::new(body);
        // SAFETY: the task is closed below, before it and the body end, even if `own` panics.
        let Some(slot) = (unsafe { self.shared.open(&task, seats) }) else {
            return own();
        };
        let result = catch_unwind(AssertUnwindSafe(own));
        slot.close();
        if let Some(panic) = result.err().or(task.into_panic()) {
            resume_unwind(panic);
        }
    }

    /// Whether this is a child of the process that started the threads. They do not exist there,
    /// and a lock that one of them held at the fork stays locked.
    fn is_forked(&self) -> bool {
        self.process != process::id()
    }

    /// Calls `work` for pieces 0 to `count` on up to `threads` threads, counting this one; a free
    /// thread takes the next piece.
    pub(crate) fn for_each_piece(&self, threads: usize, count: usize, work: impl Fn(usize) + Sync) {
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

impl Drop for Pool {
    fn drop(&mut self) {
        if self.is_forked() {
            // There are no threads to join.
            return mem::forget(mem::take(&mut self.handles));
        }
        lock(&self.shared.bell).end = true;
        self.shared.tasks.0.fetch_add(1, Ordering::Release);
        self.shared.rings.notify_all();
        for handle in self.handles.drain(..) {
            // A helper's thread does not panic: panics of tasks go to their callers.
            let _ = handle.join();
        }
    }
}

impl Shared {
    /// Puts a task into a slot, if one is free, and calls for helpers.
    ///
    /// # Safety
    /// As [`TaskSlot::open`].
    unsafe fn open(&self, task: &Task, seats: usize) -> Option<&TaskSlot> {
        let mut slots = self.slots.iter();
        // SAFETY: by this function's contract.
        let slot = slots.find(|slot| unsafe { slot.open(task, seats) })?;
        self.tasks.0.fetch_add(1, Ordering::Release);
        // Either this thread sees the one that is about to sleep, or that one sees the task.
        fence(Ordering::SeqCst);
        self.ring();
        Some(slot)
    }

    fn seats(&self) -> Seats {
        let (mut free, mut away) = (0, self.asleep.0.load(Ordering::Relaxed));
        for slot in &self.slots {
            let (seats, inside) = slot.seats();
            free += seats;
            away += inside;
        }
        Seats {
            free,
            awake: self.count.saturating_sub(away),
        }
    }

    /// Wakes some sleeping threads, if there are more seats than threads that come anyway.
    fn ring(&self) {
        let asleep = &self.asleep.0;
        let missing = || {
            let Seats { free, awake } = self.seats();
            free.saturating_sub(awake)
        };
        if asleep.load(Ordering::Relaxed) == 0 || missing() == 0 {
            return;
        }
        let mut bell = lock(&self.bell);
        let sleep = asleep.load(Ordering::Relaxed);
        let rings = missing().min(sleep).min(WAKES_PER_CALL);
        if rings > 0 {
            asleep.store(sleep - rings, Ordering::Relaxed);
            let now = Instant::now();
            bell.rung.extend((0..rings).map(|_| now));
        }
        drop(bell);
        (0..rings).for_each(|_| self.rings.notify_one());
    }

    /// The main loop of a thread.
    fn serve(&self) {
        let (mut idle, mut credit) = (Instant::now(), SPIN_CREDIT);
        // Each thread that comes wakes two more: after this many wake-ups the last one has come.
        let wakes = usize::BITS - self.count.leading_zeros();
        let mut called = false;
        loop {
            let seen = self.tasks.0.load(Ordering::Acquire);
            let short = wake().min(LONGEST_SPIN);
            let long = (short * wakes).min(LONGEST_SPIN);
            let seat = self.slots.iter().find_map(TaskSlot::join);
            if called || seat.is_some() {
                self.ring();
                credit = credit_after(credit, idle.elapsed() < long);
                if let Some(seat) = seat {
                    seat.work();
                }
                // A thread that came too late also spins: the next task may come soon.
                (idle, called) = (Instant::now(), false);
                continue;
            }
            let patience = if credit > 0 { long } else { short };
            if !self.spin(seen, idle + patience) {
                called = true;
                if self.sleep() {
                    return;
                }
            }
        }
    }

    /// Sleeps until called. Returns whether the pool ends.
    fn sleep(&self) -> bool {
        let mut bell = lock(&self.bell);
        self.asleep.0.fetch_add(1, Ordering::Relaxed);
        // As in `open`.
        fence(Ordering::SeqCst);
        if self.seats().free > 0 {
            self.asleep.0.fetch_sub(1, Ordering::Relaxed);
            return bell.end;
        }
        while bell.rung.is_empty() && !bell.end {
            bell = self
                .rings
                .wait(bell)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(rung) = bell.rung.pop_front() {
            note_wake(rung.elapsed());
        }
        bell.end
    }

    /// Spins until the next task or `end`. Returns whether a task has come.
    fn spin(&self, seen: usize, end: Instant) -> bool {
        let mut spins = 0;
        while self.tasks.0.load(Ordering::Acquire) == seen {
            if Instant::now() >= end {
                return false;
            }
            spins += 1;
            match spins < SPINS_BEFORE_YIELD {
                true => (0..8).for_each(|_| std::hint::spin_loop()),
                // Other threads may need this core.
                false => thread::yield_now(),
            }
        }
        true
    }
}

/// How long a wake-up takes.
fn wake() -> Duration {
    Duration::from_nanos(WAKE_NANOSECONDS.load(Ordering::Relaxed))
}

/// The credit for spinning after a task that came in time, or did not.
fn credit_after(credit: u32, in_time: bool) -> u32 {
    match in_time {
        true => (credit + 2).min(SPIN_CREDIT),
        false => credit.saturating_sub(1),
    }
}

/// Records how long a wake-up took, as a step up or down towards the median. A mean would follow
/// the few outliers.
fn note_wake(took: Duration) {
    let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    let before = WAKE_NANOSECONDS.load(Ordering::Relaxed);
    let step = before / 16;
    let after = match took > before {
        true => before + step,
        false => before - step,
    };
    WAKE_NANOSECONDS.store(after.clamp(WAKE_LIMITS.0, WAKE_LIMITS.1), Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
