//! Tidying up after a crash without being asked: nothing that was altered is touched, which is a
//! person's to decide.

use std::sync::atomic::Ordering;

use super::repair::REMEMBERED;
use super::{CheckOptions, Class, Finding, check_all};
use crate::error::Result;
use crate::store::storage::Storage;
use crate::vault::Vault;

/// Findings that are told one by one.
const MOST_TOLD: usize = 20;

impl<S: Storage> Vault<S> {
    /// Completes or takes out of the tree what a crash left, by names and headers, and reports to
    /// the user. The vault must not be in use meanwhile.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) fn tidy(&self) -> Result<()> {
        let core = &self.core;
        if core.read_only || !core.unclean.load(Ordering::Relaxed) {
            return Ok(());
        }
        let options = CheckOptions {
            quick: true,
            repair: true,
        };
        let report = check_all(self, options, true, &mut |_| {})?;
        // The rest are leftovers of the vault's own.
        let concerns =
            |it: &&Finding| it.class == Class::Crash && (!it.repaired || it.action == REMEMBERED);
        for finding in report.findings.iter().filter(concerns).take(MOST_TOLD) {
            let (
                path,
                Finding {
                    problem, action, ..
                },
            ) = (finding.path.display(), finding);
            let shown = format!("{path}: {problem}; {action}");
            core.hearers
                .tell(&shown, || format!("what a crash left: {problem}; {action}"));
        }
        core.tell(match core.unclean.load(Ordering::Relaxed) {
            false => {
                "the vault was not closed properly the last time; unless the store was changed since, \
                 what was synced is there, and what the crash left was tidied up"
            }
            true => {
                "the vault was not closed properly the last time; unless the store was changed since, \
                 what was synced is there, but not all could be tidied up: `warplock vault check` says \
                 why"
            }
        });
        Ok(())
    }
}
