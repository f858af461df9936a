//! Power failures at any point: the store's changes are cut anywhere, what was not synced is
//! kept, lost or torn at random, and the vault must still be right.
//!
//! `WARPLOCK_VAULT_CUTS` says how many cuts to try (300 without it).

use std::collections::HashMap;
use std::ffi::OsStr;

use crate::common::mem::{Disk, Mem};
use crate::common::rng::Rng;
use crate::common::{FILE, FOLDER, Short, Told, new_vault, open, options};
use warplock_keyring::MasterKey;
use warplock_vault::fs::{FileSystem, ROOT, RenameFlags};
use warplock_vault::{CheckOptions, Class, Settings, Vault, check};

const NAMES: [&str; 4] = ["one", "two", "three", "four"];

/// A file through its life, whatever it is called.
#[derive(Default)]
struct Life {
    /// Its contents, oldest first.
    states: Vec<Vec<u8>>,
    /// When the log was this long, this state was durable.
    synced: Vec<(usize, usize)>,
}

/// What stands under a name since when.
struct Bound {
    life: usize,
    since: usize,
}

/// A history of operations and of what they were to do.
struct History {
    before: Disk,
    mem: Mem,
    key: MasterKey,
    lives: Vec<Life>,
    /// For each name: from which length of the log on it is about to be changed, and to what.
    names: HashMap<&'static str, Vec<(usize, Option<Bound>)>>,
}

impl History {
    fn new() -> Self {
        let (mem, key) = new_vault(&Settings::default());
        mem.disk().log.clear();
        let before = mem.disk().clone();
        History {
            before,
            mem,
            key,
            lives: Vec::new(),
            names: NAMES.iter().map(|name| (*name, Vec::new())).collect(),
        }
    }

    fn now(&self) -> usize {
        self.mem.disk().log.len()
    }

    fn life(&self, name: &str) -> Option<usize> {
        self.names[name].last()?.1.as_ref().map(|bound| bound.life)
    }

    /// A name changes, while the log grows from `start` on.
    fn bind(&mut self, name: &'static str, start: usize, life: Option<usize>) {
        let since = self.now();
        let bound = life.map(|life| Bound { life, since });
        self.names.get_mut(name).unwrap().push((start, bound));
    }

    fn push_state(&mut self, life: usize, state: Vec<u8>) {
        self.lives[life].states.push(state);
    }

    fn push_synced(&mut self, life: usize) {
        let at = self.now();
        let life = &mut self.lives[life];
        life.synced.push((at, life.states.len() - 1));
    }

    fn run(&mut self, steps: usize, rng: &mut Rng) {
        let vault = open(self.mem.clone(), &self.key);
        for _ in 0..steps {
            self.step(&vault, rng);
        }
    }

    fn step(&mut self, vault: &Vault<Mem>, rng: &mut Rng) {
        let name = NAMES[rng.below(NAMES.len() as u64) as usize];
        let start = self.now();
        let Some(life) = self.life(name) else {
            vault.new_file(name);
            self.lives.push(Life::default());
            let life = self.lives.len() - 1;
            self.push_state(life, Vec::new());
            self.bind(name, start, Some(life));
            return;
        };
        let mut state = self.lives[life].states.last().unwrap().clone();
        let len = state.len() as u64;
        let node = vault.node(name).unwrap().node;
        match rng.below(100) {
            0..50 => {
                let file = vault.file(name).unwrap();
                let offset = if rng.below(2) == 0 {
                    len
                } else {
                    rng.below(len + 5000)
                };
                let count = 1 + rng.below(if len > 40_000 { 500 } else { 9000 }) as usize;
                // Whole blocks take a way of their own.
                let (offset, count) = match rng.below(3) {
                    0 => (offset & !4095, 4096 * (1 + rng.below(2) as usize)),
                    _ => (offset, count),
                };
                let data = rng.bytes(count);
                vault.write(&file, offset, &data, false).unwrap();
                state.resize(state.len().max(offset as usize + count), 0);
                state[offset as usize..][..count].copy_from_slice(&data);
                self.push_state(life, state);
            }
            50..58 => {
                let file = vault.file(name).unwrap();
                let to = rng.below(len + 1);
                vault.resize(&file, node, to).unwrap();
                state.resize(to as usize, 0);
                self.push_state(life, state);
                // Cutting committed blocks is durable, but not said to be.
            }
            58..63 => {
                let file = vault.file(name).unwrap();
                let (from, count) = (rng.below(len + 1), rng.below(20_000));
                vault.allocate(&file, 3, from, count).unwrap();
                let end = len.min(from + count) as usize;
                state[from as usize..end.max(from as usize)].fill(0);
                self.push_state(life, state);
            }
            63..80 => {
                let file = vault.file(name).unwrap();
                vault.fsync(&file, true).unwrap();
                self.push_synced(life);
            }
            80..86 => vault.tick().unwrap(),
            86..94 => {
                let other = NAMES[rng.below(NAMES.len() as u64) as usize];
                if other != name {
                    let (from, to) = ((ROOT, OsStr::new(name)), (ROOT, OsStr::new(other)));
                    vault.rename(from, to, RenameFlags::empty()).unwrap();
                    self.bind(name, start, None);
                    self.bind(other, start, Some(life));
                }
            }
            94..97 => {
                vault.unlink(ROOT, OsStr::new(name)).unwrap();
                self.bind(name, start, None);
            }
            _ => {
                let dir = vault.open_dir(ROOT).unwrap();
                vault.fsync_dir(&dir).unwrap();
            }
        }
    }

