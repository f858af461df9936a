//! The messages of a vault to its user, and to logs that others may read.

use std::sync::{Arc, Mutex};

use warplock_vault::fs::{Access, FileSystem, ROOT, XattrFlags};
use warplock_vault::{Options, Settings, Vault};

use crate::common::mem::Mem;
use crate::common::{FILE, FOLDER, Short, Told, WRITE, new_vault, open, options};

/// Looks at all there is; what fails is told.
fn use_all(store: Mem, key: &warplock_keyring::MasterKey) -> (Vec<String>, Vec<String>) {
    let (told, logged) = (Told::default(), Told::default());
    let log = Arc::clone(&logged);
    let options = Options {
        log: Some(Arc::new(move |text: &str| {
            log.lock().unwrap().push(text.to_owned());
        })),
        ..options(&told)
    };
    let vault = Vault::open_on(store, key, options).unwrap();
    let mut buffer = [0; 100];
    for name in ["letters", "letters/lawyer", "letters/link"] {
        let Ok(node) = vault.node(name) else { continue };
        if let Ok(file) = vault.open(node.node, Access::default()) {
            let _ = vault.read(&file, 0, &mut buffer);
        }
        let _ = vault.readlink(node.node);
        let _ = vault.list_xattrs(node.node);
        if let Ok(dir) = vault.open_dir(node.node) {
            let _ = vault.list(&dir, 0, &mut |_| true);
        }
    }
    vault.unmounted();
    let all = |told: &Mutex<Vec<String>>| told.lock().unwrap().clone();
    (all(&told), all(&logged))
}

#[test]
fn names_do_not_reach_the_log() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let folder = vault.make(ROOT, "letters".as_ref(), FOLDER, 0).unwrap();
    let caller = FILE.caller;
    let made = vault.symlink(folder.node, "link".as_ref(), "target".as_ref(), caller);
    made.unwrap();
    let (node, file) = vault
        .create(folder.node, "lawyer".as_ref(), FILE, WRITE, true)
        .unwrap();
    vault.write(&file, 0, &[7; 5000], false).unwrap();
    let name = "user.secret".as_ref();
    vault
        .set_xattr(node.node, name, b"value", XattrFlags::empty())
        .unwrap();
    drop(file);
    vault.unmounted();
    drop(vault);

    let inodes: Vec<u64> = mem.disk().objects.keys().copied().collect();
    let (mut shown, mut stored) = (0, 0);
    for inode in inodes {
        // Once the first bytes, once the last.
        for at_end in [false, true] {
            let store = mem.fork();
            {
                let mut disk = store.disk();
                let object = disk.objects.get_mut(&inode).unwrap();
                for bytes in [&mut object.data, &mut object.target] {
                    let at = if at_end {
                        bytes.len().saturating_sub(9)
                    } else {
                        40
                    };
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1;
                    }
                }
                for value in object.xattrs.values_mut() {
                    value[20] ^= 1;
                }
            }
            // The settings and the topmost record keep a vault from being opened.
            if Vault::open_on(store.fork(), &key, options(&Told::default())).is_err() {
                continue;
            }
            let (told, logged) = use_all(store, &key);
            assert_eq!(told.len(), logged.len());
            for (told, logged) in told.iter().zip(&logged) {
                for name in ["letters", "lawyer", "link", "secret"] {
                    let plain = format!("/{name}");
                    assert!(!logged.contains(&plain), "{logged}");
                    shown += usize::from(told.contains(&plain));
                }
                stored += usize::from(logged.contains("(`warplock vault check` tells its name)"));
            }
        }
    }
    assert!(shown >= 4 && stored >= 4, "{shown} {stored}");
}
