//! Files for the suite `entries`: keys, plaintexts and ciphertexts of 16 bytes per entry.

use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use warplock::{
    Algorithm, BackendChoice, Batch, Engine, InstructionSet, Ivs, Key, Keys, Spans, Text,
};

use crate::buffer::Buffer;
use crate::error::Result;
use crate::leftovers::ResultFolder;
use crate::output::{Output, check_room};
use crate::{Error, random, workers};

/// Bytes of a key, a plaintext or a ciphertext.
pub(crate) const ENTRY: u64 = 16;

/// Entries that a thread works on at a time: 256 KiB of each file.
const PIECE: u64 = 16 << 10;

/// The files' names in their folder.
pub(crate) const KEYS: &str = "keys.bin";
pub(crate) const PLAINS: &str = "plains.bin";
pub(crate) const CIPHERS: &str = "ciphers.bin";

/// `warplock gen`: fills a folder with `keys.bin`, `plains.bin` and `ciphers.bin`.
///
/// Entry `i` of `ciphers.bin` is the AES-128 encryption of entry `i` of `plains.bin` under entry
/// `i` of `keys.bin`, by the portable backend. Keys and plaintexts follow from the seed: entry `i`
/// is the AES-128 encryption of the block `D || i` (a byte 0 for keys, 1 for plaintexts, and `i` in
/// 15 bytes, big-endian) under the key `seed || "entries."` (the seed in 8 bytes, little-endian).
/// They are for benchmarks: knowing the seed means knowing the keys.
#[derive(Clone, Debug)]
pub struct Generate {
    /// The folder; it is made if it does not exist.
    pub dir: PathBuf,
    /// How many entries.
    pub entries: u64,
    /// The same seed gives the same files; none: a random one.
    pub seed: Option<u64>,
    /// Replace existing files.
    pub force: bool,
    /// Threads to use.
    pub threads: NonZeroUsize,
}

/// The result of [`Generate::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The seed that gives the same files again.
    pub seed: u64,
    /// How many entries.
    pub entries: u64,
    /// Bytes of all files together.
    pub bytes: u64,
}

/// A thread's buffers: a piece of each of three files.
struct State {
    keys: Buffer,
    plains: Buffer,
    ciphers: Buffer,
}

impl Generate {
    /// Writes the files; `progress` is called now and then with the number of entries done. They
    /// appear under their names when all are complete. Memory use does not grow with the entries.
    ///
    /// # Errors
    /// [`Error::Input`] if there are no entries to make, files exist already or the disk has not
    /// enough room; [`Error::File`] if a file cannot be written.
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Generated> {
        let bytes = self.check()?;
        check_room(&self.dir, bytes)?;
        // Dropped last: a folder without files does not stay.
        let _folder = ResultFolder::new(&self.dir).map_err(Error::file("create", &self.dir))?;
        let paths = [KEYS, PLAINS, CIPHERS].map(|name| self.dir.join(name));
        let existing = paths.iter().find(|path| path.exists());
        if let (Some(path), false) = (existing, self.force) {
            return Err(Error::Input(format!(
                "{} exists already; --force replaces it",
                path.display()
            )));
        }
        let outputs = paths.iter().map(|path| {
            let output = Output::create(path)?;
            output.allocate(self.entries * ENTRY)?;
            Ok(output)
        });
        let outputs = outputs.collect::<Result<Vec<_>>>()?;

        // 53 bits: what every reader of JSON keeps of a number.
        let seed = match self.seed {
            Some(seed) => seed,
            None => random::number()? >> 11,
        };
        self.fill(seed, &paths, &outputs, progress)?;
        outputs.into_iter().try_for_each(Output::publish)?;
        Ok(Generated {
            seed,
            entries: self.entries,
            bytes,
        })
    }

    /// Bytes of all files together.
    fn check(&self) -> Result<u64> {
        match self.entries.checked_mul(3 * ENTRY) {
            None | Some(0) => Err(Error::Input(format!(
                "{} entries cannot be made: take at least 1, and at most what the disk holds",
                self.entries
            ))),
            Some(bytes) => Ok(bytes),
        }
    }

    fn fill(
        &self,
        seed: u64,
        paths: &[PathBuf],
        outputs: &[Output],
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let engine = |choice| {
            Engine::builder()
                .backend(choice)
                .threads(NonZeroUsize::MIN)
                .build()
        };
        let fast = engine(BackendChoice::Cpu(None))?;
        let portable = engine(BackendChoice::Cpu(Some(InstructionSet::Portable)))?;
        let mut key = *b"........entries.";
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let key = Key::new(Algorithm::Aes128Ctr, &key)?;
        let done = AtomicU64::new(0);

        let state = || {
            let buffer = || Buffer::new((PIECE * ENTRY) as usize);
            State {
                keys: buffer(),
                plains: buffer(),
                ciphers: buffer(),
            }
        };
        workers::run(self.threads, self.entries, PIECE, state, |state, piece| {
            let count = (piece.end - piece.start) as usize;
            let len = count * ENTRY as usize;
            let keys = &mut state.keys[..len];
            let plains = &mut state.plains[..len];
            let ciphers = &mut state.ciphers[..len];
            for (domain, stream) in [&mut *keys, &mut *plains].into_iter().enumerate() {
                let counter = (domain as u128) << 120 | u128::from(piece.start);
                stream.fill(0);
                let batch = Batch::encrypt(Keys::One(&key), Text::in_place(stream));
                fast.run(batch.ivs(Ivs::Each(&counter.to_be_bytes())))?;
            }
            encrypt_entries(&portable, keys, plains, ciphers)?;
            for ((output, path), bytes) in outputs.iter().zip(paths).zip([keys, plains, ciphers]) {
                let written = output.file().write_all_at(bytes, piece.start * ENTRY);
                written.map_err(Error::file("write", path))?;
            }
            progress(done.fetch_add(count as u64, Ordering::Relaxed) + count as u64);
            Ok(())
        })
    }
}

/// Encrypts each block of `plains` under its own key.
pub(crate) fn encrypt_entries(
    engine: &Engine,
    keys: &[u8],
    plains: &[u8],
    ciphers: &mut [u8],
) -> Result<()> {
    let spans = blocks(plains.len());
    let text = Text::Apart {
        input: plains,
        input_spans: spans,
        output: ciphers,
        output_spans: spans,
    };
    Ok(engine.run(Batch::encrypt(each(keys), text))?)
}

/// Encrypts each block of `texts` under its own key, in place.
pub(crate) fn encrypt_entries_in_place(
    engine: &Engine,
    keys: &[u8],
    texts: &mut [u8],
) -> Result<()> {
    let spans = blocks(texts.len());
    let text = Text::InPlace {
        buffer: texts,
        spans,
    };
    Ok(engine.run(Batch::encrypt(each(keys), text))?)
}

fn each(keys: &[u8]) -> Keys<'_> {
    Keys::Each {
        algorithm: Algorithm::Aes128Ecb,
        bytes: keys,
    }
}

fn blocks(len: usize) -> Spans<'static> {
    Spans::Even {
        count: len / 16,
        len: 16,
        stride: 16,
    }
}
