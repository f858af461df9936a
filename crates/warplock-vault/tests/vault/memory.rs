//! What this machine's memory notices, and what it lets pass.

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

#[test]
fn an_unchanged_vault_is_as_it_was_left() {
    let world = World::new();
    world.session(|vault| {
        vault.put("f", &[1; 5000]);
        let dir = vault.make(ROOT, OsStr::new("dir"), FOLDER, 0).unwrap();
        let target = OsStr::new("target");
        vault
            .symlink(dir.node, OsStr::new("link"), target, FILE.caller)
            .unwrap();
        let fifo = warplock_vault::fs::NewNode {
            mode: 0o10_644,
            ..FILE
        };
        vault.make(dir.node, OsStr::new("fifo"), fifo, 0).unwrap();
    });
    assert_eq!(world.findings(), []);
    world.session(|vault| {
        save(vault, "f", &[2; 5000]);
        overwrite(vault, "f", &[3; 5000]);
        let (from, to) = ((ROOT, OsStr::new("dir")), (ROOT, OsStr::new("moved")));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
        let node = vault.node("moved/link").unwrap();
        assert_eq!(vault.readlink(node.node).unwrap(), b"target");
        let moved = vault.node("moved").unwrap().node;
        let (from, to) = ((moved, OsStr::new("link")), (ROOT, OsStr::new("link")));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
        let f = vault.node("f").unwrap().node;
        vault.link(f, moved, OsStr::new("also")).unwrap();
        let (a, b) = ((moved, OsStr::new("also")), (ROOT, OsStr::new("link")));
        vault.rename(a, b, RenameFlags::EXCHANGE).unwrap();
        vault.unlink(moved, OsStr::new("fifo")).unwrap();
        vault.unlink(ROOT, OsStr::new("f")).unwrap();
        vault.put("f", b"another");
    });
    for _ in 0..2 {
        assert_eq!(world.findings(), []);
        world.session(|vault| assert_eq!(vault.get("f").unwrap(), b"another"));
    }
}

#[test]
fn a_file_that_was_overwritten_does_not_go_back() {
    let world = World::new();
    world.session(|vault| vault.put("f", &[1; 5000]));
    let old = world.object();
    world.session(|vault| overwrite(vault, "f", &[2; 5000]));
    world.put_object(old);
    world.refuses("f", "an old version");
}

#[test]
fn a_file_that_was_replaced_does_not_come_back() {
    let world = World::new();
    world.session(|vault| vault.put("f", b"allow attacker"));
    let old = world.object();
    world.session(|vault| save(vault, "f", b"deny all"));
    world.put_object(old);
    world.refuses("f", "came back");
}

#[test]
fn a_file_that_was_removed_does_not_come_back() {
    let world = World::new();
    world.session(|vault| vault.put("authorized_keys", b"attacker"));
    let (name, inode) = world.entry();
    let old = world.object();
    world.session(|vault| vault.unlink(ROOT, OsStr::new("authorized_keys")).unwrap());
    {
        let mut disk = world.mem.disk();
        disk.objects.insert(inode, old);
        disk.object(TOP).entries.insert(name, inode);
    }
    world.refuses("authorized_keys", "came back");
    // Nor can anybody append to it.
    world.session(|vault| {
        let node = vault.node("authorized_keys").unwrap().node;
        assert_eq!(vault.open(node, WRITE).err(), Some(Errno::IO));
    });
    world.refuses("authorized_keys", "came back");
}

#[test]
fn a_file_that_is_missing_is_missed() {
    let world = World::new();
    world.session(|vault| vault.put("deny", b"all"));
    let (name, _) = world.entry();
    world.mem.disk().object(TOP).entries.remove(&name);
    let session = world.open();
    assert_eq!(session.vault.node("deny").err(), Some(Errno::IO));
    session.says("/deny was altered: it is missing");
    session.close();
    let session = world.open();
    let dir = session.vault.open_dir(ROOT).unwrap();
    session.vault.list(&dir, 0, &mut |_| true).unwrap();
    session.vault.list(&dir, 0, &mut |_| true).unwrap();
    let told = session.told.lock().unwrap().join("\n");
    assert_eq!(told.matches("/deny was altered").count(), 1, "{told}");
    drop(dir);
    session.close();
    let findings = world.findings();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].class == Class::Altered && findings[0].path == Path::new("/deny"));
}

