//! Attacks on the store, one by one: the table in `docs/vault-format.md` says when each is
//! noticed, and these tests prove it.

mod common;

use std::ffi::{OsStr, OsString};

use common::mem::{Disk, Mem, Object};
use common::rng::Rng;
use common::{FILE, FOLDER, Short, Told, new_vault, open, options};
use rustix::io::Errno;
use warplock_keyring::MasterKey;
use warplock_vault::fs::{Access, FileSystem, ROOT, RenameFlags, XattrFlags};
use warplock_vault::{CheckOptions, ErrorKind, Settings, Vault, check};

const HEADER: usize = 2048;
const SLOT: usize = 4096 + 28;
/// Long enough for its sum not to be checked when it is opened.
const LONG: usize = 100 * 4096 + 50;
const SHORT: usize = 3 * 4096 + 50;

/// When an attack shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Noticed {
    /// Looking up the name does not find it, and listing its folder complains.
    List,
    Open,
    Read,
    Check,
    Never,
}
use Noticed::{Check, List, Never, Open, Read};

/// A closed vault with files to attack.
struct Victim {
    mem: Mem,
    key: MasterKey,
}

fn text(seed: u64, len: usize) -> Vec<u8> {
    Rng::new(seed).bytes(len)
}

impl Victim {
    fn new() -> Self {
        let (mem, key) = new_vault(&Settings::default());
        let vault = open(mem.clone(), &key);
        for (seed, (name, len)) in [
            ("long", LONG),
            ("long2", LONG),
            ("short", SHORT),
            ("s2", 99),
        ]
        .into_iter()
        .enumerate()
        {
            // The second half first, as a mount's threads may do: that leaves no hole.
            let (data, half) = (text(seed as u64, len), len / 2 / 4096 * 4096);
            let file = vault.new_file(name);
            vault
                .write(&file, half as u64, &data[half..], false)
                .unwrap();
            vault.write(&file, 0, &data[..half], false).unwrap();
            vault.fsync(&file, false).unwrap();
        }
        // A file with a hole between two blocks.
        let file = vault.new_file("sparse");
        vault.write(&file, 0, &text(9, LONG), false).unwrap();
        vault
            .write(&file, LONG as u64 + 50_000, b"end", false)
            .unwrap();
        for name in ["dir", "dir2"] {
            let node = vault.make(ROOT, OsStr::new(name), FOLDER, 0).unwrap().node;
            let file = vault.create(node, OsStr::new("inner"), FILE, common::WRITE, true);
            vault
                .write(&file.unwrap().1, 0, name.as_bytes(), false)
                .unwrap();
            let target = OsStr::new("target");
            vault
                .symlink(node, OsStr::new("link"), target, FILE.caller)
                .unwrap();
        }
        for name in ["link", "link2"] {
            let target = OsStr::new(name);
            vault
                .symlink(ROOT, OsStr::new(name), target, FILE.caller)
                .unwrap();
        }
        for name in ["short", "s2", "dir"] {
            let node = vault.node(name).unwrap().node;
            for (attribute, value) in [("user.a", "1"), ("user.b", "2")] {
                let (attribute, value) = (OsStr::new(attribute), value.as_bytes());
                vault
                    .set_xattr(node, attribute, value, XattrFlags::empty())
                    .unwrap();
            }
        }
        vault.unmounted();
        drop(vault);
        Victim { mem, key }
    }

    /// The inode of a path, and the folder and name in the store where it stands.
    fn find(&self, path: &str) -> (u64, u64, OsString) {
        let inode = {
            let fork = self.mem.fork();
            let vault = open(fork, &self.key);
            vault.node(path).unwrap().node
        };
        let disk = self.mem.disk();
        for (dir, object) in &disk.objects {
            for (name, entry) in &object.entries {
                if *entry == inode {
                    return (inode, *dir, name.clone());
                }
            }
        }
        panic!("{path} is nowhere in the store");
    }

    fn inode(&self, path: &str) -> u64 {
        self.find(path).0
    }

    /// A copy of a file's ciphertext.
    fn copy(&self, path: &str) -> Object {
        let inode = self.inode(path);
        self.mem.disk().objects[&inode].clone()
    }

    fn edit(&self, path: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let inode = self.inode(path);
        edit(&mut self.mem.disk().object(inode).data);
    }

