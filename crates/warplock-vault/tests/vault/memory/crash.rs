//! What a crash may excuse, and what it may not.

use std::ffi::OsString;

use super::*;
use crate::common::rng::Rng;

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
    // The user accepts the first branch; the second begins from the same state.
    world.restore(&before);
    let session = world.try_open(&world.mem, &world.state(), true).unwrap();
    accept(&session.vault, &[]).unwrap();
    overwrite(&session.vault, "f", &[3; 4096]);
    session.close();
    world.session(|vault| assert_eq!(vault.get("f").unwrap()[0], 3));
    let rest = world.copy();
    world.restore(&branch);
    world.refuses("f", "an old version");
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

/// What was not synced may be lost in a crash, or be there; neither is an alarm.
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

/// Links, folders and files, and a crash that keeps of what was not synced what it likes.
#[test]
fn whatever_a_crash_leaves_raises_no_alarm() {
    for seed in 0..40 {
        let world = World::new();
        let os = OsStr::new;
        let plain = RenameFlags::empty();
        world.session(|vault| {
            vault.put("f", &[1; 5000]);
            vault.put("g", b"g");
            vault.make(ROOT, os("dir"), FOLDER, 0).unwrap();
            vault
                .symlink(ROOT, os("link"), os("old"), FILE.caller)
                .unwrap();
        });
        let before = world.copy();
        world.mem.disk().log.clear();
        let session = world.open();
        {
            let vault = &session.vault;
            let dir = vault.node("dir").unwrap().node;
            vault
                .rename((ROOT, os("g")), (dir, os("g")), plain)
                .unwrap();
            vault.unlink(ROOT, os("link")).unwrap();
            vault
                .symlink(ROOT, os("link"), os("new"), FILE.caller)
                .unwrap();
            vault
                .rename((ROOT, os("link")), (dir, os("link")), plain)
                .unwrap();
            if seed % 2 == 0 {
                sync_top(vault);
            }
            vault
                .rename((ROOT, os("dir")), (ROOT, os("moved")), plain)
                .unwrap();
            save(vault, "f", &[2; 5000]);
            if seed % 3 == 0 {
                vault.tick().unwrap();
            }
            vault
                .rename((ROOT, os("f")), (dir, os("g")), RenameFlags::EXCHANGE)
                .unwrap();
            vault.make(ROOT, os("dir"), FOLDER, 0).unwrap();
            vault.unlink(dir, os("link")).unwrap();
            vault.put("f2", b"2");
        }
        let log = world.mem.disk().log.clone();
        let now = before.disk().crash(&log, log.len(), &mut Rng::new(seed));
        drop(session);
        *world.mem.disk() = now;
        for round in 0..2 {
            let findings = world.findings();
            let calm = |it: &Finding| it.class == Class::Crash;
            assert!(findings.iter().all(calm), "{seed}, {round}: {findings:#?}");
        }
        let session = world.open();
        let options = CheckOptions {
            quick: false,
            repair: true,
        };
        check(&session.vault, options, &mut |_| {}).unwrap();
        session.close();
        assert_eq!(world.findings(), [], "{seed}");
    }
}

/// A symlink and a name of a folder that were synced do not go back in a crash.
#[test]
fn synced_names_of_links_and_folders_stay() {
    let world = World::new();
    let os = OsStr::new;
    world.session(|vault| {
        vault
            .symlink(ROOT, os("link"), os("old"), FILE.caller)
            .unwrap();
        vault.make(ROOT, os("dir"), FOLDER, 0).unwrap();
    });
    let before = world.copy();
    world.crash(|vault| {
        vault.unlink(ROOT, os("link")).unwrap();
        vault
            .symlink(ROOT, os("link"), os("new"), FILE.caller)
            .unwrap();
        let (from, to) = ((ROOT, os("dir")), (ROOT, os("new")));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
        sync_top(vault);
    });
    world.restore(&before);
    let findings = world.findings();
    for path in ["/link", "/dir", "/new"] {
        let found = findings.iter().find(|it| it.path == Path::new(path));
        assert!(
            found.is_some_and(|it| it.class == Class::Altered),
            "{path}: {findings:#?}"
        );
    }
}

