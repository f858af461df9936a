//! Closing a vault while others are at work: what counts as closed properly is whole.

use std::ffi::OsStr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::mem::Mem;
use crate::common::{Short, Told, new_vault, open, options};
use rustix::io::Errno;
use warplock_keyring::MasterKey;
use warplock_vault::fs::FileSystem;
use warplock_vault::{CheckOptions, Settings, Vault, check};

/// Long enough for a thread that does not wait to be through.
const A_WHILE: Duration = Duration::from_millis(300);

/// Closes the vault while `work` stands still in the middle of its first write to the store.
fn close_during(vault: &Vault<Mem>, mem: &Mem, work: impl FnOnce() + Send) {
    let (reached, is_there) = mpsc::channel();
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    mem.disk().on_write = Some(Arc::new(move |_| {
        reached.send(()).unwrap();
        waits.lock().unwrap().recv().unwrap();
    }));
    thread::scope(|scope| {
        scope.spawn(work);
        is_there.recv().unwrap();
        let (closed, done) = mpsc::channel();
        scope.spawn(move || {
            vault.unmounted();
            closed.send(()).unwrap();
        });
        let early = done.recv_timeout(A_WHILE);
        go_on.send(()).unwrap();
        assert_eq!(early, Err(RecvTimeoutError::Timeout), "it did not wait");
        done.recv().unwrap();
    });
}

/// The store counts as closed properly, and holds these files.
fn assert_closed(mem: Mem, key: &MasterKey, files: &[(String, Vec<u8>)]) {
    let told = Told::default();
    let vault = Vault::open_on(mem, key, options(&told)).unwrap();
    for (name, content) in files {
        assert!(vault.get(name).as_ref() == Ok(content), "{name}");
    }
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(*told.lock().unwrap(), [""; 0]);
}

/// What the housekeeper took from the list is committed before the vault counts as closed.
#[test]
fn a_tick_under_way_is_waited_for() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let files: Vec<_> = (0..20)
        .map(|n| (format!("file {n}"), vec![n; 9000]))
        .collect();
    for (name, content) in &files {
        let file = vault.new_file(name);
        vault.write(&file, 0, content, false).unwrap();
    }
    close_during(&vault, &mem, || FileSystem::tick(&vault));
    drop(vault);
    assert_closed(mem, &key, &files);
}

/// A mount that is ended while it is in use gets writes until the end, and after it.
#[test]
fn writes_come_before_the_end_or_not_at_all() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let file = vault.new_file("file");
    let content = [1; 9000];
    close_during(&vault, &mem, || {
        vault.write(&file, 0, &content, false).unwrap();
    });
    let late = vault.write(&file, 9000, &content, false);
    assert_eq!(late, Err(Errno::NOTCONN));
    assert_eq!(vault.fsync(&file, false), Err(Errno::NOTCONN));
    let node = vault.node("file").unwrap().node;
    assert_eq!(vault.resize(&file, node, 1), Err(Errno::NOTCONN));
    let unlinked = vault.unlink(warplock_vault::fs::ROOT, OsStr::new("file"));
    assert_eq!(unlinked, Err(Errno::NOTCONN));
    // A second signal, and the end of the mount.
    vault.unmounted();
    drop((file, vault));
    assert_closed(mem, &key, &[("file".into(), content.to_vec())]);
}

/// What could not be committed keeps the store from counting as closed properly; what can be later
/// does not.
#[test]
fn a_commit_that_fails_is_made_up_for_or_shows() {
    for again in [true, false] {
        let (mem, key) = new_vault(&Settings::default());
        let vault = open(mem.clone(), &key);
        let content = vec![1; 9000];
        let file = vault.new_file("file");
        vault.write(&file, 0, &content, false).unwrap();
        drop(file);
        mem.disk().fault = Some((1, Errno::NOSPC));
        if again {
            FileSystem::tick(&vault);
            mem.disk().fault = None;
        }
        vault.unmounted();
        mem.disk().fault = None;
        drop(vault);
        if again {
            assert_closed(mem, &key, &[("file".into(), content)]);
            continue;
        }
        let told = Told::default();
        let vault = Vault::open_on(mem, &key, options(&told)).unwrap();
        assert!(told.lock().unwrap()[0].contains("was not closed properly"));
        assert!(vault.get("file").is_ok());
    }
}
