//! The model with the measured numbers of some machines.

use super::*;
use crate::{Batch, Ivs, Key, Keys, Spans, Text};

fn shape(algorithm: Algorithm, count: usize, len: usize) -> Shape {
    let key = Key::generate(algorithm).unwrap();
    let mut buffer = vec![0; count * len];
    let spans = Spans::Even {
        count,
        len,
        stride: len,
    };
    let text = Text::InPlace {
        buffer: &mut buffer,
        spans,
    };
    let ivs = vec![0; 16 * count];
    let batch = Batch::encrypt(Keys::One(&key), text).ivs(Ivs::Each(&ivs));
    Shape::of(&Job::new(batch).unwrap())
}

#[test]
fn one_chain_keeps_one_thread_busy() {
    let model = Model::guess(InstructionSet::AesNi, 8);
    let one = shape(Algorithm::Aes128Cbc, 1, 1 << 20);
    let many = shape(Algorithm::Aes128Cbc, 64, 1 << 14);
    assert_eq!(model.cpu.time(&one, 8), model.cpu.time(&one, 1));
    assert!(model.cpu.time(&many, 8) < model.cpu.time(&many, 1) / 2.0);
    assert!(model.cpu.time(&many, 8) < model.cpu.time(&one, 8) / 4.0);
}

#[test]
fn a_slow_cpu_hands_over_earlier() {
    let crossing = |set| {
        let model = Model::guess(set, 2);
        (8..28)
            .find(|&size| {
                let shape = shape(Algorithm::Aes128Ctr, 1, 1 << size);
                let teams = model.teams(&shape, 2, 1, true);
                teams[1..].iter().any(|team| team.time < teams[0].time)
            })
            .unwrap_or(64)
    };
    assert!(crossing(InstructionSet::Portable) < crossing(InstructionSet::AesNi));
    assert!(crossing(InstructionSet::AesNi) > 15);
}

/// Machine B and its H100, as calibration and trials found them.
fn machine(set: InstructionSet) -> Model {
    let mut model = Model::guess(set, 16);
    model.cpu.wake = 12_000.0;
    model.cpu.memory = [0.012, 0.023];
    model.cpu.crowded = 1.6;
    model.gpu = GpuModel {
        start: 2.6e8,
        costs: Costs::new(|algorithm, direction| {
            let chained = !cuts(algorithm, direction);
            Cost {
                fixed: if algorithm.is_aead() { 1e5 } else { 3.2e4 },
                byte: 0.022,
                message: 1.0,
                chain: if chained { 35.0 } else { 0.0 },
            }
        }),
        staged: 0.045,
        staged_by_one: 0.28,
        join: 5e4,
        shared: 0.0135,
    };
    model
}

fn best(model: &Model, shape: &Shape, pinned: bool) -> Team {
    let teams = model.teams(shape, 16, 1, pinned);
    let best = teams.iter().min_by(|a, b| a.time.total_cmp(&b.time));
    best.unwrap().team
}

#[test]
fn a_fast_cpu_does_not_copy_for_gpus() {
    let model = machine(InstructionSet::Vaes512);
    for algorithm in [Algorithm::Aes128Ctr, Algorithm::Aes256Gcm] {
        for size in 6..33 {
            let shape = Shape::of_messages(algorithm, Direction::Encrypt, 1, 1 << size);
            assert_eq!(best(&model, &shape, false), Team::Cpu, "{algorithm} {size}");
            let pinned = best(&model, &shape, true);
            let wanted = match size {
                ..24 => Team::Cpu,
                27.. => Team::Both,
                _ => pinned,
            };
            assert_eq!(pinned, wanted, "{algorithm} {size}");
        }
    }
}

#[test]
fn a_slow_cpu_copies_for_gpus() {
    let model = machine(InstructionSet::Portable);
    for size in 18..33 {
        let shape = Shape::of_messages(Algorithm::Aes128Ctr, Direction::Encrypt, 1, 1 << size);
        assert_eq!(best(&model, &shape, false), Team::Gpus, "{size}");
        assert_ne!(best(&model, &shape, true), Team::Cpu, "{size}");
    }
}

#[test]
fn no_team_is_faster_than_the_memory() {
    let model = machine(InstructionSet::Vaes512);
    let shape = Shape::of_messages(Algorithm::Aes128Cbc, Direction::Encrypt, 4096, 1 << 14);
    let teams = model.teams(&shape, 16, 1, true);
    let both = teams.iter().find(|team| team.team == Team::Both).unwrap();
    assert!(both.time < teams[0].time && both.time < teams[1].time);
    let lost = model.gpu.join + model.cpu.tail(&shape);
    let share = 1.0 - (both.time - lost) / model.cpu.time(&shape, 15);
    assert!((0.2..0.6).contains(&share), "{both:?}");
    let gpu = model.gpu.before(&shape) + share * model.gpu.work(&shape, 1);
    assert!((both.time - lost - gpu).abs() < 1.0);
    let large = Shape::of_messages(Algorithm::Aes128Ctr, Direction::Encrypt, 1, 4 << 30);
    let teams = model.teams(&large, 16, 1, true);
    assert!(teams[2].time >= large.bytes * model.gpu.shared);
    // Without a free thread, there is no sharing.
    assert_eq!(model.teams(&large, 1, 1, true).len(), 2);
}
