//! Warplock's engine: symmetric encryption in batches, at the speed of the machine.
//!
//! - [`Algorithm`]: the table of ciphers and modes; [`Key`]: secret bytes for one of them.
//! - [`Batch`]: many messages in one call, as a structure of arrays: ragged, in place or not, a key
//!   for all or a key each.
//! - [`Engine`]: checks a batch, then runs it on a backend. The instruction set is chosen at run
//!   time.
//! - [`MessageStream`]: one long message, fed in pieces.
//! - [`cuda::Plan`]: a batch that lies in GPU memory, for kernels on the caller's stream.
//!
//! Use `aes-256-gcm` and random nonces unless you know why not: the other modes are there for other
//! programs' data and do not detect changes.
//!
//! ```
//! use warplock::{Algorithm, Engine, Key, Nonce};
//!
//! let engine = Engine::new()?;
//! let key = Key::generate(Algorithm::Aes256Gcm)?;
//! let sealed = key.seal(&engine, Nonce::random(), b"v1", b"a long message")?;
//! assert_eq!(key.open(&engine, b"v1", &sealed)?, b"a long message");
//! # Ok::<(), warplock::Error>(())
//! ```
//!
//! [`OwnedBatch`] does this for many messages in one call; a [`Batch`] works on the caller's own memory
//! and allocates nothing.
//!
//! The feature `cuda`, on by default, is support for NVIDIA GPUs: the compiled kernels (4 MB) and
//! the loader of the driver. Without it the backends `cuda` are refused, and `auto` is the CPU.
//!
//! # Nonces
//!
//! Two messages under the same key and nonce reveal the XOR of their texts, and with GCM allow
//! forgeries.
//!
//! - **Random**: [`Ivs::Random`] draws a nonce for each message and writes it to the caller's array.
//!   Each batch draws from the operating system and keeps nothing for the next, so nonces stay
//!   fresh in forked processes and in virtual machines resumed from a snapshot. A [`MessageStream`] takes
//!   its nonce from the caller: draw it with [`fill_random`].
//! - **Limit**: with 12-byte random nonces (GCM), at most 2^32 messages per key (NIST SP 800-38D,
//!   8.3). Then the chance of a repeat stays below 2^-32. Beyond that, use more keys or a counter.
//! - **Given**: [`Ivs::Each`] and [`Ivs::Ragged`], for protocols and counters. A counter must
//!   survive restarts, and no restored backup may set it back.
//! - **Refused**: a batch that would encrypt two messages under the same key with the same nonce
//!   (GCM, ACORN) or a common counter block (CTR): [`Error::NonceReuse`]. The engine does not
//!   remember earlier batches, and assumes that the keys of [`Keys::Each`] and [`Keys::Indexed`]
//!   are distinct. Decryption is never refused.
//! - **In GPU memory**: a [`cuda::Plan`] reads its nonces there at every launch. The engine cannot
//!   see them; it only refuses two messages whose nonces lie at the same place. Before each launch
//!   that encrypts, copy new nonces there, or let a kernel on the same stream count them up. Such a
//!   counter must never be set back while its key is in use, and GPUs that share a key need
//!   separate ranges.

mod algorithm;
mod auto;
mod backend;
mod batch;
mod calibrate;
mod checks;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "cuda/absent.rs"]
mod cuda;
mod engine;
mod error;
pub mod hazmat;
mod job;
mod key;
mod lock;
mod machine;
mod nonces;
pub mod pkcs7;
mod pool;
// Parts of the interface that only GPUs use.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
mod portion;
mod random;
mod secret;
mod simple;
mod single;
mod stream;
#[cfg(test)]
mod testing;

pub use algorithm::{Algorithm, AlgorithmInfo, Cipher, Mode};
pub use auto::Calibration;
#[doc(hidden)]
pub use auto::fuzzing;
pub use backend::{BackendChoice, GpuSet};
pub use batch::{Aad, Batch, Direction, Ivs, Keys, Span, Spans, Tags, Text};
pub use cpu::InstructionSet;
pub use engine::{BACKEND_VARIABLE, Builder, Engine, GpuBytes};
pub use error::{BatchProblem, Error, Lack};
pub use key::Key;
pub use pool::MOST_THREADS;
pub use random::fill_random;
pub use simple::{Nonce, OwnedBatch};
pub use stream::MessageStream;

#[cfg(doctest)]
#[doc = include_str!("../tests/misuse.md")]
mod misuse {}
