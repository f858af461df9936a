//! One history: sessions, crashes and attacks.

mod crashes;
mod in_use;
mod machines;
mod snapshots;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use warplock_keyring::MasterKey;
use warplock_vault::{Class, Settings, Vault};

use super::attacks::{Attack, puts_other_attributes};
use super::model::{Floors, Kind, Model, Obj, TOP, Window};
use super::oracle::{Ask, Seen, View};
use super::work::Work;
use crate::common::mem::{Disk, Mem};
use crate::common::rng::Rng;
use crate::common::{Told, new_vault, options};
use snapshots::Snapshot;

/// The attacker's copies of the store.
const COPIES: usize = 7;

type Judged<T = ()> = Result<T, String>;

pub(super) struct World<'a> {
    rng: Rng,
    steps: &'a AtomicU64,
    trace: &'a mut Vec<String>,
    mem: Mem,
    key: MasterKey,
    state: TempDir,
    /// Whether machines have a memory.
    remembers: bool,
    /// How many machines use the vault in turn, and which one does now.
    machines: usize,
    machine: usize,
    /// Copies of what the other machine has seen.
    others_copies: Vec<Disk>,
    model: Model,
    copies: Vec<Disk>,
    snapshot: Option<Snapshot>,
    /// Copies of what going back to a snapshot took away.
    abandoned: Vec<Disk>,
    /// The store as the last session began.
    before: Disk,
    crashed: bool,
    /// Attributes may be old, or gone.
    loose_xattrs: bool,
    /// An attack has not been noticed so far.
    tainted: bool,
}

/// The store and the machine's memory.
struct Moment {
    disk: Disk,
    memory: Option<Vec<u8>>,
}

