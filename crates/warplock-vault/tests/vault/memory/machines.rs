//! Several machines over one store, each with a memory of its own.

use super::*;

const PLAIN: RenameFlags = RenameFlags::empty();

/// Opens the store `mem` on a machine.
fn open_on(world: &World, mem: &Mem, machine: &str, accept: bool) -> Session {
    let state = world.state.path().join(machine);
    world.try_open(mem, &state, accept).unwrap()
}

fn on(world: &World, machine: &str, action: impl FnOnce(&Vault<Mem>)) {
    let session = open_on(world, &world.mem, machine, false);
    action(&session.vault);
    session.close();
}

/// What a machine says of the store `mem`.
fn findings_in(world: &World, mem: &Mem, machine: &str) -> Vec<Finding> {
    let session = open_on(world, mem, machine, false);
    let findings = run(&session.vault).findings;
    session.close();
    findings
}

#[track_caller]
fn calm(world: &World, machine: &str) {
    assert_eq!(findings_in(world, &world.mem, machine), [], "{machine}");
}

/// The machine refuses something in the store `mem`, and says why.
#[track_caller]
fn refuses(world: &World, mem: &Mem, machine: &str, path: &str, why: &str) {
    let findings = findings_in(world, mem, machine);
    let found = findings
        .iter()
        .find(|it| it.path == Path::new(path) && it.problem.contains(why));
    let altered = found.is_some_and(|it| it.class == Class::Altered);
    assert!(altered, "{machine}: {path}: {why}: {findings:#?}");
}

fn accept_on(world: &World, machine: &str, paths: &[&str]) {
    let session = open_on(world, &world.mem, machine, true);
    let paths: Vec<_> = paths.iter().map(PathBuf::from).collect();
    accept(&session.vault, &paths).unwrap();
    session.close();
}

fn rename(vault: &Vault<Mem>, from: &str, to: &str, flags: RenameFlags) {
    let (from, to) = ((ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)));
    vault.rename(from, to, flags).unwrap();
}

fn folder(vault: &Vault<Mem>, name: &str) {
    vault.make(ROOT, OsStr::new(name), FOLDER, 0).unwrap();
}

fn link(vault: &Vault<Mem>, name: &str, target: &str) {
    let (name, target) = (OsStr::new(name), OsStr::new(target));
    vault.symlink(ROOT, name, target, FILE.caller).unwrap();
}

fn hard_link(vault: &Vault<Mem>, from: &str, to: &str) {
    let node = vault.node(from).unwrap().node;
    vault.link(node, ROOT, OsStr::new(to)).unwrap();
}

fn relink(vault: &Vault<Mem>, name: &str, target: &str) {
    vault.unlink(ROOT, OsStr::new(name)).unwrap();
    link(vault, name, target);
}

fn fill(vault: &Vault<Mem>) {
    vault.put("f", &[1; 5000]);
    vault.put("g", &[2; 5000]);
    folder(vault, "dir");
    link(vault, "link", "target");
}

#[test]
fn what_another_machine_changes_is_the_newest() {
    type Change = fn(&Vault<Mem>);
    // What is done, and what is missing afterwards.
    let changes: [(Change, &[&str]); 14] = [
        (|vault| overwrite(vault, "f", &[3; 9000]), &[]),
        (|vault| save(vault, "f", &[4; 100]), &[]),
        (|vault| relink(vault, "link", "elsewhere"), &[]),
        (|vault| rename(vault, "f", "g", RenameFlags::EXCHANGE), &[]),
        (
            |vault| rename(vault, "dir", "link", RenameFlags::EXCHANGE),
            &[],
        ),
        // As logs are rotated.
        (
            |vault| {
                rename(vault, "f", "f.1", PLAIN);
                vault.put("f", &[5; 100]);
                vault.tick().unwrap();
                overwrite(vault, "f.1", &[6; 100]);
            },
            &[],
        ),
        (
            |vault| {
                hard_link(vault, "f", "also");
            },
            &[],
        ),
        (|vault| overwrite(vault, "also", &[7; 5000]), &[]),
        (|vault| rename(vault, "also", "g", PLAIN), &["/also"]),
        (|vault| rename(vault, "link", "folder", PLAIN), &["/link"]),
        (|vault| rename(vault, "dir", "link", PLAIN), &["/dir"]),
        (
            |vault| {
                folder(vault, "empty");
                rename(vault, "folder", "empty", PLAIN);
                vault.unlink(ROOT, OsStr::new("g")).unwrap();
            },
            &["/folder", "/g"],
        ),
        // What the other one has seen missing comes again as something else.
        (|vault| vault.put("folder", b"a file"), &[]),
        (|vault| relink(vault, "link", "g"), &[]),
    ];
    let world = World::new();
    on(&world, "one", fill);
    let machines = ["one", "two", "three"];
    for machine in machines {
        calm(&world, machine);
    }
    for (at, (change, missing)) in changes.into_iter().enumerate() {
        let author = machines[at % 3];
        on(&world, author, change);
        calm(&world, author);
        for other in machines.into_iter().filter(|it| *it != author) {
            let findings = findings_in(&world, &world.mem, other);
            for finding in &findings {
                assert!(
                    finding.problem.contains("it is missing"),
                    "{at}: {finding:?}"
                );
            }
            let mut paths: Vec<_> = findings
                .iter()
                .map(|it| it.path.to_str().unwrap())
                .collect();
            paths.sort_unstable();
            assert_eq!(paths, missing, "{at}");
            accept_on(&world, other, missing);
            calm(&world, other);
        }
    }
}

