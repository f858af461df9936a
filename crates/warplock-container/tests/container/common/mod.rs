//! Shared by the tests.

use std::io::{self, Cursor, Read};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use warplock::Engine;
use warplock_container::{
    Concurrency, InputKey, Pipeline, Result, Sink, Source, Suite, WriteAt, open, seal,
};

/// Chunks in a segment in these tests: small, so that short inputs have several segments.
pub(crate) const SEGMENT_CHUNKS: usize = 3;
pub(crate) const CHUNK: usize = 16384;
pub(crate) const SEALED: usize = 16400;
pub(crate) const SEGMENT: usize = SEGMENT_CHUNKS * CHUNK;

pub(crate) fn key() -> InputKey {
    InputKey::new(Suite::Cobblestone256, &[7; 32]).unwrap()
}

pub(crate) fn engine() -> Arc<Engine> {
    Arc::new(
        Engine::builder()
            .threads(NonZeroUsize::MIN)
            .build()
            .unwrap(),
    )
}

pub(crate) fn pipeline() -> Pipeline {
    pipeline_of(3)
}

pub(crate) fn pipeline_of(workers: usize) -> Pipeline {
    Pipeline::new().unwrap().with_concurrency(Concurrency {
        workers: NonZeroUsize::new(workers).unwrap(),
        segment_chunks: NonZeroUsize::new(SEGMENT_CHUNKS).unwrap(),
    })
}

/// A pattern whose period of 251 bytes makes swapped blocks and chunks visible.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i % 251) as u8 ^ (i / 4096) as u8)
        .collect()
}

/// Reproducible pseudo-random numbers (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Lengths around everything that the format and the pipeline cut at.
pub(crate) fn lengths() -> Vec<usize> {
    let mut lengths = vec![0, 1, 15, 16, 17, 100];
    for cut in [
        CHUNK,
        2 * CHUNK,
        SEGMENT,
        2 * SEGMENT,
        5 * SEGMENT,
        SEALED,
        3 * SEALED,
    ] {
        lengths.extend([cut - 1, cut, cut + 1]);
    }
    lengths.extend([7 * SEGMENT + 2 * CHUNK + 5, 100_003]);
    lengths
}

/// A file in memory.
#[derive(Default)]
pub(crate) struct Memory(pub(crate) Mutex<Vec<u8>>);

impl WriteAt for &Memory {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut memory = self.0.lock().unwrap();
        let end = offset as usize + bytes.len();
        if memory.len() < end {
            memory.resize(end, 0);
        }
        memory[offset as usize..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

/// The four ways from a source to a sink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Way {
    pub(crate) positioned_in: bool,
    pub(crate) positioned_out: bool,
}

pub(crate) const WAYS: [Way; 4] = [
    Way {
        positioned_in: true,
        positioned_out: true,
    },
    Way {
        positioned_in: true,
        positioned_out: false,
    },
    Way {
        positioned_in: false,
        positioned_out: true,
    },
    Way {
        positioned_in: false,
        positioned_out: false,
    },
];

/// Runs `action` from `input` the given way; returns its result and what was written.
pub(crate) fn along<T>(
    way: Way,
    input: &[u8],
    action: impl FnOnce(Source<'_>, Sink<'_>) -> Result<T>,
) -> (Result<T>, Vec<u8>) {
    let source = match way.positioned_in {
        true => Source::bytes(input),
        false => Source::sequential(Cursor::new(input)),
    };
    let (memory, mut stream) = (Memory::default(), Vec::new());
    let result = match way.positioned_out {
        true => action(source, Sink::positioned(&memory, 0)),
        false => action(source, Sink::sequential(&mut stream)),
    };
    if way.positioned_out {
        stream = memory.0.into_inner().unwrap();
    }
    (result, stream)
}

pub(crate) fn seal_all(plain: &[u8], key: &InputKey) -> Vec<u8> {
    let (result, sealed) = along(WAYS[0], plain, |source, sink| {
        seal(source, sink, key, &pipeline())
    });
    assert_eq!(result.unwrap(), sealed.len() as u64);
    sealed
}

pub(crate) fn open_all(sealed: &[u8], key: &InputKey) -> Result<Vec<u8>> {
    let (result, plain) = along(WAYS[0], sealed, |source, sink| {
        open(source, sink, key, &pipeline())
    });
    assert!(
        result
            .as_ref()
            .map_or(true, |len| *len == plain.len() as u64)
    );
    result.map(|_| plain)
}

/// Gives one byte at a time, after an interruption each.
pub(crate) struct Dribble<R>(pub(crate) R, pub(crate) bool);

impl<R: Read> Read for Dribble<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = buffer.len().min(1);
        self.0.read(&mut buffer[..len])
    }
}

/// Runs a Python that has `cryptography` with Cobblestone, or says why not.
/// `WARPLOCK_TEST_PYTHON` names one.
pub(crate) fn python() -> Option<String> {
    let python = std::env::var("WARPLOCK_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = std::process::Command::new(&python)
        .args(["-c", "import cryptography.cobblestone"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        eprintln!(
            "skipped: {python} with the package cryptography >= 50 was not found; \
             WARPLOCK_TEST_PYTHON names another Python"
        );
    }
    found.then_some(python)
}
