//! A slot for a task that other threads may join without a lock.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};

use crate::lock::lock;

/// How often a wait for helpers looks before it parks.
const SPINS_BEFORE_PARK: usize = 2_000;

/// Room for one task at a time.
#[repr(align(128))]
pub(super) struct TaskSlot {
    /// A [`State`].
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

pub(super) type Panic = Box<dyn Any + Send>;

/// The caller's closure.
struct Body(*const (dyn Fn(usize) + Sync));

// SAFETY: it stands for a shared reference to a value that may be shared between threads.
unsafe impl Sync for Body {}

/// A place at a task. Its owner must work, because the caller waits for it.
pub(super) struct Seat<'a> {
    slot: &'a TaskSlot,
    /// How many came before.
    number: usize,
}

/// The numbers of threads at work, of threads that have joined, and of threads that may join, 16
/// bits each; then the flags.
#[derive(Clone, Copy)]
struct State(u64);

impl State {
    const INSIDE: u64 = 1;
    const JOINED: u64 = 1 << 16;
    const SEATS: u64 = 1 << 32;
    const MOST: u64 = 0xffff;
    /// Others may join.
    const OPEN: u64 = 1 << 48;
    /// The caller is parked until all have left.
    const PARKED: u64 = 1 << 49;
    /// The slot belongs to a caller.
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
        // SAFETY: only the lifetime changes. The owner of a seat calls the body while the slot is
        // open, or while the thread that closes it waits: by `TaskSlot::open`'s contract the body
        // lives.
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

    /// The panic of one of the helpers.
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
    /// Puts a task there for up to `seats` helpers. Returns false if the slot is taken.
    ///
    /// # Safety
    /// If it returns true, the task and its body must stay in place until [`TaskSlot::close`] has
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

    /// The number of free seats, and of threads at work.
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

    /// Ends the task: no more threads join, and all that have joined are done.
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
    /// Does the caller's work.
    pub(super) fn work(self) {
        let Seat { slot, number } = self;
        // SAFETY: this thread counts as inside until it leaves below, and `close` waits for it.
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