/// Both change it, and neither knows.
#[test]
fn a_branch_from_an_older_state_is_a_conflict() {
    type Change = fn(&Vault<Mem>, u8);
    let changes: [(Change, &str, &str); 6] = [
        (
            |vault, by| overwrite(vault, "f", &[by; 5000]),
            "/f",
            "changed on another machine",
        ),
        (
            |vault, by| save(vault, "f", &[by; 5000]),
            "/f",
            "stands where something else stood",
        ),
        // One writes to the file that the other one replaces.
        (
            |vault, by| match by {
                1 => overwrite(vault, "f", &[by; 5000]),
                _ => save(vault, "f", &[by; 5000]),
            },
            "/f",
            "stands where something else stood",
        ),
        (
            |vault, by| rename(vault, "dir", ["one", "two"][usize::from(by) - 1], PLAIN),
            "/two",
            "changed on another machine",
        ),
        (
            |vault, by| relink(vault, "link", &by.to_string()),
            "/link",
            "changed on another machine",
        ),
        // A removal that the other one does not know.
        (
            |vault, by| match by {
                1 => vault.unlink(ROOT, OsStr::new("f")).unwrap(),
                _ => overwrite(vault, "f", &[by; 5000]),
            },
            "/f",
            "it was removed",
        ),
    ];
    for (change, path, why) in changes {
        let world = World::new();
        on(&world, "one", fill);
        // One that is alone would forget what it removed.
        on(&world, "two", |vault| overwrite(vault, "g", &[8; 5000]));
        calm(&world, "one");
        calm(&world, "two");
        let other = world.copy();
        on(&world, "one", |vault| change(vault, 1));
        {
            let session = open_on(&world, &other, "two", false);
            change(&session.vault, 2);
            session.close();
        }
        refuses(&world, &other, "one", path, why);
        // One user decides: then all follow, also those that knew what was given up.
        calm(&world, "three");
        world.restore(&other);
        accept_on(&world, "one", &[]);
        calm(&world, "one");
        calm(&world, "two");
        on(&world, "one", |vault| match path {
            "/f" => overwrite(vault, "f", &[9; 5000]),
            "/two" => rename(vault, "two", "dir", PLAIN),
            _ => relink(vault, "link", "9"),
        });
        for machine in ["two", "three"] {
            let findings = findings_in(&world, &world.mem, machine);
            let explained = |it: &Finding| it.problem.contains("it is missing");
            assert!(
                findings.iter().all(explained),
                "{machine}: {why}: {findings:#?}"
            );
        }
    }
}

#[test]
fn what_was_removed_is_missing_elsewhere_and_does_not_come_back() {
    let world = World::new();
    on(&world, "one", fill);
    let first = world.object_at("f");
    on(&world, "one", |vault| save(vault, "f", &[3; 5000]));
    calm(&world, "two");
    on(&world, "one", |vault| {
        vault.unlink(ROOT, OsStr::new("f")).unwrap()
    });
    refuses(&world, &world.mem, "two", "/f", "it is missing");
    accept_on(&world, "two", &["/f"]);
    calm(&world, "two");
    // The one that the second machine never saw is older than what it saw removed.
    let old = world.copy();
    let (name, inode, object) = first;
    {
        let mut disk = old.disk();
        disk.objects.insert(inode, object);
        disk.object(TOP).entries.insert(name, inode);
    }
    refuses(
        &world,
        &old,
        "two",
        "/f",
        "stands where something else stood",
    );
    refuses(&world, &old, "one", "/f", "removed it");
    // A new one is accepted on both, whichever makes it.
    on(&world, "two", |vault| vault.put("f", b"new"));
    calm(&world, "one");
    on(&world, "two", |vault| {
        vault.unlink(ROOT, OsStr::new("f")).unwrap()
    });
    accept_on(&world, "one", &["/f"]);
    on(&world, "one", |vault| vault.put("f", b"newer"));
    calm(&world, "two");
}

/// Of a removal, nothing is left in the store but the numbers that the machine may have used.
#[test]
fn a_name_that_another_machine_used_and_gave_up_can_be_used() {
    let world = World::new();
    on(&world, "one", fill);
    // One that is alone would forget what it removed.
    on(&world, "two", |vault| overwrite(vault, "g", &[8; 5000]));
    calm(&world, "one");
    on(&world, "one", |vault| {
        vault.put("new", &[1; 5000]);
        (0..20).for_each(|byte| overwrite(vault, "new", &[byte; 5000]));
        vault.unlink(ROOT, OsStr::new("new")).unwrap();
    });
    on(&world, "two", |vault| vault.put("new", b"another"));
    calm(&world, "one");
    calm(&world, "two");
}

