//! What this crate asks of the operating system: one file for each, with the same functions.

#[cfg(windows)]
mod access_list;
#[cfg(unix)]
mod unix;
#[cfg_attr(not(target_os = "linux"), path = "no_unnamed.rs")]
pub(crate) mod unnamed;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::close;
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub use windows::close;
#[cfg(windows)]
pub(crate) use windows::*;