    /// Runs the vault between two attacks.
    fn legitimately(&self, action: impl FnOnce(&Vault<Mem>)) {
        let vault = open(self.mem.clone(), &self.key);
        action(&vault);
        vault.unmounted();
    }

    /// When somebody who uses `path` notices.
    fn noticed(&self, path: &str) -> Noticed {
        let told = Told::default();
        let vault = Vault::open_on(self.mem.fork(), &self.key, options(&told)).unwrap();
        let told = || told.lock().unwrap().join("\n");
        let seen = 'seen: {
            let parts: Vec<_> = path.split('/').collect();
            let mut parent = ROOT;
            for (index, part) in parts.iter().enumerate() {
                let node = match vault.lookup(parent, OsStr::new(part)) {
                    Ok(node) => node,
                    Err(Errno::IO) => break 'seen Open,
                    Err(Errno::NOENT) => {
                        let dir = vault.open_dir(parent).unwrap();
                        vault.list(&dir, 0, &mut |_| true).unwrap();
                        let complained = told().contains("was never given that name");
                        break 'seen if complained { List } else { Never };
                    }
                    Err(other) => panic!("{other}"),
                };
                parent = node.node;
                if index + 1 < parts.len() {
                    continue;
                }
                match node.mode & 0o170_000 {
                    0o040_000 => {
                        if vault.open_dir(parent).is_err() {
                            break 'seen Open;
                        }
                    }
                    0o120_000 => {
                        if vault.readlink(parent).is_err() {
                            break 'seen Read;
                        }
                    }
                    _ => {
                        let Ok(file) = vault.open(parent, Access::default()) else {
                            break 'seen Open;
                        };
                        let mut data = vec![0; 2 * LONG];
                        if vault.read(&file, 0, &mut data).is_err() {
                            break 'seen Read;
                        }
                    }
                }
                for name in ["user.a", "user.b"] {
                    match vault.get_xattr(parent, OsStr::new(name)) {
                        Ok(_) | Err(Errno::NODATA) => {}
                        Err(_) => break 'seen Read,
                    }
                }
            }
            Never
        };
        let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
        let found = report.findings.iter().any(|finding| !finding.crash);
        if seen != Never {
            assert!(!report.findings.is_empty(), "check sees what using sees");
            if seen != List {
                assert!(
                    told().contains("altered") || told().contains("no header"),
                    "{}",
                    told()
                );
            }
        }
        if seen == Never && found { Check } else { seen }
    }
}

/// Attacks on a file's bytes, and when they show in a long, a short and a sparse file.
#[test]
fn data() {
    type Edit = fn(&mut Vec<u8>);
    let slot = |number: usize| 2 * HEADER + number * SLOT;
    assert_eq!(slot(1), 2 * HEADER + 4124);
    let attacks: [(&str, Edit, Noticed, Noticed, Noticed); 12] = [
        (
            "flip ciphertext",
            |d| d[2 * HEADER + SLOT + 100] ^= 1,
            Read,
            Read,
            Read,
        ),
        (
            "flip a nonce",
            |d| d[2 * HEADER + SLOT] ^= 1,
            Read,
            Read,
            Read,
        ),
        (
            "flip a tag",
            |d| d[2 * HEADER + SLOT - 1] ^= 1,
            Read,
            Open,
            Read,
        ),
        (
            "swap blocks",
            |d| {
                let (a, b) = d.split_at_mut(2 * HEADER + SLOT);
                a[2 * HEADER..].swap_with_slice(&mut b[..SLOT]);
            },
            Read,
            Open,
            Read,
        ),
        (
            "repeat a block",
            |d| {
                d.copy_within(2 * HEADER..2 * HEADER + SLOT, 2 * HEADER + SLOT);
            },
            Read,
            Open,
            Read,
        ),
        (
            "zero a block",
            |d| d[2 * HEADER..][..SLOT].fill(0),
            Read,
            Open,
            Check,
        ),
        (
            "cut the last block",
            |d| d.truncate(d.len() - 50 - 28),
            Open,
            Open,
            Open,
        ),
        (
            "cut within a block",
            |d| d.truncate(d.len() - 1),
            Open,
            Open,
            Open,
        ),
        (
            "cut everything",
            |d| d.truncate(2 * HEADER),
            Open,
            Open,
            Open,
        ),
        ("append", |d| d.extend([7; 5000]), Open, Open, Open),
        ("empty", Vec::clear, Open, Open, Open),
        (
            "zero all blocks",
            |d| d[2 * HEADER..].fill(0),
            Read,
            Open,
            Check,
        ),
    ];
    let victim = Victim::new();
    for (name, edit, long, short, sparse) in attacks {
        for (path, noticed) in [("long", long), ("short", short), ("sparse", sparse)] {
            let victim = Victim {
                mem: victim.mem.fork(),
                key: MasterKey::from_bytes(victim.key.as_bytes()),
            };
            victim.edit(path, edit);
            assert_eq!(victim.noticed(path), noticed, "{name}: {path}");
        }
    }
}