    /// Crashes after `cut` changes of the store, and looks at what is left.
    fn crash(&self, cut: usize, rng: &mut Rng) {
        let log = self.mem.disk().log.clone();
        let disk = self.before.crash(&log, cut, rng);
        let mem = Mem(std::sync::Arc::new(std::sync::Mutex::new(disk)));

        let told = Told::default();
        let vault = Vault::open_on(mem.clone(), &self.key, options(&told)).unwrap();
        for name in NAMES {
            self.look(&vault, name, cut, &told);
        }
        let options = CheckOptions {
            quick: false,
            repair: true,
        };
        let report = check(&vault, options, &mut |_| {}).unwrap();
        for finding in &report.findings {
            assert!(
                finding.class == Class::Crash && finding.repaired,
                "{finding:?}"
            );
        }
        vault.unmounted();
        drop(vault);

        let vault = open(mem, &self.key);
        let options = CheckOptions::default();
        let report = check(&vault, options, &mut |_| {}).unwrap();
        assert_eq!(report.findings, [], "a repaired vault is clean");
    }

    fn look(&self, vault: &Vault<Mem>, name: &'static str, cut: usize, told: &Told) {
        let due = self.due(name, cut);
        match vault.get(name) {
            Ok(data) => {
                let mut seen = None;
                for (number, life) in self.lives.iter().enumerate() {
                    if let Some(state) = life.states.iter().rposition(|state| *state == data)
                        && due.is_none_or(|(life, _)| life == number)
                    {
                        seen = Some(state);
                    }
                }
                let seen = seen.expect("what is read was written once");
                if let Some((_, state)) = due {
                    assert!(seen >= state, "what was synced is there");
                }
            }
            Err(error) => {
                assert!(due.is_none(), "{name}: {error} {:?}", told.lock().unwrap());
                let told = told.lock().unwrap();
                let named = error == rustix::io::Errno::NOENT
                    || told
                        .iter()
                        .any(|text| text.contains("empty") || text.contains("header"));
                assert!(named, "{error} {told:?}");
            }
        }
    }

    /// The life and the state that must be under a name after a cut, if that is certain.
    fn due(&self, name: &str, cut: usize) -> Option<(usize, usize)> {
        let changes = &self.names[name];
        let index = changes.iter().rposition(|(start, _)| *start < cut)?;
        let bound = changes[index].1.as_ref()?;
        if bound.since > cut {
            return None;
        }
        let life = &self.lives[bound.life];
        // A sync since the name was given makes the name durable as well.
        let (at, state) = life.synced.iter().rev().find(|(at, _)| *at <= cut)?;
        (*at >= bound.since).then_some((bound.life, *state))
    }
}

fn cuts() -> usize {
    std::env::var("WARPLOCK_VAULT_CUTS").map_or(300, |text| text.parse().unwrap())
}

#[test]
fn cut_anywhere() {
    const CUTS_EACH: usize = 30;
    let mut rng = Rng::new(1);
    for seed in 0..cuts().div_ceil(CUTS_EACH) {
        let mut history = History::new();
        history.run(40 + seed % 60, &mut Rng::new(seed as u64 + 7));
        let log = history.now();
        for _ in 0..CUTS_EACH {
            history.crash(rng.below(log as u64 + 1) as usize, &mut rng);
        }
    }
}

