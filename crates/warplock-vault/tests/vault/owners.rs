//! Type, permissions and owner of objects, which are sealed: what the store says does not count.

use std::ffi::OsStr;

use crate::common::mem::{Mem, Object};
use crate::common::{FILE, FOLDER, Short, WRITE, new_vault, open};
use rustix::fs::FileType;
use rustix::io::Errno;
use warplock_keyring::MasterKey;
use warplock_vault::fs::{
    Access, Attributes, Caller, Changes, Entry, FileSystem, NewNode, ROOT, RenameFlags, SetTime,
};
use warplock_vault::{CheckOptions, Settings, Vault, check};

const FIFO: u32 = 0o010_000;
const SOCKET: u32 = 0o140_000;
const CHARACTERS: u32 = 0o020_000;
const BLOCKS: u32 = 0o060_000;
const DEVICE: u64 = 0x1234;
const CALLER: Caller = Caller { uid: 7, gid: 8 };

/// What a mount shows of type, permissions, owner and device.
type Shown = (u32, u32, u32, u64);

fn shown(found: &Attributes) -> Shown {
    (found.mode, found.uid, found.gid, found.device)
}

fn of(vault: &Vault<Mem>, path: &str) -> Shown {
    shown(&vault.node(path).unwrap())
}

fn make(vault: &Vault<Mem>, path: &str, mode: u32) -> Attributes {
    let (parent, name) = match path.rsplit_once('/') {
        Some((above, name)) => (vault.node(above).unwrap().node, name),
        None => (ROOT, path),
    };
    let new = NewNode {
        caller: CALLER,
        mode,
        umask: 0o022,
    };
    let made = vault.make(parent, OsStr::new(name), new, DEVICE);
    made.unwrap()
}

fn chmod(mode: u32) -> Changes {
    Changes {
        mode: Some(mode),
        ..Changes::default()
    }
}

fn chown(uid: u32, gid: u32) -> Changes {
    Changes {
        uid: Some(uid),
        gid: Some(gid),
        ..Changes::default()
    }
}

fn change(vault: &Vault<Mem>, path: &str, changes: &Changes) -> Attributes {
    let node = vault.node(path).unwrap().node;
    vault.change(node, None, changes).unwrap()
}

fn close(vault: Vault<Mem>) {
    vault.unmounted();
    drop(vault);
}

/// The object of the store that a node is.
fn stored(mem: &Mem, vault: &Vault<Mem>, path: &str) -> Object {
    let inode = vault.node(path).unwrap().node;
    mem.disk().objects[&inode].clone()
}

fn kinds(vault: &Vault<Mem>, path: &str) -> Vec<(String, FileType)> {
    let node = match path {
        "" => ROOT,
        path => vault.node(path).unwrap().node,
    };
    let dir = vault.open_dir(node).unwrap();
    let mut found = Vec::new();
    let mut add = |entry: Entry<'_>| {
        if !entry.name.to_str().unwrap().starts_with('.') {
            found.push((entry.name.to_str().unwrap().to_owned(), entry.kind));
        }
        true
    };
    vault.list(&dir, 0, &mut add).unwrap();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

fn nothing_wrong(mem: &Mem, key: &MasterKey) {
    let report = check(&open(mem.fork(), key), CheckOptions::default(), &mut |_| {});
    assert_eq!(report.unwrap().findings, []);
}

const PATHS: [(&str, u32); 8] = [
    ("folder", 0o041_777),
    ("folder/file", 0o100_640),
    ("setuid", 0o104_755),
    ("open", 0o100_666),
    ("fifo", FIFO | 0o600),
    ("socket", SOCKET | 0o777),
    ("characters", CHARACTERS | 0o660),
    ("blocks", BLOCKS | 0o600),
];