#[test]
fn a_block_of_another_file() {
    let victim = Victim::new();
    let other = victim.copy("long2").data;
    victim.edit("long", |data| {
        data[2 * HEADER..][..SLOT].copy_from_slice(&other[2 * HEADER..][..SLOT]);
    });
    assert_eq!(victim.noticed("long"), Read);
}

#[test]
fn an_old_block() {
    for (path, noticed) in [("long", Check), ("short", Open)] {
        let victim = Victim::new();
        let old = victim.copy(path).data;
        victim.legitimately(|vault| {
            let file = vault.file(path).unwrap();
            vault.write(&file, 4096, &[1; 4096], false).unwrap();
        });
        let slot = 2 * HEADER + SLOT;
        victim.edit(path, |data| {
            assert_ne!(data[slot..][..SLOT], old[slot..][..SLOT]);
            data[slot..][..SLOT].copy_from_slice(&old[slot..][..SLOT]);
        });
        assert_eq!(victim.noticed(path), noticed);
    }
}

#[test]
fn headers() {
    type Edit = fn(&mut Vec<u8>);
    let attacks: [(&str, Edit); 9] = [
        ("flip both", |d| {
            d[100] ^= 1;
            d[HEADER + 100] ^= 1;
        }),
        ("flip the first", |d| d[100] ^= 1),
        ("flip the second", |d| d[HEADER + 100] ^= 1),
        ("flip the id", |d| d[0] ^= 1),
        ("zero both", |d| d[..2 * HEADER].fill(0)),
        ("zero the first", |d| d[..HEADER].fill(0)),
        ("zero the second", |d| d[HEADER..2 * HEADER].fill(0)),
        ("the first twice", |d| d.copy_within(..HEADER, HEADER)),
        ("the second twice", |d| d.copy_within(HEADER..2 * HEADER, 0)),
    ];
    let victim = Victim::new();
    for (name, edit) in attacks {
        for path in ["long", "short", "sparse"] {
            let victim = Victim {
                mem: victim.mem.fork(),
                key: MasterKey::from_bytes(victim.key.as_bytes()),
            };
            victim.edit(path, edit);
            assert_eq!(victim.noticed(path), Open, "{name}: {path}");
        }
    }
}

#[test]
fn a_header_of_another_file() {
    for (from, to) in [(0, HEADER), (0, 2 * HEADER), (HEADER, 2 * HEADER)] {
        let victim = Victim::new();
        let other = victim.copy("long2").data;
        victim.edit("long", |data| {
            data[from..to].copy_from_slice(&other[from..to])
        });
        assert_eq!(victim.noticed("long"), Open);
    }
}

#[test]
fn old_headers_with_new_data() {
    // Of the same length, of another length, and in a short file.
    for (path, offset, noticed) in [("long", 0, Check), ("long", LONG, Open), ("short", 0, Open)] {
        let victim = Victim::new();
        let old = victim.copy(path).data;
        victim.legitimately(|vault| {
            let file = vault.file(path).unwrap();
            vault
                .write(&file, offset as u64, &[1; 4096], false)
                .unwrap();
        });
        victim.edit(path, |data| {
            data[..2 * HEADER].copy_from_slice(&old[..2 * HEADER])
        });
        assert_eq!(victim.noticed(path), noticed);
    }
}

/// The one thing that may pass: all of a file as it was.
#[test]
fn a_whole_old_file() {
    let victim = Victim::new();
    let old = victim.copy("long").data;
    victim.legitimately(|vault| {
        let file = vault.file("long").unwrap();
        vault.write(&file, 0, &[1; 4096], false).unwrap();
    });
    victim.edit("long", |data| data.clone_from(&old));
    assert_eq!(victim.noticed("long"), Never);
}

