//! Measures a machine: the CPU with each of its instruction sets, and the first GPU.

use std::num::NonZeroUsize;
use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::auto::{
    Calibration, Cost, Costs, CpuModel, Crew, GpuModel, Helper, Helpers, Machine, Pace, cuts, ways,
};
use crate::batch::Tags;
use crate::cpu::CpuBackend;
use crate::cuda;
use crate::job::Job;
use crate::machine;
use crate::{Algorithm, Batch, Direction, Error, InstructionSet, Ivs, Key, Keys, Spans, Text};

/// Each measurement is the best of this many: disturbances only make it longer.
const RUNS: usize = 3;

/// All instruction sets are measured this many times: another program on the same core may disturb
/// all measurements of one set, which are close together in time.
const PASSES: usize = 2;

/// The same for measurements of microseconds, and for those that depend on the memory.
const SMALL_RUNS: usize = 20;
const MEMORY_RUNS: usize = 8;

/// The longest wait for a thread to wake.
const LONGEST_WAKE: Duration = Duration::from_millis(2);

/// Bytes of the shortest message: enough for the kernels of long ones.
const LEAST: usize = 4096;

/// A batch of a fixed number of messages.
struct Sample {
    key: Key,
    count: usize,
    len: usize,
    ivs: Vec<u8>,
    tags: Vec<u8>,
}

impl Sample {
    fn new(algorithm: Algorithm, count: usize, len: usize) -> Result<Self, Error> {
        let iv_len = algorithm.info().iv_len();
        Ok(Sample {
            key: Key::generate(algorithm)?,
            count,
            len,
            ivs: (0..count * iv_len)
                .map(|place| (place / iv_len.max(1)) as u8)
                .collect(),
            tags: vec![0; 16 * count],
        })
    }

    fn bytes(&self) -> usize {
        self.count * self.len
    }

    /// From one buffer to another, of [`Sample::bytes`] each.
    fn job<'a>(
        &'a mut self,
        direction: Direction,
        input: &'a [u8],
        output: &'a mut [u8],
    ) -> Result<Job<'a>, Error> {
        let bytes = self.bytes();
        let spans = Spans::Even {
            count: self.count,
            len: self.len,
            stride: self.len,
        };
        let text = Text::Apart {
            input: &input[..bytes],
            input_spans: spans,
            output: &mut output[..bytes],
            output_spans: spans,
        };
        let mut batch = Batch::new(direction, Keys::One(&self.key), text);
        if !self.ivs.is_empty() {
            batch = batch.ivs(Ivs::Each(&self.ivs));
        }
        if self.key.algorithm().is_aead() {
            batch = batch.tags(Tags::Apart(&mut self.tags));
        }
        Job::new(batch)
    }
}