/// A copy through object storage keeps no modes and owners, and an attacker sets others.
#[test]
fn they_are_not_those_of_the_store() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    for (path, mode) in PATHS {
        make(&vault, path, mode);
        change(&vault, path, &chmod(mode & 0o7777));
    }
    change(&vault, "open", &chown(3, 4));
    let expected = PATHS.map(|(path, mode)| match (path, mode & 0o170_000) {
        ("open", _) => (mode, 3, 4, 0),
        (_, CHARACTERS | BLOCKS) => (mode, 7, 8, DEVICE),
        _ => (mode, 7, 8, 0),
    });
    assert_eq!(PATHS.map(|(path, _)| of(&vault, path)), expected);
    close(vault);
    for (files, folders, owner) in [(0o600, 0o700, 0), (0o6777, 0o7777, 99)] {
        for object in mem.disk().objects.values_mut() {
            (object.uid, object.gid) = (owner, owner);
            object.mode = match object.mode & 0o170_000 {
                0o040_000 => 0o040_000 | folders,
                kind => kind | files,
            };
        }
        let vault = open(mem.clone(), &key);
        assert_eq!(PATHS.map(|(path, _)| of(&vault, path)), expected);
        // Also of what is in use.
        let node = vault.node("folder/file").unwrap().node;
        let file = vault.open(node, WRITE).unwrap();
        let found = vault.attributes(node, Some(&file)).unwrap();
        assert_eq!(shown(&found), expected[1]);
        let top = vault.attributes(ROOT, None).unwrap();
        assert_eq!((top.mode, top.uid), (0o040_755, 0));
        close(vault);
        nothing_wrong(&mem, &key);
    }
}

/// The store's objects follow, so that it holds back local users as well; but their owner may
/// always read and write, and none runs as another user.
#[test]
fn the_store_follows() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    make(&vault, "folder", 0o040_755);
    make(&vault, "file", 0o106_755);
    make(&vault, "fifo", FIFO | 0o444);
    let mode = |path| stored(&mem, &vault, path).mode;
    assert_eq!(mode("file"), 0o100_755);
    assert_eq!(mode("fifo"), 0o100_644);
    for (set, file, folder) in [
        (0o6640, 0o640, 0o6740),
        (0o444, 0o644, 0o744),
        (0o000, 0o600, 0o700),
        (0o1777, 0o777, 0o1777),
    ] {
        change(&vault, "file", &chmod(set));
        change(&vault, "folder", &chmod(set));
        assert_eq!(mode("file") & 0o7777, file, "{set:o}");
        assert_eq!(mode("folder") & 0o7777, folder, "{set:o}");
        assert_eq!(of(&vault, "file").0 & 0o7777, set);
        assert_eq!(of(&vault, "folder").0 & 0o7777, set);
    }
    for path in ["file", "folder"] {
        change(&vault, path, &chown(11, 12));
        let object = stored(&mem, &vault, path);
        assert_eq!((object.uid, object.gid), (11, 12));
    }
}

/// They are durable as contents are: a file's with its next commit, a folder's without delay.
#[test]
fn they_are_committed() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    vault.put("file", b"content");
    vault.put("other", b"content");
    make(&vault, "folder", 0o040_755);
    vault.tick().unwrap();
    let names = |disk: &crate::common::mem::Disk| {
        let objects = disk.objects.values();
        objects.map(|object| object.entries.len()).sum::<usize>()
    };
    let before = names(&mem.disk());
    for path in ["file", "other", "folder"] {
        change(&vault, path, &chmod(0o4711));
    }
    let file = vault.file("file").unwrap();
    vault.fsync(&file, false).unwrap();
    // No journal was made for that.
    assert_eq!(names(&mem.disk()), before);
    let crashed = open(mem.fork(), &key);
    let mode = |path| of(&crashed, path).0 & 0o7777;
    assert_eq!(
        ["file", "other", "folder"].map(mode),
        [0o4711, 0o644, 0o4711]
    );
    vault.tick().unwrap();
    assert_eq!(of(&open(mem.fork(), &key), "other").0 & 0o7777, 0o4711);
    drop(file);
    close(vault);
    nothing_wrong(&mem, &key);
}

/// If the store refuses, nothing changes.
#[test]
fn errors_of_the_store_are_told() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    vault.put("file", b"content");
    make(&vault, "folder", 0o040_755);
    mem.disk().fixed_owners = true;
    for path in ["file", "folder"] {
        let node = vault.node(path).unwrap().node;
        for changes in [chmod(0o600), chown(5, 5)] {
            let before = of(&vault, path);
            let changed = vault.change(node, None, &changes);
            assert_eq!(changed.unwrap_err(), Errno::PERM);
            assert_eq!(of(&vault, path), before);
        }
    }
}