impl<'a> World<'a> {
    pub(super) fn new(mut rng: Rng, steps: &'a AtomicU64, trace: &'a mut Vec<String>) -> Self {
        let (mem, key) = new_vault(&Settings::default());
        mem.disk().log.clear();
        let before = mem.disk().clone();
        // Where syncing costs nothing.
        let memory_dir = Path::new("/dev/shm");
        let state = match memory_dir.is_dir() {
            true => tempfile::tempdir_in(memory_dir).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let remembers = rng.below(5) > 0;
        let machines = match remembers && rng.below(3) == 0 {
            true => 2,
            false => 1,
        };
        trace.push(format!("with a memory: {remembers}, machines: {machines}"));
        World {
            rng,
            steps,
            trace,
            copies: vec![before.clone()],
            mem,
            key,
            state,
            remembers,
            machines,
            machine: 0,
            others_copies: Vec::new(),
            model: Model::new(),
            snapshot: None,
            abandoned: Vec::new(),
            before,
            crashed: false,
            loose_xattrs: false,
            tainted: false,
        }
    }

    fn state(&self) -> PathBuf {
        self.state.path().join(self.machine.to_string())
    }

    fn try_open(&self, told: &Told, read_only: bool) -> Judged<Vault<Mem>> {
        let mut options = options(told);
        options.memory = self.remembers.then(|| self.state());
        options.read_only = read_only;
        Vault::open_on(self.mem.clone(), &self.key, options).map_err(|error| error.to_string())
    }

    /// The files of the machine's memory.
    fn memory_file(state: &Path) -> Option<PathBuf> {
        let vaults = fs::read_dir(state).ok()?;
        let mut files = vaults.map(|it| it.unwrap().path().join("memory.redb"));
        files.find(|file| file.exists())
    }

    fn moment(&self) -> Moment {
        let file = Self::memory_file(&self.state());
        Moment {
            disk: self.mem.disk().clone(),
            memory: file.map(|file| fs::read(file).unwrap()),
        }
    }

    fn restore(&self, moment: &Moment) {
        *self.mem.disk() = moment.disk.clone();
        let file = Self::memory_file(&self.state());
        match (&moment.memory, file) {
            (Some(memory), Some(file)) => fs::write(file, memory).unwrap(),
            (None, Some(file)) => fs::remove_file(file).unwrap(),
            _ => {}
        }
    }

    fn keep_copy(&mut self) {
        let mut copy = self.mem.disk().clone();
        copy.log.clear();
        if self.copies.len() >= COPIES {
            let at = self.rng.below(COPIES as u64) as usize;
            self.copies.remove(at);
        }
        self.copies.push(copy);
    }

    /// All of a history; an error says what is wrong.
    pub(super) fn live(&mut self) -> Judged {
        for _ in 0..(2 + self.rng.below(4)) * self.machines as u64 {
            if self.machines > 1 && self.rng.below(2) == 0 && !self.change_machine()? {
                return Ok(());
            }
            self.take_or_resume_snapshot();
            if self.rng.below(6) == 0 {
                if !self.attacked_session()? {
                    return Ok(());
                }
            } else if let Err(wrong) = self.session() {
                // What went unnoticed before may be noticed now.
                let noticed =
                    wrong.starts_with("honest work fails") || wrong.starts_with("closing");
                return if self.tainted && noticed {
                    Ok(())
                } else {
                    Err(wrong)
                };
            }
            self.keep_copy();
            for _ in 0..self.rng.below(7) {
                self.attack()?;
            }
            if self.crashed {
                self.recover()?;
            }
        }
        Ok(())
    }

    /// Honest work, then closing the vault, or a crash.
    fn session(&mut self) -> Judged {
        let crash = self.rng.below(4) == 0;
        self.trace.push(format!("a session, crash: {crash}"));
        self.mem.disk().log.clear();
        self.before = self.mem.disk().clone();
        let told = Told::default();
        let vault = self.try_open(&told, false)?;
        let count = 1 + self.rng.below(25);
        let image_at = if crash { self.rng.below(count) } else { count };
        let taken: Arc<std::sync::Mutex<Option<Vec<u8>>>> = Arc::default();
        let mut floors = self.model.floors.clone();
        let state = self.state();
        let mut work = Work {
            vault: &vault,
            model: &mut self.model,
            rng: &mut self.rng,
            trace: self.trace,
            files: Vec::new(),
            crashes: crash && self.remembers,
        };
        let mut copied = None;
        for step in 0..count {
            if step == image_at {
                let (taken, state) = (Arc::clone(&taken), state.clone());
                let hook = move |_| {
                    let file = Self::memory_file(&state);
                    *taken.lock().unwrap() = file.map(|file| fs::read(file).unwrap());
                };
                let changes = work.rng.below(12);
                self.mem.disk().image_in = Some((changes, Arc::new(hook)));
            }
            floors = work.model.floors.clone();
            work.step()
                .map_err(|errno| format!("honest work fails: {errno}"))?;
            work.read_open_files()?;
            self.steps.fetch_add(1, Ordering::Relaxed);
            if self.mem.disk().image.is_some() {
                break;
            }
            if work.rng.below(30) == 0 {
                copied = Some(self.mem.disk().clone());
            }
        }
        work.files.clear();
        drop(work);
        if let Some(mut copy) = copied {
            copy.log.clear();
            self.copies.push(copy);
        }
        if crash {
            self.crash(vault, floors, &taken);
        } else {
            vault.close().map_err(|error| format!("closing: {error}"))?;
            drop(vault);
            self.model.synced_all();
            self.mem.disk().log.clear();
        }
        let told = std::mem::take(&mut *told.lock().unwrap());
        let unexpected = told
            .iter()
            .find(|text| !text.contains("does not know this vault yet"));
        match unexpected.filter(|_| !self.tainted) {
            Some(text) => Err(format!("honest work is told: {text}")),
            None => Ok(()),
        }
    }

    fn window(&self) -> Window {
        match (self.remembers, self.crashed) {
            (false, _) => Window::Ever,
            (true, true) => Window::Crash,
            (true, false) => Window::Now,
        }
    }

    fn judge(&mut self, view: &View, ask: &Ask) -> Judged {
        let judged = view.judge(&self.model, ask);
        judged.inspect_err(|_| self.trace.extend(view.describe()))
    }

    /// Opens and looks at everything, in some order.
    fn view(&mut self, window: Window) -> View {
        let mut view = View::default();
        let read_only = self.rng.below(4) == 0;
        let order = self.rng.below(4);
        self.trace
            .push(format!("look, order {order}, for reading {read_only}"));
        let told = Told::default();
        match self.try_open(&told, read_only) {
            Err(refused) => view.refused = Some(refused),
            Ok(vault) => {
                if order == 0 {
                    view.check(&vault, false);
                }
                view.walk(&vault, &self.model, window);
                if order == 1 {
                    view.check(&vault, false);
                }
                if let Err(error) = vault.close() {
                    view.told.push(error.to_string());
                }
                drop(vault);
                if order > 1 {
                    match self.try_open(&told, read_only) {
                        Err(refused) => view.refused = Some(refused),
                        Ok(vault) => {
                            view.check(&vault, false);
                            let _ = vault.close();
                        }
                    }
                }
            }
        }
        view.hear(&told);
        view
    }

    /// The attacker changes the store while it is not in use.
    fn attack(&mut self) -> Judged {
        let moment = self.moment();
        let Some(done) = self.change_store() else {
            return Ok(());
        };
        let xattrs = done.xattrs;
        let window = match done.harmless && !self.crashed {
            true => Window::Now,
            false => self.window(),
        };
        let view = self.view(window);
        if done.refused && view.refused.is_none() {
            return Err("altered settings are taken".into());
        }
        let ask = Ask {
            window,
            may_miss: !self.remembers && window != Window::Now,
            xattrs: !xattrs && !self.loose_xattrs && !self.crashed && self.remembers,
            honest: false,
        };
        self.judge(&view, &ask)?;
        if window == Window::Now && done.harmless && !view.is_readable() {
            self.trace.extend(view.describe());
            return Err("something that changes nothing changed something".into());
        }
        if !self.crashed && view.is_silent() && self.rng.below(2) == 0 {
            let told = Told::default();
            let vault = self.try_open(&told, false)?;
            let mut exact = View::default();
            exact.walk(&vault, &self.model, Window::Now);
            let newest = Ask {
                window: Window::Now,
                may_miss: false,
                ..ask
            };
            let kept = exact.judge(&self.model, &newest).is_ok();
            let _ = vault.close();
            drop(vault);
            if kept {
                self.trace.push("it stays so".into());
                self.tainted = true;
                self.loose_xattrs |= xattrs;
                return Ok(());
            }
        } else if view.refused.is_none() && self.rng.below(3) == 0 {
            self.repair(&view, window)?;
        }
        self.restore(&moment);
        Ok(())
    }

    /// Up to three things at the same time.
    fn change_store(&mut self) -> Option<Attack> {
        let mut done: Option<Attack> = None;
        let count = [1, 1, 2, 3][self.rng.below(4) as usize];
        let other_branch = !self.abandoned.is_empty() && self.rng.below(4) > 0;
        let copies = if other_branch {
            &self.abandoned
        } else {
            &self.copies
        };
        let before = self.mem.disk().clone();
        for _ in 0..count {
            let mut disk = self.mem.disk();
            if let Some(attack) = Attack::any(&mut disk, copies, &mut self.rng) {
                let from = if other_branch {
                    ", before the snapshot"
                } else {
                    ""
                };
                self.trace.push(format!("attack{from}: {}", attack.what));
                done = Some(match done {
                    None => attack,
                    // The second may have undone the first.
                    Some(before) => Attack {
                        xattrs: before.xattrs | attack.xattrs,
                        refused: false,
                        harmless: false,
                        ..attack
                    },
                });
                self.steps.fetch_add(1, Ordering::Relaxed);
            }
        }
        let other = puts_other_attributes(&before, &self.mem.disk());
        if let Some(done) = &mut done {
            done.xattrs |= other;
            // Journals of the other branch may fit.
            done.harmless &= !other_branch;
        }
        done
    }

    /// A repair keeps all that was right.
    fn repair(&mut self, before: &View, window: Window) -> Judged {
        self.trace.push("repair".into());
        let told = Told::default();
        let mut after = View::default();
        if let Ok(vault) = self.try_open(&told, false) {
            after.check(&vault, true);
            let _ = vault.close();
        }
        let Ok(vault) = self.try_open(&told, false) else {
            return Err("it cannot be opened after a repair".into());
        };
        after.walk(&vault, &self.model, window);
        let _ = vault.close();
        after.hear(&told);
        before.keeps(&after).inspect_err(|_| {
            self.trace.extend(before.describe());
            self.trace.push("after the repair:".into());
            self.trace.extend(after.describe());
        })
    }
}
