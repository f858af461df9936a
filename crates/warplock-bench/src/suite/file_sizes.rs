//! `file-sizes`: seconds to encrypt and decrypt buffers of the sizes in a published comparison of a
//! GPU and a CPU, next to its numbers.

use std::num::NonZeroUsize;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use warplock::{Algorithm, Direction, Engine, Key, Mode, Tags, Text};

use super::Suite;
use crate::context::portable;
use crate::error::Result;
use crate::measure::interleave;
use crate::report::{Column, Report, Unit, Value};
use crate::table::grouped;
use crate::{Axis, Context, Error, Machine, Plot, Sample, Series, memory, message, random};

/// The source of the quoted columns.
pub(super) const SOURCE: &str = "quoted from the README of Iluvatar's GPU AES sample (BI-V100 GPU; CPU: \
                      Xeon Gold 6338), which does not name its mode; not measured here";

/// Bytes; then seconds on their CPU and GPU to encrypt, and to decrypt.
pub(super) type Published = (usize, [Option<f64>; 2], [Option<f64>; 2]);

/// The published numbers; for the largest size the GPU's times alone.
const PUBLISHED: [Published; 27] = [
    (
        1_028,
        [Some(0.00093), Some(0.002233)],
        [Some(0.001322), Some(0.000429)],
    ),
    (
        10_280,
        [Some(0.008991), Some(0.003121)],
        [Some(0.01004), Some(0.000609)],
    ),
    (
        20_560,
        [Some(0.017611), Some(0.002946)],
        [Some(0.014906), Some(0.000705)],
    ),
    (
        30_840,
        [Some(0.023546), Some(0.002193)],
        [Some(0.01679), Some(0.00635)],
    ),
    (
        41_120,
        [Some(0.028465), Some(0.004259)],
        [Some(0.018958), Some(0.000915)],
    ),
    (
        51_400,
        [Some(0.033969), Some(0.003112)],
        [Some(0.023432), Some(0.000697)],
    ),
    (
        61_680,
        [Some(0.035402), Some(0.002665)],
        [Some(0.045729), Some(0.000745)],
    ),
    (
        71_960,
        [Some(0.041557), Some(0.00241)],
        [Some(0.031783), Some(0.000931)],
    ),
    (
        82_240,
        [Some(0.042604), Some(0.002792)],
        [Some(0.031089), Some(0.00116)],
    ),
    (
        92_520,
        [Some(0.03111), Some(0.003305)],
        [Some(0.037953), Some(0.001506)],
    ),
    (
        102_800,
        [Some(0.04673), Some(0.004459)],
        [Some(0.039279), Some(0.001653)],
    ),
    (
        205_600,
        [Some(0.073755), Some(0.003202)],
        [Some(0.099175), Some(0.001677)],
    ),
    (
        308_400,
        [Some(0.106697), Some(0.004139)],
        [Some(0.150656), Some(0.002237)],
    ),
    (
        411_200,
        [Some(0.131373), Some(0.008021)],
        [Some(0.156407), Some(0.0034)],
    ),
    (
        514_000,
        [Some(0.171094), Some(0.005831)],
        [Some(0.24365), Some(0.003493)],
    ),
    (
        616_800,
        [Some(0.215339), Some(0.005563)],
        [Some(0.233965), Some(0.004851)],
    ),
    (
        719_600,
        [Some(0.229566), Some(0.006011)],
        [Some(0.286835), Some(0.004768)],
    ),
    (
        822_400,
        [Some(0.259756), Some(0.005742)],
        [Some(0.324907), Some(0.005565)],
    ),
    (
        925_200,
        [Some(0.293303), Some(0.006823)],
        [Some(0.381364), Some(0.005664)],
    ),
    (
        1_028_000,
        [Some(0.332662), Some(0.00651)],
        [Some(0.418857), Some(0.007)],
    ),
    (
        2_056_000,
        [Some(0.609177), Some(0.011234)],
        [Some(0.837549), Some(0.012375)],
    ),
    (
        3_084_000,
        [Some(0.925097), Some(0.013653)],
        [Some(1.271464), Some(0.017692)],
    ),
    (
        4_112_000,
        [Some(1.204424), Some(0.017288)],
        [Some(1.736208), Some(0.023058)],
    ),
    (
        5_140_000,
        [Some(1.533855), Some(0.022738)],
        [Some(2.138798), Some(0.028484)],
    ),
    (
        6_168_000,
        [Some(1.818599), Some(0.023309)],
        [Some(2.54178), Some(0.034982)],
    ),
    (
        7_196_000,
        [Some(2.179289), Some(0.027286)],
        [Some(2.923416), Some(0.040508)],
    ),
    (102_800_000, [None, Some(0.380_751)], [None, Some(0.552_25)]),
];

