//! Batches in host memory: a ring of slots that moves chunks through a GPU.

pub(super) mod backend;
pub(super) mod copy;
mod drain;
mod long_gcm;
pub(super) mod ring;
pub(super) mod slot;
