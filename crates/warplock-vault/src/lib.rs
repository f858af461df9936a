//! Warplock's vault: an encrypted file system that notices.
//!
//! A store is a folder of ciphertext, one file for each file. The format is specified, with its
//! reasons, in `docs/vault-format.md`.

mod error;
pub mod fs;
pub mod storage;

pub use error::{Error, ErrorKind, Result};
pub use storage::Storage;
