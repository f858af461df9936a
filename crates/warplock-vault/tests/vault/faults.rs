//! A store that fails: no error is swallowed, nothing wrong is read, nothing synced is lost.

use std::ffi::OsStr;

use crate::common::rng::Rng;
use crate::common::{FILE, FOLDER, Short, WRITE, new_vault, open};
use rustix::io::Errno;
use warplock_vault::fs::{Access, FileSystem, ROOT, RenameFlags};
use warplock_vault::{CheckOptions, Class, Settings, check};

/// Every byte is as it was before or as it was to be.
fn between(found: &[u8], old: &[u8], new: &[u8]) -> bool {
    found.len() >= old.len().min(new.len())
        && found.len() <= old.len().max(new.len())
        && found
            .iter()
            .enumerate()
            .all(|(i, byte)| old.get(i).unwrap_or(&0) == byte || new.get(i).unwrap_or(&0) == byte)
}

#[test]
fn changes_fail_at_every_point() {
    for (errno, seed) in [(Errno::IO, 1), (Errno::NOSPC, 2), (Errno::DQUOT, 3)] {
        for after in 0..120 {
            one_run(errno, after, &mut Rng::new(seed * 1000 + after));
        }
    }
}

fn one_run(errno: Errno, after: u64, rng: &mut Rng) {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let file = vault.new_file("file");
    let node = vault.node("file").unwrap().node;
    let mut states = vec![Vec::new()];
    let mut synced = 0;
    mem.disk().fault = Some((after, errno));
    let last = loop {
        let old = states.last().unwrap().clone();
        let mut new = old.clone();
        let result = match rng.below(10) {
            0..6 => {
                let offset = rng.below(old.len() as u64 + 9000);
                let count = 1 + rng.below(20_000) as usize;
                // Whole blocks take a way of their own.
                let (offset, count) = match rng.below(2) {
                    0 => (offset & !4095, 4096 * (1 + count / 4096)),
                    _ => (offset, count),
                };
                let data = rng.bytes(count);
                new.resize(new.len().max(offset as usize + data.len()), 0);
                new[offset as usize..][..data.len()].copy_from_slice(&data);
                vault.write(&file, offset, &data, false)
            }
            6 => {
                let len = rng.below(old.len() as u64 + 5000);
                new.resize(len as usize, 0);
                vault.resize(&file, node, len)
            }
            7 => {
                let (from, to) = (rng.below(old.len() as u64 + 1), old.len());
                new[from as usize..to].fill(0);
                vault.allocate(&file, 3, from, (to as u64 - from).max(1))
            }
            8 => vault.tick().map_err(|error| error.errno()),
            _ => {
                let result = vault.fsync(&file, false);
                if result.is_ok() {
                    synced = states.len() - 1;
                }
                result
            }
        };
        match result {
            Ok(()) => states.push(new),
            Err(error) => {
                assert_eq!(error, errno);
                break (old, new);
            }
        }
    };
    // The store recovers.
    mem.disk().fault = None;
    let now = vault.get("file");
    match &now {
        Ok(now) => assert!(between(now, &last.0, &last.1)),
        Err(error) => assert_eq!(*error, Errno::IO),
    }
    let committed = rng.below(2) == 0 && now.is_ok();
    if committed {
        vault.fsync(&file, false).unwrap();
        assert_eq!(vault.get("file"), now);
    }
    drop((file, vault));

    // And the machine restarts.
    let vault = open(mem.clone(), &key);
    let found = vault.get("file").unwrap();
    if committed {
        assert!(found == now.unwrap());
    } else {
        let state = states.iter().rposition(|state| *state == found);
        let right = state.is_some_and(|state| state >= synced) || between(&found, &last.0, &last.1);
        assert!(
            right,
            "after {after}: {} bytes, state {state:?}, synced {synced}",
            found.len()
        );
    }
    let options = CheckOptions {
        quick: false,
        repair: true,
    };
    let report = check(&vault, options, &mut |_| {}).unwrap();
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.class == Class::Crash && finding.repaired)
    );
}

/// What is left of a file whose making a crash interrupted does not block its name.
#[test]
fn an_unfinished_file_can_be_replaced() {
    for attempt in 0..4 {
        let (mem, key) = new_vault(&Settings::default());
        let vault = open(mem.clone(), &key);
        vault.put("file", b"content");
        let inode = vault.node("file").unwrap().node;
        drop(vault);
        mem.disk().object(inode).data.clear();

        let vault = open(mem.clone(), &key);
        let name = OsStr::new("file");
        assert_eq!(vault.get("file"), Err(Errno::IO));
        let truncate = Access {
            truncate: true,
            ..WRITE
        };
        match attempt {
            0 => vault.unlink(ROOT, name).unwrap(),
            1 => drop(vault.create(ROOT, name, FILE, truncate, false).unwrap()),
            2 => {
                let node = vault.node("file").unwrap().node;
                drop(vault.open(node, truncate).unwrap());
            }
            _ => {
                vault.put("other", b"");
                let from = (ROOT, OsStr::new("other"));
                vault
                    .rename(from, (ROOT, name), RenameFlags::empty())
                    .unwrap();
            }
        }
        let found = vault.get("file");
        assert_eq!(
            found,
            if attempt == 0 {
                Err(Errno::NOENT)
            } else {
                Ok(Vec::new())
            }
        );
        let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
        assert_eq!(report.findings, []);
    }
}

