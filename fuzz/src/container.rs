//! Encrypted files from nobody: arbitrary bytes, and a real file with arbitrary changes.

use std::num::NonZeroUsize;
use std::sync::OnceLock;

use warplock::Engine;
use warplock_container::{
    Concurrency, Envelope, InputKey, Pipeline, Sink, Source, Suite, inspect, open_bytes,
    open_range, seal_bytes, verify,
};

use super::changes::change;

/// Bytes of a chunk; cargo-fuzz builds the container with smaller ones.
const CHUNK: usize = if cfg!(fuzzing) { 64 } else { 16384 };

struct Fixed {
    engine: Engine,
    pipeline: Pipeline,
    key: InputKey,
    /// One stream of a partial chunk, one of several, each with its plaintext.
    streams: [(Vec<u8>, Vec<u8>); 2],
}

fn fixed() -> &'static Fixed {
    static FIXED: OnceLock<Fixed> = OnceLock::new();
    FIXED.get_or_init(|| {
        let engine = || {
            let builder = Engine::builder().backend("cpu".parse().expect("a backend"));
            let built = builder.threads(NonZeroUsize::MIN).build();
            built.expect("some instruction set runs everywhere")
        };
        let key = InputKey::new(Suite::Cobblestone256, &[7; 32]).expect("32 bytes are a key");
        let streams = [100 % CHUNK, 2 * CHUNK + 10].map(|len| {
            let plain: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let sealed = seal_bytes(&plain, &key, &engine()).expect("a short text can be sealed");
            (plain, sealed)
        });
        Fixed {
            engine: engine(),
            pipeline: Pipeline::with_engine(std::sync::Arc::new(engine())).with_concurrency(
                Concurrency {
                    workers: NonZeroUsize::MIN,
                    segment_chunks: NonZeroUsize::MIN,
                },
            ),
            key,
            streams,
        }
    })
}

/// Whether the input got past the first check of its format.
pub(crate) fn check(data: &[u8]) -> bool {
    let Fixed {
        engine,
        pipeline,
        key,
        streams,
    } = fixed();
    let Some((&choice, rest)) = data.split_first() else {
        return false;
    };
    if choice % 2 == 0 {
        let inspected = inspect(Source::bytes(rest)).is_ok();
        let enveloped = Envelope::read(&mut &*rest).is_ok();
        assert!(
            open_bytes(rest, key, engine).is_err(),
            "a file sealed by nobody opened"
        );
        return inspected || enveloped;
    }
    // Looking for the reason why a long stream does not open takes a second at true chunk sizes.
    let long = choice % if cfg!(fuzzing) { 4 } else { 64 } == 1;
    let (plain, good) = &streams[usize::from(long)];
    let mut changed = good.clone();
    change(&mut changed, rest, 8);
    match open_bytes(&changed, key, engine) {
        Ok(opened) => assert!(
            changed == *good && opened == *plain,
            "a changed file opened"
        ),
        Err(_) => assert_ne!(changed, *good, "an unchanged file did not open"),
    }
    if choice % 128 < 127 {
        return true;
    }
    // The same by the path of large files, and a range, which must be a true one.
    let verified = verify(Source::bytes(&changed), key, pipeline).is_ok();
    assert_eq!(verified, changed == *good, "verified");
    let (from, to) = (u64::from(choice) / 2, plain.len() as u64 / 2);
    let mut range = Vec::new();
    let sink = Sink::sequential(&mut range);
    if open_range(Source::bytes(&changed), sink, key, from..to, pipeline).is_ok() {
        assert_eq!(range, plain[from as usize..to.max(from) as usize]);
    }
    true
}
