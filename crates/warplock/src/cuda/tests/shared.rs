//! Random jobs that CPU threads and fake devices share through one queue, with random faults:
//! whatever fails, the result equals the CPU's, and nothing is written later.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::fake::FakeLink;
use super::{Buffers, Random, Setup, buffers, expected, policy};
use crate::auto::{Broken, Crew, Helper, Helpers, Limits, Pace};
use crate::cpu::{CpuBackend, InstructionSet};
use crate::cuda::driver::api::Failure;
use crate::cuda::host::copy::Copier;
use crate::cuda::host::ring::Ring;
use crate::cuda::host::slot::RingGpu;
use crate::cuda::launch::policy::Policy;
use crate::job::Job;
use crate::portion::Source;
use crate::{Algorithm, Direction};

/// The fault of a device.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// A call into the driver fails.
    Call(u64),
    /// Kernels hang after this many.
    Hang(u64),
    /// Allocations fail beyond this many bytes.
    Memory(usize),
}

impl Fault {
    fn random(random: &mut Random) -> Self {
        match random.below(5) {
            0 => Fault::None,
            1 | 2 => Fault::Call(random.below(120) as u64),
            3 => Fault::Hang(random.below(12) as u64),
            _ => Fault::Memory(random.below(30_000)),
        }
    }
}

/// A ring on a fake device.
struct Fake {
    name: &'static str,
    gpu: Arc<RingGpu<FakeLink>>,
    ring: Mutex<Ring<FakeLink>>,
}

impl Fake {
    fn new(
        name: &'static str,
        random: &mut Random,
        policy: Policy,
        fault: Fault,
        pinned: &[&[u8]],
    ) -> Arc<Self> {
        let calls = match fault {
            Fault::Call(calls) => Some(calls),
            _ => None,
        };
        let mut link = FakeLink::new(random.next(), calls, HashSet::new());
        match fault {
            Fault::Hang(steps) => link.hang_after(steps),
            Fault::Memory(bytes) => link.limit(bytes),
            Fault::None | Fault::Call(_) => {}
        }
        for bytes in pinned {
            link.pin(bytes);
        }
        let gpu = Arc::new(RingGpu {
            link,
            policy,
            copier: Copier::new(NonZeroUsize::MIN, None),
        });
        let ring = Mutex::new(Ring::new(&gpu));
        Arc::new(Fake { name, gpu, ring })
    }
}

impl Helper for Fake {
    fn name(&self) -> String {
        self.name.to_owned()
    }
    fn supports(&self, _: Algorithm) -> bool {
        true
    }
    fn is_ready(&self, _: &Job<'_>) -> bool {
        true
    }
    fn limits(&self, job: &Job<'_>) -> Limits {
        Limits {
            most: self.gpu.policy.largest,
            usual: self.gpu.policy.room(job.text_bytes()),
            least: 512,
            messages: self.gpu.policy.messages,
            depth: self.gpu.policy.slots,
            fits: true,
        }
    }
    fn is_pinned(&self, _: &Job<'_>) -> bool {
        false
    }
    unsafe fn help(
        &self,
        job: &Job<'_>,
        source: &mut dyn Source,
        keep: bool,
    ) -> Result<(), Broken> {
        let mut ring = self.ring.lock().unwrap();
        // SAFETY: by this function's contract.
        let ran = unsafe { ring.run_portions(job, source, self.gpu.policy.largest, keep) };
        ran.map_err(|failure: Failure| Broken {
            reason: "a fault".to_owned(),
            hangs: failure.is_hung(),
        })
    }
}

fn small(random: &mut Random) -> Limits {
    let most = 512 * (1 + random.below(3));
    Limits {
        most,
        usual: most,
        least: 512,
        ..Limits::CPU
    }
}