/// A crash takes both names of a file away, whichever it was last seen under.
#[test]
fn names_that_a_crash_took_away_do_not_come_back_with_another_machines_state() {
    for seen in [&["f", "also"][..], &["f"], &["also"]] {
        let world = World::new();
        // The machine that crashes.
        let here = "state";
        on(&world, here, fill);
        on(&world, "two", |vault| hard_link(vault, "f", "also"));
        calm(&world, here);
        on(&world, "two", |vault| overwrite(vault, "f", &[3; 5000]));
        for name in seen {
            on(&world, here, |vault| drop(vault.get(name).unwrap()));
        }
        let old = world.copy();
        world.crash(|vault| {
            for name in ["f", "also"] {
                vault.unlink(ROOT, OsStr::new(name)).unwrap();
            }
        });
        let findings = world.findings();
        let calm = |it: &Finding| it.class == Class::Crash;
        assert!(findings.iter().all(calm), "{findings:#?}");
        for path in ["/f", "/also"] {
            refuses(
                &world,
                &old,
                here,
                path,
                "stands where something else stood",
            );
        }
    }
}

/// What stood at a name between two times that a machine saw the same file there does not come back,
/// although that file has changed or moved since.
#[test]
fn what_stood_at_a_name_in_between_does_not_come_back() {
    type Change = fn(&Vault<Mem>);
    let gives_back: [Change; 2] = [
        |vault| hard_link(vault, "f", "name"),
        |vault| rename(vault, "f", "name", PLAIN),
    ];
    for give_back in gives_back {
        let world = World::new();
        on(&world, "one", |vault| vault.put("f", &[1; 5000]));
        on(&world, "two", |vault| hard_link(vault, "f", "name"));
        calm(&world, "one");
        on(&world, "two", |vault| save(vault, "name", &[4; 5000]));
        let (name, inode, object) = world.object_at("name");
        on(&world, "two", |vault| {
            vault.unlink(ROOT, OsStr::new("name")).unwrap();
            give_back(vault);
        });
        on(&world, "one", |vault| drop(vault.get("name").unwrap()));
        // From now on it is known by another name.
        on(&world, "two", |vault| match vault.node("f") {
            Ok(_) => overwrite(vault, "f", &[5; 5000]),
            Err(_) => rename(vault, "name", "f", PLAIN),
        });
        on(&world, "one", |vault| drop(vault.get("f").unwrap()));
        {
            let mut disk = world.mem.disk();
            disk.objects.insert(inode, object);
            disk.object(TOP).entries.insert(name, inode);
        }
        let why = "stands where something else stood";
        refuses(&world, &world.mem, "one", "/name", why);
    }
}

/// What a name was is not known where its file went with it: its name in the store is told.
#[test]
fn a_long_name_that_is_missing_is_accepted() {
    let world = World::new();
    let name = "n".repeat(250);
    on(&world, "one", |vault| {
        folder(vault, "dir");
        let dir = vault.node("dir").unwrap().node;
        vault
            .create(dir, OsStr::new(&name), FILE, WRITE, true)
            .unwrap();
    });
    calm(&world, "two");
    on(&world, "two", |vault| {
        let dir = vault.node("dir").unwrap().node;
        vault.unlink(dir, OsStr::new(&name)).unwrap();
    });
    let findings = findings_in(&world, &world.mem, "one");
    let [missing] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert!(missing.problem.contains("it is missing"), "{missing:?}");
    accept_on(&world, "one", &[missing.path.to_str().unwrap()]);
    calm(&world, "one");
}

/// A mount without a memory is a machine of its own, each time. It does not know what stood where.
#[test]
fn changes_without_a_memory_are_another_machines() {
    let world = World::new();
    on(&world, "one", fill);
    let without = |mem: &Mem, change: &dyn Fn(&Vault<Mem>)| {
        let vault = Vault::open_on(mem.clone(), &world.key, options(&Told::default())).unwrap();
        change(&vault);
        vault.close().unwrap();
    };
    let change = |mem: &Mem, byte: u8| {
        without(mem, &|vault| {
            overwrite(vault, "f", &[byte; 5000]);
            rename(vault, "dir", "new", PLAIN);
            rename(vault, "new", "dir", PLAIN);
        });
    };
    for byte in 3..6 {
        change(&world.mem, byte);
        calm(&world, "one");
    }
    let branch = world.copy();
    change(&branch, 7);
    change(&world.mem, 8);
    calm(&world, "one");
    for path in ["/f", "/dir"] {
        let why = "changed on another machine";
        refuses(&world, &branch, "one", path, why);
    }
    without(&world.mem, &|vault| {
        save(vault, "g", b"g");
        relink(vault, "link", "new");
    });
    let why = "stands where something else stood";
    refuses(&world, &world.mem, "one", "/g", why);
    let why = "changed on another machine";
    refuses(&world, &world.mem, "one", "/link", why);
    accept_on(&world, "one", &[]);
    calm(&world, "one");
}
