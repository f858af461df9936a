//! Shared by the tests: engines, randomness, vectors, another author's ciphers, batch layouts.

pub(crate) mod acorn;
pub(crate) mod case;
pub(crate) mod layout;
pub(crate) mod oracle;
pub(crate) mod random;
pub(crate) mod vectors;

use std::num::NonZeroUsize;
use std::sync::Once;

use warplock::{Algorithm, Engine, InstructionSet, Key, Mode, hazmat};

/// An engine for every instruction set of this machine and every number of threads given, and one
/// on the first GPU.
pub(crate) fn engines(threads: &[usize]) -> Vec<Engine> {
    let sets = InstructionSet::all().filter(|set| set.is_available());
    let mut engines: Vec<_> = sets
        .flat_map(|set| threads.iter().map(move |&threads| (set, threads)))
        .map(|(set, threads)| {
            let choice = format!("cpu:{}", set.name()).parse().unwrap();
            let threads = NonZeroUsize::new(threads).unwrap();
            Engine::builder()
                .backend(choice)
                .threads(threads)
                .build()
                .unwrap()
        })
        .collect();
    engines.extend(gpu());
    engines
}

/// An engine on the first GPU; without one, a line that says so.
pub(crate) fn gpu() -> Option<Engine> {
    static WHY_NOT: Once = Once::new();
    let built = Engine::builder().backend("cuda".parse().unwrap()).build();
    built
        .inspect_err(|error| WHY_NOT.call_once(|| eprintln!("skipped: no GPU ({error})")))
        .ok()
}

/// The key of a test vector; some XTS vectors have equal halves.
pub(crate) fn key(algorithm: Algorithm, bytes: &[u8]) -> Key {
    match algorithm.info().mode {
        Mode::Xts => hazmat::xts_key_with_equal_halves(algorithm, bytes),
        _ => Key::new(algorithm, bytes),
    }
    .unwrap()
}

/// The algorithm of a mode whose key has this many bytes; none for AES-192-XTS, which SP 800-38E
/// does not know.
pub(crate) fn algorithm(mode: Mode, key_len: usize) -> Option<Algorithm> {
    Algorithm::all().find(|known| known.info().mode == mode && known.key_len() == key_len)
}

/// The text lengths nearest to `len` that the algorithm takes, from below.
pub(crate) fn round_len(mode: Mode, len: usize) -> usize {
    match mode {
        Mode::Ecb | Mode::Cbc => len / 16 * 16,
        Mode::Xts if len < 16 => 0,
        _ => len,
    }
}

/// The usual IV length.
pub(crate) fn iv_len(mode: Mode) -> usize {
    match mode {
        Mode::Ecb => 0,
        Mode::Cbc | Mode::Ctr | Mode::Xts | Mode::Acorn => 16,
        Mode::Gcm => 12,
    }
}
