//! A virtual machine that is set back to a snapshot, with its store and its memory.

use super::*;

/// All that goes back.
pub(super) struct Snapshot {
    moment: Moment,
    model: Model,
    copies: Vec<Disk>,
    tainted: bool,
    loose_xattrs: bool,
}

impl World<'_> {
    /// Takes a snapshot, or goes back to it. What was made since never existed; but the attacker
    /// has copies of it, and its states have numbers that the machine will use again.
    pub(super) fn take_or_resume_snapshot(&mut self) {
        // Without a memory, what was made since would be another machine's.
        let has_memory = self.remembers && Self::memory_file(&self.state()).is_some();
        if self.machines > 1 || !has_memory || self.rng.below(2) == 0 {
            return;
        }
        let Some(snapshot) = self.snapshot.take() else {
            self.trace.push("a snapshot".into());
            self.snapshot = Some(Snapshot {
                moment: self.moment(),
                model: self.model.clone(),
                copies: self.copies.clone(),
                tainted: self.tainted,
                loose_xattrs: self.loose_xattrs,
            });
            return;
        };
        self.trace.push("back to the snapshot".into());
        let disk = self.mem.disk().clone();
        self.restore(&snapshot.moment);
        self.mem.disk().number_above(&disk);
        self.abandoned = std::mem::replace(&mut self.copies, snapshot.copies);
        let abandoned = std::mem::replace(&mut self.model, snapshot.model);
        self.model.had_xattrs_of(&abandoned);
        self.tainted = snapshot.tainted;
        self.loose_xattrs = snapshot.loose_xattrs;
    }
}
