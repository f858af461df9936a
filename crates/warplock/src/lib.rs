//! Warplock's engine: symmetric encryption in batches, at the speed of the machine.
//!
//! - [`Algorithm`]: the table of ciphers and modes; [`Key`]: secret bytes for one of them.
//! - [`Batch`]: many messages at once, as a structure of arrays: ragged, in place or not, a key
//!   for all or a key each.
//! - [`Engine`]: checks a batch, then runs it on a backend. The instruction set is chosen at run
//!   time.
//! - [`Stream`]: one long message, fed in pieces.
//! - [`cuda::Plan`]: a batch that lies in GPU memory, for kernels on the caller's stream.
//! - [`Gatherer`]: small messages of many threads, sent off together.
//!
//! Take `aes-256-gcm` and a fresh nonce for each message unless you know why not: the other modes
//! are there for other programs' data and do not notice changes.
//!
//! ```
//! use warplock::{Algorithm, Batch, Engine, Ivs, Key, Keys, Tags, Text};
//!
//! let engine = Engine::new()?;
//! let key = Key::generate(Algorithm::Aes256Gcm)?;
//! let nonce = [1; 12]; // never use one twice with the same key
//!
//! let mut data = b"a long message".to_vec();
//! let mut tag = [0; 16];
//! let seal = Batch::seal(Keys::One(&key), Text::in_place(&mut data));
//! engine.run(seal.ivs(Ivs::Each(&nonce)).tags(Tags::Apart(&mut tag)))?;
//!
//! let open = Batch::open(Keys::One(&key), Text::in_place(&mut data));
//! engine.run(open.ivs(Ivs::Each(&nonce)).tags(Tags::Given(&tag)))?;
//! assert_eq!(data, b"a long message");
//! # Ok::<(), warplock::Error>(())
//! ```

mod algorithm;
mod backend;
mod batch;
mod checks;
mod cpu;
pub mod cuda;
mod engine;
mod error;
pub mod hazmat;
mod job;
mod key;
pub mod pkcs7;
mod plan;
mod portion;
mod random;
#[cfg(test)]
mod random_jobs;
mod single;
mod stream;
mod threads;

pub use algorithm::{Algorithm, Cipher, Info, Mode};
pub use backend::{Backend, Choice, GpuSet, Ticket};
pub use batch::{Aad, Batch, Direction, Ivs, Keys, Span, Spans, Tags, Text};
pub use cpu::InstructionSet;
pub use engine::{BACKEND_VARIABLE, Builder, Engine, Share};
pub use error::Error;
pub use job::Job;
pub use key::Key;
pub use plan::{Calibration, Gatherer, Gathering};
pub use random::fill_random;
pub use stream::Stream;
pub use threads::MOST_THREADS;

#[cfg(doctest)]
#[doc = include_str!("../tests/misuse.md")]
mod misuse {}
