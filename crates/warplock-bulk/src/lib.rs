//! Whole trees of files, encrypted, decrypted or verified: planned once, run by any number of
//! processes, stopped at any time and resumed.
//!
//! [`plan()`] lists a tree into a *job*, a folder that never changes afterwards except for logs.
//! [`run()`] runs a shard of it: each file is a *unit* with a fresh key of its own, and its output
//! appears only when it is complete. A failure is a row in a log, and does not stop the run.
//! [`report()`] adds the logs up. docs/bulk.md has the rules.

mod error;
mod job;
mod log;
mod mark;
mod plan;
mod run;
mod unit;

pub use error::{Error, Result};
pub use job::{Job, Name, Operation, Shard};
pub use log::{Report, Row, Status, report};
pub use plan::{Plan, plan};
pub use run::{Keys, run};
