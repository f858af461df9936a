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
pub use entries::Entries;
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