/// Setuid and setgid do not outlive a change of owner or content.
#[test]
fn privileges_are_dropped() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    vault.put("file", b"content");
    let mode = || of(&vault, "file").0 & 0o7777;
    let set = || change(&vault, "file", &chmod(0o6755));
    set();
    change(&vault, "file", &chown(5, 6));
    assert_eq!(mode(), 0o755);
    set();
    let file = vault.file("file").unwrap();
    vault.write(&file, 0, b"other", true).unwrap();
    assert_eq!(mode(), 0o755);
    set();
    let cut = Changes {
        size: Some(1),
        drop_privileges: true,
        ..Changes::default()
    };
    let node = vault.node("file").unwrap().node;
    vault.change(node, Some(&file), &cut).unwrap();
    assert_eq!(mode(), 0o755);
    drop(file);
    close(vault);
    assert_eq!(of(&open(mem, &key), "file").0 & 0o7777, 0o755);
}

/// What is made in a folder with setgid belongs to the folder's group, which is sealed.
#[test]
fn groups_are_handed_down() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    make(&vault, "folder", 0o040_755);
    change(&vault, "folder", &chown(1, 55));
    change(&vault, "folder", &chmod(0o2775));
    for object in mem.disk().objects.values_mut() {
        (object.gid, object.mode) = (66, object.mode & !0o2000);
    }
    make(&vault, "folder/file", 0o100_666);
    make(&vault, "folder/inner", 0o040_777);
    assert_eq!(of(&vault, "folder/file"), (0o100_644, 7, 55, 0));
    assert_eq!(of(&vault, "folder/inner"), (0o042_755, 7, 55, 0));
}

/// Fifos, sockets and devices are files in the store: links, renames and removals work on them,
/// and folders tell what they are.
#[test]
fn fifos_sockets_and_devices() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    make(&vault, "folder", 0o040_755);
    make(&vault, "file", 0o100_644);
    let fifo = make(&vault, "fifo", FIFO | 0o600);
    for (name, kind) in [("socket", SOCKET), ("characters", CHARACTERS)] {
        make(&vault, name, kind | 0o600);
    }
    assert!(
        mem.disk()
            .objects
            .values()
            .all(|object| matches!(object.mode & 0o170_000, 0o040_000 | 0o100_000))
    );
    let folder = vault.node("folder").unwrap().node;
    vault.link(fifo.node, folder, OsStr::new("link")).unwrap();
    assert_eq!(vault.node("fifo").unwrap().links, 2);
    let rename = |from: &str, parent, to: &str| {
        let (from, to) = ((ROOT, OsStr::new(from)), (parent, OsStr::new(to)));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
    };
    make(&vault, "blocks", BLOCKS | 0o600);
    rename("blocks", folder, "blocks");
    // Over a file.
    rename("socket", ROOT, "file");
    vault.unlink(ROOT, OsStr::new("fifo")).unwrap();
    // The kernel reads, writes and cuts them itself, or not at all.
    let opened = vault.open(fifo.node, Access::default());
    assert_eq!(opened.err(), Some(Errno::NXIO));
    let cut = Changes {
        size: Some(0),
        ..Changes::default()
    };
    let cut = vault.change(fifo.node, None, &cut);
    assert_eq!(cut.err(), Some(Errno::INVAL));
    let now = Changes {
        modified: Some(SetTime::Now),
        ..chmod(0o640)
    };
    vault.change(fifo.node, None, &now).unwrap();
    close(vault);
    let vault = open(mem.clone(), &key);
    let expected = [
        ("characters".to_owned(), FileType::CharacterDevice),
        ("file".to_owned(), FileType::Socket),
        ("folder".to_owned(), FileType::Directory),
    ];
    assert_eq!(kinds(&vault, ""), expected);
    let expected = [
        ("blocks".to_owned(), FileType::BlockDevice),
        ("link".to_owned(), FileType::Fifo),
    ];
    assert_eq!(kinds(&vault, "folder"), expected);
    assert_eq!(of(&vault, "folder/link"), (FIFO | 0o640, 7, 8, 0));
    assert_eq!(vault.node("folder/link").unwrap().links, 1);
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!((report.files, report.folders, report.others), (0, 2, 4));
}

/// A fifo that was removed while it is open is still one.
#[test]
fn what_is_held_keeps_its_kind() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    make(&vault, "fifo", FIFO | 0o600);
    make(&vault, "folder", 0o040_750);
    vault.tick().unwrap();
    let [fifo, folder] = ["fifo", "folder"].map(|path| vault.node(path).unwrap());
    vault.unlink(ROOT, OsStr::new("fifo")).unwrap();
    vault.rmdir(ROOT, OsStr::new("folder")).unwrap();
    vault.tick().unwrap();
    let after = [fifo, folder].map(|it| vault.attributes(it.node, None).unwrap());
    assert_eq!(after.map(|it| it.mode), [FIFO | 0o600, 0o040_750]);
    assert_eq!(after.map(|it| it.uid), [7, 7]);
}

