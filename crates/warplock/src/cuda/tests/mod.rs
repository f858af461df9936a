//! Random jobs through the ring on a fake device, against the CPU backend: every byte of every
//! buffer, in rings so small that all messages are cut, with copies and kernels in random order.

mod cuts;
mod fake;
mod interpreter;
mod leak;
mod selftest;
mod shared;
#[path = "../../../tests/constant_time/welch.rs"]
mod welch;

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::testing::random_jobs::{Buffers, Random, Setup, buffers};
use fake::FakeLink;

use crate::cpu::{CpuBackend, InstructionSet};
use crate::cuda::host::copy::Copier;
use crate::cuda::host::ring::Ring;
use crate::cuda::host::slot::RingGpu;
use crate::cuda::launch::cut::Cutter;
use crate::cuda::launch::policy::Policy;
use crate::job::Job;
use crate::portion::Portion;
use crate::{Algorithm, Direction, Key};

fn policy(random: &mut Random) -> Policy {
    let room = 512 * (1 + random.below(4));
    Policy {
        slots: 2 + random.below(3),
        largest: room,
        smallest: room,
        smallest_buffer: 16,
        messages: 1 + random.below(20),
        chains: 1 + random.below(8),
        direct_copies: random.below(4),
        gcm_long: [0, 300, u64::MAX][random.below(3)],
        ..Policy::DEFAULT
    }
}

/// Runs a job on the CPU.
fn expected(setup: &Setup, direction: Direction, buffers: &mut Buffers) -> Vec<usize> {
    let cpu = CpuBackend::new(InstructionSet::best(), NonZeroUsize::MIN).unwrap();
    buffers.run(&cpu, setup, direction)
}

/// Bytes that must not be left in freed memory: the keys, and plaintext.
fn secrets(
    setup: &Setup,
    direction: Direction,
    before: &Buffers,
    after: &Buffers,
) -> HashSet<[u8; 16]> {
    let keys = setup.keys.iter().map(Key::bytes);
    let raw = setup.raw_keys.chunks_exact(setup.algorithm.key_len());
    let mut secrets: HashSet<[u8; 16]> = keys
        .chain(raw)
        .map(|key| *key.first_chunk().unwrap())
        .collect();
    let (buffer, spans) = match direction {
        Direction::Decrypt => (&after.output, &setup.spans),
        Direction::Encrypt if setup.in_place => (&before.output, &setup.spans),
        Direction::Encrypt => (&before.input, &setup.input_spans),
    };
    for span in spans.iter().filter(|span| span.len >= 32) {
        let text = &buffer[span.offset..][..span.len];
        // Refused messages are zeros, which are no secret.
        if text[..16] != [0; 16] {
            secrets.insert(*text.first_chunk().unwrap());
            secrets.insert(text[span.len / 32 * 16..].first_chunk().copied().unwrap());
        }
    }
    secrets
}

/// Runs a job through a ring, compares, and returns the result.
fn check(
    setup: &Setup,
    direction: Direction,
    before: &Buffers,
    random: &mut Random,
    policy: Policy,
) -> Buffers {
    let context = format!(
        "{} {direction:?}, {} messages, keys {:?}, {policy:?}",
        setup.algorithm,
        setup.spans.len(),
        setup.form
    );
    let mut wanted = before.clone();
    let refused = expected(setup, direction, &mut wanted);
    let mut found = before.clone();
    let secrets = secrets(setup, direction, before, &wanted);
    let mut link = FakeLink::new(random.next(), None, secrets);
    if random.flip() {
        link.pin(&found.input);
    }
    if random.flip() {
        link.pin(&found.output);
    }
    let gpu = Arc::new(RingGpu {
        link,
        policy,
        copier: Copier::new(NonZeroUsize::MIN, None),
    });
    let mut ring = Ring::new(&gpu);
    let Buffers {
        input,
        output,
        tags,
    } = &mut found;
    let job = Job::new(setup.batch(direction, input, output, tags)).unwrap();
    let room = policy.room(job.text_bytes());
    // SAFETY: nothing else uses the buffers.
    let failed = unsafe { ring.run(&job, room) }.unwrap();
    drop(ring);
    let known = selftest::kernels_tested_for(&job, &policy);
    let launched = gpu.link.launched();
    assert!(launched.is_subset(&known), "{context}: {launched:?}");
    assert_eq!(failed, refused, "{context}");
    assert_eq!(found.tags, wanted.tags, "{context}");
    assert_eq!(found.input, wanted.input, "{context}");
    let wrong = found
        .output
        .iter()
        .zip(&wanted.output)
        .position(|(a, b)| a != b);
    assert_eq!(wrong, None, "{context}: first wrong byte of the output");
    assert_eq!(gpu.link.under_way(), 0, "{context}");
    assert_eq!(
        gpu.link.leaks(),
        0,
        "{context}: secrets were left in memory"
    );
    found
}

/// Cuts all of a job.
fn whole<'a, 'job>(job: &'a Job<'job>, policy: &'a Policy) -> Cutter<'a, 'job> {
    let all = Portion::Messages(0..job.count());
    Cutter::new(job, policy, &all, policy.room(job.text_bytes()))
}

#[test]
fn random_jobs_in_small_rings_equal_the_cpu() {
    for algorithm in Algorithm::all() {
        for seed in 0..120 {
            let mut random = Random::new(seed << 8 | algorithm as u64);
            let policy = policy(&mut random);
            let setup = Setup::random(&mut random, algorithm, policy.largest);
            both_ways(&setup, &mut random, policy);
        }
    }
}

/// Encrypts, forges some, and decrypts.
fn both_ways(setup: &Setup, random: &mut Random, policy: Policy) {
    let plain = buffers(setup, random);
    let sealed = check(setup, Direction::Encrypt, &plain, random, policy);
    let mut sealed = sealed.reversed(setup, random);
    sealed.forge(setup, random);
    check(setup, Direction::Decrypt, &sealed, random, policy);
}

#[test]
fn after_a_failure_nothing_is_under_way() {
    for algorithm in [
        Algorithm::Aes128Gcm,
        Algorithm::Aes256Cbc,
        Algorithm::Aes128Xts,
        Algorithm::Acorn128,
    ] {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let policy = policy(&mut random);
            let setup = Setup::random(&mut random, algorithm, policy.largest);
            let mut buffers = buffers(&setup, &mut random);
            let good_calls = random.below(150) as u64;
            let mut link = FakeLink::new(seed, Some(good_calls), HashSet::new());
            link.pin(&buffers.input);
            link.pin(&buffers.output);
            let gpu = Arc::new(RingGpu {
                link,
                policy,
                copier: Copier::new(NonZeroUsize::MIN, None),
            });
            let mut ring = Ring::new(&gpu);
            let Buffers {
                input,
                output,
                tags,
            } = &mut buffers;
            let batch = setup.batch(Direction::Encrypt, input, output, tags);
            let job = Job::new(batch).unwrap();
            let room = gpu.policy.room(job.text_bytes());
            // SAFETY: nothing else uses the buffers.
            let ran = unsafe { ring.run(&job, room) };
            assert!(ran.is_ok() || gpu.link.under_way() == 0);
        }
    }
}

#[test]
fn ghash_runs_where_machine_code_was_made_for_its_tensor_cores() {
    use crate::cuda::launch::policy::hashes;
    let runs = [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)].map(hashes);
    assert_eq!(runs, [true; 6]);
    assert_eq!([(7, 5), (13, 0)].map(hashes), [false; 2]);
}