/// The store fails at any point, and the machine crashes then.
#[test]
fn a_store_that_fails_before_a_crash_raises_no_alarm() {
    let os = OsStr::new;
    let (plain, exchange) = (RenameFlags::empty(), RenameFlags::EXCHANGE);
    let mut finished = false;
    let mut faults = 0;
    while !finished {
        let world = World::new();
        world.session(|vault| {
            vault.put("f", &[1; 5000]);
            vault.put("g", b"g");
            vault.make(ROOT, os("dir"), FOLDER, 0).unwrap();
            let target = os("old");
            vault
                .symlink(ROOT, os("link"), target, FILE.caller)
                .unwrap();
        });
        let before = world.copy();
        world.mem.disk().log.clear();
        let session = world.open();
        world.mem.disk().fault = Some((faults, Errno::IO));
        let vault = &session.vault;
        let dir = vault.node("dir").unwrap().node;
        let results = [
            vault.rename((ROOT, os("link")), (dir, os("link")), plain),
            vault.rename((ROOT, os("g")), (dir, os("g")), plain),
            vault.rename((ROOT, os("f")), (dir, os("g")), exchange),
            vault.rename((ROOT, os("dir")), (ROOT, os("moved")), plain),
            vault.unlink(dir, os("link")),
            vault.rename((dir, os("g")), (ROOT, os("f")), plain),
            vault.tick().map_err(|error| error.errno()),
        ];
        finished = results.iter().all(Result::is_ok);
        world.mem.disk().fault = None;
        let log = world.mem.disk().log.clone();
        let now = before.disk().crash(&log, log.len(), &mut Rng::new(faults));
        drop(session);
        *world.mem.disk() = now;
        for round in 0..2 {
            let findings = world.findings();
            let calm = |it: &Finding| it.class == Class::Crash;
            let at = (faults, round);
            assert!(findings.iter().all(calm), "{at:?}: {findings:#?}");
        }
        faults += 1;
    }
    assert!(faults > 30);
}

/// The numbers of a crash excuse what it left, not what was removed since.
#[test]
fn what_a_crash_left_and_was_removed_does_not_come_back() {
    let world = World::new();
    world.crash(|vault| vault.put("f", b"attacker"));
    world.session(|vault| assert_eq!(vault.get("f").unwrap(), b"attacker"));
    let ((name, inode), old) = (world.entry(), world.object());
    world.session(|vault| vault.unlink(ROOT, OsStr::new("f")).unwrap());
    {
        let mut disk = world.mem.disk();
        disk.objects.insert(inode, old);
        disk.object(TOP).entries.insert(name, inode);
    }
    world.refuses("f", "came back");
}

fn repair(world: &World) -> Vec<Finding> {
    let session = world.open();
    let options = CheckOptions {
        quick: false,
        repair: true,
    };
    let report = check(&session.vault, options, &mut |_| {}).unwrap();
    session.close();
    report.findings
}

/// Once all that a crash left was found, nothing else of it can come.
#[test]
fn a_repair_ends_what_a_crash_excuses() {
    for repaired in [false, true] {
        let world = World::new();
        world.session(|vault| vault.put("g", b"g"));
        let mut made = None;
        world.crash(|vault| {
            drop(vault.new_file("f"));
            made = Some(world.object_at("f"));
            vault.unlink(ROOT, OsStr::new("f")).unwrap();
        });
        match repaired {
            true => {
                let findings = repair(&world);
                assert!(findings.iter().all(|it| it.repaired), "{findings:?}");
            }
            false => drop(world.findings()),
        }
        let (name, inode, object) = made.unwrap();
        {
            let mut disk = world.mem.disk();
            disk.objects.insert(inode, object);
            disk.object(TOP).entries.insert(name, inode);
        }
        match repaired {
            true => world.refuses("f", "came back"),
            // Until then, it cannot be known.
            false => world.session(|vault| drop(vault.get("f").unwrap())),
        }
    }
}

/// A repair that does not restore everything leaves room for what a person puts back.
#[test]
fn a_repair_that_finds_something_altered_excuses_more() {
    let world = World::new();
    world.session(|vault| vault.put("f", b"1"));
    world.crash(|vault| overwrite(vault, "f", b"2"));
    let (name, inode, _) = world.object_at("f");
    world.mem.disk().object(TOP).entries.remove(&name);
    let findings = repair(&world);
    assert!(findings.iter().any(|it| it.class == Class::Altered));
    world.mem.disk().object(TOP).entries.insert(name, inode);
    assert!(repair(&world).iter().all(|it| it.class != Class::Altered));
    world.session(|vault| assert_eq!(vault.get("f").unwrap(), b"2"));
}

/// A file under a name that a crash kept from being noted, written to before that name is used.
#[test]
fn names_that_a_crash_left_outlast_a_change() {
    let world = World::new();
    world.session(|vault| {
        vault.put("f", b"1");
        vault.put("g", b"g");
    });
    world.crash(|vault| {
        vault.unlink(ROOT, OsStr::new("g")).unwrap();
        sync_top(vault);
        let node = vault.node("f").unwrap().node;
        vault.link(node, ROOT, OsStr::new("g")).unwrap();
    });
    world.session(|vault| overwrite(vault, "f", b"2"));
    world.session(|vault| assert_eq!(vault.get("g").unwrap(), b"2"));
    let findings = repair(&world);
    assert!(findings.iter().all(|it| it.repaired), "{findings:?}");
}