/// A crash that never was: the folder of journals is put there to make damage look like one.
#[test]
fn a_pretended_crash_is_told() {
    let victim = Victim::new();
    victim.edit("long", |data| data[HEADER + 100] ^= 1);
    let vault = open(victim.mem.clone(), &victim.key);
    drop(vault); // without closing it, which leaves the folder
    let told = Told::default();
    let vault = Vault::open_on(victim.mem.clone(), &victim.key, options(&told)).unwrap();
    let _ = vault.get("long");
    let told = told.lock().unwrap().join("\n");
    assert!(
        told.contains("was not closed properly") && told.contains("/long"),
        "{told}"
    );
}

impl Victim {
    fn swap(&self, a: &str, b: &str) {
        let (one, dir_a, name_a) = self.find(a);
        let (two, dir_b, name_b) = self.find(b);
        let mut disk = self.mem.disk();
        disk.object(dir_a).entries.insert(name_a, two);
        disk.object(dir_b).entries.insert(name_b, one);
    }
}

#[test]
fn swapped_entries() {
    for (a, b, noticed) in [
        ("long", "long2", Open),
        ("long", "s2", Open),
        ("dir/inner", "dir2/inner", Open),
        ("long", "dir/inner", Open),
        ("dir", "dir2", Open),
        ("link", "link2", Read),
        ("dir/link", "dir2/link", Read),
        ("link", "long", Open),
    ] {
        let victim = Victim::new();
        victim.swap(a, b);
        let seen = victim.noticed(a);
        assert!(
            seen == noticed || (a == "link" && seen == Open),
            "{a} {b}: {seen:?}"
        );
        assert!(victim.noticed(b) <= Read, "{a} {b}");
    }
}

#[test]
fn names() {
    // To another folder, under the same ciphertext name.
    for path in ["long", "link2", "dir2"] {
        let victim = Victim::new();
        let (inode, dir, name) = victim.find(path);
        let to = victim.inode("dir");
        let mut disk = victim.mem.disk();
        disk.object(dir).entries.remove(&name);
        disk.object(to).entries.insert(name, inode);
        drop(disk);
        assert_eq!(victim.noticed(&format!("dir/{path}")), List, "{path}");
    }
    // Under a changed name.
    for path in ["long", "link", "dir2"] {
        let victim = Victim::new();
        let (inode, dir, name) = victim.find(path);
        let mut other = name.clone().into_string().unwrap().into_bytes();
        other[5] = if other[5] == b'A' { b'B' } else { b'A' };
        let mut disk = victim.mem.disk();
        disk.object(dir).entries.remove(&name);
        let other = OsString::from(String::from_utf8(other).unwrap());
        disk.object(dir).entries.insert(other, inode);
        drop(disk);
        assert_eq!(victim.noticed(path), List, "{path}");
    }
    // A copy, and a hard link, under another file's name.
    for link in [false, true] {
        let victim = Victim::new();
        let (inode, ..) = victim.find("long");
        let (other, dir, name) = victim.find("long2");
        let mut disk = victim.mem.disk();
        if link {
            disk.object(dir).entries.insert(name, inode);
        } else {
            *disk.object(other) = disk.objects[&inode].clone();
        }
        drop(disk);
        assert_eq!(victim.noticed("long2"), Open);
    }
    // A name that was given up, put back.
    let victim = Victim::new();
    let (inode, dir, old) = victim.find("long");
    victim.legitimately(|vault| {
        let (from, to) = ((ROOT, OsStr::new("long")), (ROOT, OsStr::new("new")));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
    });
    let (_, _, new) = victim.find("new");
    let mut disk = victim.mem.disk();
    disk.object(dir).entries.remove(&new);
    disk.object(dir).entries.insert(old, inode);
    drop(disk);
    assert_eq!(victim.noticed("long"), Open);
}

