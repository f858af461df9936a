//! Non-temporal results: the same bytes in the same places. And wiping: a message leaves no counter
//! in memory that reveals the hash key.

use std::mem::MaybeUninit;
use std::num::NonZeroUsize;

use super::kernels::LINE;
use super::{CpuBackend, InstructionSet, Io, Prepared, Running};
use crate::job::Job;
use crate::testing::random_jobs::{Buffers, Random, Setup, buffers};
use crate::{Algorithm, Batch, Direction, Ivs, Key, Keys, Mode, Spans, Tags, Text};

/// A backend that uses non-temporal stores in jobs of at least this many bytes.
fn backend(set: InstructionSet, threads: usize, non_temporal_from: u64) -> CpuBackend {
    let threads = NonZeroUsize::new(threads).unwrap();
    let mut backend = CpuBackend::new(set, threads).unwrap();
    backend.non_temporal_from = non_temporal_from;
    backend
}

fn run(
    backend: &CpuBackend,
    setup: &Setup,
    direction: Direction,
    before: &Buffers,
) -> (Buffers, Vec<usize>) {
    let mut after = before.clone();
    let failed = after.run(backend, setup, direction);
    (after, failed)
}

#[test]
fn far_results_are_the_near_ones_of_portable_code() {
    let near = backend(InstructionSet::Portable, 1, u64::MAX);
    let here = InstructionSet::all().filter(|set| set.kernels().is_some());
    for set in here {
        let non_temporal = [1, 3].map(|threads| backend(set, threads, 0));
        for algorithm in Algorithm::all() {
            for seed in 0..12 {
                let mut random = Random::new(seed << 8 | algorithm as u64);
                // Some are long enough for non-temporal stores at any offset.
                let mut setup = Setup::random(&mut random, algorithm, 24 << 10);
                setup.in_place &= seed == 0;
                let plain = buffers(&setup, &mut random);
                let (sealed, _) = run(&near, &setup, Direction::Encrypt, &plain);
                let mut received = sealed.reversed(&setup, &mut random);
                received.forge(&setup, &mut random);
                let (opened, refused) = run(&near, &setup, Direction::Decrypt, &received);
                for non_temporal in &non_temporal {
                    let context = format!("{algorithm} with {}, seed {seed}", non_temporal.name());
                    let (found, _) = run(non_temporal, &setup, Direction::Encrypt, &plain);
                    assert!(found.output == sealed.output, "{context}, encryption");
                    assert_eq!(found.tags, sealed.tags, "{context}");
                    let (found, failed) = run(non_temporal, &setup, Direction::Decrypt, &received);
                    assert!(found.output == opened.output, "{context}, decryption");
                    assert_eq!(failed, refused, "{context}");
                }
            }
        }
    }
}

/// Places after a line's start, and lengths, around which kernels change their path.
#[test]
fn far_results_at_every_place_and_length() {
    let near = backend(InstructionSet::Portable, 1, u64::MAX);
    let mut random = Random::new(1);
    let here = InstructionSet::all().filter(|set| set.kernels().is_some());
    for non_temporal in here.map(|set| backend(set, 1, 0)) {
        for algorithm in Algorithm::all() {
            let key = Key::new(algorithm, &random.bytes(algorithm.key_len())).unwrap();
            let iv_len = match algorithm.info().mode {
                Mode::Ecb => 0,
                Mode::Gcm => 12,
                _ => 16,
            };
            for (count, len) in [(20, 4096), (1, 16 << 10), (2, 65_536 + 208)] {
                for at in [0, 16, 48, 8] {
                    // Counters that wrap on the way.
                    let mut ivs = vec![0xFF; iv_len * count];
                    ivs.iter_mut()
                        .skip(15)
                        .step_by(16)
                        .for_each(|low| *low = random.next() as u8);
                    let mut input = random.bytes(count * len);
                    let mut tags = vec![0; 16 * count];
                    for direction in [Direction::Encrypt, Direction::Decrypt] {
                        let results = [&near, &non_temporal].map(|backend| {
                            let mut output = vec![0xA5; count * len + 2 * LINE];
                            let place = output.as_ptr().align_offset(LINE) + at;
                            let spans = Spans::Even {
                                count,
                                len,
                                stride: len,
                            };
                            let text = Text::Apart {
                                input: &input,
                                input_spans: spans,
                                output: &mut output[place..],
                                output_spans: spans,
                            };
                            let mut tags = tags.clone();
                            let mut batch = Batch::new(direction, Keys::One(&key), text);
                            if iv_len > 0 {
                                batch = batch.ivs(Ivs::Each(&ivs));
                            }
                            if algorithm.is_aead() {
                                batch = batch.tags(Tags::Apart(&mut tags));
                            }
                            let job = Job::new(batch).unwrap();
                            // SAFETY: nothing else uses the buffers.
                            let failed = unsafe { backend.run(&job) };
                            assert!(failed.is_empty());
                            let after = output.split_off(place + count * len);
                            assert!(after.iter().all(|&byte| byte == 0xA5));
                            (output.split_off(place), tags)
                        });
                        let [near, non_temporal] = results;
                        assert!(
                            near == non_temporal,
                            "{algorithm}, {count} of {len} at {at}, {direction:?}"
                        );
                        // What was sealed is opened next.
                        (input, tags) = near;
                    }
                }
            }
        }
    }
}

