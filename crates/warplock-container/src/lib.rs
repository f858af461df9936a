//! Encrypted files and streams, at the speed of the machine.
//!
//! The bytes are those of [C2SP chunked encryption](https://c2sp.org/chunked-encryption) with
//! AES-256-GCM ("Cobblestone-256") or AES-128-GCM: a header of 56 bytes, then chunks of 16 KiB,
//! each authenticated by itself, the last one shorter than the others. So any part can be opened
//! alone, and a file that was cut, extended, or whose chunks were changed or moved is noticed.
//! An [`Envelope`] puts the wrapped key in front of such a stream. `docs/format.md` describes
//! both, and how to open them without Warplock.
//!
//! - [`encrypt_file`], [`decrypt_file`], [`verify_file`]: whole `.wl` files by their names.
//! - [`salvage()`]: what verifies of a damaged stream.
//! - [`rewrap_file`], [`rekey_file`]: other keys for a `.wl` file.
//! - [`seal`], [`open`], [`verify`], [`open_range`]: from a [`Source`] to a [`Sink`], on all
//!   cores, in bounded memory; files and pipes in any combination.
//! - [`seal_bytes`], [`open_bytes`]: the same in memory.
//! - [`Writer`], [`Reader`]: `Write`, and `Read + Seek`.
//! - [`PartSealer`]: one stream made by many machines.
//! - `gpu::Ring` (with the feature `cuda`): streams between files and GPU memory, without plaintext on
//!   the host.
//! - [`inspect()`]: what a file tells without any key.
//!
//! ```
//! use warplock_container::{InputKey, Pipeline, Sink, Source, Suite, open, seal};
//!
//! let key = InputKey::new(Suite::Cobblestone256, &[7; 32])?; // random, in earnest
//! let pipeline = Pipeline::new()?;
//!
//! let mut sealed = Vec::new();
//! seal(Source::bytes(b"a long story"), Sink::sequential(&mut sealed), &key, &pipeline)?;
//! assert_eq!(sealed.len() as u64, warplock_container::sealed_len(12).unwrap());
//!
//! let mut opened = Vec::new();
//! open(Source::bytes(&sealed), Sink::sequential(&mut opened), &key, &pipeline)?;
//! assert_eq!(opened, b"a long story");
//!
//! sealed[60] ^= 1;
//! let refused = open(Source::bytes(&sealed), Sink::nowhere(), &key, &pipeline).unwrap_err();
//! assert!(refused.to_string().contains("last chunk"));
//! # Ok::<(), warplock_container::Error>(())
//! ```

mod bytes;
mod cipher;
mod diagnose;
mod drain;
mod engines;
mod envelope;
mod error;
mod feed;
mod files;
mod foreign;
#[cfg(feature = "cuda")]
pub mod gpu;
mod inspect;
mod key;
mod layout;
mod outcome;
mod output_file;
mod part;
mod pipeline;
#[cfg_attr(not(target_os = "linux"), path = "no_ram_file.rs")]
mod ram_file;
mod reader;
mod rewrap;
mod salvage;
mod sink;
mod source;
mod stream;
mod system;
mod workers;
mod writer;

pub use bytes::{open_bytes, seal_bytes};
pub use engines::Engines;
pub use envelope::Envelope;
pub use error::{Error, ErrorKind, Result};
pub use files::{attributes_of, decrypt_file, encrypt_file, verify_file};
pub use foreign::Foreign;
pub use inspect::{Format, Inspection, Length, StreamInfo, WrappedKey, inspect};
pub use key::{InputKey, Suite};
pub use layout::{
    CHUNK_LEN, HEADER_LEN, Header, MAX_CHUNKS, SEALED_CHUNK_LEN, TAG_LEN, chunk_count,
    chunk_offset, content_len, opened_len, sealed_len,
};
pub use output_file::{Access, OutputFile, close, sync_folder};
pub use part::PartSealer;
pub use pipeline::{Concurrency, Monitor, Pipeline};
pub use reader::Reader;
pub use rewrap::{Rewrapped, interrupted_rewrap, rekey_file, rewrap_file};
pub use salvage::{Salvaged, salvage};
pub use sink::SparseFile;
pub use sink::{Sink, WriteAt};
pub use source::{ReadAt, Source};
pub use stream::{open, open_range, seal, verify};
pub use writer::Writer;
