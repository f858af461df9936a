//! Warplock's vault: an encrypted file system that notices.
//!
//! A store is a folder of ciphertext, one file for each file. The format is specified, with its
//! reasons, in `docs/vault-format.md`.

mod attributes;
mod blocks;
mod check;
mod commit;
mod config;
mod content;
mod core;
mod descriptors;
mod error;
mod filesystem;
mod folder;
pub mod fs;
pub mod fuse;
mod gaps;
mod harden;
mod header;
mod keys;
mod layout;
mod locks;
mod names;
mod node;
mod open;
pub mod pass_through;
mod permissions;
mod pool;
mod posix;
mod rename;
mod resize;
pub mod storage;
mod sum;
mod symlink;
mod tree;
mod uncommitted;
mod vault;
mod witness;
mod write;
mod xattr;

pub use check::{CheckOptions, Finding, LOST, Report, check};
pub use config::{
    BLOCK_SIZES, CONFIG, Info, Settings, Unlocked, add_key, info, init, init_on,
    remove_altered_keys, remove_key, replace_key, unlock,
};
pub use core::Trouble;
pub use descriptors::raise_descriptor_limit;
pub use error::{Error, ErrorKind, Result};
pub use filesystem::{OpenDir, OpenFile};
pub use harden::harden;
pub use posix::Posix;
pub use storage::Storage;
pub use vault::{Options, Vault};
