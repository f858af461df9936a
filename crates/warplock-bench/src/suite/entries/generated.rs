//! The suite on files of its own.

use std::path::PathBuf;

use super::Entries;
use crate::error::Result;
use crate::output::work_folder;
use crate::suite::Suite;
use crate::{Context, Generate, Report};

/// `entries` on files that are made for it, and removed with it.
#[derive(Clone, Debug)]
pub struct GeneratedEntries {
    /// Where their folder is made.
    pub dir: PathBuf,
    /// How many entries.
    pub entries: u64,
}

impl Suite for GeneratedEntries {
    fn name(&self) -> &'static str {
        "entries"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        // Three files and an output.
        let folder = work_folder(&self.dir, self.entries.saturating_mul(64), 0)?;
        let dir = folder.path().join("entries");
        (context.notify)("making the files");
        let generate = Generate {
            dir: dir.clone(),
            entries: self.entries,
            seed: Some(1),
            force: false,
            threads: context.threads,
        };
        generate.run(&|_| {})?;
        Entries::new(dir).run(context)
    }
}
