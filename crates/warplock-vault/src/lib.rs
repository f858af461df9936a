//! Warplock's vault: an encrypted file system that notices.
//!
//! A store is a folder of ciphertext, one file for each file. The format is specified, with its
//! reasons, in `docs/vault-format.md`.
//!
//! # How the code is laid out
//!
//! Rooms, each of which uses those before it:
//!
//! | room | what it is |
//! |---|---|
//! | `store` | what a vault asks of its store ([`Storage`]), and a folder that gives it ([`Posix`]) |
//! | `format` | what stands in the store: settings and wrapped keys, headers, blocks, the tree of their nonces and tags, names |
//! | `memory` | what this machine knows of a vault, in a database outside the store |
//! | `file` | a file in use: opening, reading, writing, and from one committed state to the next |
//! | `tree` | nodes, their names and places, folders, links, attributes |
//! | `check` | checking all of a store, and what is done about what was found |
//! | the crate's root | [`Vault`], which opens a store; `filesystem`, which offers it as a [`fs::FileSystem`]; `remember`, where the vault asks and tells the memory |
//! | `fuse` | the last, thin layer: the kernel's requests to calls of [`fs::FileSystem`], whichever that is |
//!
//! Tests drive the same [`fs::FileSystem`] that a mount serves, over a [`Storage`] in memory that
//! logs every change, crashes anywhere and fails on demand. [`pass_through`] is another one, which
//! changes nothing: the yardstick for speed, and the reference for behaviour.
//!
//! **Locks.** A file's state sits under one lock: many readers or one writer. A writer of whole
//! committed blocks counts as a reader: that changes only which slot of the journal is a block's
//! newest version, which has a lock of its own for moments (`Moves`). Five locks are held over
//! store I/O, and taken in this order: the gate (shared by all that changes the vault; closing
//! shuts it), the one for names while they change, a node's content while it is opened, the tick's,
//! a file's state.
//!
//! **A file in use is one `Content`**, whichever request uses it: a node that the kernel has
//! forgotten stays known until a tick finds that its content is not in use and nothing of it waits
//! for a commit. After an fsync moved blocks stay in the journal until the file changes again or
//! the next tick.
//!
//! **Which thread encrypts.** The one that got a request, on the CPU: requests come from several
//! threads, and handing one over cost more than it gained. Whole blocks are sealed before the
//! file's lock is taken. Where there is a GPU, runs of 64 KiB and more go to its engine.
//!
//! **What the kernel does**, and the vault therefore does not: permission checks, the page cache
//! with write-back and read-ahead, locks, appending. With write-back it owns length and times of
//! files that are being written. It does not write back before it asks for holes, so
//! `fuse::writers` makes it.

mod accept;
mod by_path;
mod check;
mod core;
mod error;
mod file;
mod filesystem;
mod format;
pub mod fs;
pub mod fuse;
#[doc(hidden)]
pub mod fuzzing;
mod memory;
pub mod pass_through;
mod pool;
mod remember;
mod store;
mod tree;
mod vault;

pub use accept::{MemoryInfo, accept, forget_memory, memory_info};
pub use by_path::VaultFiles;
pub use check::{CheckOptions, Class, Finding, LOST, Report, check};
pub use core::Trouble;
pub use error::{Error, ErrorKind, Result, Subject};
pub use filesystem::{OpenDir, OpenFile};
pub use format::config::{
    BLOCK_SIZES, CONFIG, Info, Settings, Unlocked, add_key, export_key, info, init, init_on,
    recover, remove_altered_keys, remove_key, replace_key, unlock,
};
pub use memory::{default_memory_dir, known_vaults, memory_lies_in};
pub use store::descriptors::{raise_descriptor_limit, raise_inherited_limits};
pub use store::harden::harden;
pub use store::posix::Posix;
pub use store::storage;
pub use store::storage::Storage;
pub use store::store_lock::{Left, left};
pub use vault::{Options, Vault};
