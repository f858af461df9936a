//! The CUDA backend: jobs in host memory on one GPU.

use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::copy::Copier;
use super::devices::{find, no_backend};
use super::driver::{Device, Failure};
use super::link::CudaLink;
use super::policy::Policy;
use super::ring::Ring;
use super::selftest::Tested;
use super::slot::Gpu;
use crate::backend::{Backend, Ticket};
use crate::{Error, Job, Mode};

/// Runs batches on a GPU.
pub(crate) struct CudaBackend {
    name: String,
    /// Whether GCM runs here.
    hashes: bool,
    gpu: Arc<Gpu<CudaLink>>,
    tested: Arc<Tested>,
    rings: Mutex<Rings>,
    returned: Condvar,
}

/// The rings of a device: made when they are needed, kept for the next job.
#[derive(Default)]
struct Rings {
    idle: Vec<Ring<CudaLink>>,
    made: usize,
}

impl CudaBackend {
    /// A backend on a GPU, or on the first one.
    pub(crate) fn new(number: Option<u32>, threads: NonZeroUsize) -> Result<Self, Error> {
        let device = find(number)?;
        CudaBackend::on(&device, threads)
            .map_err(|failure| no_backend(number, &failure.to_string()))
    }

    fn on(device: &Device, threads: NonZeroUsize) -> Result<Self, Failure> {
        let policy = Policy::DEFAULT;
        let most = NonZeroUsize::new(policy.copy_threads).unwrap_or(NonZeroUsize::MIN);
        let gpu = Gpu {
            link: CudaLink::new(device)?,
            policy,
            copier: Copier::new(threads.min(most)),
        };
        Ok(CudaBackend {
            name: format!("cuda:{}", device.number),
            hashes: hashes(device.capability),
            gpu: Arc::new(gpu),
            tested: Tested::on(device.number),
            rings: Mutex::default(),
            returned: Condvar::new(),
        })
    }

    /// A ring that no other job uses, now or when one comes back.
    fn take_ring(&self) -> Lease<'_> {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
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

/// A ring in use; it goes back when this is dropped, unless it was taken out.
struct Lease<'a>(&'a CudaBackend, Option<Ring<CudaLink>>);

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // After a panic, something may still be under way: the ring's end waits for it.
        let ring = self.1.take().filter(|_| !std::thread::panicking());
        let mut rings = self.0.rings.lock().unwrap_or_else(PoisonError::into_inner);
        match ring {
            Some(ring) => rings.idle.push(ring),
            None => rings.made -= 1,
        }
        self.0.returned.notify_one();
    }
}

/// Whether GHASH runs on a device of this compute capability: its kernels need tensor cores that
/// multiply single bits, and machine code made for them. Older ones lack the instruction; for
/// later ones there is only the intermediate code, which is made without it.
pub(crate) fn hashes((major, _): (u32, u32)) -> bool {
    matches!(major, 8 | 9 | 10 | 12)
}

impl Backend for CudaBackend {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn supports(&self, job: &Job<'_>) -> bool {
        self.hashes || job.info().mode != Mode::Gcm
    }

    fn estimate(&self, job: &Job<'_>) -> Duration {
        // Bytes a microsecond over the link; a calibrated model replaces this.
        Duration::from_micros(50 + job.text_bytes() / 40_000 + job.count() as u64 / 100)
    }

    unsafe fn submit(&self, job: &Job<'_>) -> Result<Ticket, Error> {
        let mut lease = self.take_ring();
        let ring = lease.1.as_mut().expect("a fresh lease has a ring");
        // SAFETY: nothing else uses what the tests' jobs borrow.
        let test = |job: &Job<'_>| unsafe { ring.run(job) };
        let tested = self.tested.ensure(job, &self.gpu.policy, test);
        // SAFETY: by this function's contract.
        let ran = tested.and_then(|()| unsafe { ring.run(job) }.map_err(|f| f.to_string()));
        ran.map(Ticket::done).map_err(|reason| {
            // Nobody knows in which state it is.
            lease.1 = None;
            Error::Backend {
                backend: self.name.clone(),
                reason,
            }
        })
    }
}
