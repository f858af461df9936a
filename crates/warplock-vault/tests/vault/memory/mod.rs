//! What this machine's memory notices, and what it lets pass.

mod accepting;
mod claims;
mod crash;
mod machines;
mod rollback;
mod state_folder;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use tempfile::TempDir;
use warplock_keyring::{MasterKey, NewIdentity, NoPrompt, Recipients};
use warplock_vault::fs::{FileSystem, ROOT, RenameFlags};
use warplock_vault::{
    CheckOptions, Class, ErrorKind, Finding, Report, Settings, Vault, accept, check, forget_memory,
    init, memory_info,
};

use crate::common::mem::{Mem, Object};
use crate::common::{FILE, FOLDER, Short, Told, WRITE, new_vault, options};

const JOURNALS: &str = "warplock.journal";
const TOP: u64 = 1;

/// A vault in memory and the folder of a machine's memories.
struct World {
    mem: Mem,
    key: MasterKey,
    state: TempDir,
}

/// An open vault, and what it told.
struct Session {
    vault: Vault<Mem>,
    told: Told,
}

impl World {
    fn new() -> Self {
        let (mem, key) = new_vault(&Settings::default());
        let state = tempfile::tempdir().unwrap();
        World { mem, key, state }
    }

    fn state(&self) -> PathBuf {
        self.state.path().join("state")
    }

    /// Opens the store `mem` on this machine.
    fn open_in(&self, mem: &Mem) -> Session {
        self.try_open(mem, &self.state(), false).unwrap()
    }

    fn try_open(&self, mem: &Mem, state: &Path, accept: bool) -> warplock_vault::Result<Session> {
        let told = Told::default();
        let mut options = options(&told);
        options.memory = Some(state.to_owned());
        options.accept = accept;
        let vault = Vault::open_on(mem.clone(), &self.key, options)?;
        Ok(Session { vault, told })
    }

    fn open(&self) -> Session {
        self.open_in(&self.mem)
    }

    /// Uses the vault, and closes it.
    fn session(&self, action: impl FnOnce(&Vault<Mem>)) {
        let session = self.open();
        action(&session.vault);
        session.close();
    }

    /// Uses the vault until the machine crashes; whatever was written is there.
    fn crash(&self, action: impl FnOnce(&Vault<Mem>)) {
        let session = self.open();
        action(&session.vault);
        // The store goes on as it is now; the memory, too.
        let now = self.mem.fork();
        drop(session);
        *self.mem.disk() = now.disk().clone();
    }

    /// What an attacker keeps of the store.
    fn copy(&self) -> Mem {
        self.mem.fork()
    }

    fn restore(&self, copy: &Mem) {
        let copy = copy.disk().clone();
        *self.mem.disk() = copy;
    }

    /// The only entry of the topmost folder that is no file of the vault's own.
    fn entry(&self) -> (std::ffi::OsString, u64) {
        let disk = self.mem.disk();
        let mut entries = disk.objects[&TOP].entries.iter();
        let found = entries.find(|(name, _)| !name.to_string_lossy().contains('.'));
        let (name, inode) = found.unwrap();
        (name.clone(), *inode)
    }

    fn object(&self) -> Object {
        let inode = self.entry().1;
        self.mem.disk().objects[&inode].clone()
    }

    /// What stands under a name, with its name in the store and its number.
    fn object_at(&self, name: &str) -> (std::ffi::OsString, u64, Object) {
        let fork = self.copy();
        let inode = {
            let vault = Vault::open_on(fork.clone(), &self.key, options(&Told::default())).unwrap();
            vault.node(name).unwrap().node
        };
        let disk = self.mem.disk();
        let mut entries = disk.objects[&TOP].entries.iter();
        let (stored, _) = entries.find(|(_, found)| **found == inode).unwrap();
        (stored.clone(), inode, disk.objects[&inode].clone())
    }

    fn put_object(&self, object: Object) {
        let inode = self.entry().1;
        *self.mem.disk().object(inode) = object;
    }

    fn findings(&self) -> Vec<Finding> {
        let session = self.open();
        let report = run(&session.vault);
        session.close();
        report.findings
    }

    /// The file cannot be opened, and the user is told why; `check` calls it altered.
    #[track_caller]
    fn refuses(&self, name: &str, why: &str) {
        let session = self.open();
        assert_eq!(session.vault.get(name), Err(Errno::IO));
        session.says(why);
        session.close();
        let findings = self.findings();
        let altered = findings.iter().find(|it| it.problem.contains(why));
        assert!(
            altered.is_some_and(|it| it.class == Class::Altered && !it.repaired),
            "{findings:?}"
        );
    }
}

impl Session {
    fn close(self) {
        self.vault.close().unwrap();
    }

    #[track_caller]
    fn says(&self, what: &str) {
        let told = self.told.lock().unwrap().join("\n");
        assert!(told.contains(what), "{told}");
    }
}

fn run(vault: &Vault<Mem>) -> Report {
    check(vault, CheckOptions::default(), &mut |_| {}).unwrap()
}

/// As most programs save: a new file, renamed over the old one.
fn save(vault: &Vault<Mem>, name: &str, data: &[u8]) {
    vault.put("new", data);
    let (from, to) = ((ROOT, OsStr::new("new")), (ROOT, OsStr::new(name)));
    vault.rename(from, to, RenameFlags::empty()).unwrap();
}

fn overwrite(vault: &Vault<Mem>, name: &str, data: &[u8]) {
    let file = vault.file(name).unwrap();
    vault.write(&file, 0, data, false).unwrap();
    vault.fsync(&file, false).unwrap();
}

fn sync_top(vault: &Vault<Mem>) {
    let dir = vault.open_dir(ROOT).unwrap();
    vault.fsync_dir(&dir).unwrap();
}
