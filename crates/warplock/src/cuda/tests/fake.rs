//! A fake device: queues of copies and kernels that run as late and in as odd an order as streams
//! and events allow, so that a missing wait shows.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::CUresult;

use super::interpreter::{self, Launch};
use crate::cuda::driver::api::{Failure, check};
use crate::cuda::driver::memory::{DeviceBytes, HostBytes};
use crate::cuda::launch::abi::Address;
use crate::cuda::launch::link::Link;
use crate::cuda::launch::steps::{Grid, Step};
use crate::lock::lock;

enum Work {
    Copy { to: usize, from: usize, len: usize },
    Zero { at: usize, len: usize },
    Launch(Launch),
    Record { event: usize, version: u64 },
    Wait { event: usize, version: u64 },
}

/// How often an event was recorded, and how often its mark was passed.
#[derive(Clone, Copy, Default)]
struct Marks {
    recorded: u64,
    passed: u64,
}

#[derive(Default)]
struct World {
    queues: Vec<VecDeque<Work>>,
    events: Vec<Marks>,
    /// Freed memory is kept and overwritten: a use after free gives wrong results, not a crash.
    freed: Vec<Vec<u128>>,
    random: u64,
    /// Calls until one fails.
    good_calls: Option<u64>,
    /// Bytes that must not be found in freed buffers.
    secrets: HashSet<[u8; 16]>,
    leaks: usize,
    /// The names of all kernels that were launched.
    launched: BTreeSet<String>,
    /// A kernel that does nothing.
    broken: Option<String>,
    /// Events that a thread waits for.
    looks: HashSet<usize>,
    /// Kernels that still run before all hang.
    kernels_left: Option<u64>,
    /// Bytes that can still be allocated.
    memory: Option<usize>,
}

impl World {
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 29)
    }

    fn can_run(&self, queue: usize) -> bool {
        match self.queues[queue].front() {
            None => false,
            Some(Work::Wait { event, version }) => self.events[*event].passed >= *version,
            Some(Work::Launch(_)) => self.kernels_left != Some(0),
            Some(_) => true,
        }
    }

    /// Runs one operation at the head of a random queue.
    fn step(&mut self) {
        let ready: Vec<usize> = (0..self.queues.len())
            .filter(|&queue| self.can_run(queue))
            .collect();
        if ready.is_empty() && self.kernels_left == Some(0) {
            return;
        }
        assert!(!ready.is_empty(), "the host waits for what will never come");
        let queue = ready[self.random() as usize % ready.len()];
        match self.queues[queue].pop_front().expect("it can run") {
            // SAFETY: the caller that queued it guarantees that the memory is valid; nothing else
            // runs, as the world is locked and the host waits.
            Work::Copy { to, from, len } => unsafe {
                (from as *const u8).copy_to(to as *mut u8, len);
            },
            // SAFETY: as above.
            Work::Zero { at, len } => unsafe { (at as *mut u8).write_bytes(0, len) },
            // SAFETY: as above.
            Work::Launch(launch) => unsafe {
                self.kernels_left = self.kernels_left.map(|left| left - 1);
                interpreter::run(&launch);
            },
            Work::Record { event, version } => self.events[event].passed = version,
            Work::Wait { .. } => {}
        }
    }

    /// A driver call, which may be the one that fails.
    fn call(&mut self) -> Result<(), Failure> {
        let code = match &mut self.good_calls {
            Some(0) => CUresult::CUDA_ERROR_LAUNCH_FAILED,
            Some(left) => {
                *left -= 1;
                CUresult::CUDA_SUCCESS
            }
            None => CUresult::CUDA_SUCCESS,
        };
        check(code, || "being tested")
    }
}

type Shared = Arc<Mutex<World>>;

pub(super) struct FakeLink {
    world: Shared,
    /// The memory of the caller that counts as pinned.
    pinned: Vec<Range<usize>>,
}

impl FakeLink {
    pub(super) fn new(seed: u64, good_calls: Option<u64>, secrets: HashSet<[u8; 16]>) -> Self {
        let world = World {
            random: seed,
            good_calls,
            secrets,
            ..World::default()
        };
        FakeLink {
            world: Arc::new(Mutex::new(world)),
            pinned: Vec::new(),
        }
    }

    /// Lets kernels hang after the first `steps`.
    pub(super) fn hang_after(&self, kernels: u64) {
        lock(&self.world).kernels_left = Some(kernels);
    }

    pub(super) fn pin(&mut self, bytes: &[u8]) {
        let range = bytes.as_ptr_range();
        self.pinned.push(range.start as usize..range.end as usize);
    }

    /// Lets allocations fail after `bytes`.
    pub(super) fn limit(&self, bytes: usize) {
        lock(&self.world).memory = Some(bytes);
    }

    /// How many queued copies would write into these bytes.
    pub(super) fn writes_into(&self, bytes: &[u8]) -> usize {
        let world = lock(&self.world);
        let at = bytes.as_ptr() as usize;
        let range = at..at + bytes.len();
        let queued = world.queues.iter().flatten();
        let into = |work: &&Work| matches!(work, Work::Copy { to, .. } if range.contains(to));
        queued.filter(into).count()
    }

    /// How many operations are queued and have not run.
    pub(super) fn under_way(&self) -> usize {
        lock(&self.world).queues.iter().map(VecDeque::len).sum()
    }

    /// How many secrets were found in freed buffers.
    pub(super) fn leaks(&self) -> usize {
        lock(&self.world).leaks
    }

    /// Makes a kernel do nothing from now on.
    pub(super) fn break_kernel(&self, name: &str) {
        lock(&self.world).broken = Some(name.to_owned());
    }

