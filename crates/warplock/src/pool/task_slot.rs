//! Where a task lies while others may join it, without a lock.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};

use crate::lock::lock;

/// A wait for those who are still at work looks so many times before it sleeps.
const SPINS_BEFORE_PARK: usize = 2_000;

/// Room for one task at a time.
#[repr(align(128))]
pub(super) struct TaskSlot {
    /// What [`State`] reads.
    state: AtomicU64,
    /// Lives on its caller's stack until the slot is closed.
    task: AtomicPtr<Task>,
}

/// Work that several threads may join.
pub(super) struct Task {
    body: Body,
    caller: Thread,
    panic: Mutex<Option<Panic>>,
}

/// What a thread panicked with.
pub(super) type Panic = Box<dyn Any + Send>;

/// The caller's closure.
struct Body(*const (dyn Fn(usize) + Sync));

// SAFETY: it stands for a shared reference to what may be shared between threads.
unsafe impl Sync for Body {}

/// A place at a task; who has it must work, for the caller waits.
pub(super) struct Seat<'a> {
    slot: &'a TaskSlot,
    /// How many came before.
    number: usize,
}

/// How many are at work, how many have joined, and how many may join, 16 bits each; then the flags.
#[derive(Clone, Copy)]
struct State(u64);

impl State {
    const INSIDE: u64 = 1;
    const JOINED: u64 = 1 << 16;
    const SEATS: u64 = 1 << 32;
    const MOST: u64 = 0xffff;
    /// Others may join.
    const OPEN: u64 = 1 << 48;
    /// The caller sleeps until all have left.
    const PARKED: u64 = 1 << 49;
    /// The slot is some caller's.
    const TAKEN: u64 = 1 << 50;

    fn inside(self) -> u64 {
        self.0 & Self::MOST
    }

    fn joined(self) -> usize {
        ((self.0 / Self::JOINED) & Self::MOST) as usize
    }

    fn free(self) -> usize {
        match self.0 & Self::OPEN {
            0 => 0,
            _ => ((self.0 / Self::SEATS) & Self::MOST) as usize - self.joined(),
        }
    }
}

impl Task {
    pub(super) fn new(body: &(dyn Fn(usize) + Sync)) -> Self {
        // SAFETY: only the lifetime changes. Who has a seat calls the body while the slot is open,
        // or while the one that closes it waits: by `TaskSlot::open`'s contract the body lives.
        let body = unsafe {
            std::mem::transmute::<
                *const (dyn Fn(usize) + Sync + '_),
                *const (dyn Fn(usize) + Sync + 'static),
            >(body)
        };
        Task {
            body: Body(body),
            caller: thread::current(),
            panic: Mutex::new(None),
        }
    }

    /// What one of those who came panicked with.
    pub(super) fn into_panic(self) -> Option<Panic> {
        let panic = self.panic.into_inner();
        panic.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for TaskSlot {
    fn default() -> Self {
        TaskSlot {
            state: AtomicU64::new(0),
            task: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

impl TaskSlot {
    /// Puts a task there for so many others; false if another lies there.
    ///
    /// # Safety
    /// If it does, the task and its body must stay where they are until [`TaskSlot::close`] has
    /// returned.
    pub(super) unsafe fn open(&self, task: &Task, seats: usize) -> bool {
        let (free, mine) = (0, State::TAKEN);
        let taken = (self.state).compare_exchange(free, mine, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            return false;
        }
        let place = ptr::from_ref(task).cast_mut();
        self.task.store(place, Ordering::Relaxed);
        let seats = State::SEATS * (seats as u64).min(State::MOST);
        let open = mine | State::OPEN | seats;
        self.state.store(open, Ordering::Release);
        true
    }

    /// How many seats are free, and how many threads are at work.
    pub(super) fn seats(&self) -> (usize, usize) {
        let state = State(self.state.load(Ordering::Acquire));
        (state.free(), state.inside() as usize)
    }

    /// Takes a seat, if one is free.
    pub(super) fn join(&self) -> Option<Seat<'_>> {
        let joined =
            |state| (State(state).free() > 0).then_some(state + State::JOINED + State::INSIDE);
        let before = (self.state).fetch_update(Ordering::Acquire, Ordering::Relaxed, joined);
        Some(Seat {
            slot: self,
            number: State(before.ok()?).joined(),
        })
    }

    /// Nobody joins the task any more, and all who have are done.
    pub(super) fn close(&self) {
        let mut state = self.state.fetch_and(!State::OPEN, Ordering::AcqRel);
        let mut looks = 0;
        while State(state).inside() > 0 {
            looks += 1;
            if looks < SPINS_BEFORE_PARK {
                std::hint::spin_loop();
                state = self.state.load(Ordering::Acquire);
                continue;
            }
            state = self.state.fetch_or(State::PARKED, Ordering::AcqRel);
            if State(state).inside() > 0 {
                thread::park();
            }
        }
        self.state.store(0, Ordering::Release);
    }
}

impl Seat<'_> {
    /// Does what the caller asked for.
    pub(super) fn work(self) {
        let Seat { slot, number } = self;
        // SAFETY: this thread is inside until it leaves below, and `close` waits for it.
        let task = unsafe { &*slot.task.load(Ordering::Relaxed) };
        // SAFETY: as above.
        let body = unsafe { &*task.body.0 };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(number))) {
            lock(&task.panic).get_or_insert(panic);
        }
        // Once this thread has left, the task may be gone.
        let mut caller = None;
        let left = |state| {
            let last = State(state).inside() == 1 && state & State::PARKED != 0;
            caller = last.then(|| task.caller.clone());
            Some(state - State::INSIDE)
        };
        let _ = (slot.state).fetch_update(Ordering::AcqRel, Ordering::Acquire, left);
        if let Some(caller) = caller {
            caller.unpark();
        }
    }
}
