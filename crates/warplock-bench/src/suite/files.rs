//! `files`: one file into another and back, inside one warm process, next to a plain copy.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rayon::ThreadPool;
use rayon::prelude::*;
use warplock::{Algorithm, Direction, Engine, Key, Mode, Tags, Text};

use super::Suite;
use super::file_sizes::{LARGEST, SOURCE, crew};
use crate::context::portable;
use crate::error::Result;
use crate::folder;
use crate::gpu::{Gpu, HostBytes};
use crate::leftovers::WorkFolder;
use crate::measure::{interleave, time};
use crate::output::work_folder;
use crate::report::{Column, Report, Unit, Value};
use crate::{Context, Error, Machine, Sample, message, random, size};

/// Bytes that a thread reads or writes at a time.
const PIECE: usize = 8 << 20;

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct Files {
    /// Where the files go; several times [`Files::size`] must be free.
    pub dir: PathBuf,
    /// Cipher and mode: CTR or GCM.
    pub algorithm: Algorithm,
    /// Bytes of the file.
    pub size: usize,
}

impl Default for Files {
    /// AES-128-CTR on 102,800,000 bytes in a RAM disk.
    fn default() -> Self {
        Files {
            dir: "/dev/shm".into(),
            algorithm: Algorithm::Aes128Ctr,
            size: LARGEST.0,
        }
    }
}

/// Files, buffers and keys, shared by all contenders.
struct State {
    folder: WorkFolder,
    crew: ThreadPool,
    key: Key,
    iv: Vec<u8>,
    input: HostBytes,
    output: HostBytes,
    made_tag: [u8; 16],
    tag: [u8; 16],
    plain: Vec<u8>,
    cipher: Vec<u8>,
}

impl State {
    /// A file of random bytes, and one of the reference's result.
    fn new(suite: &Files, gpu: Option<&Gpu>, threads: NonZeroUsize) -> Result<Self> {
        let len = suite.size as u64;
        // In memory: the plaintext, the ciphertext, and buffers for reading and writing.
        let folder = work_folder(&suite.dir, len.saturating_mul(3), len.saturating_mul(4))?;
        let mut state = State {
            folder,
            crew: crew(threads)?,
            key: Key::generate(suite.algorithm)?,
            iv: random::bytes(message::iv_len(suite.algorithm.info().mode))?,
            input: HostBytes::new(gpu, suite.size)?,
            output: HostBytes::new(gpu, suite.size)?,
            made_tag: [0; 16],
            tag: [0; 16],
            plain: random::bytes(suite.size)?,
            cipher: Vec::new(),
        };
        state.input.all().copy_from_slice(&state.plain);
        state.work(&portable()?, Direction::Encrypt)?;
        state.cipher = state.output.all().to_vec();
        state.tag = state.made_tag;
        for (name, bytes) in [("plain", &state.plain), ("cipher", &state.cipher)] {
            let path = state.path(name);
            fs::write(&path, bytes).map_err(Error::file("write", &path))?;
        }
        Ok(state)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// From memory to memory.
    fn work(&mut self, engine: &Engine, direction: Direction) -> Result<()> {
        let text = Text::apart(self.input.all(), self.output.all());
        let tags = match direction {
            Direction::Encrypt => Tags::Apart(&mut self.made_tag),
            Direction::Decrypt => Tags::Given(&self.tag),
        };
        message::run(engine, direction, (&self.key, &self.iv), text, tags)
    }

    /// From a file to a new one; without an engine a copy.
    fn convert(&mut self, engine: Option<&Engine>, direction: Direction) -> Result<()> {
        let (from, to) = (self.path(source(direction)), self.path("out"));
        let (input, crew) = (self.input.all(), &self.crew);
        read(crew, &from, input).map_err(Error::file("read", &from))?;
        let result = match engine {
            None => &mut self.input,
            Some(engine) => {
                self.work(engine, direction)?;
                &mut self.output
            }
        };
        write(&self.crew, &to, result.all()).map_err(Error::file("write", &to))
    }

    /// Whether the new file has the right content.
    fn check(&self, name: Option<&str>, direction: Direction) -> Result<()> {
        let path = self.path("out");
        let found = fs::read(&path).map_err(Error::file("read", &path))?;
        let encrypts = direction == Direction::Encrypt;
        let sealed = name.is_some() && encrypts && self.key.algorithm().is_aead();
        // A copy has the content of its input.
        let expected = match name.is_some() == encrypts {
            true => &self.cipher,
            false => &self.plain,
        };
        if found == *expected && (!sealed || self.made_tag == self.tag) {
            return Ok(());
        }
        Err(Error::Wrong(format!(
            "{} bytes, {direction:?}: {} differs from the result of cpu:portable",
            found.len(),
            name.unwrap_or("a copy")
        )))
    }
}

fn source(direction: Direction) -> &'static str {
    match direction {
        Direction::Encrypt => "plain",
        Direction::Decrypt => "cipher",
    }
}

