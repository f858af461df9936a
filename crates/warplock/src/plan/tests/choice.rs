//! Who takes a job, and how much is asked before.

use super::*;
use crate::job::Message;
use crate::plan::BELIEVED;
use crate::plan::known::MANY;

#[test]
fn what_was_measured_beats_what_the_model_says() {
    let _alone = alone();
    // The model thinks that the GPU is 500 times as fast as the processor; it is slower.
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
    // One run, or two: then the processor.
    assert!((1..=12).contains(&portions), "{portions}");
}

/// A processor that the model takes for far too slow shows what it can, once GPUs are well known.
#[test]
fn the_processor_is_tried_once_even_if_little_is_expected_of_it() {
    let _alone = alone();
    let gpu = Fake::new("cuda:0", 1000.0, Fault::None);
    let planner = planner(model(2500.0, 1000.0, 1.0), vec![Arc::clone(&gpu)]);
    planner.wake();
    let cpu = cpu(1);
    with_message(1 << 12, |job| run_often(20, &planner, &cpu, job));
    let portions = gpu.portions.load(Ordering::Relaxed);
    assert!((3..10).contains(&portions), "{portions}");
}

#[test]
fn what_is_clearly_the_processors_is_settled() {
    let _alone = alone();
    // The model thinks that both are alike. One GPU is far slower, the other far faster.
    for (byte, settles) in [(800.0, true), (0.1, false)] {
        let gpu = Fake::new("cuda:0", byte, Fault::None);
        let planner = planner(model(50.0, 50.0, 1.0), vec![gpu]);
        planner.wake();
        // So slow that nothing else on this machine makes them alike.
        let cpu = CpuBackend::new(InstructionSet::Portable, NonZeroUsize::MIN).unwrap();
        let (algorithm, direction) = (Algorithm::Aes128Ctr, Direction::Encrypt);
        let mut settled = 0;
        for _ in 0..12 {
            let run = |job: &Job<'_>| {
                let message = job.message(0);
                settled += u32::from(planner.is_settled(algorithm, direction, &message));
                assert!(!planner.is_settled(algorithm, Direction::Decrypt, &message));
                // SAFETY: nothing else uses the buffers.
                unsafe { planner.run(&cpu, job) }
            };
            compare(algorithm, direction, 1, 1 << 16, run).unwrap();
        }
        assert_eq!(settled > 0, settles, "{byte}");
    }
}

#[test]
fn what_is_a_gpus_is_settled_for_a_while() {
    let _alone = alone();
    let gpu = Fake::new("cuda:0", 0.1, Fault::None);
    let planner = planner(model(1e6, 0.1, 1.0), vec![Arc::clone(&gpu)]);
    planner.wake();
    let cpu = cpu(1);
    with_message(1 << 18, |job| {
        // Nobody asks about its memory meanwhile, and all the same each job is the GPU's.
        let settled = (1..100).filter(|&jobs| {
            let before = planner.known().is_settled_on_gpus(job);
            run_often(1, &planner, &cpu, job);
            assert_eq!(gpu.portions.load(Ordering::Relaxed), jobs);
            before
        });
        assert!(settled.count() > 40);
        run_often(MANY as usize + 1, &planner, &cpu, job);
        let left = (0..100).filter(|_| planner.known().is_settled_on_gpus(job));
        assert!(left.count() as u64 <= MANY);
    });
    // What takes long is asked about each time.
    with_message(1 << 23, |job| {
        run_often(8, &planner, &cpu, job);
        assert!(!planner.known().is_settled_on_gpus(job));
    });
}

fn run_often(times: usize, planner: &Planner, cpu: &CpuBackend, job: &Job<'_>) {
    for _ in 0..times {
        // SAFETY: nothing else uses the buffers.
        unsafe { planner.run(cpu, job) }.unwrap();
    }
}

/// A job of one message of so many bytes, under AES-128-CTR.
fn with_message(len: usize, body: impl FnOnce(&Job<'_>)) {
    let (key, text) = (
        Key::new(Algorithm::Aes128Ctr, &[7; 16]).unwrap(),
        vec![5; len],
    );
    let mut output = text.clone();
    let batch = Batch::encrypt(Keys::One(&key), Text::apart(&text, &mut output));
    body(&Job::new(batch.ivs(Ivs::Each(&[0; 16]))).unwrap());
}

/// A GPU that is fast, but not from this memory.
#[test]
fn what_is_the_processors_in_a_place_is_settled_there() {
    let _alone = alone();
    let mut gpu = Fake::alone("cuda:0", 0.1, Fault::None);
    gpu.pinned = false;
    let mut model = model(1.0, 0.1, 1.0);
    model.gpu.staged = 50.0;
    model.gpu.staged_by_one = 50.0;
    let planner = planner(model, vec![Arc::new(gpu)]);
    planner.wake();
    let cpu = cpu(1);
    with_message(1 << 20, |job| {
        let (algorithm, direction) = (job.info().algorithm, job.direction());
        let here = job.message(0);
        run_often(4, &planner, &cpu, job);
        assert!(planner.is_settled(algorithm, direction, &here));
        let elsewhere = Message {
            input: here.input.wrapping_add(1 << 21),
            ..here
        };
        assert!(!planner.is_settled(algorithm, direction, &elsewhere));
    });
}

/// Both take far longer than the model says, which then knows of nothing but 16 times as long: so
/// they stay as near to each other as it has them.
#[test]
fn where_another_is_near_short_ones_are_settled_too() {
    let _alone = alone();
    let mut model = model(1e-3, 1e-3, 1.0);
    model.gpu.costs = Costs::new(|_, _| Cost {
        fixed: 0.0,
        byte: 1.1e-3,
        message: 0.0,
        chain: 0.0,
    });
    model.gpu.join = 1e9;
    let planner = planner(model, vec![Fake::new("cuda:0", 1.0, Fault::None)]);
    planner.wake();
    let cpu = cpu(1);
    let mut settled = Vec::new();
    with_message(1 << 16, |job| {
        let (algorithm, direction) = (job.info().algorithm, job.direction());
        for _ in 0..40 {
            run_often(1, &planner, &cpu, job);
            let is_settled = |_: &u64| planner.is_settled(algorithm, direction, &job.message(0));
            settled.push((0..100).take_while(is_settled).count() as u64);
        }
    });
    // Where the GPU was tried, nothing is.
    assert!(
        settled.iter().all(|count| [0, MANY].contains(count)),
        "{settled:?}"
    );
    let often = settled.iter().filter(|count| **count == MANY).count();
    assert!(often >= 15, "{settled:?}");
}

#[test]
fn a_look_tells_what_is_for_the_processor() {
    let _alone = alone();
    let gpu = Fake::new("cuda:0", 0.1, Fault::None);
    // A GPU takes 10 us for the smallest batch, a thread 2 ns for a byte: half of 5,000 bytes.
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
fn memory_is_asked_about_once_for_many_jobs() {
    let _alone = alone();
    let gpu = Fake::new("cuda:0", 0.1, Fault::None);
    let planner = planner(model(50.0, 0.1, 1.0), vec![Arc::clone(&gpu)]);
    planner.wake();
    let cpu = cpu(1);
    let run = |job: &Job<'_>| {
        for _ in 0..BELIEVED {
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
fn no_gpu_no_cost() {
    let planner = Planner::new(
        Box::new(|| panic!("nobody may start")),
        Box::new(|| panic!("nobody may ask for a model")),
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