#[test]
fn only_large_results_apart_from_their_input_are_non_temporal() {
    let backend = backend(InstructionSet::Portable, 1, 1 << 20);
    let (src, line) = (16 as *const u8, 64 as *mut u8);
    let non_temporal = |bytes, src, dst, len| backend.io(bytes, src, dst, len).non_temporal;
    assert!(non_temporal(1 << 20, src, line, 16 << 10));
    assert!(
        !non_temporal((1 << 20) - 1, src, line, 16 << 10),
        "a small job"
    );
    assert!(
        !non_temporal(1 << 20, src, line, (16 << 10) - 1),
        "a short message"
    );
    assert!(
        !non_temporal(1 << 20, line.cast_const(), line, 1 << 20),
        "in place"
    );
    let behind = 80 as *mut u8;
    assert!(
        !non_temporal(1 << 20, src, behind, 16 << 10),
        "a short one after a line's start"
    );
    assert!(non_temporal(1 << 20, src, behind, 64 << 10));
    let cold = [(8 << 20) - 1, 8 << 20].map(|bytes| backend.io(bytes, src, line, 4096).cold);
    assert_eq!(cold, [false, true], "what caches do not hold is asked for");
}

#[test]
fn non_temporal_results_begin_with_a_line() {
    let (from, mut to) = (vec![0u8; 4096], vec![0u8; 4096]);
    let line = to.as_ptr().align_offset(LINE);
    for at in 0..=LINE {
        for len in [0, 16, 48, 64, 160, 4000] {
            let dst = to[line + at..].as_mut_ptr();
            let io = Io::new(from.as_ptr(), dst, len.min(4096 - line - at));
            let (cached, streamed) = io.with_non_temporal(true).non_temporal_part();
            assert_eq!(
                (cached.len + streamed.len, cached.non_temporal),
                (io.len, false)
            );
            assert_eq!((cached.src, cached.dst), (io.src, io.dst));
            let offset = streamed.dst as usize - io.dst as usize;
            assert_eq!(
                (offset, streamed.src as usize - io.src as usize),
                (cached.len, offset)
            );
            match at % 16 {
                0 => assert!(cached.len < LINE || streamed.len == 0),
                _ => assert_eq!(streamed.len, 0, "blocks that do not fill lines"),
            }
            assert!(
                streamed.len == 0
                    || (streamed.dst as usize).is_multiple_of(LINE) && streamed.non_temporal
            );
            assert_eq!(
                io.non_temporal_part().1.len,
                0,
                "where it is not to go there"
            );
        }
    }
}

/// With a GCM IV of other than 12 bytes, the counter is its GHASH.
#[test]
fn hashed_counters_are_wiped() {
    let kernels = InstructionSet::Portable.kernels().unwrap();
    let prepared = Prepared::new(kernels, Algorithm::Aes128Gcm, &[5; 16]);
    let iv = [9; 16];
    let mut counter = [0; 16];
    let hash = prepared.ghash.as_ref().unwrap();
    kernels.ghash(hash, &mut counter, &iv);
    kernels.ghash(hash, &mut counter, &128_u128.to_be_bytes());

    let info = Algorithm::Aes128Gcm.info();
    let mut state = Box::new(MaybeUninit::<Running>::zeroed());
    state.write(Running::start(kernels, &prepared, info, &iv, b"AD"));
    let at: *const u8 = state.as_ptr().cast();
    // Places in the state that hold the counter's first 12 bytes: the first block and the next.
    let traces = || {
        let places = 0..size_of::<Running>() - 11;
        // SAFETY: inside the box, which was zeroed before the state was written to it.
        let part = |place| unsafe { at.add(place).cast::<[u8; 12]>().read_volatile() };
        places.filter(|&place| part(place) == counter[..12]).count()
    };
    assert_eq!(traces(), 2);
    // SAFETY: it was written above, and is not used afterwards.
    unsafe { state.assume_init_drop() };
    assert_eq!(traces(), 0);
}
