//! Attacks on a store while its vault is open.

use super::*;

impl World<'_> {
    /// A session during which the attacker changes the store; whether the history can continue
    /// after it.
    pub(super) fn attacked_session(&mut self) -> Judged<bool> {
        self.trace.push("a session under attack".into());
        self.mem.disk().log.clear();
        self.before = self.mem.disk().clone();
        let told = Told::default();
        let vault = match self.try_open(&told, false) {
            Ok(vault) => vault,
            Err(_) if self.tainted => return Ok(false),
            Err(refused) => return Err(refused),
        };
        let mut files = Vec::new();
        let mut failed = false;
        let mut loose = false;
        for round in 0..2 {
            let mut work = Work {
                vault: &vault,
                model: &mut self.model,
                rng: &mut self.rng,
                trace: self.trace,
                files: std::mem::take(&mut files),
                crashes: false,
            };
            // Without a memory, an older file may have come in the place of one: what is then written
            // to that is in no state that the model knows.
            let blind = round > 0 && !self.remembers;
            let count = if blind { 0 } else { 1 + work.rng.below(10) };
            for _ in 0..count {
                self.steps.fetch_add(1, Ordering::Relaxed);
                if let Err(errno) = work.step() {
                    work.trace.push(format!("fails: {errno}"));
                    failed = true;
                    break;
                }
            }
            work.read_open_files()?;
            files = work.files;
            if failed {
                break;
            }
            if round == 0 {
                self.keep_copy();
                // Numbers of this session may be excused where a sync fails.
                self.abandoned.clear();
                loose = self.change_store().is_some_and(|done| done.xattrs);
            }
        }
        let window = match (self.remembers, failed) {
            (false, _) => Window::Ever,
            (true, true) => Window::Crash,
            (true, false) => Window::Now,
        };
        let ask = Ask {
            window,
            may_miss: !self.remembers,
            xattrs: !loose && !self.loose_xattrs && self.remembers && !failed,
            honest: false,
        };
        let mut view = View::default();
        view.walk(&vault, &self.model, window);
        files.clear();
        let closed = vault.close();
        drop(vault);
        view.hear(&told);
        let said = failed || closed.is_err() || !view.is_silent();
        self.judge(&view, &ask)
            .map_err(|wrong| format!("in use: {wrong}"))?;
        // What was said may concern what was written and not synced.
        let window = match (self.remembers, said) {
            (false, _) => Window::Ever,
            (true, true) => Window::Crash,
            (true, false) => Window::Now,
        };
        let view = self.view(window);
        let ask = Ask {
            window,
            xattrs: ask.xattrs && !said,
            ..ask
        };
        self.judge(&view, &ask)
            .map_err(|wrong| format!("closed: {wrong}"))?;
        self.tainted = true;
        self.loose_xattrs |= loose;
        let on = !said && view.is_silent() && self.remembers;
        if on {
            self.model.synced_all();
        }
        Ok(on)
    }
}
