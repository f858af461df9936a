//! All suites, one file or folder each.

mod aead_batch;
mod calls;
mod cbc_batch;
mod entries;
mod file_sizes;
mod files;
mod fs;
mod host;
mod kernels;
#[cfg(feature = "peers")]
mod peers;
mod questions;
mod sizes;

pub use aead_batch::AeadBatch;
pub use calls::Calls;
pub use cbc_batch::CbcBatch;
pub use entries::{Entries, GeneratedEntries};
pub use file_sizes::FileSizes;
pub use files::Files;
pub use fs::Fs;
pub use host::Host;
pub use kernels::Kernels;
#[cfg(feature = "peers")]
pub use peers::Peers;
pub use questions::Questions;
pub use sizes::Sizes;

pub(crate) use files::COPY as RATE_OF_COPY;
pub(crate) use kernels::COPY as KERNELS_COPY;

use crate::error::Result;
use crate::{Context, Report};

/// Something to measure that ends in one table.
pub trait Suite {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Measures and verifies everything.
    ///
    /// # Errors
    /// [`crate::Error::Wrong`] if a result was wrong; then no number is given out.
    /// [`crate::Error::NoGpu`] if the suite needs a GPU and there is none, [`crate::Error::NoFuse`] the
    /// same for mounts. Any other error if the machine, the files or the options do not allow the run.
    fn run(&self, context: &Context<'_>) -> Result<Report>;
}

/// All suites of a full report, each in the time of minutes: what its document asks, with fewer
/// sizes and files. Those that need a GPU are among them, other libraries are not.
pub fn all() -> Vec<Box<dyn Suite>> {
    let fs = Fs::default();
    let entries = GeneratedEntries {
        dir: fs.dir.clone(),
        entries: 5_000_000,
    };
    vec![
        Box::new(FileSizes::default()),
        Box::new(Files::default()),
        Box::new(entries),
        Box::new(CbcBatch {
            counts: (0..=12).map(|power| 1 << power).collect(),
            ..CbcBatch::default()
        }),
        Box::new(Questions::default()),
        Box::new(Sizes {
            algorithms: vec![
                warplock::Algorithm::Aes128Ctr,
                warplock::Algorithm::Aes256Gcm,
            ],
            huge: Vec::new(),
            ..Sizes::quick()
        }),
        Box::new(AeadBatch {
            counts: vec![1 << 14],
            ..AeadBatch::default()
        }),
        Box::new(Host::default()),
        Box::new(Kernels {
            sizes: vec![1 << 30],
        }),
        Box::new(Calls),
        Box::new(Fs {
            size: 128 << 20,
            files: 500,
            requests: vec![4 << 10, 64 << 10, 1 << 20],
            ..fs
        }),
    ]
}