fn check(
    setup: &Setup,
    direction: Direction,
    before: &Buffers,
    random: &mut Random,
    redo: bool,
) -> (Buffers, usize) {
    let mut wanted = before.clone();
    let refused = expected(setup, direction, &mut wanted);
    let mut found = before.clone();
    let faults = [(); 2].map(|()| match redo {
        true => Fault::random(random),
        false => Fault::None,
    });
    let hangs = faults.iter().any(|fault| matches!(fault, Fault::Hang(_)));
    let policy = Policy {
        // With other faults, a timeout could come only from a busy machine.
        timeout: Duration::from_millis(if hangs { 2 } else { 60_000 }),
        ..policy(random)
    };
    let context = format!(
        "{} {direction:?}, {} messages, in place {}, {faults:?}, {policy:?}",
        setup.algorithm,
        setup.spans.len(),
        setup.in_place,
    );
    let pins = [random.flip(), random.flip()];
    let fakes: Vec<_> = ["fake:0", "fake:1"]
        .into_iter()
        .zip(faults)
        .map(|(name, fault)| {
            let buffers = [&found.input[..], &found.output[..]];
            let pinned = buffers.into_iter().zip(pins);
            let pinned: Vec<_> = pinned.filter(|pin| pin.1).map(|pin| pin.0).collect();
            Fake::new(name, random, policy, fault, &pinned)
        })
        .collect();
    let threads = NonZeroUsize::new(2).unwrap();
    let cpu = CpuBackend::new(InstructionSet::best(), threads).unwrap();
    let crew = Crew {
        cpu: &cpu,
        workers: if redo { random.below(3) } else { 0 },
        worker: Pace::of(1.0),
        helper: Pace {
            rate: [0.1, 1.0, 10.0][random.below(3)],
            latency: [0.0, 1e3, 1e6][random.below(3)],
        },
        redo,
        limits: small(random),
        long: 512 * (1 + random.below(4)),
    };
    let helpers = fakes.iter().map(|fake| Arc::clone(fake) as Arc<dyn Helper>);
    let shared = {
        let Buffers {
            input,
            output,
            tags,
        } = &mut found;
        let job = Job::new(setup.batch(direction, input, output, tags)).unwrap();
        // SAFETY: nothing else uses the buffers.
        unsafe { crew.run(&job, Helpers::Now(helpers.collect())) }
    };
    let broken = shared.parts.iter().filter(|part| part.broken.is_some());
    let broken = broken.count();
    assert_eq!(shared.refused, refused, "{context}");
    assert_eq!(found.tags, wanted.tags, "{context}");
    assert_eq!(found.input, wanted.input, "{context}");
    let pairs = found.output.iter().zip(&wanted.output);
    let wrong = pairs.enumerate().position(|(_, (a, b))| a != b);
    assert_eq!(wrong, None, "{context}: first wrong byte of the output");
    for fake in &fakes {
        assert_eq!(fake.gpu.link.writes_into(&found.output), 0, "{context}");
        assert_eq!(fake.gpu.link.writes_into(&found.tags), 0, "{context}");
    }
    (found, broken)
}

fn random_jobs(redo: bool) -> usize {
    let mut broken = 0;
    for algorithm in Algorithm::all() {
        for seed in 0..60 {
            let mut random = Random::new(seed << 9 | algorithm as u64);
            let room = policy(&mut random).largest;
            let setup = Setup::random(&mut random, algorithm, room);
            let plain = buffers(&setup, &mut random);
            let (sealed, first) = check(&setup, Direction::Encrypt, &plain, &mut random, redo);
            let mut sealed = sealed.reversed(&setup, &mut random);
            sealed.forge(&setup, &mut random);
            let (_, second) = check(&setup, Direction::Decrypt, &sealed, &mut random, redo);
            broken += first + second;
        }
    }
    broken
}

#[test]
fn whatever_fails_the_result_equals_the_cpus() {
    assert!(random_jobs(true) > 100, "faults must strike");
}

#[test]
fn demanded_devices_share_every_job() {
    assert_eq!(random_jobs(false), 0);
}
