//! Two machines that use one store in turn, each with a memory of its own.

use std::collections::BTreeSet;

use warplock_vault::accept;

use super::*;

/// What a machine says of a name that the other one took away, until that is accepted.
const GONE: &str = "it is missing";

impl World<'_> {
    /// The other machine goes on. What this one made is the newest there without a word; what this one
    /// took away is missing there, until its owner accepts that. Gives whether the history goes on.
    pub(super) fn change_machine(&mut self) -> Judged<bool> {
        self.machine = 1 - self.machine;
        self.trace.push(format!("machine {}", self.machine));
        std::mem::swap(&mut self.copies, &mut self.others_copies);
        self.drop_unnamed();
        let (view, gone) = match self.arrive() {
            // The attacker may have altered what only this machine looks at.
            Err(_) if self.tainted => return Ok(false),
            arrived => arrived?,
        };
        let ask = Ask {
            window: Window::Now,
            may_miss: false,
            xattrs: !self.loose_xattrs,
            honest: false,
        };
        if !self.tainted {
            self.judge(&view, &ask)?;
            self.expect_only_gone(&view)
                .inspect_err(|_| self.trace.extend(view.describe()))?;
        }
        // A user who was told of an attack accepts everything as it is.
        if self.tainted || !gone.is_empty() {
            let mut options = options(&Told::default());
            options.memory = Some(self.state());
            options.accept = true;
            let paths = if self.tainted { Vec::new() } else { gone };
            let accepted = Vault::open_on(self.mem.clone(), &self.key, options)
                .and_then(|vault| accept(&vault, &paths).and_then(|_| vault.close()));
            accepted.map_err(|error| format!("accepting: {error}"))?;
        }
        let (view, _) = self.arrive()?;
        if !self.tainted {
            self.judge(
                &view,
                &Ask {
                    honest: true,
                    ..ask
                },
            )?;
        }
        self.keep_copy();
        Ok(true)
    }

    /// Takes what has no name off the disk: what was changed and removed while a machine was away is in
    /// no state that it knows, and could be shown to it.
    fn drop_unnamed(&self) {
        let mut disk = self.mem.disk();
        let mut named = BTreeSet::new();
        let mut waiting = vec![warplock_vault::fs::ROOT];
        while let Some(inode) = waiting.pop() {
            if named.insert(inode) {
                waiting.extend(disk.objects[&inode].entries.values());
            }
        }
        disk.objects.retain(|inode, _| named.contains(inode));
    }

    /// What a machine sees and says of the store, and what is missing of what it knew.
    fn arrive(&mut self) -> Judged<(View, Vec<PathBuf>)> {
        let told = Told::default();
        let vault = self.try_open(&told, false)?;
        let mut view = View::default();
        view.walk(&vault, &self.model, Window::Now);
        view.check(&vault, false);
        vault.close().map_err(|error| format!("closing: {error}"))?;
        drop(vault);
        view.hear(&told);
        view.told
            .retain(|text| !text.contains("does not know this vault yet"));
        let gone = view.findings.iter();
        let gone = gone.filter(|it| it.problem.contains(GONE));
        let gone = gone.map(|it| it.path.clone()).collect();
        Ok((view, gone))
    }

    /// Only names that the other machine took away are spoken of, or cannot be looked up.
    fn expect_only_gone(&self, view: &View) -> Judged {
        let other = view
            .findings
            .iter()
            .find(|it| it.class != Class::Note && !it.problem.contains(GONE));
        if let Some(finding) = other {
            return Err(format!(
                "another machine's honest work is refused: {finding:?}"
            ));
        }
        let told = view.told.iter().find(|text| !text.contains("is missing"));
        if let Some(text) = told {
            return Err(format!("another machine's honest work is told: {text}"));
        }
        for item in &view.items {
            let name = item.path.last().expect("it has one");
            let there = self.model.occupants(&item.parents, name, Window::Now);
            if matches!(item.seen, Seen::Fails(_)) && !there.contains(&None) {
                return Err(format!(
                    "{name:.3}: what another machine made cannot be read"
                ));
            }
        }
        Ok(())
    }
}