#[test]
fn long_names() {
    let name = "n".repeat(200);
    for attack in ["flip", "delete"] {
        let victim = Victim::new();
        victim.legitimately(|vault| vault.put(&name, b"content"));
        let (_, dir, stored) = victim.find(&name);
        let beside = stored.to_str().unwrap().replace(".long", ".name");
        let beside = OsString::from(beside);
        let mut disk = victim.mem.disk();
        if attack == "flip" {
            let inode = disk.objects[&dir].entries[&beside];
            disk.object(inode).data[20] ^= 1;
        } else {
            disk.object(dir).entries.remove(&beside);
        }
        drop(disk);
        let vault = open(victim.mem.fork(), &victim.key);
        assert_eq!(
            vault.get(&name).unwrap(),
            b"content",
            "by name it is still found"
        );
        let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
        assert!(report.findings.iter().any(|finding| !finding.crash));
    }
}

#[test]
fn records_of_folders() {
    let record = OsStr::new("warplock.dir");
    type Attack = fn(&mut Disk, u64, u64);
    let attacks: [(&str, Attack); 4] = [
        ("delete", |disk, dir, _| {
            disk.object(dir).entries.remove(OsStr::new("warplock.dir"));
        }),
        ("flip", |disk, _, inode| disk.object(inode).data[30] ^= 1),
        ("empty", |disk, _, inode| disk.object(inode).data.clear()),
        ("extend", |disk, _, inode| disk.object(inode).data.push(0)),
    ];
    for (name, attack) in attacks {
        let victim = Victim::new();
        let dir = victim.inode("dir");
        let mut disk = victim.mem.disk();
        let inode = disk.objects[&dir].entries[record];
        attack(&mut disk, dir, inode);
        drop(disk);
        assert_eq!(victim.noticed("dir"), Open, "{name}");
    }
    // Another folder's.
    let victim = Victim::new();
    let (dir, other) = (victim.inode("dir"), victim.inode("dir2"));
    let mut disk = victim.mem.disk();
    let inode = disk.objects[&other].entries[record];
    disk.object(dir).entries.insert(record.into(), inode);
    drop(disk);
    assert_eq!(victim.noticed("dir"), Open);
    // The one from before a rename.
    let victim = Victim::new();
    let dir = victim.inode("dir");
    let old = {
        let disk = victim.mem.disk();
        disk.objects[&disk.objects[&dir].entries[record]]
            .data
            .clone()
    };
    victim.legitimately(|vault| {
        let (from, to) = ((ROOT, OsStr::new("dir")), (ROOT, OsStr::new("new")));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
    });
    let mut disk = victim.mem.disk();
    let inode = disk.objects[&dir].entries[record];
    disk.object(inode).data = old;
    drop(disk);
    assert_eq!(victim.noticed("new"), Open);
}

#[test]
fn symlinks() {
    let victim = Victim::new();
    let inode = victim.inode("link");
    let mut disk = victim.mem.disk();
    let byte = &mut disk.object(inode).target[20];
    *byte = if *byte == b'A' { b'B' } else { b'A' };
    drop(disk);
    assert_eq!(victim.noticed("link"), Read);

    // The target of one in the place of another's.
    let victim = Victim::new();
    let target = victim.copy("link2").target;
    let inode = victim.inode("link");
    victim.mem.disk().object(inode).target = target;
    assert_eq!(victim.noticed("link"), Read);

    // A target in the clear.
    let victim = Victim::new();
    let inode = victim.inode("link");
    victim.mem.disk().object(inode).target = b"/etc/passwd".to_vec();
    assert_eq!(victim.noticed("link"), Read);
}

#[test]
fn xattrs() {
    for path in ["short", "dir"] {
        let attacks: [fn(&mut Object); 2] = [
            |object| object.xattrs.values_mut().next().unwrap()[20] ^= 1,
            |object| {
                let values: Vec<_> = object.xattrs.values().rev().cloned().collect();
                for (value, other) in object.xattrs.values_mut().zip(values) {
                    *value = other;
                }
            },
        ];
        for attack in attacks {
            let victim = Victim::new();
            let inode = victim.inode(path);
            attack(victim.mem.disk().object(inode));
            assert_eq!(victim.noticed(path), Read, "{path}");
        }
    }
    // Another file's attributes under this file's names.
    let victim = Victim::new();
    let other = victim.copy("s2").xattrs;
    let inode = victim.inode("short");
    let mut disk = victim.mem.disk();
    for (value, other) in disk
        .object(inode)
        .xattrs
        .values_mut()
        .zip(other.into_values())
    {
        *value = other;
    }
    drop(disk);
    assert_eq!(victim.noticed("short"), Read);
    // What the specification says is not noticed: one that is gone.
    let victim = Victim::new();
    let inode = victim.inode("short");
    victim.mem.disk().object(inode).xattrs.pop_first();
    assert_eq!(victim.noticed("short"), Never);
}