/// Files and folders without a header or record that verifies can only be used by the user who runs
/// the mount, whatever the store says.
#[test]
fn what_nothing_is_sealed_of() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    vault.put("file", b"content");
    vault.make(ROOT, OsStr::new("folder"), FOLDER, 0).unwrap();
    let [file, folder] = ["file", "folder"].map(|path| vault.node(path).unwrap().node);
    close(vault);
    {
        let mut disk = mem.disk();
        disk.object(file).data[..4096].fill(0);
        let record = disk.objects[&folder].entries[OsStr::new("warplock.dir")];
        disk.object(record).data.clear();
        for inode in [file, folder] {
            disk.object(inode).mode |= 0o7777;
            (disk.object(inode).uid, disk.object(inode).gid) = (9, 9);
        }
    }
    let vault = open(mem.clone(), &key);
    let me = rustix::process::geteuid().as_raw();
    for (path, mode) in [("file", 0o100_600), ("folder", 0o040_700)] {
        let found = of(&vault, path);
        assert_eq!((found.0, found.1), (mode, me));
    }
    // Emptied, in a vault that seems to have crashed: it is made again for this user alone.
    drop(vault);
    mem.disk().object(file).data.clear();
    let vault = open(mem.clone(), &key);
    assert_eq!(of(&vault, "file").0, 0o100_600);
    let node = vault.node("file").unwrap().node;
    let truncate = Access {
        truncate: true,
        ..WRITE
    };
    drop(vault.open(node, truncate).unwrap());
    vault.tick().unwrap();
    assert_eq!(of(&vault, "file").0, 0o100_600);
}

/// An ACL in its binary form: of the owner, of user 5, of the group, the mask, of others.
fn acl(permissions: [u8; 5]) -> Vec<u8> {
    let mut acl = vec![2, 0, 0, 0];
    for (tag, permissions) in [1, 2, 4, 16, 32].into_iter().zip(permissions) {
        let id = if tag == 2 { [5, 0, 0, 0] } else { [255; 4] };
        acl.extend([tag, 0, permissions, 0]);
        acl.extend(id);
    }
    acl
}

/// ACLs are the store's own, but do not reach further than the sealed permissions.
#[test]
fn acls_go_with_permissions() {
    let name = OsStr::new("system.posix_acl_access");
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    make(&vault, "file", 0o100_444);
    make(&vault, "folder", 0o040_755);
    for path in ["file", "folder"] {
        let node = vault.node(path).unwrap().node;
        let get = || vault.get_xattr(node, name);
        assert_eq!(get(), Err(Errno::NODATA));
        let set = acl([4, 7, 0, 6, 4]);
        vault
            .set_xattr(node, name, &set, warplock_vault::fs::XattrFlags::empty())
            .unwrap();
        assert_eq!(of(&vault, path).0 & 0o7777, 0o464);
        assert_eq!(get(), Ok(set));
        // The vault has to write to the object.
        let stored = mem.disk().objects[&node].xattrs[name].clone();
        assert_eq!(stored[4 + 2] & 6, 6);
        change(&vault, path, &chmod(0o640));
        assert_eq!(get(), Ok(acl([6, 7, 0, 4, 0])));
        // Another one is set in the store.
        mem.disk()
            .object(node)
            .xattrs
            .insert(name.into(), acl([7; 5]));
        assert_eq!(get(), Ok(acl([6, 7, 7, 4, 0])));
        assert_eq!(of(&vault, path).0 & 0o7777, 0o640);
    }
    close(vault);
    assert_eq!(of(&open(mem, &key), "file").0 & 0o7777, 0o640);
}

/// A file that its owner made read-only can be used as on other file systems, also after mounting
/// again.
#[test]
fn new_files_have_their_owner_from_the_start() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let made = vault
        .create(ROOT, OsStr::new("file"), FILE, WRITE, true)
        .unwrap();
    assert_eq!(made.0.mode, 0o100_644);
    // Before anything was committed.
    assert_eq!(of(&open(mem.fork(), &key), "file").0, 0o100_644);
}
