//! The choice of a team for a job, and the queries before it.

use super::*;
use crate::auto::PINNED_CACHE_JOBS;

#[test]
fn measurements_override_the_model() {
    let _alone = alone();
    // The model thinks that the GPU is 500 times as fast as the CPU; it is slower.
    let gpu = Fake::new("cuda:0", 80.0, Fault::None);
    let planner = planner(model(50.0, 0.1, 1.0), vec![Arc::clone(&gpu)]);
    planner.wake();
    let cpu = cpu(1);
    for _ in 0..6 {
        // SAFETY: nothing else uses the buffers.
        let run = |job: &Job<'_>| unsafe { planner.run(&cpu, job) };
        compare(Algorithm::Aes128Ctr, Direction::Encrypt, 1, 1 << 20, run).unwrap();
    }
    let portions = gpu.portions.load(Ordering::Relaxed);
    // One or two runs on the GPU, then the CPU.
    assert!((1..=12).contains(&portions), "{portions}");
}

/// A CPU that the model rates far too slow is still tried, when the GPU's speed is reliable.
#[test]
fn the_cpu_is_tried_once_even_if_it_is_expected_to_be_slow() {
    let _alone = alone();
    let gpu = Fake::new("cuda:0", 1000.0, Fault::None);
    let planner = planner(model(2500.0, 1000.0, 1.0), vec![Arc::clone(&gpu)]);
    planner.wake();
    let cpu = cpu(1);
    with_message(1 << 12, |job| run_often(20, &planner, &cpu, job));
    let portions = gpu.portions.load(Ordering::Relaxed);
    assert!((3..10).contains(&portions), "{portions}");
}

fn run_often(times: usize, planner: &Planner, cpu: &CpuBackend, job: &Job<'_>) {
    for _ in 0..times {
        // SAFETY: nothing else uses the buffers.
        unsafe { planner.run(cpu, job) }.unwrap();
    }
}

/// A job of one message of `len` bytes, under AES-128-CTR.
fn with_message(len: usize, body: impl FnOnce(&Job<'_>)) {
    let (key, text) = (
        Key::new(Algorithm::Aes128Ctr, &[7; 16]).unwrap(),
        vec![5; len],
    );
    let mut output = text.clone();
    let batch = Batch::encrypt(Keys::One(&key), Text::apart(&text, &mut output));
    body(&Job::new(batch.ivs(Ivs::Each(&[0; 16]))).unwrap());
}

#[test]
fn the_fast_path_keeps_small_jobs_on_the_cpu() {
    let _alone = alone();
    let gpu = Fake::new("cuda:0", 0.1, Fault::None);
    // A GPU takes 10 us for the smallest batch, a thread 2 ns per byte: half of 5,000 bytes.
    let planner = planner(model(2.0, 0.1, 1e10), vec![gpu]);
    let cpu = cpu(1);
    let mut looks = Vec::new();
    for len in [16, 2048, 4096] {
        let run = |job: &Job<'_>| {
            // SAFETY: nothing else uses the buffers.
            let ran = unsafe { planner.run(&cpu, job) };
            looks.push(planner.is_for_cpu(job));
            ran
        };
        compare(Algorithm::Aes128Ctr, Direction::Encrypt, 1, len, run).unwrap();
    }
    assert_eq!(looks, [true, true, false]);
    let below = planner.alone_for_cpu(Algorithm::Aes128Ctr, Direction::Encrypt);
    assert!((2049..=4096).contains(&below), "{below}");
}

#[test]
fn the_driver_is_asked_about_memory_once_for_many_jobs() {
    let _alone = alone();
    let gpu = Fake::new("cuda:0", 0.1, Fault::None);
    let planner = planner(model(50.0, 0.1, 1.0), vec![Arc::clone(&gpu)]);
    planner.wake();
    let cpu = cpu(1);
    let run = |job: &Job<'_>| {
        for _ in 0..PINNED_CACHE_JOBS {
            assert!(planner.is_pinned(&*gpu, job));
        }
        // SAFETY: nothing else uses the buffers.
        unsafe { planner.run(&cpu, job) }
    };
    compare(Algorithm::Aes128Ctr, Direction::Encrypt, 1, 1 << 20, run).unwrap();
    let asked = gpu.asked.load(Ordering::Relaxed);
    assert!((1..=2).contains(&asked), "{asked}");
}

#[test]
fn without_a_gpu_nothing_is_started_or_loaded() {
    let planner = Planner::new(
        Box::new(|| panic!("GPUs must not be started")),
        Box::new(|| panic!("no model must be loaded")),
        || false,
        warn,
    );
    let cpu = cpu(2);
    for (algorithm, direction, count, len) in KINDS {
        // SAFETY: nothing else uses the buffers.
        let run = |job: &Job<'_>| unsafe { planner.run(&cpu, job) };
        compare(algorithm, direction, count, len, run).unwrap();
    }
}