#[test]
fn the_vault_file() {
    let config = OsStr::new("warplock.vault");
    let victim = Victim::new();
    let inode = victim.mem.disk().objects[&1].entries[config];
    let text = String::from_utf8(victim.mem.disk().objects[&inode].data.clone()).unwrap();
    let id = text.lines().find(|line| line.starts_with("id = ")).unwrap();
    let mac = text
        .lines()
        .find(|line| line.starts_with("mac = "))
        .unwrap();
    for (from, to) in [
        ("block_size = 4096", "block_size = 16384"),
        ("aes-256-gcm", "aes-128-gcm"),
        (id, "id = \"00000000000000000000000000000000\""),
        (mac, "mac = \"00\""),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        let mem = victim.mem.fork();
        mem.disk().object(inode).data = changed.into_bytes();
        let refused = Vault::open_on(mem, &victim.key, options(&Told::default()));
        assert_eq!(
            refused.err().unwrap().kind(),
            ErrorKind::Authentication,
            "{from}"
        );
    }
    for changed in ["", "format = 2\n", "format = 1\n", "\0"] {
        let mem = victim.mem.fork();
        mem.disk().object(inode).data = changed.into();
        let refused = Vault::open_on(mem, &victim.key, options(&Told::default()));
        assert_eq!(refused.err().unwrap().kind(), ErrorKind::Failure);
    }
    victim.mem.disk().object(1).entries.remove(config);
    let refused = Vault::open_on(victim.mem.clone(), &victim.key, options(&Told::default()));
    assert!(
        refused
            .err()
            .unwrap()
            .to_string()
            .contains("not a vault's store")
    );
}

/// Another vault's things: its vault file, its topmost record, a file of its.
#[test]
fn another_vault() {
    let (victim, other) = (Victim::new(), Victim::new());
    for name in ["warplock.vault", "warplock.dir"] {
        let name = OsStr::new(name);
        let mem = victim.mem.fork();
        let theirs = {
            let disk = other.mem.disk();
            disk.objects[&disk.objects[&1].entries[name]].clone()
        };
        {
            let mut disk = mem.disk();
            let inode = disk.objects[&1].entries[name];
            *disk.object(inode) = theirs;
        }
        let refused = Vault::open_on(mem, &victim.key, options(&Told::default()));
        assert_eq!(refused.err().unwrap().kind(), ErrorKind::Authentication);
    }
    let theirs = other.copy("long");
    let inode = victim.inode("long");
    *victim.mem.disk().object(inode) = theirs;
    assert_eq!(victim.noticed("long"), Open);
}

/// A journal from before, put back: nothing happens.
#[test]
fn an_old_journal() {
    let victim = Victim::new();
    let before = victim.mem.disk().clone();
    victim.mem.disk().log.clear();
    victim.legitimately(|vault| {
        let file = vault.file("long").unwrap();
        vault.write(&file, 0, &[1; 5000], false).unwrap();
        vault.fsync(&file, false).unwrap();
    });
    // The disk at the moment when the journal was written, but not yet emptied.
    let log = victim.mem.disk().log.clone();
    let mut rng = Rng::new(5);
    let mut tried = 0;
    for cut in 0..log.len() {
        let disk = before.crash(&log, cut, &mut rng);
        let journals = disk.objects[&1].entries.get(OsStr::new("warplock.journal"));
        let Some(journals) = journals.map(|inode| disk.objects[inode].clone()) else {
            continue;
        };
        let Some((name, inode)) = journals.entries.iter().next() else {
            continue;
        };
        let journal = disk.objects[inode].clone();
        let now = Victim {
            mem: victim.mem.fork(),
            key: MasterKey::from_bytes(victim.key.as_bytes()),
        };
        now.legitimately(|vault| {
            let file = vault.file("long").unwrap();
            vault.write(&file, 0, &[2; 5000], false).unwrap();
        });
        {
            let mut disk = now.mem.disk();
            let mut folder = disk.objects[&1].clone();
            folder.entries.clear();
            folder.entries.insert(name.clone(), 1 << 50);
            disk.objects.insert(1 << 50, journal);
            disk.objects.insert(1 << 51, folder);
            disk.object(1)
                .entries
                .insert("warplock.journal".into(), 1 << 51);
        }
        let vault = open(now.mem.clone(), &now.key);
        assert_eq!(vault.get("long").unwrap()[..5000], [2; 5000]);
        tried += 1;
    }
    assert!(tried > 3);
}