#[test]
fn a_file_does_not_become_something_else() {
    let world = World::new();
    world.session(|vault| vault.put("config", b"right"));
    let inode = world.entry().1;
    world.mem.disk().object(inode).mode = 0o10_644;
    let session = world.open();
    assert_eq!(session.vault.node("config").err(), Some(Errno::IO));
    session.close();
    assert!(world.findings().iter().any(|it| it.class == Class::Altered));
}

#[test]
fn old_symlinks_and_old_names_of_folders_do_not_come_back() {
    let world = World::new();
    let (link, dir) = (OsStr::new("link"), OsStr::new("dir"));
    world.session(|vault| {
        let target = OsStr::new("old");
        vault.symlink(ROOT, link, target, FILE.caller).unwrap();
        vault.make(ROOT, dir, FOLDER, 0).unwrap();
    });
    let old = world.copy();
    world.session(|vault| {
        vault.unlink(ROOT, link).unwrap();
        let target = OsStr::new("new");
        vault.symlink(ROOT, link, target, FILE.caller).unwrap();
        let to = (ROOT, OsStr::new("renamed"));
        vault.rename((ROOT, dir), to, RenameFlags::empty()).unwrap();
    });
    world.restore(&old);
    let session = world.open();
    let node = session.vault.node("link").unwrap().node;
    assert_eq!(session.vault.readlink(node).err(), Some(Errno::IO));
    let node = session.vault.node("dir").unwrap().node;
    assert!(session.vault.open_dir(node).is_err());
    session.says("the store is an older copy");
    session.close();
    assert!(
        world
            .findings()
            .iter()
            .filter(|it| it.class == Class::Altered)
            .count()
            >= 3
    );
}

/// After an overwrite that was synced, a crash, and the removal of the journal, nothing is left of
/// it in the store.
#[test]
fn a_journal_that_is_taken_away_after_a_crash_is_missed() {
    let world = World::new();
    world.session(|vault| vault.put("f", &[1; 50_000]));
    world.crash(|vault| overwrite(vault, "f", &[2; 4096]));
    {
        let mut disk = world.mem.disk();
        let journals = disk.objects[&TOP].entries[OsStr::new(JOURNALS)];
        assert_eq!(disk.objects[&journals].entries.len(), 1);
        disk.object(journals).entries.clear();
    }
    world.refuses("f", "an old version");
}

#[test]
fn a_branch_does_not_replace_what_was_made_since() {
    let world = World::new();
    world.session(|vault| vault.put("f", &[1; 50_000]));
    let before = world.copy();
    world.crash(|vault| overwrite(vault, "f", &[2; 4096]));
    let branch = world.copy();
    // Somebody takes the first branch for good: the second begins from the same state.
    world.restore(&before);
    let session = world.try_open(&world.mem, &world.state(), true).unwrap();
    accept(&session.vault, &[]).unwrap();
    overwrite(&session.vault, "f", &[3; 4096]);
    session.close();
    world.session(|vault| assert_eq!(vault.get("f").unwrap()[0], 3));
    let rest = world.copy();
    world.restore(&branch);
    world.refuses("f", "another version");
    world.restore(&rest);
    world.session(|vault| assert_eq!(vault.get("f").unwrap()[0], 3));
}

