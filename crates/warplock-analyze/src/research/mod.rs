//! **Not secure: for study.** A pad cipher whose generator is optimised by a genetic algorithm, as
//! papers on image encryption propose, and the attack that breaks it.
//!
//! The generator ([`Generator`]) is optimised ([`evolve`]) until its output passes the statistics by
//! which such papers judge a cipher. It still falls to sixteen known bytes ([`recover_key`]): no
//! statistic of the output measures whether it can be predicted.

mod evolution;
mod generator;
#[cfg(feature = "cuda")]
mod gpu;
mod pad;

pub use evolution::{Evolved, cost, evolve};
pub use generator::{Generator, Operation};
#[cfg(feature = "cuda")]
pub use gpu::GpuResearch;
pub use pad::{KEY_LEN, decrypt, encrypt, recover_key};
