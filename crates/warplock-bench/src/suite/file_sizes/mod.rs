//! `file-sizes`: seconds to encrypt and decrypt buffers of the sizes in a published comparison of a
//! GPU and a CPU, next to its numbers.

mod published;

use std::num::NonZeroUsize;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use warplock::{Algorithm, Direction, Engine, Key, Tags, Text};

use self::published::PUBLISHED;
pub(super) use self::published::{LARGEST, SOURCE};
use super::Suite;
use crate::context::portable;
use crate::error::Result;
use crate::gpu::{Gpu, HostBytes};
use crate::measure::interleave;
use crate::report::{Column, Report, Unit, Value};
use crate::table::grouped;
use crate::{Context, Error, Machine, Sample, memory, message, random};

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct FileSizes {
    /// Cipher and mode.
    pub algorithm: Algorithm,
    /// Sizes in bytes.
    pub sizes: Vec<usize>,
}

impl Default for FileSizes {
    /// AES-128-CTR on all published sizes.
    fn default() -> Self {
        FileSizes {
            algorithm: Algorithm::Aes128Ctr,
            sizes: PUBLISHED.iter().map(|row| row.0).collect(),
        }
    }
}

/// The index of the engine with all threads among them.
const ALL_THREADS: usize = 2;

/// One size's buffers, shared by all contenders.
struct Buffers {
    key: Key,
    iv: Vec<u8>,
    plain: HostBytes,
    cipher: HostBytes,
    tag: [u8; 16],
    output: HostBytes,
    output_tag: [u8; 16],
}

/// The parts of a group of columns.
const PARTS: [&str; 3] = ["total", "encrypt", "decrypt"];

/// What runs, and how it is called: keys and titles of its columns.
struct Contenders {
    engines: Vec<Engine>,
    /// The GPU on pinned memory, by itself: its buffers are others.
    pinned: Option<(Engine, Gpu)>,
    names: Vec<(&'static str, String)>,
}

impl Contenders {
    fn new(context: &Context<'_>) -> Result<Self> {
        let cpu = context.on_cpu();
        let mut engines = vec![portable()?, cpu.one_thread()?, cpu.all_threads()?];
        let best = engines[1].backend();
        let mut names = vec![
            ("portable_1", "cpu:portable\n1 thread".to_owned()),
            ("best_1", format!("{best}\n1 thread")),
            ("best_all", format!("{best}\n{} threads", context.threads)),
        ];
        let mut pinned = None;
        if let Some(gpu) = context.gpu()? {
            names.push(("gpu", format!("{}\nwith copies", gpu.backend())));
            names.push(("gpu_pinned", format!("{}\npinned", gpu.backend())));
            engines.push(gpu);
            if let Some(gpu) = context.gpu()? {
                pinned = Some((gpu, Gpu::open(context)?));
            }
        }
        Ok(Contenders {
            engines,
            pinned,
            names,
        })
    }

    /// The times of one direction in the order of the names, and with a crew those of copies.
    fn times(
        &self,
        context: &Context<'_>,
        crew: Option<&ThreadPool>,
        buffers: &mut Buffers,
        pinned: Option<&mut Buffers>,
        direction: Direction,
    ) -> Result<(Vec<Sample>, Vec<Sample>)> {
        let mut times = measure(context, &self.engines, crew, buffers, direction)?;
        let copies = times.split_off(self.engines.len());
        if let (Some((gpu, _)), Some(pinned)) = (&self.pinned, pinned) {
            let engines = std::slice::from_ref(gpu);
            times.extend(measure(context, engines, None, pinned, direction)?);
        }
        Ok((times, copies))
    }
}

impl Suite for FileSizes {
    fn name(&self) -> &'static str {
        "file-sizes"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        for &size in &self.sizes {
            // The plaintext, the ciphertext, and the results; for a GPU once more.
            let needed = (message::padded(self.algorithm, size) as u64).saturating_mul(6);
            memory::check(
                &format!("a buffer of {} bytes", grouped(size as u64)),
                needed,
            )?;
        }
        let mut report = Report {
            suite: self.name().to_owned(),
            title: format!(
                "file-sizes: seconds to encrypt and decrypt one buffer in memory, {}",
                self.algorithm
            ),
            notes: self.notes(),
            columns: Vec::new(),
            rows: Vec::new(),
            machine: Machine::here(&context.on_cpu())?,
            stopped: false,
        };
        let contenders = Contenders::new(context)?;
        report.columns = columns(&contenders.names);
        let crew = crew(context.threads)?;
        for &size in &self.sizes {
            (context.notify)(&format!("{size} bytes"));
            let row = self.row(context, &contenders, &crew, size)?;
            report.rows.push(row);
            (context.progress)(&report);
        }
        report.notes.splice(0..0, claims(&report));
        Ok(report)
    }
}

