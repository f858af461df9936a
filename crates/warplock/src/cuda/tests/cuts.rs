//! Chunks contain every byte of every message once, within the room that they have.

use super::{Random, Setup, buffers, policy, whole};
use crate::cuda::launch::cut::{Chunk, Previous};
use crate::job::Job;
use crate::{Algorithm, Direction, Mode};

/// What a chunk's parts must satisfy by themselves.
fn check_chunk(chunk: &Chunk, room: usize, mode: Mode) {
    let mut end = 0;
    for part in chunk.parts() {
        assert!(
            part.place >= end && part.place.is_multiple_of(16),
            "{chunk:?}"
        );
        end = part.place + part.len;
        assert!(part.before.is_multiple_of(16), "{chunk:?}");
        if part.after > 0 {
            assert!(part.len.is_multiple_of(16) && part.len > 0, "{chunk:?}");
        }
        // XTS steals from the last block but one: it must be in the same chunk.
        let steals = mode == Mode::Xts && !part.len.is_multiple_of(16);
        assert!(!steals || part.len > 16, "{chunk:?}");
    }
    let uncut = mode == Mode::Acorn && chunk.parts().len() == 1;
    assert!(
        end <= room || uncut,
        "{chunk:?} does not fit into {room} bytes"
    );
}

#[test]
fn every_byte_is_in_one_chunk() {
    for algorithm in Algorithm::all() {
        let mode = algorithm.info().mode;
        for seed in 0..100 {
            let mut random = Random::new(seed << 16 | algorithm as u64);
            let policy = policy(&mut random);
            let setup = Setup::random(&mut random, algorithm, policy.largest);
            let mut buffers = buffers(&setup, &mut random);
            let direction = match random.flip() {
                true => Direction::Encrypt,
                false => Direction::Decrypt,
            };
            let batch = setup.batch(
                direction,
                &buffers.input,
                &mut buffers.output,
                &mut buffers.tags,
            );
            let job = Job::new(batch).unwrap();
            let mut done = vec![None; job.count()];
            let mut chained = None;
            for chunk in whole(&job, &policy) {
                check_chunk(&chunk, policy.largest, mode);
                if let Chunk::Blocks(messages) = &chunk {
                    for message in messages.clone() {
                        assert_eq!(done[message].replace(16), None);
                    }
                }
                for part in chunk.parts() {
                    assert_eq!(done[part.message].unwrap_or(0), part.before);
                    assert_eq!(
                        part.before + part.len + part.after,
                        job.text_len(part.message)
                    );
                    done[part.message] = Some(part.before + part.len);
                    match part.previous {
                        Previous::Iv => {}
                        Previous::Block(block) => {
                            let input = job.message(part.message).input;
                            // SAFETY: inside the message, after its first block.
                            let before = unsafe { input.add(part.before - 16) };
                            // SAFETY: as above.
                            assert_eq!(block, unsafe { before.cast::<[u8; 16]>().read() });
                        }
                        Previous::Chained(place) => {
                            // The end of this message's part in the preceding chunk.
                            let parts: &Vec<_> = chained.as_ref().unwrap();
                            let ends = |old: &crate::cuda::launch::cut::Part| {
                                old.message == part.message && old.place + old.len == place + 16
                            };
                            assert!(parts.iter().any(ends), "{chunk:?}");
                        }
                    }
                }
                chained = Some(chunk.parts().to_vec());
            }
            for (message, done) in done.iter().enumerate() {
                // Empty messages need no chunk where there is no tag.
                let len = job.text_len(message);
                let missing_is_good = len == 0 && !algorithm.is_aead();
                assert!(*done == Some(len) || done.is_none() && missing_is_good);
            }
        }
    }
}
