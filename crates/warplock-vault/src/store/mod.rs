//! A vault's store: one folder of another file system.

pub(crate) mod descriptors;
pub(crate) mod harden;
pub(crate) mod locks;
pub(crate) mod permissions;
pub(crate) mod posix;
pub(crate) mod probe;
pub mod storage;
pub(crate) mod store_lock;
