//! The CUDA backend: jobs in host memory on one GPU.

use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use super::copy::Copier;
use super::ring::Ring;
use super::slot::RingGpu;
use crate::auto::{Broken, Helper, Limits, cuts};
use crate::cuda::driver::api::{DeviceHandle, Driver, Failure};
use crate::cuda::driver::devices::{find, no_backend};
use crate::cuda::driver::numa::Cores;
use crate::cuda::launch::link::{CudaLink, Link};
use crate::cuda::launch::policy::{Policy, hashes};
use crate::cuda::launch::selftest::Tested;
use crate::job::Job;
use crate::lock::lock;
use crate::portion::Source;
use crate::{Algorithm, Error, Mode};

struct CudaBackend {
    name: String,
    /// Whether GCM runs here.
    hashes: bool,
    gpu: Arc<RingGpu<CudaLink>>,
    /// The cores near it.
    near: Option<Cores>,
    tested: Arc<Tested>,
    rings: Mutex<Rings>,
    returned: Condvar,
}

/// The rings of a device: allocated when needed, kept for the next job.
#[derive(Default)]
struct Rings {
    idle: Vec<Ring<CudaLink>>,
    made: usize,
}

/// The GPU with this number, or the first one.
pub(crate) fn open(number: Option<u32>, threads: NonZeroUsize) -> Result<Arc<dyn Helper>, Error> {
    match CudaBackend::on(&find(number)?, threads) {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(failure) => Err(no_backend(number, &failure.to_string())),
    }
}

/// All GPUs that work, with their buffers allocated, and a sentence for each that does not.
/// Without a driver there are none.
pub(crate) fn all(threads: NonZeroUsize) -> (Vec<Arc<dyn Helper>>, Vec<String>) {
    let devices = match Driver::load().map(Driver::devices) {
        Ok(Ok(devices)) => devices,
        Ok(Err(failure)) => return (Vec::new(), vec![unused("the GPUs", &failure)]),
        Err(_) => return (Vec::new(), Vec::new()),
    };
    let (mut good, mut problems): (Vec<Arc<dyn Helper>>, _) = (Vec::new(), Vec::new());
    for device in devices {
        match CudaBackend::on(&device, threads).and_then(CudaBackend::warmed) {
            Ok(backend) => good.push(Arc::new(backend)),
            Err(failure) => problems.push(unused(&format!("cuda:{}", device.gpu.number), &failure)),
        }
    }
    (good, problems)
}

impl CudaBackend {
    fn on(device: &DeviceHandle, threads: NonZeroUsize) -> Result<Self, Failure> {
        let policy = Policy::DEFAULT;
        let most = NonZeroUsize::new(policy.copy_threads).unwrap_or(NonZeroUsize::MIN);
        let near = device
            .pci_address()
            .and_then(|address| Cores::near(&address));
        let gpu = RingGpu {
            link: CudaLink::new(device)?,
            policy,
            copier: Copier::new(threads.min(most), near),
        };
        Ok(CudaBackend {
            name: format!("cuda:{}", device.gpu.number),
            hashes: hashes(device.gpu.capability),
            gpu: Arc::new(gpu),
            near,
            tested: Tested::on(device.gpu.number),
            rings: Mutex::default(),
            returned: Condvar::new(),
        })
    }

    /// Allocates the buffers of a ring on a thread near the device, so that they are near it, too.
    fn warmed(self) -> Result<Self, Failure> {
        let warm = || {
            let mut lease = self.take_ring();
            lease.1.as_mut().map_or(Ok(()), Ring::warm)
        };
        let warm_near = || {
            self.near.iter().for_each(Cores::pin_thread);
            warm()
        };
        let warmed = thread::scope(|scope| {
            let Ok(thread) = thread::Builder::new().spawn_scoped(scope, warm_near) else {
                // No more threads may start. This one stays where it is.
                return warm();
            };
            let warmed = thread.join();
            warmed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        warmed.map(|()| self)
    }

    /// A ring that no other job uses; waits until there is one.
    fn take_ring(&self) -> Lease<'_> {
        let mut rings = lock(&self.rings);
        loop {
            if let Some(ring) = rings.idle.pop() {
                return Lease(self, Some(ring));
            }
            if rings.made < self.gpu.policy.rings {
                rings.made += 1;
                return Lease(self, Some(Ring::new(&self.gpu)));
            }
            rings = self
                .returned
                .wait(rings)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The sentence about a GPU that cannot be used.
fn unused(name: &str, failure: &Failure) -> String {
    format!("{name} cannot be used ({failure}); the work is done without it")
}

/// A ring in use. It is returned when this is dropped, unless it was removed.
struct Lease<'a>(&'a CudaBackend, Option<Ring<CudaLink>>);

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // After a panic, work may still be under way: the ring waits for it when it is dropped.
        let ring = self.1.take().filter(|_| !std::thread::panicking());
        let mut rings = lock(&self.0.rings);
        match ring {
            Some(ring) => rings.idle.push(ring),
            None => rings.made -= 1,
        }
        self.0.returned.notify_one();
    }
}

impl CudaBackend {
    /// Whether many small chunks are faster than a few large ones: then uploads, kernels and
    /// downloads overlap. If threads copy, each chunk waits for the slowest of them, and chunks of
    /// chains take as long as one chain.
    fn flows(&self, job: &Job<'_>) -> bool {
        let cut = self.gpu.policy.room(job.text_bytes()) > self.gpu.policy.smallest;
        cut && self.goes_straight(job)
    }

