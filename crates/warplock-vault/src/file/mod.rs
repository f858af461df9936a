//! A file in use: opening it, reading, writing, and from one committed state to the next.

pub(crate) mod commit;
pub(crate) mod content;
pub(crate) mod contents;
pub(crate) mod open;
pub(crate) mod resize;
pub(crate) mod uncommitted;
pub(crate) mod write;