impl FileSizes {
    fn row(
        &self,
        context: &Context<'_>,
        contenders: &Contenders,
        crew: &ThreadPool,
        size: usize,
    ) -> Result<Vec<Value>> {
        let reference = &contenders.engines[0];
        let mut buffers = Buffers::new(self.algorithm, size, None, reference)?;
        let mut pinned = match &contenders.pinned {
            Some((_, gpu)) => Some(Buffers::new(self.algorithm, size, Some(gpu), reference)?),
            None => None,
        };
        let mut of = |direction, crew| {
            contenders.times(context, crew, &mut buffers, pinned.as_mut(), direction)
        };
        let (encrypt, copies) = of(Direction::Encrypt, Some(crew))?;
        let (decrypt, _) = of(Direction::Decrypt, None)?;
        let copy = copies
            .into_iter()
            .min_by(|a, b| a.median.total_cmp(&b.median));
        let copy = copy.expect("the copies come last");
        let share = copy.median / encrypt[ALL_THREADS].median;

        let published = PUBLISHED.iter().find(|row| row.0 == size);
        let theirs = |device: usize| {
            let encrypt = published.and_then(|row| row.1[device]);
            let decrypt = published.and_then(|row| row.2[device]);
            let total = encrypt.zip(decrypt).map(|(a, b)| a + b);
            [total, encrypt, decrypt]
        };
        let theirs = [theirs(0), theirs(1)];
        let totals = encrypt
            .iter()
            .zip(&decrypt)
            .map(|(a, b)| a.median + b.median);
        let totals: Vec<f64> = totals.collect();
        let gpu = totals.get(ALL_THREADS + 1..).unwrap_or_default();
        let gpu = gpu.iter().copied().reduce(f64::min);
        let ours = totals.iter().copied().reduce(f64::min);

        let mut row = vec![Value::Number(size as f64)];
        for part in 0..PARTS.len() {
            match part {
                0 => row.extend(totals.iter().map(|&total| Value::from(total))),
                1 => row.extend(encrypt.iter().map(|&sample| Value::from(sample))),
                _ => row.extend(decrypt.iter().map(|&sample| Value::from(sample))),
            }
            row.extend(theirs.map(|own| Value::from(own[part])));
            if part == 0 {
                let times = |slow: Option<f64>, fast: Option<f64>| {
                    Value::from(slow.zip(fast).map(|(slow, fast)| slow / fast))
                };
                row.extend([
                    times(Some(totals[0]), gpu),
                    times(theirs[0][0], theirs[1][0]),
                    times(theirs[1][0], ours),
                ]);
            }
        }
        row.extend([Value::from(copy), share.into()]);
        Ok(row)
    }
    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "total: encrypt + decrypt. Files are read before, as in the quoted comparison; the \
             time of the cipher alone is shown, with the key's schedule made before. On a GPU: from \
             host memory to host memory."
                .to_owned(),
            "copy: the same buffers copied in the same turns, by as many threads, a share each, or \
             by the calling thread alone, whichever is faster; of a copy: its time over that of \
             all threads' encryption, so that 1 is a plain copy's speed. Above: results that the \
             caches cannot hold may go past them, where a copy's do not."
                .to_owned(),
            format!("their CPU, their GPU: {SOURCE}."),
        ];
        if self
            .sizes
            .iter()
            .any(|&size| message::padded(self.algorithm, size) != size)
        {
            notes.push(format!(
                "{} works on whole blocks: sizes are rounded up to 16 bytes.",
                self.algorithm
            ));
        }
        notes
    }
}

