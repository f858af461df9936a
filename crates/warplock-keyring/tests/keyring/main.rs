//! Keys: how they are written, read, wrapped and refused.

mod age_program;
mod common;
mod files;
mod hostile;
mod nonsense;
mod parse;
mod plugin;
mod wrap;