fn read(crew: &ThreadPool, path: &Path, bytes: &mut [u8]) -> std::io::Result<()> {
    let file = File::open(path)?;
    let piece =
        |(number, piece): (usize, &mut [u8])| file.read_exact_at(piece, (number * PIECE) as u64);
    crew.install(|| bytes.par_chunks_mut(PIECE).enumerate().try_for_each(piece))
}

fn write(crew: &ThreadPool, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let file = File::create_new(path)?;
    let piece = |(number, piece): (usize, &[u8])| file.write_all_at(piece, (number * PIECE) as u64);
    crew.install(|| bytes.par_chunks(PIECE).enumerate().try_for_each(piece))?;
    file.sync_data()
}

impl Suite for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        if !matches!(self.algorithm.info().mode, Mode::Ctr | Mode::Gcm) {
            return Err(Error::Input(format!(
                "{}: take a mode that keeps a file's length, ctr or gcm",
                self.algorithm
            )));
        }
        if self.size == 0 {
            return Err(Error::Input("nothing to measure with --size 0".to_owned()));
        }
        let cpu = context.on_cpu();
        let machine = Machine::here(&cpu)?;
        let (gpu, opened) = time(|| match context.gpu()? {
            Some(gpu) => Ok(Some((gpu, Gpu::open(context)?))),
            None => Ok(None),
        })?;
        let (gpu, card) = gpu.unzip();
        let mut state = State::new(self, card.as_ref(), context.threads)?;

        let (one, made_one) = time(portable)?;
        let (all, made_all) = time(|| cpu.all_threads())?;
        let mut made = vec![
            (format!("{}, 1 thread", one.backend()), one, made_one),
            (
                format!("{}, {} threads", all.backend(), context.threads),
                all,
                made_all,
            ),
        ];
        made.extend(gpu.map(|gpu| (gpu.backend(), gpu, opened)));
        let mut contenders = Vec::new();
        for (name, engine, made) in made {
            let ((), first) = time(|| state.work(&engine, Direction::Encrypt))?;
            contenders.push((name, engine, made.wall + first.wall));
        }

        let names: Vec<_> = contenders
            .iter()
            .map(|one| (one.0.clone(), one.2))
            .collect();
        let mut report = Report {
            suite: self.name().to_owned(),
            title: format!(
                "files: seconds from one file to another and back, {} of {} in {}",
                self.algorithm,
                size::title(self.size as u64),
                folder::describe(&self.dir)
            ),
            notes: notes(self.size),
            columns: columns(),
            rows: Vec::new(),
            machine,
            stopped: false,
        };
        let mut times = Vec::new();
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            (context.notify)(&format!("{direction:?}"));
            let of = |number: usize| contenders.get(number);
            times.push(interleave(
                &context.plan,
                contenders.len() + 1,
                &mut state,
                |state| {
                    state.made_tag.fill(0xa5);
                    state.output.all().fill(0xa5);
                    // If it stays, the next one cannot be made, and says so.
                    let _ = fs::remove_file(state.path("out"));
                },
                |state, number| state.convert(of(number).map(|(_, engine, _)| engine), direction),
                |state, number| state.check(of(number).map(|one| &*one.0), direction),
            )?);
            report.rows = rows(self.size, &names, &times);
            (context.progress)(&report);
        }
        Ok(report)
    }
}

