//! Statistics of ciphertexts: what papers on image encryption print, with expected values for the
//! size at hand, exact critical values and p-values.
//!
//! - [`Data`]: bytes, or an image whose channels are analysed separately.
//! - [`analyze`]: every statistic of one ciphertext.
//! - [`compare`]: every statistic of two ciphertexts: NPCR, UACI, changed bits.
//! - [`trials`]: the same over many ciphertexts. One sample proves little: a sound cipher fails each
//!   test at 5 % in one of twenty cases.
//! - [`pictures`]: pictures to encrypt, made by a generator.
//!
//! Each statistic is a type with its numbers, and becomes a [`Test`]: a value, what is expected,
//! bounds, a p-value and a sentence.
//!
//! **Such tests find flaws and never show security.** The output of a generator that is trivial to
//! break can pass all of them.
//!
//! ```
//! use warplock_analyze::{Data, Options, Random, Shape, analyze};
//!
//! let mut cipher = vec![0; 256 * 256];
//! Random::new(1).fill(&mut cipher);
//! let shape = Shape { width: 256, height: 256, channels: 1 };
//! let report = analyze(&Data::image(cipher.as_slice(), shape)?, &Options::default());
//! for test in report.tests() {
//!     println!("{}: {:.4}, p {:.3}", test.name, test.value, test.p_value);
//! }
//! # Ok::<(), warplock_analyze::Error>(())
//! ```

mod bits;
mod correlation;
mod data;
mod difference;
mod distribution;
mod entropy;
#[cfg(feature = "cuda")]
pub mod gpu;
mod histogram;
#[cfg(feature = "images")]
mod image_file;
#[cfg(feature = "page")]
pub mod page;
pub mod pictures;
mod random;
mod repeats;
mod report;
#[cfg(feature = "research")]
pub mod research;
mod source;
mod tables;
mod test;
mod threads;
pub mod trials;

pub use bits::{Autocorrelation, BitBalance};
pub use correlation::{Correlation, Direction, SampledCorrelation, with_plaintext};
pub use data::{Data, Error, Plane, Shape};
pub use difference::{BitChange, Difference, Npcr, Uaci};
pub use entropy::{Entropy, LocalEntropy};
pub use histogram::Histogram;
pub use random::Random;
pub use repeats::RepeatedBlocks;
pub use report::{Channel, ChannelPair, Comparison, Options, Report, analyze, compare};
pub use tables::Tables;
pub use test::{Bounds, LEVELS, Test};