/// The least nanoseconds for encryption from the first buffer to the second, and for decryption back.
fn times<B: DerefMut<Target = [u8]>>(
    sample: &mut Sample,
    [plain, sealed]: &mut [B; 2],
    runs: usize,
    run: &dyn Fn(&Job<'_>) -> Result<(), Error>,
) -> Result<[f64; 2], Error> {
    let mut best = [f64::INFINITY; 2];
    // The first round pays for tables, tests and pages.
    for _ in 0..=runs {
        for (best, direction) in best.iter_mut().zip(Direction::BOTH) {
            let job = match direction {
                Direction::Encrypt => sample.job(direction, plain, sealed)?,
                Direction::Decrypt => sample.job(direction, sealed, plain)?,
            };
            let start = Instant::now();
            run(&job)?;
            *best = best.min(start.elapsed().as_secs_f64() * 1e9);
        }
    }
    Ok(best)
}

/// The sizes of a backend's measurements.
struct Scale {
    /// Bytes of the longer and of the shorter batch.
    long: usize,
    short: usize,
    /// Bytes of its messages in chained modes.
    chain: usize,
    /// Messages of 64 bytes.
    messages: usize,
    runs: usize,
}

/// Measures all algorithms of a backend; those that it does not support keep their guess.
fn costs<B: DerefMut<Target = [u8]>>(
    scale: &Scale,
    guess: Costs,
    buffers: &mut [B; 2],
    run: &dyn Fn(&Job<'_>) -> Result<(), Error>,
) -> Result<Costs, Error> {
    let mut costs = guess;
    for algorithm in Algorithm::all() {
        let whole = cuts(algorithm, Direction::Encrypt);
        let mut time =
            |count, len, runs| times(&mut Sample::new(algorithm, count, len)?, buffers, runs, run);
        let batch = |bytes: usize| match whole {
            true => (1, bytes),
            false => (bytes / scale.chain, scale.chain),
        };
        let (count, len) = batch(scale.long);
        let long = match time(count, len, scale.runs) {
            Ok(long) => long,
            Err(Error::NoBackend { .. }) => continue,
            Err(error) => return Err(error),
        };
        let (count, len) = batch(scale.short);
        let short = time(count, len, scale.runs)?;
        let many = time(scale.messages, 64, scale.runs)?;
        let least = time(1, LEAST, SMALL_RUNS)?;
        let one = match whole {
            true => [0.0; 2],
            false => time(1, scale.chain, SMALL_RUNS)?,
        };
        for (place, direction) in Direction::BOTH.into_iter().enumerate() {
            let chain = match cuts(algorithm, direction) {
                true => 0.0,
                false => (one[place] - least[place]).max(0.0) / (scale.chain - LEAST) as f64,
            };
            // Work that overlaps with the first chain is not counted twice.
            let before = least[place] + chain * (scale.chain - LEAST) as f64;
            let slope = (long[place] - short[place]) / (scale.long - scale.short) as f64;
            let mean = (long[place] - before) / scale.long as f64;
            // A disturbed short batch must not make long ones look free.
            let byte = slope.max(0.8 * mean).max(1e-4);
            let fixed = (least[place] - LEAST as f64 * byte.max(chain)).max(1.0);
            let rest = many[place] - fixed - 64.0 * byte * scale.messages as f64;
            let cost = Cost {
                fixed,
                byte,
                message: (rest / scale.messages as f64).max(1.0),
                chain,
            };
            costs.set(algorithm, direction, cost);
        }
    }
    Ok(costs)
}

/// Keeps, for each algorithm, the cost with the lower time for a message of `bytes` bytes.
fn keep_least(costs: &mut Costs, found: &Costs, bytes: usize) {
    let time = |cost: Cost| cost.fixed + bytes as f64 * cost.byte.max(cost.chain);
    for (algorithm, direction) in ways() {
        let cost = found.of(algorithm, direction);
        if time(cost) < time(costs.of(algorithm, direction)) {
            costs.set(algorithm, direction, cost);
        }
    }
}

fn on_cpu(cpu: &CpuBackend) -> impl Fn(&Job<'_>) -> Result<(), Error> {
    move |job| {
        // SAFETY: the job's borrows outlive the call.
        unsafe { cpu.run(job) };
        Ok(())
    }
}

/// The least nanoseconds of a few runs.
fn best(runs: usize, mut work: impl FnMut()) -> f64 {
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e9
    };
    (0..runs).map(once).fold(f64::INFINITY, f64::min)
}

impl Calibration {
    /// Measures this machine in a second or two, most of them for GPUs. Other programs should be
    /// idle.
    ///
    /// # Errors
    /// [`Error::Backend`] if a GPU fails while it is measured.
    pub fn measure(threads: NonZeroUsize) -> Result<Self, Error> {
        let mut sets: Vec<(InstructionSet, Costs)> = Vec::new();
        let scale = Scale {
            long: 128 << 10,
            short: 16 << 10,
            chain: 8 << 10,
            messages: 64,
            runs: RUNS,
        };
        let mut buffers = [1, 2].map(|byte| vec![byte; scale.long]);
        for _ in 0..PASSES {
            for set in InstructionSet::all().filter(|set| set.is_available()) {
                let cpu = CpuBackend::new(set, NonZeroUsize::MIN)?;
                let guess = CpuModel::guess(set, 1).costs;
                let found = costs(&scale, guess, &mut buffers, &on_cpu(&cpu))?;
                match sets.iter_mut().find(|(other, _)| *other == set) {
                    Some((_, costs)) => keep_least(costs, &found, scale.long),
                    None => sets.push((set, found)),
                }
            }
        }
        let cpu = CpuBackend::new(InstructionSet::best(), threads)?;
        let wake = match threads.get() {
            1 => 0.0,
            count => wake(&cpu, count - 1),
        };
        let memory = memory(&cpu)?;
        let crowded = match sets.iter().find(|(set, _)| *set == InstructionSet::best()) {
            Some((_, costs)) => crowded(&cpu, costs, wake)?,
            None => 1.0,
        };
        Ok(Calibration {
            machine: Machine::here(),
            wake,
            memory,
            crowded,
            sets,
            gpu: match machine::may_have_gpu() {
                true => gpu(&cpu, threads, memory[1])?,
                false => None,
            },
        })
    }
}

/// Nanoseconds until `count` sleeping threads have come. The median, because single wakes vary.
fn wake(cpu: &CpuBackend, count: usize) -> f64 {
    let once = |_| {
        // Until they sleep.
        thread::sleep(Duration::from_micros(500));
        let came = AtomicUsize::new(0);
        let start = Instant::now();
        let mut took = Duration::ZERO;
        let come = |_| _ = came.fetch_add(1, Ordering::Relaxed);
        cpu.on_threads(count, come, || {
            while came.load(Ordering::Relaxed) < count && start.elapsed() < LONGEST_WAKE {
                std::hint::spin_loop();
            }
            took = start.elapsed();
        });
        took.as_secs_f64() * 1e9
    };
    let mut times: Vec<f64> = (0..SMALL_RUNS).map(once).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Bytes that fit into caches, and bytes that do not.
const MEMORY: [usize; 2] = [16 << 20, 256 << 20];

/// The least nanoseconds for one message of the fastest algorithm.
fn ctr_time<B: DerefMut<Target = [u8]>>(
    bytes: usize,
    buffers: &mut [B; 2],
    run: &dyn Fn(&Job<'_>) -> Result<(), Error>,
) -> Result<f64, Error> {
    let mut sample = Sample::new(Algorithm::Aes128Ctr, 1, bytes)?;
    let [encrypt, decrypt] = times(&mut sample, buffers, MEMORY_RUNS, run)?;
    Ok(encrypt.min(decrypt))
}

/// Nanoseconds per byte on all threads.
fn memory(cpu: &CpuBackend) -> Result<[f64; 2], Error> {
    let mut buffers = [1, 2].map(|byte| vec![byte; MEMORY[1]]);
    let mut found = [0.0; 2];
    for (each, bytes) in found.iter_mut().zip(MEMORY) {
        *each = ctr_time(bytes, &mut buffers, &on_cpu(cpu))? / bytes as f64;
    }
    Ok(found)
}

/// The slowdown of a thread while all others work, measured with CBC encryption, which does not
/// wait for memory.
fn crowded(cpu: &CpuBackend, one: &Costs, wake: f64) -> Result<f64, Error> {
    // Many times as many messages as threads take at the same time.
    let (count, len) = (4096, 8 << 10);
    let bytes = count * len;
    let mut buffers = [1, 2].map(|byte| vec![byte; bytes]);
    let mut sample = Sample::new(Algorithm::Aes128Cbc, count, len)?;
    let [all, _] = times(&mut sample, &mut buffers, RUNS, &on_cpu(cpu))?;
    let cost = one.of(Algorithm::Aes128Cbc, Direction::Encrypt);
    let one = (bytes as f64 * cost.byte + count as f64 * cost.message) / cpu.threads() as f64;
    Ok(((all - wake) / one).clamp(1.0, 3.0))
}

/// Measures the first GPU; none if there is none. `memory` is the time of all CPU threads per byte.
fn gpu(cpu: &CpuBackend, threads: NonZeroUsize, memory: f64) -> Result<Option<GpuModel>, Error> {
    let start = Instant::now();
    let (gpus, _) = cuda::all(threads);
    let start = start.elapsed().as_secs_f64() * 1e9;
    let Some(gpu) = gpus.into_iter().next() else {
        return Ok(None);
    };
    let run = |job: &Job<'_>| together(cpu, &gpu, job, None);
    let scale = Scale {
        long: 64 << 20,
        short: 16 << 20,
        chain: 16 << 10,
        messages: 16 << 10,
        runs: 2,
    };
    let mut model = GpuModel::guess(threads.get());
    model.start = start;
    let mut buffers = [cuda::pinned(MEMORY[1])?, cuda::pinned(MEMORY[1])?];
    model.costs = costs(&scale, model.costs, &mut buffers, &run)?;
    if threads.get() > 1 {
        let link = model.costs.of(Algorithm::Aes128Ctr, Direction::Encrypt);
        let rates = (1.0 / memory, 1.0 / link.byte);
        let all = |job: &Job<'_>| together(cpu, &gpu, job, Some(rates));
        let shared = ctr_time(4 << 20, &mut buffers, &all)?;
        let alone = ctr_time(4 << 20, &mut buffers, &on_cpu(cpu))?;
        model.join = (shared - alone).clamp(1e4, 1e6);
        model.shared = ctr_time(MEMORY[1], &mut buffers, &all)? / MEMORY[1] as f64;
    }

    // Pageable memory, which the CPU copies.
    let mut buffers = [1, 2].map(|byte| vec![byte; scale.long]);
    let [long, short] = [scale.long, scale.short].map(|bytes| ctr_time(bytes, &mut buffers, &run));
    model.staged = ((long? - short?) / (scale.long - scale.short) as f64).max(1e-3);
    // In and out, by one thread.
    let [plain, sealed] = &mut buffers;
    let copy = best(RUNS, || sealed.copy_from_slice(plain)) / scale.long as f64;
    model.staged_by_one = 2.0 * copy;
    Ok(Some(model))
}

/// Runs a job as the planner does: on a GPU alone, or together with CPU threads if `rates` gives
/// the bytes per nanosecond of these and of the GPU.
fn together(
    cpu: &CpuBackend,
    gpu: &Arc<dyn Helper>,
    job: &Job<'_>,
    rates: Option<(f64, f64)>,
) -> Result<(), Error> {
    if !gpu.supports(job.info().algorithm) {
        return Err(Error::NoBackend {
            name: gpu.name(),
            reason: format!("{} does not run there", job.info().name),
        });
    }
    let workers = rates.map_or(0, |_| cpu.threads() - 1);
    let (threads, helper_rate) = rates.unwrap_or((0.0, 1.0));
    let crew = Crew {
        workers,
        worker: Pace::of(threads / workers.max(1) as f64),
        helper: Pace::of(helper_rate),
        ..Crew::of(cpu)
    };
    // SAFETY: the job's borrows outlive the call.
    let ran = unsafe { crew.run(job, Helpers::Now(vec![Arc::clone(gpu)])) };
    ran.unless_broken().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_measured_in_seconds() {
        let start = Instant::now();
        let threads = NonZeroUsize::new(2).unwrap();
        let calibration = Calibration::measure(threads).unwrap();
        // 5 s are promised for an idle machine and a release build.
        assert!(start.elapsed().as_secs() < 30);
        let model = calibration.model(InstructionSet::best(), 2);
        for algorithm in Algorithm::all() {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let cost = model.cpu.costs.of(algorithm, direction);
                assert!(
                    cost.byte > 0.0 && cost.byte < 1000.0,
                    "{algorithm} {cost:?}"
                );
            }
        }
        let portable = calibration.model(InstructionSet::Portable, 2).cpu.costs;
        let [slow, fast] = [&portable, &model.cpu.costs]
            .map(|costs| costs.of(Algorithm::Aes128Gcm, Direction::Encrypt).byte);
        assert!(slow >= fast, "{slow} {fast}");
    }
}