/// The row that all others are compared with.
pub(crate) const COPY: &str = "a copy";

/// A row for each contender, and one for the copy; decryption comes later.
fn rows(size: usize, names: &[(String, f64)], times: &[Vec<Sample>]) -> Vec<Vec<Value>> {
    let both = |number: usize| match times {
        [encrypt, decrypt] => Some(encrypt[number].median + decrypt[number].median),
        _ => None,
    };
    let copy = both(names.len());
    let names = names.iter().map(|one| (one.0.clone(), Some(one.1)));
    let rows = names.chain([(COPY.to_owned(), None)]).enumerate();
    rows.map(|(number, (name, start))| {
        vec![
            name.into(),
            start.into(),
            times[0][number].into(),
            times.get(1).map(|times| times[number]).into(),
            both(number).into(),
            both(number).zip(copy).map(|(own, copy)| own / copy).into(),
            both(number)
                .map(|seconds| 2.0 * size as f64 / seconds)
                .into(),
        ]
    })
    .collect()
}

fn notes(bytes: usize) -> Vec<String> {
    let mut notes = vec![
        "start: until the engine stood and had encrypted once; for a GPU with its context, \
         kernels and their self-test. The rest in the warm process: all threads read the file \
         into memory (pinned where there is a GPU), the engine works, all threads write a \
         new file. A copy does the same without the engine. Results are compared with \
         cpu:portable."
            .to_owned(),
    ];
    if let (size, [_, Some(encrypt)], [_, Some(decrypt)]) = LARGEST
        && size == bytes
    {
        notes.push(format!(
            "For this size, encryption and decryption on a GPU were published as {} s: {SOURCE}.",
            encrypt + decrypt
        ));
    }
    notes
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("contender", "", Unit::Text).name(),
        Column::new("start", "start", Unit::Seconds),
        Column::new("encrypt", "encrypt", Unit::Seconds),
        Column::new("decrypt", "decrypt", Unit::Seconds),
        Column::new("both", "both", Unit::Seconds),
        Column::new("of_copy", "/ copy", Unit::Ratio),
        Column::new("rate", "there and back", Unit::BytesPerSecond),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn every_contender_gives_the_same_files() {
        let folder = tempfile::tempdir().unwrap();
        for algorithm in [Algorithm::Aes128Ctr, Algorithm::Aes256Gcm] {
            let suite = Files {
                dir: folder.path().to_owned(),
                algorithm,
                // Two pieces, and a part of a block.
                size: PIECE + 1_000_003,
            };
            let context = Context {
                plan: Plan::quick(),
                ..Context::default()
            };
            let report = suite.run(&context).unwrap();
            let last = report.rows.last().unwrap();
            assert_eq!(last[5].number(), Some(1.0), "the copy over itself");
            assert!(report.rows.len() >= 3);
        }
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "all is gone"
        );
    }

    #[test]
    fn a_wrong_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let suite = Files {
            dir: folder.path().to_owned(),
            size: 5000,
            ..Files::default()
        };
        let mut state = State::new(&suite, None, NonZeroUsize::MIN).unwrap();
        let engine = portable().unwrap();
        state.convert(Some(&engine), Direction::Encrypt).unwrap();
        state.check(Some("x"), Direction::Encrypt).unwrap();
        assert!(state.check(None, Direction::Encrypt).is_err());
        let mut bytes = fs::read(state.path("out")).unwrap();
        bytes[4999] ^= 1;
        fs::write(state.path("out"), bytes).unwrap();
        let wrong = state.check(Some("x"), Direction::Encrypt).unwrap_err();
        assert!(matches!(wrong, Error::Wrong(_)), "{wrong}");
    }
}