/// An append, a save by rename, a new file: each synced, then a crash within the same second, and
/// the store as it was before.
#[test]
fn what_was_synced_before_a_crash_cannot_be_taken_back() {
    type Change = fn(&Vault<Mem>);
    let changes: [(Change, &str, &str); 3] = [
        (
            |vault| {
                let file = vault.file("f").unwrap();
                vault.write(&file, 8192, &[2; 4096], false).unwrap();
                vault.fsync(&file, false).unwrap();
            },
            "f",
            "an old version",
        ),
        (
            |vault| {
                save(vault, "f", &[2; 5000]);
                overwrite(vault, "f", &[2; 5000]);
                sync_top(vault);
            },
            "f",
            "came back",
        ),
        (
            |vault| {
                vault.put("g", b"new");
                overwrite(vault, "g", b"new");
            },
            "g",
            "it is missing",
        ),
    ];
    for (change, name, why) in changes {
        let world = World::new();
        world.session(|vault| vault.put("f", &[1; 8192]));
        let before = world.copy();
        world.crash(change);
        world.restore(&before);
        let session = world.open();
        assert_eq!(session.vault.get(name), Err(Errno::IO), "{why}");
        session.says(why);
        session.close();
        assert!(
            world.findings().iter().any(|it| it.class == Class::Altered),
            "{why}"
        );
    }
}

/// What was not synced may be lost in a crash, or be there; neither is anybody's fault.
#[test]
fn a_crash_alone_raises_no_alarm() {
    for kept in [false, true] {
        let world = World::new();
        world.session(|vault| {
            vault.put("f", &[1; 5000]);
            vault.put("g", b"g");
        });
        let before = world.copy();
        world.crash(|vault| {
            let file = vault.file("f").unwrap();
            vault.write(&file, 0, &[2; 5000], false).unwrap();
            drop(file);
            vault.put("h", b"h");
            save(vault, "g", b"new");
        });
        if !kept {
            world.restore(&before);
        }
        let session = world.open();
        for name in ["f", "g"] {
            session.vault.get(name).unwrap();
        }
        session.close();
        let findings = world.findings();
        assert!(
            findings.iter().all(|it| it.class == Class::Crash),
            "{kept}: {findings:?}"
        );
    }
}

#[test]
fn numbers_do_not_go_down_where_one_file_is_two() {
    let world = World::new();
    world.session(|vault| {
        vault.put("f", &[1; 5000]);
        let node = vault.node("f").unwrap().node;
        vault.link(node, ROOT, OsStr::new("g")).unwrap();
    });
    // A program that copies the store turns a hard link into a second file.
    let f = {
        let fork = world.mem.fork();
        let session = world.try_open(&fork, &world.state.path().join("other"), false);
        session.unwrap().vault.node("f").unwrap().node
    };
    {
        let mut disk = world.mem.disk();
        let copy = disk.objects[&f].clone();
        let entries = &disk.objects[&TOP].entries;
        let mut names = entries.iter().filter(|(_, inode)| **inode == f);
        let name = names.next().unwrap().0.clone();
        disk.objects.insert(99, copy);
        disk.object(TOP).entries.insert(name, 99);
    }
    let session = world.open();
    let (Ok(f), Ok(g)) = (session.vault.file("f"), session.vault.file("g")) else {
        // Refusing one of them at once is as good.
        return;
    };
    for byte in 2..5 {
        session.vault.write(&f, 0, &[byte; 5000], false).unwrap();
        session.vault.fsync(&f, false).unwrap();
    }
    session.vault.write(&g, 0, &[9; 100], false).unwrap();
    assert_eq!(session.vault.fsync(&g, false).err(), Some(Errno::IO));
    session.says("there are two of it");
}

#[test]
fn the_first_look_at_a_vault_is_honest() {
    let world = World::new();
    world.session(|vault| vault.put("f", &[1; 5000]));
    let old = world.object();
    world.session(|vault| overwrite(vault, "f", &[2; 5000]));
    let state = world.state.path().join("another machine");
    let session = world.try_open(&world.mem, &state, false).unwrap();
    session.says("does not know this vault yet");
    let report = run(&session.vault);
    assert_eq!((report.findings.len(), report.first_seen), (0, 1));
    session.close();
    let session = world.try_open(&world.mem, &state, false).unwrap();
    assert_eq!(*session.told.lock().unwrap(), [""; 0]);
    assert_eq!(run(&session.vault).first_seen, 0);
    session.close();
    // It has seen it once, though it never wrote to it.
    world.put_object(old);
    let session = world.try_open(&world.mem, &state, false).unwrap();
    assert_eq!(session.vault.get("f"), Err(Errno::IO));
}

