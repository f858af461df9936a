//! Nonces after a fork. A test program of its own, because a small process forks faster.
#![cfg(unix)]

use std::collections::HashSet;
use std::io::{Read, Write, pipe};
use std::num::NonZeroUsize;

use warplock::{Algorithm, Batch, Engine, Ivs, Key, Keys, Spans, Text};

/// One batch: texts with room for tags, and its nonces.
type Sealed = (Vec<u8>, Vec<u8>);

/// Bytes from one message's start to the next one's.
const STRIDE: usize = 48;

fn seal(engine: &Engine, key: &Key, batches: &mut [Sealed]) {
    for (buffer, nonces) in batches {
        let spans = Spans::Even {
            count: nonces.len() / 12,
            len: STRIDE - 16,
            stride: STRIDE,
        };
        let batch = Batch::seal(Keys::One(key), Text::InPlace { buffer, spans });
        engine.run(batch.ivs(Ivs::Random(nonces))).unwrap();
    }
}

/// Forked children, and sometimes their parent, continue from one state, like virtual machines from
/// one snapshot.
#[test]
fn a_thousand_forked_children_repeat_no_nonce() {
    let builder = Engine::builder().backend("cpu".parse().unwrap());
    let engine = builder.threads(NonZeroUsize::MIN).build().unwrap();
    let key = Key::generate(Algorithm::Aes256Gcm).unwrap();
    // Nonces straight from the operating system, and enough to be expanded from a seed.
    let mut batches: Vec<Sealed> = [1, 2, 40]
        .into_iter()
        .map(|count| (vec![7; count * STRIDE], vec![0; count * 12]))
        .collect();
    // Whatever the first call sets up is inherited.
    seal(&engine, &key, &mut batches);
    let mut seen = HashSet::new();
    let mut note = |nonces: &[u8]| {
        for nonce in nonces.chunks_exact(12) {
            assert!(seen.insert(nonce.to_vec()), "{nonce:?} came twice");
        }
    };
    for trial in 0..1000 {
        let (mut from_child, mut to_parent) = pipe().unwrap();
        // SAFETY: the child only uses memory it inherited, writes to a pipe and exits.
        match unsafe { libc::fork() } {
            0 => {
                seal(&engine, &key, &mut batches);
                let mut told = batches
                    .iter()
                    .map(|(_, nonces)| to_parent.write_all(nonces));
                let failed = told.any(|told| told.is_err());
                // SAFETY: ends the child without cleanup; it has nothing to clean up.
                unsafe { libc::_exit(i32::from(failed)) }
            }
            child => {
                assert!(child > 0, "fork failed");
                drop(to_parent);
                if trial % 10 == 0 {
                    seal(&engine, &key, &mut batches);
                    batches.iter().for_each(|(_, nonces)| note(nonces));
                }
                let mut told = Vec::new();
                from_child.read_to_end(&mut told).unwrap();
                assert_eq!(told.len(), 43 * 12, "the child failed");
                note(&told);
                // SAFETY: nothing else waits for this child.
                let ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                assert_eq!(ended, child);
            }
        }
    }
}
