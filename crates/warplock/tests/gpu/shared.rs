//! One job over the CPU and all GPUs, and over several GPUs that were requested by name.

use warplock::{Algorithm, BackendChoice, Engine, InstructionSet, Mode, Span};

use crate::random::Random;
use crate::sample::{Sample, fitting};
use crate::{cpu, gpu};

/// Long messages, of which the first is cut, or many of middle length.
fn spans(algorithm: Algorithm, long: bool) -> Vec<Span> {
    let lens = match long {
        true => vec![(37 << 20) + 13, 0, 5000, (3 << 20) + 1, 77],
        false => (0..1500).map(|message| 9000 + 31 * message).collect(),
    };
    let mut end = 0;
    let place = lens.into_iter().map(|len| {
        let offset = end;
        let len = fitting(algorithm, len);
        end += len;
        Span { offset, len }
    });
    place.collect()
}

fn compare(engine: &Engine) {
    let cpu = cpu();
    for algorithm in Algorithm::all().filter(|algorithm| algorithm.info().mode != Mode::Acorn) {
        for long in [true, false] {
            let mut random = Random::new(algorithm as u64);
            let spans = spans(algorithm, long);
            let len = spans.last().map_or(0, |last| last.offset + last.len);
            let sample = Sample::new(&mut random, algorithm, spans, 1);
            let plain: Vec<u8> = (0..len).map(|place| (place % 251) as u8).collect();
            for in_place in [true, false] {
                sample.compare(&cpu, engine, &plain, in_place);
            }
        }
    }
}

/// Portable code is slow enough that the GPU is taken.
#[test]
fn a_slow_processor_and_all_gpus() {
    if gpu().is_none() {
        return;
    }
    let builder = Engine::builder().backend(BackendChoice::Auto);
    let engine = builder
        .instruction_set(InstructionSet::Portable)
        .warnings(|warning| panic!("{warning}"))
        .build()
        .unwrap();
    assert!(engine.gpu_bytes().is_empty());
    engine.wake();
    compare(&engine);
    let shares = engine.gpu_bytes();
    assert!(!shares.is_empty() && shares.iter().all(|share| share.bytes > 0));
}

#[test]
fn gpus_that_were_demanded() {
    let Some(first) = gpu() else {
        return;
    };
    let Ok(both) = Engine::builder()
        .backend("cuda:0,1".parse().unwrap())
        .build()
    else {
        assert_eq!(first.backend(), "cuda:0");
        println!("skipped: one GPU");
        return;
    };
    assert_eq!(both.backend(), "cuda:0+cuda:1");
    compare(&both);
}
