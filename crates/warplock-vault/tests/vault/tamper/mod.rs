//! Attacks on the store, one by one: the table in `docs/vault-format.md` says when each is
//! noticed, and these tests prove it.

mod below;
mod classes;
mod contents;
mod forms;
mod identity;
mod names;
mod owners;
mod vaults;

use std::ffi::{OsStr, OsString};

use crate::common::mem::{Disk, Mem, Object};
use crate::common::rng::Rng;
use crate::common::{FILE, FOLDER, Short, Told, WRITE, new_vault, open, options};
use rustix::io::Errno;
use warplock_keyring::MasterKey;
use warplock_vault::fs::{Access, Entry, FileSystem, ROOT, RenameFlags, XattrFlags};
use warplock_vault::{CheckOptions, Class, ErrorKind, Finding, Settings, Vault, check};

const HEADER: usize = 2048;
const BLOCK: usize = 4096;
/// Long enough for seals to stand in a page, not only in the header.
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
            let file = vault.create(node, OsStr::new("inner"), FILE, WRITE, true);
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

    /// When a use of `path` notices.
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
        for finding in &report.findings {
            let line = format!("{}; {}", finding.problem, finding.action);
            for advice in ["restore", "check --repair"] {
                assert!(line.matches(advice).count() < 2, "said twice: {line}");
            }
        }
        let found = report
            .findings
            .iter()
            .any(|finding| finding.class == Class::Altered);
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

impl Victim {
    /// What a check finds that no crash explains.
    fn altered(&self) -> Vec<Finding> {
        let vault = open(self.mem.fork(), &self.key);
        let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
        let mut findings = report.findings;
        findings.retain(|finding| finding.class == Class::Altered);
        findings
    }

    /// What a repair finds, and the store as it leaves it.
    fn repaired(&self) -> (Victim, Vec<Finding>) {
        let mem = self.mem.fork();
        let vault = open(mem.clone(), &self.key);
        let options = CheckOptions {
            repair: true,
            ..CheckOptions::default()
        };
        let report = check(&vault, options, &mut |_| {}).unwrap();
        vault.unmounted();
        let key = MasterKey::from_bytes(self.key.as_bytes());
        (Victim { mem, key }, report.findings)
    }

    /// Puts an object into a folder of the store.
    fn plant(&self, dir: u64, name: &str, object: Object) -> u64 {
        let mut disk = self.mem.disk();
        let inode = disk.objects.keys().max().unwrap().max(&(1 << 40)) + 1;
        disk.objects.insert(inode, object);
        disk.object(dir).entries.insert(name.into(), inode);
        inode
    }

    /// The inode of an entry of the topmost folder in the store.
    fn top(&self, name: &str) -> Option<u64> {
        let disk = self.mem.disk();
        disk.objects[&1].entries.get(OsStr::new(name)).copied()
    }

    /// Whether an object can still be reached from the topmost folder.
    fn is_reachable(&self, inode: u64) -> bool {
        let disk = self.mem.disk();
        let mut waiting = vec![1];
        while let Some(at) = waiting.pop() {
            if at == inode {
                return true;
            }
            waiting.extend(disk.objects[&at].entries.values());
        }
        false
    }

    /// What listing the topmost folder says and shows.
    fn listed(&self) -> (Vec<OsString>, String) {
        let told = Told::default();
        let vault = Vault::open_on(self.mem.fork(), &self.key, options(&told)).unwrap();
        let dir = vault.open_dir(ROOT).unwrap();
        let mut names = Vec::new();
        let mut add = |entry: Entry<'_>| {
            names.push(entry.name.to_owned());
            true
        };
        vault.list(&dir, 0, &mut add).unwrap();
        let told = told.lock().unwrap().join("\n");
        (names, told)
    }

    fn swap(&self, a: &str, b: &str) {
        let (one, dir_a, name_a) = self.find(a);
        let (two, dir_b, name_b) = self.find(b);
        let mut disk = self.mem.disk();
        disk.object(dir_a).entries.insert(name_a, two);
        disk.object(dir_b).entries.insert(name_b, one);
    }
}