/// A repair looks at all names of a file, and so does a use under another one.
#[test]
fn a_name_of_a_file_in_use_is_judged_too() {
    let world = World::new();
    let os = OsStr::new;
    world.session(|vault| vault.put("g", b"before"));
    let also = world.object_at("g").0;
    world.session(|vault| {
        vault.unlink(ROOT, os("g")).unwrap();
        vault.put("f", b"1");
        let node = vault.node("f").unwrap().node;
        vault.link(node, ROOT, os("g")).unwrap();
    });
    let inode = world.object_at("f").1;
    world.crash(|vault| {
        vault.unlink(ROOT, os("g")).unwrap();
        sync_top(vault);
    });
    {
        // The header still names the place.
        let mut disk = world.mem.disk();
        disk.object(TOP).entries.insert(also, inode);
        disk.object(inode).links += 1;
    }
    let session = world.open();
    let file = session.vault.file("f").unwrap();
    assert_eq!(session.vault.get("g"), Err(Errno::IO));
    session.says("it stands where something else stood, or nothing");
    drop(file);
    session.close();
}

/// One of two names of a file is given to another one, and the file is synced by its other name.
#[test]
fn what_replaced_a_name_of_a_file_that_was_synced_since_raises_no_alarm() {
    for name in ["f", "g"] {
        let world = World::new();
        world.session(|vault| {
            vault.put("f", &[1; 5000]);
            let node = vault.node("f").unwrap().node;
            vault.link(node, ROOT, OsStr::new("g")).unwrap();
            overwrite(vault, name, &[2; 5000]);
        });
        world.crash(|vault| {
            save(vault, name, &[3; 5000]);
            let other = if name == "f" { "g" } else { "f" };
            overwrite(vault, other, &[4; 5000]);
        });
        let findings = world.findings();
        let calm = |it: &Finding| it.class == Class::Crash;
        assert!(findings.iter().all(calm), "{name}: {findings:#?}");
    }
}

/// One of two names of a file is taken away in a crash, and the next session crashes, too.
#[test]
fn a_name_that_a_crash_took_away_does_not_come_back_after_another_one() {
    for name in ["f", "g"] {
        let world = World::new();
        let os = OsStr::new;
        world.session(|vault| vault.put("f", &[1; 5000]));
        let f = world.entry().0;
        world.session(|vault| {
            let node = vault.node("f").unwrap().node;
            vault.link(node, ROOT, os("g")).unwrap();
            vault.tick().unwrap();
            overwrite(vault, "f", &[2; 5000]);
        });
        let inode = world.object_at("f").1;
        let old = world.copy();
        let entries = old.disk().objects[&TOP].entries.clone();
        let wanted = |entry: &(OsString, u64)| entry.1 == inode && (entry.0 == f) == (name == "f");
        let (stored, _) = entries.into_iter().find(wanted).unwrap();
        world.crash(|vault| {
            vault.unlink(ROOT, os(name)).unwrap();
            // Its header, which still names the place, was not written.
            let header = old.disk().objects[&inode].clone();
            *world.mem.disk().object(inode) = header;
        });
        world.crash(|vault| {
            assert_eq!(vault.node(name), Err(Errno::NOENT));
            vault.tick().unwrap();
        });
        world.mem.disk().object(TOP).entries.insert(stored, inode);
        world.refuses(name, "stands where something else stood, or nothing");
    }
}

/// A folder that was made and removed before a crash, known without its place.
#[test]
fn a_repair_buries_what_a_crash_took_away() {
    let world = World::new();
    let mut copy = None;
    world.crash(|vault| {
        vault.make(ROOT, OsStr::new("dir"), FOLDER, 0).unwrap();
        copy = Some(world.copy());
        vault.put("f", b"f");
        vault.rmdir(ROOT, OsStr::new("dir")).unwrap();
    });
    assert!(repair(&world).iter().all(|it| it.repaired));
    {
        let old = copy.unwrap().disk().clone();
        let mut disk = world.mem.disk();
        for (inode, object) in old.objects {
            if inode == TOP {
                let mut entries = object.entries.into_iter();
                let dir = entries.find(|(name, _)| !name.to_string_lossy().contains('.'));
                disk.object(TOP).entries.extend(dir);
            } else {
                disk.objects.insert(inode, object);
            }
        }
    }
    let findings = world.findings();
    assert!(
        findings.iter().any(|it| it.problem.contains("came back")),
        "{findings:?}"
    );
}