    /// The names of the kernels that were launched since the last call.
    pub(super) fn launched(&self) -> BTreeSet<String> {
        std::mem::take(&mut lock(&self.world).launched)
    }

    fn queue(&self, stream: usize, work: Work) -> Result<(), Failure> {
        let mut world = lock(&self.world);
        world.call()?;
        world.queues[stream].push_back(work);
        Ok(())
    }

    fn buffer(&self, len: usize) -> Result<Buffer, Failure> {
        let mut world = lock(&self.world);
        world.call()?;
        if let Some(left) = &mut world.memory {
            let code = match left.checked_sub(len) {
                Some(rest) => {
                    *left = rest;
                    CUresult::CUDA_SUCCESS
                }
                None => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            };
            check(code, || "asking for memory")?;
        }
        drop(world);
        Ok(Buffer {
            // The old content.
            words: vec![u128::MAX / 5; len.div_ceil(16)],
            len,
            world: Arc::clone(&self.world),
        })
    }
}

pub(super) struct Buffer {
    words: Vec<u128>,
    len: usize,
    world: Shared,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut world = lock(&self.world);
        let bytes: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let is_secret = |found: &&[u8]| world.secrets.contains(*found);
        let found = bytes.windows(16).filter(is_secret).count();
        world.leaks += found;
        self.words.fill(u128::MAX / 3);
        let words = std::mem::take(&mut self.words);
        world.freed.push(words);
    }
}

impl HostBytes for Buffer {
    fn start(&self) -> *mut u8 {
        self.words.as_ptr().cast_mut().cast()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: at least this many bytes are allocated; borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len) }
    }
}

impl DeviceBytes for Buffer {
    fn address(&self) -> Address {
        self.words.as_ptr() as Address
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl Link for FakeLink {
    type Bound = ();
    type Stream = usize;
    type Event = usize;
    type Host = Buffer;
    type Device = Buffer;

    fn bind(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn multiprocessors(&self) -> u32 {
        3
    }

    fn stream(&self) -> Result<usize, Failure> {
        let mut world = lock(&self.world);
        world.call()?;
        world.queues.push(VecDeque::new());
        Ok(world.queues.len() - 1)
    }

    fn event(&self) -> Result<usize, Failure> {
        let mut world = lock(&self.world);
        world.call()?;
        world.events.push(Marks::default());
        Ok(world.events.len() - 1)
    }

    fn host(&self, len: usize) -> Result<Buffer, Failure> {
        self.buffer(len)
    }

    fn device(&self, len: usize) -> Result<Buffer, Failure> {
        self.buffer(len)
    }

    fn pinned_around(&self, address: *const u8) -> Option<Range<usize>> {
        let mut ranges = self.pinned.iter();
        ranges
            .find(|range| range.contains(&(address as usize)))
            .cloned()
    }

    fn record(&self, &event: &usize, &stream: &usize) -> Result<(), Failure> {
        let version = {
            let marks = &mut lock(&self.world).events[event];
            marks.recorded += 1;
            marks.recorded
        };
        self.queue(stream, Work::Record { event, version })
    }

    fn wait_for(&self, &stream: &usize, &event: &usize) -> Result<(), Failure> {
        let version = lock(&self.world).events[event].recorded;
        self.queue(stream, Work::Wait { event, version })
    }

    fn is_past(&self, &event: &usize) -> Result<bool, Failure> {
        let mut world = lock(&self.world);
        let past = |world: &World| world.events[event].passed >= world.events[event].recorded;
        if past(&world) {
            return Ok(true);
        }
        // One operation for each check: its number is random.
        if world.looks.insert(event) {
            world.call()?;
        }
        world.step();
        if past(&world) {
            world.looks.remove(&event);
        }
        Ok(past(&world))
    }

    fn wait_stream(&self, &stream: &usize) -> Result<(), Failure> {
        let mut world = lock(&self.world);
        while !world.queues[stream].is_empty() {
            let hangs = world.kernels_left == Some(0) && !world.can_run(stream);
            assert!(!hangs, "this would wait for ever");
            world.step();
        }
        Ok(())
    }

    unsafe fn upload(
        &self,
        &stream: &usize,
        to: Address,
        from: *const u8,
        len: usize,
    ) -> Result<(), Failure> {
        let (to, from) = (to as usize, from as usize);
        self.queue(stream, Work::Copy { to, from, len })
    }

    unsafe fn download(
        &self,
        &stream: &usize,
        to: *mut u8,
        from: Address,
        len: usize,
    ) -> Result<(), Failure> {
        let (to, from) = (to as usize, from as usize);
        self.queue(stream, Work::Copy { to, from, len })
    }

    unsafe fn wipe(&self, &stream: &usize, at: Address, len: usize) -> Result<(), Failure> {
        let at = at as usize;
        self.queue(stream, Work::Zero { at, len })
    }

    unsafe fn launch(&self, &stream: &usize, step: &Step<'_>) -> Result<(), Failure> {
        let things = match step.grid {
            Grid::Blocks(count) => u64::from(count),
            Grid::Threads(count) | Grid::AtMost(count) => count,
            Grid::Spread(count) | Grid::Fill(count) => count,
            Grid::Persistent(_) | Grid::Like(_) => 1,
        };
        assert!(things > 0, "the driver refuses {} for nothing", step.name);
        {
            let mut world = lock(&self.world);
            world.launched.insert(step.name.clone());
            if world.broken.as_ref() == Some(&step.name) {
                return Ok(());
            }
        }
        self.queue(stream, Work::Launch(Launch::new(step)))
    }
}
