//! The suites of `warplock bench`: what Warplock does on this machine, measured and verified.
//!
//! - [`Suite`]: one table of results; [`suite`] has them all.
//! - [`Report`]: its rows and columns, as a table for people ([`Report::table`]), as JSON for
//!   machines ([`Report::json`], and back from it) and as a figure ([`Report::svg`]). [`page()`] makes
//!   one HTML page of several.
//! - [`Context::progress`]: is given the rows so far, to be shown while others are measured, and
//!   for runs that are stopped.
//! - [`Generate`]: files of keys, plaintexts and ciphertexts for the suite [`suite::Entries`].
//!
//! Every measured number is the median of repeated runs after a warm-up, on random data, and every
//! run's result is compared with another implementation's before its time counts. Published numbers
//! of others are marked as quoted.
//!
//! ```
//! use warplock_bench::{Context, Plan, Suite, suite::FileSizes};
//!
//! let suite = FileSizes { sizes: vec![1028, 20560], ..FileSizes::default() };
//! let context = Context { plan: Plan::quick(), ..Context::default() };
//! let report = suite.run(&context)?;
//! assert!(report.table().contains("20,560"));
//! assert!(report.svg()?.starts_with("<svg"));
//! # Ok::<(), warplock_bench::Error>(())
//! ```

mod buffer;
mod context;
mod error;
mod figures;
mod folder;
mod generate;
mod gpu;
mod leftovers;
mod machine;
mod measure;
mod memory;
mod message;
mod output;
mod page;
mod plot;
mod random;
mod report;
pub mod size;
pub mod suite;
mod table;
mod workers;

pub use context::Context;
pub use error::Error;
pub use generate::{Generate, Generated};
pub use leftovers::abandon;
pub use machine::Machine;
pub use measure::{Plan, Sample};
pub use page::{Section, page};
pub use report::{Column, Report, Role, Unit, Value};
pub use suite::Suite;
