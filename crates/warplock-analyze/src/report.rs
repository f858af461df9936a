//! All statistics of one ciphertext, or of two.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use crate::bits::{Autocorrelation, BitBalance};
use crate::correlation::{Correlation, Direction, SampledCorrelation};
use crate::data::{Data, Error, Plane};
use crate::difference::Difference;
use crate::entropy::{Entropy, LocalEntropy};
use crate::histogram::Histogram;
use crate::repeats::RepeatedBlocks;
use crate::tables::{Tables, histogram};
use crate::test::Test;

/// How to analyse.
#[derive(Clone, Debug)]
pub struct Options {
    /// Chooses blocks and sampled pairs.
    pub seed: u64,
    /// Threads for the pass over each channel.
    pub threads: NonZeroUsize,
    /// Pairs of [`SampledCorrelation`].
    pub pairs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 0,
            threads: available_parallelism().unwrap_or(NonZeroUsize::MIN),
            pairs: SampledCorrelation::PAIRS,
        }
    }
}

/// The statistics of one channel.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its name; empty for bytes that are not an image.
    pub name: &'static str,
    /// The counts.
    pub histogram: Histogram,
    /// The results.
    pub tests: Vec<Test>,
}

/// The statistics of one ciphertext.
#[derive(Clone, Debug)]
pub struct Report {
    /// Bytes.
    pub len: usize,
    /// Those of each channel.
    pub channels: Vec<Channel>,
    /// Those of the bytes in their order, whatever channel they are of.
    pub tests: Vec<Test>,
}

impl Report {
    /// All results.
    pub fn tests(&self) -> impl Iterator<Item = &Test> {
        let channels = self.channels.iter().flat_map(|channel| &channel.tests);
        channels.chain(&self.tests)
    }
}

/// Computes every statistic that the data is long enough for.
pub fn analyze(data: &Data<'_>, options: &Options) -> Report {
    let bytes = data.as_bytes();
    let planes = data.planes();
    let channels: Vec<_> = planes
        .iter()
        .map(|(name, plane)| channel(name, plane, options))
        .collect();
    let whole = match &channels[..] {
        [one] => one.histogram.clone(),
        _ => Histogram {
            counts: histogram(bytes),
        },
    };
    let mut tests = Vec::new();
    if whole.len() >= Histogram::MIN_LEN {
        tests.push(BitBalance::of(&whole).test());
        tests.extend(Autocorrelation::of(bytes, &whole).map(|found| found.test()));
    }
    tests.extend(RepeatedBlocks::of(bytes).map(|found| found.test()));
    Report {
        len: bytes.len(),
        channels,
        tests,
    }
}

fn channel(name: &'static str, plane: &Plane<'_>, options: &Options) -> Channel {
    let tables = Tables::of(plane, options.threads);
    let histogram = tables.histogram.clone();
    let mut tests = Vec::new();
    // Of shorter data the distributions are not known well enough.
    if histogram.len() >= Histogram::MIN_LEN {
        tests.push(histogram.test());
        tests.push(histogram.evenness_test());
        tests.push(Entropy::of(&histogram).test());
        tests.extend(LocalEntropy::of(plane, options.seed).map(|found| found.test()));
        let all = Direction::ALL.iter();
        tests.extend(
            all.filter_map(|&direction| Some(Correlation::of(plane, &tables, direction)?.test())),
        );
        let all = Direction::ALL.iter();
        tests.extend(all.filter_map(|&direction| {
            let (pairs, seed) = (options.pairs, options.seed);
            Some(SampledCorrelation::of(plane, direction, pairs, seed)?.test())
        }));
    }
    Channel {
        name,
        histogram,
        tests,
    }
}

/// The statistics of two ciphertexts in one channel.
#[derive(Clone, Debug)]
pub struct ChannelPair {
    /// Its name; empty for bytes that are not an image.
    pub name: &'static str,
    /// What was counted.
    pub difference: Difference,
    /// NPCR, UACI, changed bits.
    pub tests: Vec<Test>,
}

/// The statistics of two ciphertexts.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Of each channel.
    pub channels: Vec<ChannelPair>,
    /// The first byte that differs, of all channels.
    pub first: Option<u64>,
}

impl Comparison {
    /// All results.
    pub fn tests(&self) -> impl Iterator<Item = &Test> {
        self.channels.iter().flat_map(|channel| &channel.tests)
    }
}

/// Computes NPCR, UACI and changed bits of two samples of one size.
///
/// # Errors
/// [`Error::Unequal`].
pub fn compare(left: &Data<'_>, right: &Data<'_>) -> Result<Comparison, Error> {
    let whole = Difference::of(left.as_bytes(), right.as_bytes())?;
    if left.shape() != right.shape() {
        // As many bytes, but other pixels.
        return Err(Error::Unequal {
            left: left.as_bytes().len(),
            right: right.as_bytes().len(),
        });
    }
    let planes = left.planes().into_iter().zip(right.planes());
    let channels = planes.map(|((name, left), (_, right))| {
        let difference = Difference::of(left.as_bytes(), right.as_bytes())?;
        Ok(ChannelPair {
            name,
            difference,
            tests: difference.tests(),
        })
    });
    Ok(Comparison {
        channels: channels.collect::<Result<_, Error>>()?,
        first: whole.first,
    })
}
