//! The bytes in the store: `docs/vault-format.md`.

pub(crate) mod blocks;
pub(crate) mod config;
pub(crate) mod entry_names;
pub(crate) mod header;
pub(crate) mod keys;
pub(crate) mod layout;
pub(crate) mod names;
pub(crate) mod pages;
pub(crate) mod record;
pub(crate) mod seals;
pub(crate) mod times;
