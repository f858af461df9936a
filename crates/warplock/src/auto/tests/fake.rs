//! A fake GPU.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Algorithm;
use crate::auto::{Broken, Helper, Limits};
use crate::cpu::{CpuBackend, InstructionSet};
use crate::job::Job;
use crate::portion::{Outcome, Source, Sum};

/// The fault of a helper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    None,
    /// Fails after this many portions, with others taken and not done.
    After(u64),
    /// The same, and reports that it hangs.
    Hangs(u64),
}

/// A fake GPU: the CPU at a given speed.
pub(super) struct Fake {
    pub(super) name: &'static str,
    /// Nanoseconds per byte.
    pub(super) byte: f64,
    pub(super) fault: Fault,
    pub(super) cpu: CpuBackend,
    pub(super) portions: AtomicU64,
    /// How many times it was asked whether memory is pinned.
    pub(super) asked: AtomicU32,
    /// How many times it did CPU work while it waited.
    pub(super) asides: AtomicU32,
    pub(super) dropped: &'static AtomicBool,
}

static NOTED: AtomicBool = AtomicBool::new(false);

impl Fake {
    pub(super) fn new(name: &'static str, byte: f64, fault: Fault) -> Arc<Self> {
        Arc::new(Fake::alone(name, byte, fault))
    }

    /// The same, not shared yet.
    pub(super) fn alone(name: &'static str, byte: f64, fault: Fault) -> Self {
        Fake {
            name,
            byte,
            fault,
            cpu: CpuBackend::new(InstructionSet::best(), NonZeroUsize::MIN).unwrap(),
            portions: AtomicU64::new(0),
            asked: AtomicU32::new(0),
            asides: AtomicU32::new(0),
            dropped: &NOTED,
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
    }
}

impl Helper for Fake {
    fn name(&self) -> String {
        self.name.to_owned()
    }
    fn supports(&self, algorithm: Algorithm) -> bool {
        algorithm != Algorithm::Acorn128
    }
    fn is_ready(&self, _: &Job<'_>) -> bool {
        true
    }
    fn limits(&self, _: &Job<'_>) -> Limits {
        Limits {
            most: 1 << 20,
            usual: 1 << 20,
            least: 64 << 10,
            messages: 1000,
            depth: 2,
            fits: true,
        }
    }
    fn is_pinned(&self, _: &Job<'_>) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        true
    }
    unsafe fn help(
        &self,
        job: &Job<'_>,
        source: &mut dyn Source,
        keep: bool,
    ) -> Result<(), Broken> {
        let broken = |hangs| {
            Err(Broken {
                reason: "injected".to_owned(),
                hangs,
            })
        };
        // As on a GPU, the next portion is taken before this one is done.
        let mut next = source.next();
        while let Some(portion) = next {
            next = source.next();
            let before = self.portions.fetch_add(1, Ordering::Relaxed);
            match self.fault {
                Fault::After(count) if before >= count => return broken(false),
                Fault::Hangs(count) if before >= count => return broken(true),
                _ => {}
            }
            let begun = match &portion {
                crate::portion::Portion::Part(part) => Some(self.cpu.begin(job, part.message)),
                crate::portion::Portion::Messages(_) => None,
            };
            let start = Instant::now();
            // SAFETY: by this function's contract.
            let outcome = unsafe { self.cpu.run_portion(job, &portion, begun.as_ref()) };
            // A GPU returns the tag of the message as if there were no other parts.
            let sum = outcome
                .sum
                .zip(begun.as_ref())
                .map(|(sum, begun)| match sum {
                    Sum::Share(share) => {
                        Sum::Tag(std::array::from_fn(|byte| share[byte] ^ begun.frame[byte]))
                    }
                    tag => tag,
                });
            let bytes = match &portion {
                crate::portion::Portion::Part(part) => part.bytes.len(),
                crate::portion::Portion::Messages(messages) => {
                    messages.clone().map(|index| job.text_len(index)).sum()
                }
            };
            let wanted = Duration::from_nanos((bytes as f64 * self.byte) as u64);
            while start.elapsed() < wanted {
                match source.meanwhile(start.elapsed()) {
                    true => drop(self.asides.fetch_add(1, Ordering::Relaxed)),
                    false => thread::sleep(wanted.saturating_sub(start.elapsed())),
                }
            }
            source.done(portion, Outcome { sum, ..outcome });
        }
        assert!(keep || self.fault == Fault::None);
        Ok(())
    }
}
