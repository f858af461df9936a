//! Warplock's vault: an encrypted file system that notices.
//!
//! A store is a folder of ciphertext, one file for each file. The format is specified, with its
//! reasons, in `docs/vault-format.md`.

mod accept;
mod attributes;
mod blocks;
mod by_path;
mod check;
mod commit;
mod config;
mod content;
mod contents;
mod core;
mod descriptors;
mod entry_names;
mod error;
mod filesystem;
mod folder;
pub mod fs;
pub mod fuse;
#[doc(hidden)]
pub mod fuzzing;
mod harden;
mod header;
mod keys;
mod layout;
mod links;
mod listings;
mod locks;
mod memory;
mod names;
mod node;
mod open;
mod owners;
mod pages;
pub mod pass_through;
mod permissions;
mod places;
mod pool;
mod posix;
mod probe;
mod record;
mod remember;
mod rename;
mod resize;
mod seals;
mod standing;
pub mod storage;
mod store_lock;
mod symlink;
mod times;
mod tree;
mod uncommitted;
mod vault;
mod write;
mod xattr;

pub use accept::{MemoryInfo, accept, forget_memory, memory_info};
pub use by_path::VaultFiles;
pub use check::{CheckOptions, Class, Finding, LOST, Report, check};
pub use config::{
    BLOCK_SIZES, CONFIG, Info, Settings, Unlocked, add_key, info, init, init_on,
    remove_altered_keys, remove_key, replace_key, unlock,
};
pub use core::Trouble;
pub use descriptors::{raise_descriptor_limit, raise_file_size_limit};
pub use error::{Error, ErrorKind, Result, Subject};
pub use filesystem::{OpenDir, OpenFile};
pub use harden::harden;
pub use memory::default_memory_dir;
pub use posix::Posix;
pub use storage::Storage;
pub use store_lock::{Left, left};
pub use vault::{Options, Vault};