/// Each single cut through folders, long names, symlinks and exchanges.
#[test]
fn names_at_every_cut() {
    let (mem, key) = new_vault(&Settings::default());
    mem.disk().log.clear();
    let before = mem.disk().clone();
    let long = "n".repeat(255);
    {
        let vault = open(mem.clone(), &key);
        let os = OsStr::new;
        let a = vault.make(ROOT, os("a"), FOLDER, 0).unwrap().node;
        let b = vault.make(a, os(&long), FOLDER, 0).unwrap().node;
        vault.put("file", b"content");
        let plain = RenameFlags::empty();
        vault
            .rename((ROOT, os("file")), (b, os(&long)), plain)
            .unwrap();
        let caller = FILE.caller;
        vault.symlink(a, os("link"), os("target"), caller).unwrap();
        vault
            .rename((a, os("link")), (b, os("moved")), plain)
            .unwrap();
        vault
            .rename((a, os(&long)), (ROOT, os("c")), plain)
            .unwrap();
        vault.put("other", b"other");
        let exchange = RenameFlags::EXCHANGE;
        vault
            .rename((ROOT, os("other")), (b, os(&long)), exchange)
            .unwrap();
        let node = vault.lookup(ROOT, os("other")).unwrap().node;
        vault.link(node, a, os("second")).unwrap();
        vault.unlink(ROOT, os("other")).unwrap();
        let empty = vault.make(ROOT, os("empty"), FOLDER, 0).unwrap();
        assert_eq!(empty.links, 1);
        vault
            .rename((ROOT, os("a")), (ROOT, os("empty")), plain)
            .unwrap();
        vault.unlink(b, os(&long)).unwrap();
        vault.unlink(b, os("moved")).unwrap();
        vault.rmdir(ROOT, os("c")).unwrap();
    }
    let log = mem.disk().log.clone();
    let mut rng = Rng::new(3);
    for cut in 0..=log.len() {
        let disk = before.crash(&log, cut, &mut rng);
        let mem = Mem(std::sync::Arc::new(std::sync::Mutex::new(disk)));
        let vault = open(mem.clone(), &key);
        let options = CheckOptions {
            quick: false,
            repair: true,
        };
        let report = check(&vault, options, &mut |_| {}).unwrap();
        for finding in &report.findings {
            assert!(
                finding.class == Class::Crash && finding.repaired,
                "cut {cut}: {finding:?}"
            );
        }
        drop(vault);
        let report = check(&open(mem, &key), CheckOptions::default(), &mut |_| {}).unwrap();
        assert_eq!(report.findings, [], "cut {cut}");
    }
}

/// A file that is removed although a journal holds what was synced to it, or while it is open: a
/// crash leaves nothing that looks as if the file had been hidden.
#[test]
fn removed_at_every_cut() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    vault.put("f", &[1; 50_000]);
    vault.unmounted();
    drop(vault);
    mem.disk().log.clear();
    let before = mem.disk().clone();
    let vault = open(mem.clone(), &key);
    let file = vault.file("f").unwrap();
    vault.write(&file, 0, &[2; 4096], false).unwrap();
    vault.fsync(&file, false).unwrap();
    vault.unlink(ROOT, OsStr::new("f")).unwrap();
    vault.write(&file, 8192, &[3; 4096], false).unwrap();
    vault.tick().unwrap();
    let log = mem.disk().log.clone();
    let mut rng = Rng::new(5);
    for cut in (0..=log.len()).flat_map(|cut| [cut; 20]) {
        let disk = before.crash(&log, cut, &mut rng);
        let mem = Mem(std::sync::Arc::new(std::sync::Mutex::new(disk)));
        let vault = open(mem, &key);
        let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
        let altered = report.findings.iter().find(|it| it.class == Class::Altered);
        assert_eq!(altered, None, "cut {cut}");
    }
}

/// A file that grows within its last block, which becomes a hole before it is committed: its length
/// in the store is durable before the header that tells it.
#[test]
fn a_hole_at_a_new_end() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    vault.put("f", &[1; 2436]);
    vault.tick().unwrap();
    mem.disk().log.clear();
    let before = mem.disk().clone();
    let file = vault.file("f").unwrap();
    vault.write(&file, 2436, &[1], false).unwrap();
    vault.allocate(&file, 3, 0, 8192).unwrap();
    vault.fsync(&file, false).unwrap();
    let log = mem.disk().log.clone();
    for cut in 0..=log.len() {
        for seed in 0..4 {
            let disk = before.crash(&log, cut, &mut Rng::new(seed));
            let fork = Mem::new();
            *fork.disk() = disk;
            let found = open(fork, &key).get("f");
            let right = [vec![1; 2436], vec![0; 2437]];
            assert!(right.contains(found.as_ref().unwrap()), "{cut}: {found:?}");
        }
    }
}
