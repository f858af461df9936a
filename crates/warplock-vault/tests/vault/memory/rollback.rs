//! Objects that were put back, removed or exchanged in the store are noticed.

use super::*;

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
    // Nor can it be appended to.
    world.session(|vault| {
        let node = vault.node("authorized_keys").unwrap().node;
        assert_eq!(vault.open(node, WRITE).err(), Some(Errno::IO));
    });
    world.refuses("authorized_keys", "came back");
}

#[test]
fn a_fifo_that_was_removed_does_not_come_back() {
    let world = World::new();
    let fifo = warplock_vault::fs::NewNode {
        mode: 0o10_644,
        ..FILE
    };
    world.session(|vault| {
        vault.make(ROOT, OsStr::new("fifo"), fifo, 0).unwrap();
    });
    let old = world.copy();
    world.session(|vault| vault.unlink(ROOT, OsStr::new("fifo")).unwrap());
    world.session(|vault| vault.put("f", b"1"));
    world.restore(&old);
    let findings = world.findings();
    let found = findings.iter().find(|it| it.path == Path::new("/fifo"));
    assert!(
        found.is_some_and(|it| it.class == Class::Altered),
        "{findings:#?}"
    );
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
        // Refusing one of them early is as good.
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
    // The file, and the topmost folder.
    assert_eq!((report.findings.len(), report.first_seen), (0, 2));
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

/// A folder's record is durable without delay, and was remembered after its removal.
#[test]
fn a_folder_that_was_made_and_removed_between_two_ticks_does_not_come_back() {
    let world = World::new();
    let session = world.open();
    let dir = OsStr::new("dir");
    session.vault.make(ROOT, dir, FOLDER, 0).unwrap();
    let old = world.copy();
    session.vault.rmdir(ROOT, dir).unwrap();
    session.close();
    {
        let old = old.disk();
        let entries = &old.objects[&TOP].entries;
        let is_dir = |name: &&std::ffi::OsString| !name.to_string_lossy().contains('.');
        let name = entries.keys().find(is_dir).unwrap();
        let mut disk = world.mem.disk();
        let folder = old.objects[&entries[name]].clone();
        for inode in folder.entries.values() {
            disk.objects.insert(*inode, old.objects[inode].clone());
        }
        disk.objects.insert(entries[name], folder);
        disk.object(TOP).entries.insert(name.clone(), entries[name]);
    }
    let session = world.open();
    let node = session.vault.node("dir").map(|it| it.node);
    let shown = node.and_then(|node| session.vault.open_dir(node).map(drop));
    assert_eq!(shown, Err(Errno::IO));
    session.says("came back");
}

/// As a virtual machine that is set back to a snapshot, with its store and its memory.
#[test]
fn a_machine_that_was_set_back_refuses_what_it_made_since() {
    for (changes, why) in [(1, "it is another version"), (3, "was superseded")] {
        let world = World::new();
        world.session(|vault| vault.put("f", &[1; 5000]));
        let mut vaults = fs::read_dir(world.state()).unwrap();
        let memory = vaults.find_map(|it| {
            let path = it.unwrap().path().join("memory.redb");
            path.exists().then_some(path)
        });
        let memory = memory.unwrap();
        let (store, known) = (world.copy(), fs::read(&memory).unwrap());
        world.session(|vault| (0..changes).for_each(|_| overwrite(vault, "f", &[2; 5000])));
        let branch = world.object();
        world.restore(&store);
        fs::write(&memory, known).unwrap();
        world.session(|vault| {
            overwrite(vault, "f", &[3; 5000]);
            for _ in 0..10 {
                drop(vault.new_file("g"));
                vault.unlink(ROOT, OsStr::new("g")).unwrap();
            }
        });
        world.put_object(branch);
        world.refuses("f", why);
    }
}