impl Buffers {
    /// Random data and the reference's result.
    fn new(
        algorithm: Algorithm,
        size: usize,
        pinned_for: Option<&Gpu>,
        reference: &Engine,
    ) -> Result<Self> {
        let len = message::padded(algorithm, size);
        let buffer = || HostBytes::new(pinned_for, len);
        let mut buffers = Buffers {
            key: Key::generate(algorithm)?,
            iv: random::bytes(message::iv_len(algorithm.info().mode))?,
            plain: buffer()?,
            cipher: buffer()?,
            tag: [0; 16],
            output: buffer()?,
            output_tag: [0; 16],
        };
        buffers.plain.copy_from_slice(&random::bytes(len)?);
        buffers.run(reference, Direction::Encrypt)?;
        buffers.cipher.copy_from_slice(&buffers.output);
        buffers.tag = buffers.output_tag;
        Ok(buffers)
    }

    fn run(&mut self, engine: &Engine, direction: Direction) -> Result<()> {
        let input = match direction {
            Direction::Encrypt => &self.plain,
            Direction::Decrypt => &self.cipher,
        };
        let text = Text::apart(input, &mut self.output);
        let tags = match direction {
            Direction::Encrypt => Tags::Apart(&mut self.output_tag),
            Direction::Decrypt => Tags::Given(&self.tag),
        };
        message::run(engine, direction, (&self.key, &self.iv), text, tags)
    }

    /// Copies the plaintext, large runs by the system's fastest instructions for them.
    fn copy(&mut self) {
        self.output.copy_from_slice(&self.plain);
    }

    /// The same by several threads, a share each.
    fn share_copy(&mut self, crew: &ThreadPool) {
        let share = self.plain.len().div_ceil(crew.current_num_threads()).max(1);
        crew.install(|| {
            let shares = self.output.par_chunks_mut(share);
            shares
                .zip(self.plain.par_chunks(share))
                .for_each(|(to, from)| to.copy_from_slice(from));
        });
    }

    fn poison(&mut self) {
        self.output.fill(0xa5);
        self.output_tag.fill(0xa5);
    }

    fn is_right(&self, direction: Direction) -> bool {
        match direction {
            Direction::Encrypt if self.key.algorithm().is_aead() => {
                *self.output == *self.cipher && self.output_tag == self.tag
            }
            Direction::Encrypt => *self.output == *self.cipher,
            Direction::Decrypt => *self.output == *self.plain,
        }
    }
}

/// Threads that copy.
pub(super) fn crew(threads: NonZeroUsize) -> Result<ThreadPool> {
    let pool = ThreadPoolBuilder::new().num_threads(threads.get()).build();
    pool.map_err(|error| {
        Error::Input(format!(
            "cannot start {threads} threads ({error}); take fewer with --threads"
        ))
    })
}

/// The engines' seconds, and with a `crew` those of copies, last: by the crew, and by the calling
/// thread alone, whose copy of a short text is done before a crew has begun.
fn measure(
    context: &Context<'_>,
    engines: &[Engine],
    crew: Option<&ThreadPool>,
    buffers: &mut Buffers,
    direction: Direction,
) -> Result<Vec<Sample>> {
    interleave(
        &context.plan,
        engines.len() + crew.map_or(0, |_| 2),
        buffers,
        Buffers::poison,
        |buffers, contender| match (engines.get(contender), crew) {
            (Some(engine), _) => buffers.run(engine, direction),
            (None, Some(crew)) if contender == engines.len() => {
                buffers.share_copy(crew);
                Ok(())
            }
            (None, _) => {
                buffers.copy();
                Ok(())
            }
        },
        |buffers, engine| {
            let right = match engines.get(engine) {
                Some(_) => buffers.is_right(direction),
                None => *buffers.output == *buffers.plain,
            };
            if right {
                return Ok(());
            }
            Err(Error::Wrong(format!(
                "{} on {} bytes: {} does not agree with cpu:portable ({direction:?})",
                buffers.key.algorithm(),
                buffers.plain.len(),
                engines
                    .get(engine)
                    .map_or_else(|| "a copy".to_owned(), Engine::backend)
            )))
        },
    )
}