/// The largest of them.
pub(super) const LARGEST: Published = PUBLISHED[PUBLISHED.len() - 1];

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
    plain: Vec<u8>,
    cipher: Vec<u8>,
    tag: [u8; 16],
    output: Vec<u8>,
    output_tag: [u8; 16],
}

impl Suite for FileSizes {
    fn name(&self) -> &'static str {
        "file-sizes"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        for &size in &self.sizes {
            // The plaintext, the ciphertext, and the results.
            let needed = (padded(self.algorithm, size) as u64).saturating_mul(3);
            memory::check(
                &format!("a buffer of {} bytes", grouped(size as u64)),
                needed,
            )?;
        }
        let cpu = context.on_cpu();
        let machine = Machine::here(&cpu)?;
        let mut engines = vec![portable()?, cpu.one_thread()?, cpu.all_threads()?];
        let mut names = vec![
            "cpu:portable, 1 thread".to_owned(),
            format!("{}, 1 thread", engines[1].backend()),
            format!("{}, {} threads", engines[2].backend(), context.threads),
        ];
        if let Some(gpu) = context.gpu()? {
            names.push(format!("{}, with copies", gpu.backend()));
            engines.push(gpu);
        }
        let crew = crew(context.threads)?;
        let mut rows = Vec::new();
        for &size in &self.sizes {
            (context.notify)(&format!("{size} bytes"));
            let mut buffers = Buffers::new(self.algorithm, size, &engines[0])?;
            let direction = Direction::Encrypt;
            let mut encrypt = measure(context, &engines, Some(&crew), &mut buffers, direction)?;
            let copies = encrypt.split_off(engines.len()).into_iter();
            let copy = copies.min_by(|a, b| a.median.total_cmp(&b.median));
            let copy = copy.expect("the copies come last");
            let share = copy.median / encrypt[ALL_THREADS].median;
            let decrypt = measure(context, &engines, None, &mut buffers, Direction::Decrypt)?;
            let mut row = vec![Value::Number(size as f64)];
            for (encrypt, decrypt) in encrypt.into_iter().zip(decrypt) {
                row.push(Value::Number(encrypt.median + decrypt.median));
                row.extend([encrypt.into(), decrypt.into()]);
            }
            let published = PUBLISHED.iter().find(|row| row.0 == size);
            for device in 0..2 {
                let encrypt = published.and_then(|row| row.1[device]);
                let decrypt = published.and_then(|row| row.2[device]);
                let total = encrypt
                    .zip(decrypt)
                    .map(|(encrypt, decrypt)| encrypt + decrypt);
                row.extend([total.into(), encrypt.into(), decrypt.into()]);
            }
            row.extend([copy.into(), share.into()]);
            rows.push(row);
        }
        let columns = columns(&names);
        Ok(Report {
            suite: self.name(),
            title: format!(
                "file-sizes: seconds to encrypt and decrypt one buffer in memory, {}",
                self.algorithm
            ),
            notes: self.notes(),
            plot: plot(self.algorithm, &columns, &rows),
            columns,
            rows,
            machine,
        })
    }
}

