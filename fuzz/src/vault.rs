//! A vault in memory whose store somebody changed: no panic, and whatever can still be read under a
//! name is what was written there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use warplock_keyring::MasterKey;
use warplock_vault::fs::{Access, FileSystem, FileType, Node, ROOT, XattrFlags};
use warplock_vault::{CheckOptions, Options, Settings, Vault, check as check_vault};

use super::changes::change;
use crate::common::mem::{Disk, Mem};
use crate::common::{FILE, FOLDER, Short, engine, new_vault, open};

/// What can be read under each path: contents, targets, values of attributes.
type Readable = BTreeMap<OsString, Vec<u8>>;

struct Victim {
    mem: Mem,
    key: MasterKey,
    /// The store's objects, in order.
    inodes: Vec<u64>,
    readable: Readable,
}

/// Without holes: a block of zeros reads as zeros where holes are legal, and only `check` sees it.
fn victim() -> &'static Victim {
    static VICTIM: OnceLock<Victim> = OnceLock::new();
    VICTIM.get_or_init(|| {
        let (mem, key) = new_vault(&Settings::default());
        let vault = open(mem.clone(), &key);
        vault.put("short", b"a few bytes");
        vault.put("blocks", &[7; 2 * 4096 + 10]);
        vault.put("empty", b"");
        vault.put(&"long name ".repeat(20), b"named at length");
        let link = OsStr::new("link");
        let caller = FILE.caller;
        vault
            .symlink(ROOT, link, OsStr::new("target"), caller)
            .unwrap();
        let folder = vault.make(ROOT, OsStr::new("folder"), FOLDER, 0).unwrap();
        vault
            .symlink(folder.node, link, OsStr::new("short"), caller)
            .unwrap();
        for node in [folder.node, vault.node("short").unwrap().node] {
            let name = OsStr::new("user.note");
            let flags = XattrFlags::empty();
            vault.set_xattr(node, name, b"a note", flags).unwrap();
        }
        vault.unmounted();
        drop(vault);
        let mut inodes: Vec<_> = mem.disk().objects.keys().copied().collect();
        inodes.sort_unstable();
        let vault = open(mem.fork(), &key);
        let readable = read_all(&vault);
        assert_eq!(readable.len(), 8, "{readable:?}");
        Victim {
            mem,
            key,
            inodes,
            readable,
        }
    })
}

/// Everything that can be read in a vault.
fn read_all(vault: &Vault<Mem>) -> Readable {
    let mut readable = Readable::new();
    read_folder(vault, ROOT, OsStr::new(""), &mut readable);
    readable
}

fn read_folder(vault: &Vault<Mem>, node: Node, path: &OsStr, readable: &mut Readable) {
    let mut names = Vec::new();
    let listed = vault.open_dir(node).and_then(|dir| {
        vault.list(&dir, 0, &mut |entry| {
            names.push(entry.name.to_owned());
            true
        })
    });
    if listed.is_err() {
        return;
    }
    for name in names {
        if name == "." || name == ".." {
            continue;
        }
        let Ok(found) = vault.lookup(node, &name) else {
            continue;
        };
        let path = [path, &name].join(OsStr::new("/"));
        if let Ok(value) = vault.get_xattr(found.node, OsStr::new("user.note")) {
            readable.insert(
                [&path, OsStr::new("user.note")].join(OsStr::new("@")),
                value,
            );
        }
        let _ = vault.list_xattrs(found.node);
        match FileType::from_raw_mode(found.mode) {
            FileType::Directory => read_folder(vault, found.node, &path, readable),
            FileType::Symlink => {
                if let Ok(target) = vault.readlink(found.node) {
                    readable.insert(path, target);
                }
            }
            FileType::RegularFile => {
                let read = vault.open(found.node, Access::default()).and_then(|file| {
                    // A byte more than there is, in two reads.
                    let size = vault.attributes(found.node, Some(&file))?.size;
                    let mut data = vec![0; size.min(1 << 20) as usize + 1];
                    let middle = data.len() / 2;
                    let (first, second) = data.split_at_mut(middle);
                    let mut len = vault.read(&file, 0, first)?;
                    len += vault.read(&file, middle as u64, second)?;
                    data.truncate(len);
                    Ok(data)
                });
                if let Ok(data) = read {
                    readable.insert(path, data);
                }
            }
            _ => {}
        }
    }
}

/// Does something to the store that its owner can do; the fuzzer's bytes say what.
fn attack(disk: &mut Disk, inodes: &[u64], what: [u8; 4], changes: &[u8]) {
    let [kind, one, two, which] = what;
    let pick = |number: u8| inodes[usize::from(number) % inodes.len()];
    let (one, two) = (pick(one), pick(two));
    let other = disk.objects[&two].clone();
    let folders: Vec<u64> = inodes
        .iter()
        .copied()
        .filter(|inode| !disk.objects[inode].entries.is_empty())
        .collect();
    let folder = folders[usize::from(which) % folders.len()];
    let object = disk.object(one);
    match kind % 8 {
        0 | 1 => change(&mut object.data, changes, 3),
        2 => object.data = other.data,
        3 => change(&mut object.target, changes, 3),
        4 => object.xattrs = other.xattrs,
        5 => {
            for value in object.xattrs.values_mut() {
                change(value, changes, 1);
            }
        }
        // An entry disappears, or appears under a name that was never given.
        6 => {
            let entries = &mut disk.object(folder).entries;
            let name = entries.keys().nth(usize::from(which) % entries.len());
            if let Some(name) = name.cloned() {
                entries.remove(&name);
            }
        }
        _ => {
            let entries = &mut disk.object(folder).entries;
            let name = entries.keys().nth(usize::from(which) % entries.len());
            let mut name = name.map_or_else(Vec::new, |name| name.as_bytes().to_vec());
            change(&mut name, changes, 1);
            name.retain(|&byte| byte != 0 && byte != b'/');
            // A folder has one name: no file system links them.
            if other.mode & 0o170_000 != 0o040_000 && !name.is_empty() {
                entries.insert(OsStr::from_bytes(&name).to_owned(), two);
            }
        }
    }
}

/// Whether the vault could still be opened.
pub(crate) fn check(data: &[u8]) -> bool {
    let victim = victim();
    let mem = victim.mem.fork();
    for attacked in data.chunks(14).take(4) {
        let Some((&what, changes)) = attacked.split_first_chunk() else {
            break;
        };
        attack(&mut mem.disk(), &victim.inodes, what, changes);
    }
    let options = Options {
        engine: Some(engine()),
        read_only: data.len().is_multiple_of(2),
        ..Options::default()
    };
    let Ok(vault) = Vault::open_on(mem, &victim.key, options) else {
        return false;
    };
    for (path, found) in read_all(&vault) {
        let written = victim.readable.get(&path);
        assert_eq!(Some(&found), written, "{}", path.display());
    }
    // Whatever is there, the check comes to its end.
    check_vault(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    vault.unmounted();
    true
}
