//! Parquet Modular Encryption: [`decrypt()`] makes a plain Parquet file, which any engine reads,
//! from an encrypted one; [`encrypt()`] does the reverse.
//!
//! All of the format: AES_GCM_V1 and AES_GCM_CTR_V1 with keys of 128, 192 and 256 bits, encrypted
//! and plaintext footers, keys of columns, plaintext columns, AAD prefixes in the file or given,
//! pages of both versions, dictionaries, page indexes and bloom filters.
//!
//! [`LazyFile`] decrypts only what is read, [`gpu::GpuDecryption`] all of it into GPU memory.
//!
//! ```no_run
//! use std::fs::File;
//! use warplock_parquet::{GivenKeys, Options, decrypt};
//!
//! let footer = Some(std::fs::read("footer.key")?.into());
//! let mut keys = GivenKeys { footer, ..GivenKeys::default() };
//! let engine = warplock::Engine::new()?;
//! let plain = File::create("plain.parquet")?;
//! decrypt(File::open("table.parquet")?, plain, &mut keys, &Options::default(), &engine)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decrypt;
mod encrypt;
mod error;
mod fields;
mod files;
mod footer;
pub mod gpu;
mod inspect;
mod keys;
mod lazy;
mod module;
mod pages;
mod plain_pages;
mod sheet;
mod thrift;
#[cfg(test)]
#[path = "../tests/common/vectors.rs"]
mod vectors;

pub use decrypt::{Options, decrypt, decrypt_into, decrypt_slice};
pub use encrypt::{Encryption, WriteKey, encrypt, encrypt_slice};
pub use error::{Error, Module, Place, Result};
pub use inspect::{Inspection, inspect};
pub use keys::{GivenKeys, KeyAnswer, KeyBytes, KeyRequest, KeySource};
pub use lazy::LazyFile;