#[test]
fn a_deliberate_restore_is_accepted_whole_or_by_path() {
    let world = World::new();
    world.session(|vault| {
        vault.put("f", b"old");
        vault.put("g", b"old");
    });
    let backup = world.copy();
    world.session(|vault| {
        overwrite(vault, "f", b"new");
        save(vault, "g", b"new");
        vault.put("h", b"new");
    });
    world.restore(&backup);
    assert_eq!(
        world
            .findings()
            .iter()
            .filter(|it| it.class == Class::Altered)
            .count(),
        3
    );
    let accepting = |paths: &[PathBuf]| {
        let session = world.try_open(&world.mem, &world.state(), true).unwrap();
        accept(&session.vault, paths).unwrap();
        session.close();
    };
    accepting(&["/f".into(), "h".into()]);
    let session = world.open();
    assert_eq!(session.vault.get("f").unwrap(), b"old");
    assert_eq!(session.vault.get("g"), Err(Errno::IO));
    assert_eq!(session.vault.get("h"), Err(Errno::NOENT));
    session.close();
    accepting(&[]);
    assert_eq!(world.findings(), []);
    world.session(|vault| {
        assert_eq!(vault.get("g").unwrap(), b"old");
        overwrite(vault, "f", b"more");
    });
    assert_eq!(world.findings(), []);
}

#[test]
fn a_memory_from_an_older_copy_is_refused_until_accepted() {
    let world = World::new();
    world.session(|vault| vault.put("f", b"1"));
    let vaults = fs::read_dir(world.state()).unwrap();
    let folder = vaults.map(|it| it.unwrap().path()).next().unwrap();
    let file = folder.join("memory.redb");
    let copy = fs::read(&file).unwrap();
    world.session(|vault| overwrite(vault, "f", b"2"));
    fs::write(&file, copy).unwrap();
    // As often as it is tried.
    for _ in 0..4 {
        let refused = world.try_open(&world.mem, &world.state(), false).err();
        let refused = refused.unwrap();
        assert_eq!(refused.kind(), ErrorKind::Authentication);
        assert!(refused.to_string().contains("restored from an older copy"));
    }
    let session = world.try_open(&world.mem, &world.state(), true).unwrap();
    accept(&session.vault, &[]).unwrap();
    session.close();
    world.session(|vault| assert_eq!(vault.get("f").unwrap(), b"2"));
    assert_eq!(world.findings(), []);
}

/// Links, fifos and folders where the memory belongs.
#[test]
fn nothing_but_a_memory_is_opened_as_one() {
    let world = World::new();
    world.session(|vault| vault.put("f", b"1"));
    let vaults = fs::read_dir(world.state()).unwrap();
    let folder = vaults.map(|it| it.unwrap().path()).next().unwrap();
    let file = folder.join("memory.redb");
    let victim = world.state.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    type Plant<'a> = Box<dyn Fn() + 'a>;
    let plants: [Plant<'_>; 4] = [
        Box::new(|| std::os::unix::fs::symlink(&victim, &file).unwrap()),
        Box::new(|| fs::hard_link(&victim, &file).unwrap()),
        Box::new(|| {
            let mode = rustix::fs::Mode::RWXU;
            rustix::fs::mknodat(rustix::fs::CWD, &file, fifo, mode, 0).unwrap();
        }),
        Box::new(|| fs::write(&file, "no database").unwrap()),
    ];
    for plant in plants {
        fs::remove_file(&file).unwrap();
        plant();
        let refused = world
            .try_open(&world.mem, &world.state(), false)
            .err()
            .unwrap();
        assert!(refused.to_string().contains("--no-memory"), "{refused}");
        // Nothing was begun in the store.
        let disk = world.mem.disk();
        assert!(
            !disk.objects[&TOP]
                .entries
                .contains_key(OsStr::new(JOURNALS))
        );
    }
    assert_eq!(fs::read(victim).unwrap(), b"mine");
}