fn columns(names: &[(&'static str, String)]) -> Vec<Column> {
    let mut columns = vec![Column::new("bytes", "bytes", Unit::Bytes).name()];
    for part in PARTS {
        columns.extend(names.iter().map(|(key, name)| {
            Column::new(
                format!("{key}_{part}"),
                format!("{name}\n{part}"),
                Unit::Seconds,
            )
        }));
        for (key, name) in [("their_cpu", "their CPU"), ("their_gpu", "their GPU")] {
            let title = format!("{name}\n{part}");
            let column = Column::new(format!("{key}_{part}"), title, Unit::Seconds);
            columns.push(column.quoted(SOURCE));
        }
        if part == PARTS[0] {
            columns.extend([
                Column::new("gpu_over_portable", "GPU/\nportable", Unit::Ratio),
                Column::new("their_gpu_over_cpu", "their\nGPU/CPU", Unit::Ratio).quoted(SOURCE),
                Column::new("over_their_gpu", "best/\ntheirs", Unit::Ratio),
            ]);
        }
    }
    columns.extend([
        Column::new("copy", "copy", Unit::Seconds),
        Column::new("of_copy", "of a\ncopy", Unit::Ratio),
    ]);
    columns
}

/// The publication's claim, "at least 70 times", with these numbers: a GPU over a CPU thread, from
/// which size on it is faster, and ours over theirs.
fn claims(report: &Report) -> Vec<String> {
    let ratios = |key: &str| -> Vec<(u64, f64)> {
        let place = report.column(key).expect("it is a column of this suite");
        let rows = report.rows.iter();
        let ratio = |row: &Vec<Value>| Some((row[0].number()? as u64, row[place].number()?));
        rows.filter_map(ratio).collect()
    };
    let most = |ratios: &[(u64, f64)]| ratios.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let mut lines = Vec::new();
    let (gpu, theirs) = (ratios("gpu_over_portable"), ratios("their_gpu_over_cpu"));
    if let Some((size, times)) = most(&gpu) {
        let last_slower = gpu
            .iter()
            .filter(|(_, ratio)| *ratio < 1.05)
            .map(|own| own.0)
            .max();
        let from = gpu
            .iter()
            .map(|own| own.0)
            .filter(|size| Some(*size) > last_slower)
            .min();
        lines.push(format!(
            "GPU over one portable thread: at most {times:.0} x, at {} bytes; {}. Published: {}.",
            grouped(size),
            from.map_or("slower at the largest size".to_owned(), |from| {
                format!("faster from {} bytes on", grouped(from))
            }),
            most(&theirs).map_or("not for these sizes".to_owned(), |(size, times)| {
                format!(
                    "at most {times:.0} x, at {} bytes, faster from 10,280 on",
                    grouped(size)
                )
            }),
        ));
    }
    let over = ratios("over_their_gpu");
    if let (Some((size, most)), Some(least)) =
        (most(&over), over.iter().map(|own| own.1).reduce(f64::min))
    {
        lines.push(format!(
            "The fastest of these over their GPU: {least:.0} to {most:.0} x (most at {} bytes).",
            grouped(size)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_copies_copy_all() {
        let crew = crew(NonZeroUsize::new(3).unwrap()).unwrap();
        for size in [1, 1_028, 100_001] {
            let mut buffers = Buffers::new(Algorithm::Aes128Ctr, size, None, &portable().unwrap());
            let buffers = buffers.as_mut().unwrap();
            buffers.poison();
            buffers.copy();
            assert_eq!(*buffers.output, *buffers.plain);
            buffers.poison();
            buffers.share_copy(&crew);
            assert_eq!(*buffers.output, *buffers.plain);
        }
    }
}
