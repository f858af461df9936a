//! The folder of the memories, and which vault it knows at which path.

use super::*;

/// Links, fifos and folders where the memory belongs.
#[test]
fn nothing_but_a_memory_is_opened_as_one() {
    let world = World::new();
    world.session(|vault| vault.put("f", b"1"));
    let vaults = fs::read_dir(world.state()).unwrap();
    let folder = vaults.map(|it| it.unwrap().path()).next().unwrap();
    let file = folder.join("memory.redb");
    let victim = world.state.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    type Plant<'a> = Box<dyn Fn() + 'a>;
    let plants: [Plant<'_>; 4] = [
        Box::new(|| std::os::unix::fs::symlink(&victim, &file).unwrap()),
        Box::new(|| fs::hard_link(&victim, &file).unwrap()),
        Box::new(|| {
            let mode = rustix::fs::Mode::RWXU;
            rustix::fs::mknodat(rustix::fs::CWD, &file, fifo, mode, 0).unwrap();
        }),
        Box::new(|| fs::write(&file, "no database").unwrap()),
    ];
    for plant in plants {
        fs::remove_file(&file).unwrap();
        plant();
        let refused = world
            .try_open(&world.mem, &world.state(), false)
            .err()
            .unwrap();
        assert!(refused.to_string().contains("--no-memory"), "{refused}");
        // Nothing was begun in the store.
        let disk = world.mem.disk();
        assert!(
            !disk.objects[&TOP]
                .entries
                .contains_key(OsStr::new(JOURNALS))
        );
    }
    assert_eq!(fs::read(victim).unwrap(), b"mine");
}

/// A disk that another program fills: changes are refused, and the vault does not count as closed,
/// until there is room.
#[test]
fn a_full_disk_stops_changes_and_closing() {
    let world = World::new();
    let disk = world.state();
    fs::create_dir(&disk).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    let size = Some(c"size=3m,mode=700");
    if rustix::mount::mount("none", &disk, "tmpfs", flags, size).is_err() {
        // Not as root.
        return;
    }
    let unmount = Unmount(&disk);
    let session = world.open();
    session.vault.put("f", &[1; 5000]);
    let fill = disk.join("others");
    let _ = fs::write(&fill, vec![1; 4 << 20]);
    let file = session.vault.file("f").unwrap();
    session.vault.write(&file, 0, &[2; 5000], false).unwrap();
    let mut failed = false;
    for byte in 3..50 {
        let written = session.vault.write(&file, 0, &[byte; 5000], false);
        failed |= written
            .and_then(|()| session.vault.fsync(&file, false))
            .is_err();
    }
    assert!(failed);
    session.says("cannot be written");
    let put = session
        .vault
        .create(ROOT, OsStr::new("g"), FILE, WRITE, true);
    assert_eq!(put.err(), Some(Errno::ROFS));
    assert!(session.vault.close().is_err());
    let journals = OsStr::new(JOURNALS);
    assert!(
        world.mem.disk().objects[&TOP]
            .entries
            .contains_key(journals)
    );
    fs::remove_file(&fill).unwrap();
    drop(file);
    session.close();
    assert!(
        !world.mem.disk().objects[&TOP]
            .entries
            .contains_key(journals)
    );
    assert_eq!(world.findings(), []);
    drop(unmount);
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let lazy = rustix::mount::UnmountFlags::DETACH;
        let _ = rustix::mount::unmount(self.0, lazy);
    }
}

fn recipients(identity: &NewIdentity) -> Recipients {
    let mut to = Recipients::new(Arc::new(NoPrompt));
    to.add(&identity.recipient()).unwrap();
    to
}

/// Vaults in the file system, each for the same recipient.
#[test]
fn another_vault_in_its_place_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, state) = (folder.path().join("store"), folder.path().join("state"));
    let identity = NewIdentity::generate();
    let make = || {
        fs::create_dir(&store).unwrap();
        init(&store, &Settings::default(), "main", &recipients(&identity)).unwrap()
    };
    let open = |key: &MasterKey, id: Option<&str>| {
        let mut options = options(&Told::default());
        options.memory = Some(state.clone());
        options.id = id.map(str::to_owned);
        Vault::open(&store, key, options).map(|vault| {
            if vault.node("f").is_err() {
                vault.put("f", b"1");
            }
            vault.close().unwrap();
        })
    };
    let ours = make();
    open(&ours, None).unwrap();
    assert_eq!(memory_info(&state, &store).unwrap().unwrap().sessions, 1);
    let id = warplock_vault::info(&store).unwrap().id;
    fs::rename(&store, folder.path().join("ours")).unwrap();

    let evil = make();
    let refused = open(&evil, None).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Authentication);
    assert!(refused.to_string().contains(&id), "{refused}");
    assert!(open(&evil, Some(&id)).is_err());
    // A mistake is no attack.
    for id in [
        "",
        "00",
        &id[1..],
        &format!("{id}0"),
        &id.replace(|_| true, "g"),
    ] {
        assert_eq!(
            open(&evil, Some(id)).unwrap_err().kind(),
            ErrorKind::Usage,
            "{id}"
        );
    }
    // Nothing was written to it.
    assert!(!store.join(JOURNALS).exists());
    // On purpose: by its id, or after the other is forgotten.
    let evil_id = warplock_vault::info(&store).unwrap().id;
    open(&evil, Some(&evil_id)).unwrap();
    open(&evil, None).unwrap();
    fs::remove_dir_all(&store).unwrap();
    fs::rename(folder.path().join("ours"), &store).unwrap();
    assert!(open(&ours, None).is_err());
    assert!(forget_memory(&state, &store).unwrap());
    // What is known of it stays: only the path had another.
    assert_eq!(memory_info(&state, &store).unwrap().unwrap().sessions, 1);
    open(&ours, None).unwrap();
    assert!(forget_memory(&state, &store).unwrap());
    assert!(memory_info(&state, &store).unwrap().is_none());
    assert!(!forget_memory(&state, &store).unwrap());
    open(&ours, None).unwrap();
}