/// A disk that somebody else fills: changes are refused, and the vault does not count as closed,
/// until there is room.
#[test]
fn a_full_disk_stops_changes_and_closing() {
    let world = World::new();
    let disk = world.state();
    fs::create_dir(&disk).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    let size = Some(c"size=3m,mode=700");
    if rustix::mount::mount("none", &disk, "tmpfs", flags, size).is_err() {
        // Not as root.
        return;
    }
    let unmount = Unmount(&disk);
    let session = world.open();
    session.vault.put("f", &[1; 5000]);
    let fill = disk.join("others");
    let _ = fs::write(&fill, vec![1; 4 << 20]);
    let file = session.vault.file("f").unwrap();
    session.vault.write(&file, 0, &[2; 5000], false).unwrap();
    let mut failed = false;
    for byte in 3..50 {
        let written = session.vault.write(&file, 0, &[byte; 5000], false);
        failed |= written
            .and_then(|()| session.vault.fsync(&file, false))
            .is_err();
    }
    assert!(failed);
    session.says("cannot be written");
    let put = session
        .vault
        .create(ROOT, OsStr::new("g"), FILE, WRITE, true);
    assert_eq!(put.err(), Some(Errno::ROFS));
    assert!(session.vault.close().is_err());
    let journals = OsStr::new(JOURNALS);
    assert!(
        world.mem.disk().objects[&TOP]
            .entries
            .contains_key(journals)
    );
    fs::remove_file(&fill).unwrap();
    drop(file);
    session.close();
    assert!(
        !world.mem.disk().objects[&TOP]
            .entries
            .contains_key(journals)
    );
    assert_eq!(world.findings(), []);
    drop(unmount);
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let lazy = rustix::mount::UnmountFlags::DETACH;
        let _ = rustix::mount::unmount(self.0, lazy);
    }
}

fn recipients(identity: &NewIdentity) -> Recipients {
    let mut to = Recipients::new(Arc::new(NoPrompt));
    to.add(&identity.recipient()).unwrap();
    to
}

/// Vaults in the file system, each for the same recipient.
#[test]
fn another_vault_in_its_place_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, state) = (folder.path().join("store"), folder.path().join("state"));
    let identity = NewIdentity::generate();
    let make = || {
        fs::create_dir(&store).unwrap();
        init(&store, &Settings::default(), "main", &recipients(&identity)).unwrap()
    };
    let open = |key: &MasterKey, id: Option<&str>| {
        let mut options = options(&Told::default());
        options.memory = Some(state.clone());
        options.id = id.map(str::to_owned);
        Vault::open(&store, key, options).map(|vault| {
            if vault.node("f").is_err() {
                vault.put("f", b"1");
            }
            vault.close().unwrap();
        })
    };
    let ours = make();
    open(&ours, None).unwrap();
    assert_eq!(memory_info(&state, &store).unwrap().unwrap().sessions, 1);
    let id = warplock_vault::info(&store).unwrap().id;
    fs::rename(&store, folder.path().join("ours")).unwrap();

    let evil = make();
    let refused = open(&evil, None).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Authentication);
    assert!(refused.to_string().contains(&id), "{refused}");
    assert!(open(&evil, Some(&id)).is_err());
    // Nothing was written to it.
    assert!(!store.join(JOURNALS).exists());
    // On purpose: by its id, or after the other is forgotten.
    let evil_id = warplock_vault::info(&store).unwrap().id;
    open(&evil, Some(&evil_id)).unwrap();
    open(&evil, None).unwrap();
    fs::remove_dir_all(&store).unwrap();
    fs::rename(folder.path().join("ours"), &store).unwrap();
    assert!(open(&ours, None).is_err());
    assert!(forget_memory(&state, &store).unwrap());
    // What is known of it stays: only the path had another.
    assert_eq!(memory_info(&state, &store).unwrap().unwrap().sessions, 1);
    open(&ours, None).unwrap();
    assert!(forget_memory(&state, &store).unwrap());
    assert!(memory_info(&state, &store).unwrap().is_none());
    assert!(!forget_memory(&state, &store).unwrap());
    open(&ours, None).unwrap();
}
