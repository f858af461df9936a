//! Keys: how they are written, read, wrapped and refused.

mod age_program;
#[cfg(target_os = "linux")]
mod bombs;
#[cfg(target_os = "linux")]
mod bounded;
mod common;
mod files;
mod hostile;
mod limits;
mod nonsense;
mod parse;
mod plugin;
mod wrap;