/// Nobody can be made to wait or crash by what stands in the store.
#[test]
fn rubbish_everywhere() {
    let victim = Victim::new();
    let mut rng = Rng::new(11);
    for _ in 0..100 {
        let mem = victim.mem.fork();
        {
            let mut disk = mem.disk();
            let mut inodes: Vec<_> = disk.objects.keys().copied().collect();
            inodes.sort_unstable();
            for _ in 0..5 {
                let inode = inodes[rng.below(inodes.len() as u64) as usize];
                let len = rng.below(5000) as usize;
                let object = disk.object(inode);
                match rng.below(4) {
                    0 => object.data = rng.bytes(len),
                    1 => object.data.truncate(len),
                    2 => object.target = rng.bytes(len % 100),
                    _ => {
                        let at = rng.below(object.data.len() as u64 + 1) as usize;
                        if let Some(byte) = object.data.get_mut(at) {
                            *byte ^= 1 << rng.below(8);
                        }
                    }
                }
            }
        }
        let told = Told::default();
        if let Ok(vault) = Vault::open_on(mem, &victim.key, options(&told)) {
            let report = check(
                &vault,
                CheckOptions {
                    quick: false,
                    repair: true,
                },
                &mut |_| {},
            )
            .unwrap();
            assert!(report.findings.iter().all(|finding| finding.repaired));
            let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
            assert_eq!(report.findings, []);
        }
    }
}

/// What only the witness notices.
#[test]
fn with_a_witness() {
    let folder = tempfile::tempdir().unwrap();
    let victim = Victim::new();
    let open_with = |mem: &Mem| {
        let told = Told::default();
        let mut options = options(&told);
        options.witness = Some(folder.path().join("witness"));
        (
            Vault::open_on(mem.clone(), &victim.key, options).unwrap(),
            told,
        )
    };
    let findings = |vault: &Vault<Mem>| {
        check(vault, CheckOptions::default(), &mut |_| {})
            .unwrap()
            .findings
            .len()
    };
    // It gets to know everything.
    let (vault, _) = open_with(&victim.mem);
    assert_eq!(findings(&vault), 0);
    vault.unmounted();
    drop(vault);
    let old = victim.mem.fork();

    let (vault, _) = open_with(&victim.mem);
    let file = vault.file("long").unwrap();
    vault.write(&file, 0, &[1; 4096], false).unwrap();
    drop(file);
    vault.unlink(ROOT, OsStr::new("s2")).unwrap();
    vault.put("new", b"new");
    vault.unmounted();
    drop(vault);
    let (vault, _) = open_with(&victim.mem);
    assert_eq!(findings(&vault), 0);
    drop(vault);
    victim
        .mem
        .disk()
        .object(1)
        .entries
        .remove(OsStr::new("warplock.journal"));

    // All of the vault as it was.
    let (vault, told) = open_with(&old);
    assert_eq!(vault.get("long"), Err(Errno::IO));
    assert!(told.lock().unwrap().join("\n").contains("old version"));
    // The old file, the file that came back, and the one that is gone.
    assert_eq!(findings(&vault), 4, "and the old file is not where it was");
    drop(vault);

    // One file as it was.
    let inode = victim.inode("long");
    let object = old.disk().objects[&inode].clone();
    *victim.mem.disk().object(inode) = object;
    let (vault, _) = open_with(&victim.mem);
    assert_eq!(vault.get("long"), Err(Errno::IO));
    drop(vault);

    // Another vault's witness.
    let other = Victim::new();
    let mut options = options(&Told::default());
    options.witness = Some(folder.path().join("witness"));
    let refused = Vault::open_on(other.mem, &other.key, options)
        .err()
        .unwrap();
    assert_eq!(refused.kind(), ErrorKind::Authentication);
}