    /// Whether messages may be cut, and the device makes all copies itself.
    fn goes_straight(&self, job: &Job<'_>) -> bool {
        cuts(job.info().algorithm, job.direction()) && self.is_pinned(job)
    }

    /// Runs `work` on a ring, after the known-answer tests of the job's kernels.
    fn on_ring<T>(
        &self,
        job: &Job<'_>,
        work: impl FnOnce(&mut Ring<CudaLink>) -> Result<T, Failure>,
    ) -> Result<T, Broken> {
        let mut lease = self.take_ring();
        let ring = lease.1.as_mut().expect("a fresh lease has a ring");
        // SAFETY: nothing else uses what the tests' jobs borrow.
        let test = |job: &Job<'_>| unsafe { ring.run(job, self.gpu.policy.room(job.text_bytes())) };
        let tested = self.tested.ensure(job, &self.gpu.policy, test);
        let ran = tested.and_then(|()| work(ring).map_err(|failure| failure.to_string()));
        let hangs = ring.is_hung();
        ran.map_err(|reason| {
            // Its state is unknown.
            lease.1 = None;
            if hangs {
                // Dropping them would wait for the device.
                let mut rings = lock(&self.rings);
                rings.made -= rings.idle.len();
                std::mem::forget(std::mem::take(&mut rings.idle));
            }
            Broken { reason, hangs }
        })
    }
}

impl Helper for CudaBackend {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn supports(&self, algorithm: Algorithm) -> bool {
        self.hashes || algorithm.info().mode != Mode::Gcm
    }

    fn is_ready(&self, job: &Job<'_>) -> bool {
        self.tested.covers(job, &self.gpu.policy)
    }

    fn pin_thread(&self) {
        self.near.iter().for_each(Cores::pin_thread);
    }

    fn limits(&self, job: &Job<'_>) -> Limits {
        let policy = &self.gpu.policy;
        // A part of a GCM message has a start and an end of its own, which take the driver twice as
        // long.
        let parts = if job.info().mode == Mode::Gcm { 2 } else { 1 };
        let usual = match self.flows(job) {
            true => parts * policy.room(job.text_bytes()),
            false => policy.largest,
        };
        Limits {
            most: policy.largest,
            usual: usual.min(policy.largest),
            least: policy.smallest,
            messages: policy.messages,
            depth: policy.slots,
            fits: true,
        }
    }

    fn is_pinned(&self, job: &Job<'_>) -> bool {
        let Ok(_bound) = self.gpu.link.bind() else {
            return false;
        };
        if job.count() == 0 {
            return false;
        }
        let first = job.message(0);
        let around = |address| self.gpu.link.pinned_around(address).is_some();
        around(first.input) && (job.is_in_place() || around(first.output))
    }

    unsafe fn help(
        &self,
        job: &Job<'_>,
        source: &mut dyn Source,
        keep: bool,
    ) -> Result<(), Broken> {
        self.on_ring(job, |ring| {
            // SAFETY: by this function's contract.
            unsafe { ring.run_portions(job, source, self.gpu.policy.largest, keep) }
        })
    }

    unsafe fn run_alone(&self, job: &Job<'_>) -> Result<Vec<usize>, Broken> {
        let (policy, total) = (&self.gpu.policy, job.text_bytes());
        let flows = total <= policy.smallest as u64 || self.goes_straight(job);
        let room = match flows {
            true => policy.room(total),
            false => policy.wide_room(total),
        };
        self.on_ring(job, |ring| {
            // SAFETY: by this function's contract.
            unsafe { ring.run(job, room) }
        })
    }
}
