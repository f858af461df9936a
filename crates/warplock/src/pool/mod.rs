//! Pool that help the one that calls. It takes part in its own work from the start and waits for
//! nobody who has not begun by its end: who comes late finds nothing. So threads that the system
//! wakes late cost what it takes to call them, and no more.
//!
//! Who has ended its part looks out for the next task for a while, and joins without a lock; the
//! lock is for those who sleep.

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

/// Nanoseconds from a ring to the first step of the one that slept, as it mostly was lately in this
/// process; more on virtual machines with many cores. Nobody knows more than the others of it.
static WAKE_NANOSECONDS: AtomicU64 = AtomicU64::new(10_000);

/// No wake is taken for shorter or longer, in nanoseconds: a clock's step, a neighbour's turn.
const WAKE_LIMITS: (u64, u64) = (2_000, 200_000);

/// What it costs to have one come that looks out, in nanoseconds, with its part of the caller's
/// time.
const JOIN_NANOSECONDS: f64 = 2_000.0;

/// Nobody looks out for longer.
const LONGEST_SPIN: Duration = Duration::from_micros(100);

/// So many tasks in a row may come too late for a look until a thread looks out for no longer than a
/// wake takes. One that comes in time, or would have, makes up for two.
const SPIN_CREDIT: u32 = 8;

/// Who looks out leaves its core to others after so many looks, of some 0.1 to 0.5 us.
const SPINS_BEFORE_YIELD: u32 = 10;

/// A caller rings for so many, and so does each that comes: rings cost the one that rings.
const WAKES_PER_CALL: usize = 2;

/// So many tasks can have helpers at a time; whoever calls beside them works alone.
const SLOTS: usize = 8;

/// The most CPU threads that an engine takes. More are no machine's, and with some ten thousand the
/// process would end when one cannot start.
pub const MOST_THREADS: usize = 4096;

/// Pool that help whoever calls.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    /// The process that has them: its children have none.
    process: u32,
}

struct Shared {
    slots: [TaskSlot; SLOTS],
    /// Tasks so far: who looks out for work sees it change.
    tasks: Line<AtomicUsize>,
    /// Pool that sleep, and nobody has rung for; changes under the bell's lock alone.
    asleep: Line<AtomicUsize>,
    /// All threads, whatever they do.
    count: usize,
    bell: Mutex<Bell>,
    rings: Condvar,
}

/// Apart from what others write.
#[repr(align(128))]
struct Line<T>(T);

/// How threads and seats stand.
struct Seats {
    /// Seats that nobody has taken.
    free: usize,
    /// Pool that would take one at once: those that look out, and those that come.
    near: usize,
}

struct Bell {
    /// When it was rung for those who have not come yet.
    rung: VecDeque<Instant>,
    end: bool,
}

/// How many threads, of so many at most, are worth waking for what takes one of them `work`
/// nanoseconds, where a wake takes `wake`: each has at least that much to do.
pub(crate) fn worth(work: f64, wake: f64, most: usize) -> usize {
    ((work / wake.max(1.0)) as usize).clamp(1, most.max(1))
}

