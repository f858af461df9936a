//! States that the user accepts.

use super::*;

#[test]
fn a_deliberate_restore_is_accepted_whole_or_by_path() {
    let world = World::new();
    world.session(|vault| {
        vault.put("f", b"old");
        vault.put("g", b"old");
    });
    let backup = world.copy();
    world.session(|vault| {
        overwrite(vault, "f", b"new");
        save(vault, "g", b"new");
        vault.put("h", b"new");
    });
    world.restore(&backup);
    assert_eq!(
        world
            .findings()
            .iter()
            .filter(|it| it.class == Class::Altered)
            .count(),
        3
    );
    let accepting = |paths: &[PathBuf]| {
        let session = world.try_open(&world.mem, &world.state(), true).unwrap();
        accept(&session.vault, paths).unwrap();
        session.close();
    };
    accepting(&["/f".into(), "h".into()]);
    let session = world.open();
    assert_eq!(session.vault.get("f").unwrap(), b"old");
    assert_eq!(session.vault.get("g"), Err(Errno::IO));
    assert_eq!(session.vault.get("h"), Err(Errno::NOENT));
    session.close();
    accepting(&[]);
    assert_eq!(world.findings(), []);
    world.session(|vault| {
        assert_eq!(vault.get("g").unwrap(), b"old");
        overwrite(vault, "f", b"more");
    });
    assert_eq!(world.findings(), []);
}

#[test]
fn a_memory_from_an_older_copy_is_refused_until_accepted() {
    let world = World::new();
    world.session(|vault| vault.put("f", b"1"));
    let vaults = fs::read_dir(world.state()).unwrap();
    let folder = vaults.map(|it| it.unwrap().path()).next().unwrap();
    let file = folder.join("memory.redb");
    let copy = fs::read(&file).unwrap();
    world.session(|vault| overwrite(vault, "f", b"2"));
    fs::write(&file, copy).unwrap();
    // As often as it is tried.
    for _ in 0..4 {
        let refused = world.try_open(&world.mem, &world.state(), false).err();
        let refused = refused.unwrap();
        assert_eq!(refused.kind(), ErrorKind::Authentication);
        assert!(refused.to_string().contains("restored from an older copy"));
    }
    let session = world.try_open(&world.mem, &world.state(), true).unwrap();
    accept(&session.vault, &[]).unwrap();
    session.close();
    world.session(|vault| assert_eq!(vault.get("f").unwrap(), b"2"));
    assert_eq!(world.findings(), []);
}

/// What was accepted as missing, or as replaced, stays known: nothing else tells of it.
#[test]
fn what_was_accepted_as_gone_does_not_come_back() {
    let world = World::new();
    let os = OsStr::new;
    world.session(|vault| vault.put("f", b"f"));
    let (name, inode, object) = world.object_at("f");
    world.mem.disk().object(TOP).entries.remove(&name);
    let session = world.try_open(&world.mem, &world.state(), true).unwrap();
    accept(&session.vault, &[]).unwrap();
    session.close();
    assert_eq!(world.findings(), []);
    let put_back = || {
        let mut disk = world.mem.disk();
        disk.objects.insert(inode, object.clone());
        disk.object(TOP).entries.insert(name.clone(), inode);
    };
    put_back();
    world.refuses("f", "it stands where something else stood, or nothing");
    world.mem.disk().object(TOP).entries.remove(&name);
    world.session(|vault| {
        vault.put("f", b"another");
        vault.unlink(ROOT, os("f")).unwrap();
    });
    put_back();
    world.refuses("f", "it stands where something else stood, or nothing");
}

/// A folder is accepted with all that is in it, and with what is not in it any more.
#[test]
fn a_folder_is_accepted_whole() {
    let world = World::new();
    world.session(|vault| {
        let folder = vault.make(ROOT, OsStr::new("d"), FOLDER, 0).unwrap();
        for name in ["f", "gone"] {
            let made = vault.create(folder.node, OsStr::new(name), FILE, WRITE, true);
            let file = made.unwrap().1;
            vault.write(&file, 0, b"old", false).unwrap();
            vault.fsync(&file, false).unwrap();
        }
        vault.put("f", b"old");
    });
    let backup = world.copy();
    world.session(|vault| {
        overwrite(vault, "d/f", b"new");
        overwrite(vault, "f", b"new");
        let folder = vault.node("d").unwrap().node;
        vault
            .create(folder, OsStr::new("h"), FILE, WRITE, true)
            .unwrap();
        vault.unlink(folder, OsStr::new("gone")).unwrap();
    });
    world.restore(&backup);
    let session = world.try_open(&world.mem, &world.state(), true).unwrap();
    accept(&session.vault, &["/d".into()]).unwrap();
    session.close();
    let altered = world.findings();
    let altered: Vec<_> = altered
        .iter()
        .filter(|it| it.class == Class::Altered)
        .collect();
    let [finding] = &*altered else {
        panic!("{altered:?}");
    };
    assert_eq!(finding.path, Path::new("/f"));
}

/// Nothing would be done, and the user would believe that it was.
#[test]
fn a_path_that_leads_nowhere_is_not_accepted() {
    let world = World::new();
    world.session(|vault| {
        vault.put("f", b"1");
        vault.put("removed", b"1");
    });
    world.session(|vault| vault.unlink(ROOT, OsStr::new("removed")).unwrap());
    for path in ["nowhere", "f/nowhere", "nowhere/f", "../f", "nowhere/../f"] {
        let session = world.try_open(&world.mem, &world.state(), true).unwrap();
        let refused = accept(&session.vault, &["f".into(), path.into()]).unwrap_err();
        assert!(refused.to_string().starts_with(path), "{refused}");
        session.close();
    }
    for path in ["f", "/f", "./f", "/", "."] {
        let session = world.try_open(&world.mem, &world.state(), true).unwrap();
        accept(&session.vault, &[path.into()]).unwrap();
        session.close();
    }
}

/// What does not verify was never a state of the file.
#[test]
fn what_does_not_verify_is_not_accepted() {
    let world = World::new();
    world.session(|vault| {
        vault.put("f", b"1");
        vault.put("g", b"1");
    });
    world.session(|vault| vault.unlink(ROOT, OsStr::new("g")).unwrap());
    let inode = world.entry().1;
    world.mem.disk().object(inode).data[100] ^= 1;
    let session = world.try_open(&world.mem, &world.state(), true).unwrap();
    assert_eq!(accept(&session.vault, &[]).unwrap(), 1);
    session.close();
}
