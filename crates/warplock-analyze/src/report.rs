//! All statistics of one ciphertext, or of two.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use crate::bits::{Autocorrelation, BitBalance};
use crate::correlation::{Correlation, Direction, Progression, SampledCorrelation, sample_places};
use crate::data::{Data, Error};
use crate::difference::Difference;
use crate::entropy::{Entropy, LocalEntropy};
use crate::histogram::Histogram;
use crate::repeats::RepeatedBlocks;
use crate::source::{OnHost, Source};
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
    let channels = planes.iter().map(|(name, plane)| {
        let Ok(found) = channel(name, &OnHost(plane, options.threads), options);
        found
    });
    let channels: Vec<_> = channels.collect();
    let autocorrelation = |whole: &Histogram| Autocorrelation::of(bytes, whole);
    let Ok(tests) = whole_tests(
        &channels,
        |whole| Ok::<_, Infallible>(autocorrelation(whole)),
        || Ok(RepeatedBlocks::of(bytes)),
    );
    Report {
        len: bytes.len(),
        channels,
        tests,
    }
}

/// The results of all bytes in their order.
pub(crate) fn whole_tests<E>(
    channels: &[Channel],
    autocorrelation: impl FnOnce(&Histogram) -> Result<Option<Autocorrelation>, E>,
    repeats: impl FnOnce() -> Result<Option<RepeatedBlocks>, E>,
) -> Result<Vec<Test>, E> {
    let mut whole = Histogram { counts: [0; 256] };
    for channel in channels {
        let sums = whole.counts.iter_mut().zip(channel.histogram.counts);
        sums.for_each(|(sum, count)| *sum += count);
    }
    let mut tests = Vec::new();
    if whole.len() >= Histogram::MIN_LEN {
        tests.push(BitBalance::of(&whole).test());
        tests.extend(autocorrelation(&whole)?.map(|found| found.test()));
    }
    tests.extend(repeats()?.map(|found| found.test()));
    Ok(tests)
}

/// The statistics of one channel.
pub(crate) fn channel<S: Source>(
    name: &'static str,
    source: &S,
    options: &Options,
) -> Result<Channel, S::Error> {
    let tables = source.tables()?;
    let histogram = tables.histogram.clone();
    let mut tests = Vec::new();
    // Of shorter data the distributions are not known well enough.
    if histogram.len() >= Histogram::MIN_LEN {
        let grid = source.grid();
        tests.push(histogram.test());
        tests.push(histogram.evenness_test());
        tests.push(Entropy::of(&histogram).test());
        if let Some(places) = LocalEntropy::places(grid, options.seed) {
            let bytes = source.bytes_at(&places)?;
            tests.push(LocalEntropy::from_bytes(&bytes).test());
        }
        let ends = Direction::ALL.map(|one| Some((one, Progression::ends(grid, one)?)));
        let (directions, ends): (Vec<_>, Vec<_>) = ends.into_iter().flatten().unzip();
        for (&direction, ends) in directions.iter().zip(source.sums(&ends)?) {
            tests.push(Correlation::from_ends(&tables, direction, &ends).test());
        }
        for direction in Direction::ALL {
            let Some(pairs) = sample_places(grid, direction, options.pairs, options.seed) else {
                continue;
            };
            let lag = direction.lag(grid).expect("there are pairs");
            let places: Vec<_> = pairs.iter().flat_map(|&one| [one, one + lag]).collect();
            let bytes = source.bytes_at(&places)?;
            let pairs = bytes.chunks_exact(2).map(|pair| (pair[0], pair[1]));
            tests.push(SampledCorrelation::from_pairs(direction, pairs).test());
        }
    }
    Ok(Channel {
        name,
        histogram,
        tests,
    })
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

impl ChannelPair {
    pub(crate) fn of(name: &'static str, difference: Difference) -> Self {
        ChannelPair {
            name,
            difference,
            tests: difference.tests(),
        }
    }
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
        Ok(ChannelPair::of(name, difference))
    });
    Ok(Comparison {
        channels: channels.collect::<Result<_, Error>>()?,
        first: whole.first,
    })
}