/// Making things where there is no room leaves nothing half made.
#[test]
fn no_room_for_names() {
    let caller = FILE.caller;
    for after in 0..12 {
        let (mem, key) = new_vault(&Settings::default());
        let vault = open(mem.clone(), &key);
        vault.put("there", b"content");
        let name = OsStr::new("new");
        let actions: [&dyn Fn() -> bool; 5] = [
            &|| vault.create(ROOT, name, FILE, WRITE, true).is_ok(),
            &|| vault.make(ROOT, name, FOLDER, 0).is_ok(),
            &|| vault.symlink(ROOT, name, name, caller).is_ok(),
            &|| {
                let node = vault.node("there").unwrap().node;
                vault.link(node, ROOT, name).is_ok()
            },
            &|| {
                let (from, to) = ((ROOT, OsStr::new("there")), (ROOT, name));
                vault.rename(from, to, RenameFlags::empty()).is_ok()
            },
        ];
        for (number, action) in actions.iter().enumerate() {
            mem.disk().fault = Some((after, Errno::NOSPC));
            let done = action();
            mem.disk().fault = None;
            if done && number < 4 {
                let removed = if number == 1 {
                    vault.rmdir(ROOT, name)
                } else {
                    vault.unlink(ROOT, name)
                };
                removed.unwrap();
            }
        }
        vault.unmounted();
        drop(vault);
        let vault = open(mem, &key);
        let content = vault.get("there").or_else(|_| vault.get("new")).unwrap();
        assert_eq!(content, b"content");
        let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
        assert!(
            report
                .findings
                .iter()
                .all(|finding| finding.class == Class::Crash),
            "{report:?}"
        );
    }
}

/// A disk that runs full costs what is written then, and nothing else.
#[test]
fn no_room_for_data() {
    for forgotten in [false, true] {
        no_room(forgotten);
    }
}

/// `forgotten`: the vault has to look where the gaps are.
fn no_room(forgotten: bool) {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let file = vault.new_file("file");
    let data = Rng::new(7).bytes(40_000);
    vault.write(&file, 0, &data, false).unwrap();
    // As a mount's threads do: the later half first, which leaves a gap.
    vault.write(&file, 81_920, b"end and more", false).unwrap();
    let mut expected = data[..36_864].to_vec();
    expected.extend(&data[..4096]);
    expected.extend(&data[..4096]);
    expected.resize(81_920, 0);
    expected.extend(b"end and more");
    if forgotten {
        let node = vault.node("file").unwrap().node;
        vault.resize(&file, node, 81_923).unwrap();
        expected.truncate(81_923);
    }
    mem.disk().full = true;
    let writes = [
        (40_960, 8192),
        (45_056, 36_864),
        (73_728, 8192),
        (73_728, 12_288),
        (36_864, 8192),
    ];
    // The last one gets as far as there is room: over what was written before.
    for (offset, len) in writes {
        let result = vault.write(&file, offset, &data[..len], false);
        assert_eq!(result, Err(Errno::NOSPC), "{len} at {offset}");
    }
    mem.disk().full = false;
    vault.write(&file, 40_960, &data[..4096], false).unwrap();
    assert!(vault.get("file").unwrap() == expected);
    drop(file);
    vault.unmounted();
    drop(vault);
    let vault = open(mem, &key);
    assert!(vault.get("file").unwrap() == expected);
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
}

/// A cut that fails at any point, also after the journal has it durably, leaves one of the states
/// that the file had, and what can complete it.
#[test]
fn a_cut_fails_at_every_point() {
    let block = |number: usize| number * 4096;
    let mut after = 0;
    loop {
        let (mem, key) = new_vault(&Settings::default());
        let vault = open(mem.clone(), &key);
        // All but two parts of it is holes.
        let file = vault.new_file("file");
        for first in [0, 32] {
            let data = [b'A'; 8 * 4096];
            let offset = block(first) as u64;
            vault.write(&file, offset, &data, false).unwrap();
        }
        let node = vault.node("file").unwrap().node;
        vault.resize(&file, node, block(48) as u64).unwrap();
        vault.fsync(&file, false).unwrap();
        vault.tick().unwrap();
        let old = vault.get("file").unwrap();
        for first in [0, 16] {
            let data = [b'B'; 4 * 4096];
            let offset = block(first) as u64;
            vault.write(&file, offset, &data, false).unwrap();
        }
        let written = vault.get("file").unwrap();
        let cut = &written[..block(36) + 10];

        mem.disk().fault = Some((after, Errno::NOSPC));
        let result = vault.resize(&file, node, cut.len() as u64);
        let done = mem.disk().fault != Some((0, Errno::NOSPC));
        mem.disk().fault = None;
        if result.is_ok() {
            assert!(vault.get("file").unwrap() == cut);
        }
        drop(file);
        // What could not be finished then can be now; an error is told once more.
        let _ = vault.tick();
        let mut found = vault.get("file").unwrap();
        if result.is_ok() {
            assert!(found == cut, "after {after}");
        }
        let whole = [&old[..], &written, cut].contains(&&found[..]);
        assert!(whole, "after {after}: {result:?}");

        let file = vault.file("file").unwrap();
        vault.write(&file, 0, &[b'C'; 4096], false).unwrap();
        vault.fsync(&file, false).unwrap();
        found[..4096].fill(b'C');
        drop(file);
        assert!(open(mem.fork(), &key).get("file").unwrap() == found);
        vault.unmounted();
        drop(vault);
        let vault = open(mem, &key);
        assert!(vault.get("file").unwrap() == found, "after {after}");
        let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
        assert!(
            report
                .findings
                .iter()
                .all(|finding| finding.class == Class::Crash)
        );
        if done {
            break;
        }
        after += 1;
    }
    assert!(
        after > 5,
        "there is more than a record and one block to write"
    );
}