impl Pool {
    /// So many, named after what they do, who `begin` first.
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
        self.shared.count
    }

    /// How many threads, the caller's with them, are worth having for what takes one of them so
    /// many nanoseconds.
    pub(crate) fn worth(&self, work: f64) -> usize {
        let wake = wake().as_nanos() as f64;
        let near = match self.shared.seats().near {
            0 => 0,
            // Where jobs come one after the other, each calls some more, for the next.
            near => (near + WAKES_PER_CALL).min(self.count()),
        };
        worth(work, wake, self.count() + 1).max(worth(work, JOIN_NANOSECONDS, near + 1))
    }

    /// Does `own` on this thread, while up to `helpers` others call `body`, with numbers from 0 in
    /// the order in which they come. Returns once all who came are done; a panic of theirs goes on
    /// here.
    pub(crate) fn run(&self, helpers: usize, body: &(dyn Fn(usize) + Sync), own: impl FnOnce()) {
        let seats = helpers.min(self.count());
        if seats == 0 || self.is_forked() {
            return own();
        }
        let task = Task::new(body);
        // SAFETY: the task is closed below, before it and the body end, also when `own` panics.
        let Some(slot) = (unsafe { self.shared.open(&task, seats) }) else {
            return own();
        };
        let result = catch_unwind(AssertUnwindSafe(own));
        slot.close();
        if let Some(panic) = result.err().or(task.into_panic()) {
            resume_unwind(panic);
        }
    }

    /// Whether this is a child of the process that started the threads. They did not come along,
    /// and what one of them held at that moment is held for ever.
    fn is_forked(&self) -> bool {
        self.process != process::id()
    }

    /// Does pieces 0 to `count` on up to `threads` threads, this one with them; who is free takes
    /// the next.
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
            // Nobody ends there.
            return mem::forget(mem::take(&mut self.handles));
        }
        lock(&self.shared.bell).end = true;
        self.shared.tasks.0.fetch_add(1, Ordering::Release);
        self.shared.rings.notify_all();
        for handle in self.handles.drain(..) {
            // It panics for nobody: what tasks panic with goes to their callers.
            let _ = handle.join();
        }
    }
}

impl Shared {
    /// Puts a task on a slot, if there is room, and calls for helpers.
    ///
    /// # Safety
    /// As [`TaskSlot::open`].
    unsafe fn open(&self, task: &Task, seats: usize) -> Option<&TaskSlot> {
        let mut slots = self.slots.iter();
        // SAFETY: by this function's contract.
        let slot = slots.find(|slot| unsafe { slot.open(task, seats) })?;
        self.tasks.0.fetch_add(1, Ordering::Release);
        // Either this sees who is about to sleep, or that one sees the task.
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
            near: self.count.saturating_sub(away),
        }
    }

    /// Wakes some of those who sleep, if there are more seats than threads that come by themselves.
    fn ring(&self) {
        let asleep = &self.asleep.0;
        let missing = || {
            let Seats { free, near } = self.seats();
            free.saturating_sub(near)
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

    /// A thread's life.
    fn serve(&self) {
        let (mut idle, mut hope) = (Instant::now(), SPIN_CREDIT);
        // Each that comes rings for two: after so many wakes the last has come.
        let wakes = usize::BITS - self.count.leading_zeros();
        let mut called = false;
        loop {
            let seen = self.tasks.0.load(Ordering::Acquire);
            let short = wake().min(LONGEST_SPIN);
            let long = (short * wakes).min(LONGEST_SPIN);
            let seat = self.slots.iter().find_map(TaskSlot::join);
            if called || seat.is_some() {
                self.ring();
                hope = hope_after(hope, idle.elapsed() < long);
                if let Some(seat) = seat {
                    seat.work();
                }
                // Who came too late looks out, too: the next task may be near.
                (idle, called) = (Instant::now(), false);
                continue;
            }
            let patience = if hope > 0 { long } else { short };
            if !self.look_out(seen, idle + patience) {
                called = true;
                if self.sleep() {
                    return;
                }
            }
        }
    }

    /// Sleeps until somebody rings; whether that was for the last time.
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

    /// Looks out for the next task, which often comes at once, up to some time. Whether one has come.
    fn look_out(&self, seen: usize, end: Instant) -> bool {
        let mut looks = 0;
        while self.tasks.0.load(Ordering::Acquire) == seen {
            if Instant::now() >= end {
                return false;
            }
            looks += 1;
            match looks < SPINS_BEFORE_YIELD {
                true => (0..8).for_each(|_| std::hint::spin_loop()),
                // Others may have use for this core.
                false => thread::yield_now(),
            }
        }
        true
    }
}

/// How long a wake takes.
fn wake() -> Duration {
    Duration::from_nanos(WAKE_NANOSECONDS.load(Ordering::Relaxed))
}

/// What is left of a thread's hope after a task that came in time for a look, or did not.
fn hope_after(hope: u32, in_time: bool) -> u32 {
    match in_time {
        true => (hope + 2).min(SPIN_CREDIT),
        false => hope.saturating_sub(1),
    }
}

/// Takes note of how long a wake took: a step up or down, so that half of them take longer than
/// what is known. A mean would follow the few that take a neighbour's turn.
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
