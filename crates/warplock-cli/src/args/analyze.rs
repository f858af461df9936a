//! `analyze`: statistics of ciphertexts.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum, ValueHint};
use warplock::Algorithm;
use warplock_analyze::Shape;
use warplock_analyze::pictures::Picture;

/// Measure what papers on image encryption print: histogram, entropy, correlation, NPCR, UACI.
///
/// FILE is a ciphertext, or a plaintext and then its ciphertext. With --algorithm, FILE is a
/// plaintext, which this command encrypts under fresh keys. Files named .png, .pgm, .ppm, .pnm,
/// .bmp, .tif or .tiff are images whose pixels are analysed, each channel separately; any other file
/// is bytes, or with --image raw pixels.
///
/// Each result has its expected value for random data of this size, bounds, a p-value and a
/// sentence; docs/analyze.md tells how to read them. Such tests find flaws and never show security:
/// whatever the results, the exit code is 0. With --backend cuda the statistics are computed on a
/// GPU; the results are the same.
#[derive(Args, Debug)]
#[command(after_help = ANALYZE_EXAMPLES)]
pub(crate) struct Analyze {
    /// A ciphertext; a plaintext and its ciphertext; with --algorithm a plaintext (- for stdin).
    #[arg(value_name = "FILE", num_args = 1..=2, required_unless_present = "picture")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Another ciphertext of the same size: NPCR, UACI and changed bits between the two.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["algorithm", "trials"])]
    pub(crate) against: Option<PathBuf>,
    /// Encrypt the plaintext with these algorithms, or with all.
    #[arg(
        short,
        long,
        value_name = "NAME,..",
        value_delimiter = ',',
        ignore_case = true
    )]
    pub(crate) algorithm: Vec<Choice>,
    /// Encrypt the plaintext a second time with this changed, and compare the two ciphertexts.
    /// [default: all that the algorithm has]
    #[arg(
        long,
        value_name = "WHAT,..",
        value_delimiter = ',',
        requires = "algorithm"
    )]
    pub(crate) change: Vec<Change>,
    /// Files are raw pixels of this shape; what comes after them (padding, a tag) is left out. For
    /// --picture the size. [default: that of the plaintext, if it is an image]
    #[arg(long, value_name = "WxHxC")]
    pub(crate) image: Option<Shape>,
    /// Encrypt a picture made here: flat, gradient, checkers or photograph.
    #[arg(long, value_name = "NAME", value_parser = picture)]
    #[arg(requires = "algorithm", conflicts_with = "files")]
    pub(crate) picture: Option<Picture>,
    /// Repeat with N fresh keys, or without --algorithm cut the ciphertext into N parts, and say how
    /// many results are outside the bounds.
    #[arg(long, value_name = "N", value_parser = trials)]
    pub(crate) trials: Option<NonZeroUsize>,
    /// The same seed gives the same keys and samples. The keys protect nothing then.
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Also write one HTML page with the images, histograms, and neighbours against each other.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "trials")]
    pub(crate) report: Option<PathBuf>,
    /// Replace an existing page.
    #[arg(long, requires = "report")]
    pub(crate) force: bool,
}

const ANALYZE_EXAMPLES: &str = "\
Examples:
  warplock analyze data.enc
  warplock analyze plain.png cipher.png --report page.html
  warplock analyze --image 512x512x3 --against second.bin first.bin
  warplock analyze --algorithm aes-256-ecb,aes-256-gcm photo.png
  warplock analyze --algorithm all --picture checkers --trials 100";

/// What differs between two encryptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Change {
    /// The lowest bit of the byte in the middle of the plaintext; key and nonce stay.
    Pixel,
    /// One bit of the key; plaintext and nonce stay.
    Key,
    /// The nonce, as for every message in proper use; plaintext and key stay.
    Nonce,
}

impl Change {
    /// All three.
    pub(crate) const ALL: [Change; 3] = [Change::Pixel, Change::Key, Change::Nonce];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Change::Pixel => "pixel",
            Change::Key => "key",
            Change::Nonce => "nonce",
        }
    }
}

/// One algorithm, or all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    All,
    One(Algorithm),
}

impl FromStr for Choice {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        match name.eq_ignore_ascii_case("all") {
            true => Ok(Choice::All),
            false => name.parse().map(Choice::One).map_err(|_| UnknownAlgorithm),
        }
    }
}

/// Neither `all` nor an algorithm's name.
#[derive(Debug)]
pub(crate) struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("give `all` or names that `warplock devices --algorithms` lists")
    }
}

impl std::error::Error for UnknownAlgorithm {}

fn picture(name: &str) -> Result<Picture, String> {
    let found = Picture::ALL.into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| {
        let names = Picture::ALL.map(Picture::name);
        format!("give one of {}", names.join(", "))
    })
}

fn trials(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "give a number from 1 on".into())
}