impl FileSizes {
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
            .any(|&size| padded(self.algorithm, size) != size)
        {
            notes.push(format!(
                "{} works on whole blocks: sizes are rounded up to 16 bytes.",
                self.algorithm
            ));
        }
        notes
    }
}

/// The length that the algorithm works on for a file of `size` bytes.
fn padded(algorithm: Algorithm, size: usize) -> usize {
    match algorithm.info().mode {
        // What does not fit into a number fits into no memory.
        Mode::Ecb | Mode::Cbc => size.checked_next_multiple_of(16).unwrap_or(usize::MAX),
        Mode::Xts => size.max(16),
        Mode::Ctr | Mode::Gcm | Mode::Acorn => size,
    }
}

impl Buffers {
    /// Random data and the reference's result.
    fn new(algorithm: Algorithm, size: usize, reference: &Engine) -> Result<Self> {
        let len = padded(algorithm, size);
        let mut buffers = Buffers {
            key: Key::generate(algorithm)?,
            iv: random::bytes(message::iv_len(algorithm.info().mode))?,
            plain: random::bytes(len)?,
            cipher: Vec::new(),
            tag: [0; 16],
            output: vec![0; len],
            output_tag: [0; 16],
        };
        buffers.run(reference, Direction::Encrypt)?;
        buffers.cipher = buffers.output.clone();
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
                self.output == self.cipher && self.output_tag == self.tag
            }
            Direction::Encrypt => self.output == self.cipher,
            Direction::Decrypt => self.output == self.plain,
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
                None => buffers.output == buffers.plain,
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

fn columns(names: &[String]) -> Vec<Column> {
    let mut columns = vec![Column::new("bytes", "bytes", Unit::Bytes)];
    let ours = ["portable_1", "best_1", "best_all", "gpu"];
    let theirs = [("their_cpu", "their CPU"), ("their_gpu", "their GPU")];
    let ours = ours.into_iter().zip(names.iter().map(String::as_str));
    for (group, (key, name)) in ours.chain(theirs).enumerate() {
        for (part, heading) in ["total", "encrypt", "decrypt"].into_iter().enumerate() {
            // The group's name stands above its first column, over several lines.
            let title = match part {
                0 => format!("{}\n{heading}", name.replace(", ", "\n")),
                _ => heading.to_owned(),
            };
            let column = Column::new(format!("{key}_{heading}"), title, Unit::Seconds);
            columns.push(if group < names.len() {
                column
            } else {
                column.quoted(SOURCE)
            });
        }
    }
    columns.push(Column::new("copy", "copy", Unit::Seconds));
    columns.push(Column::new("of_copy", "of a\ncopy", Unit::Ratio));
    columns
}

fn plot(algorithm: Algorithm, columns: &[Column], rows: &[Vec<Value>]) -> Plot {
    // Of each group the total.
    let series = (1..columns.len() - 2).step_by(3).map(|column| Series {
        name: columns[column]
            .title
            .trim_end_matches("\ntotal")
            .replace('\n', ", "),
        points: rows
            .iter()
            .filter_map(|row| row[0].number().zip(row[column].number()))
            .collect(),
        quoted: columns[column].source.is_some(),
    });
    Plot {
        title: format!("{algorithm}: encrypt + decrypt"),
        x_label: "bytes".to_owned(),
        x: Axis::Log,
        y_label: "seconds".to_owned(),
        y: Axis::Log,
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_copies_copy_all() {
        let crew = crew(NonZeroUsize::new(3).unwrap()).unwrap();
        for size in [1, 1_028, 100_001] {
            let mut buffers = Buffers::new(Algorithm::Aes128Ctr, size, &portable().unwrap());
            let buffers = buffers.as_mut().unwrap();
            buffers.poison();
            buffers.copy();
            assert_eq!(buffers.output, buffers.plain);
            buffers.poison();
            buffers.share_copy(&crew);
            assert_eq!(buffers.output, buffers.plain);
        }
    }
}
