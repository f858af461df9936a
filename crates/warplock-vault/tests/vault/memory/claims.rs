//! What the store is told of a machine's sessions: when that cannot be written, or something else
//! stands in its place.

use super::*;

/// What the topmost folder holds whose name ends like this, and is about a machine.
fn claim(mem: &Mem, end: &str) -> Option<(std::ffi::OsString, u64)> {
    let disk = mem.disk();
    let mut entries = disk.objects[&TOP].entries.iter();
    let found = entries.find(|(name, _)| {
        let name = name.to_string_lossy();
        name.starts_with("warplock.machine.") && name.ends_with(end)
    });
    found.map(|(name, inode)| (name.clone(), *inode))
}

/// Things are removed through the vault, so that it opens where nothing can be written. What could
/// not be written leaves nothing that looks as if an attacker had put it there.
#[test]
fn a_vault_opens_on_a_full_disk() {
    let world = World::new();
    world.session(|vault| vault.put("f", &[1; 50_000]));
    let before = claim(&world.mem, "").unwrap();
    world.mem.disk().full = true;
    let session = world.open();
    assert_eq!(claim(&world.mem, ".new"), None);
    assert_eq!(claim(&world.mem, "").unwrap(), before);
    session.vault.unlink(ROOT, OsStr::new("f")).unwrap();
    // Now there is room.
    world.mem.disk().full = false;
    session.close();
    assert_ne!(claim(&world.mem, "").unwrap(), before);
    let session = world.open();
    assert_eq!(*session.told.lock().unwrap(), [""; 0]);
    assert_eq!(run(&session.vault).findings, []);
    session.close();
}

/// If it is still full, the vault is not closed, which is said.
#[test]
fn a_vault_on_a_full_disk_is_not_closed_before_the_store_knows() {
    let world = World::new();
    world.session(|vault| vault.put("f", b"1"));
    world.mem.disk().full = true;
    let session = world.open();
    let refused = session.vault.close().unwrap_err();
    assert!(
        refused.to_string().contains("warplock.machine."),
        "{refused}"
    );
    drop(session);
    world.mem.disk().full = false;
    assert_eq!(world.findings(), []);
}

/// A session that was killed before it made the vault look open.
#[test]
fn an_unfinished_claim_is_no_attack() {
    let world = World::new();
    world.session(|vault| vault.put("f", b"1"));
    let (name, _) = claim(&world.mem, "").unwrap();
    let mut new = name.clone();
    new.push(".new");
    let mut object = Object::new(0o100_600);
    object.data = vec![0; 20];
    let inode = world.mem.disk().plant(object);
    world.mem.disk().object(TOP).entries.insert(new, inode);
    let reader = Vault::open_on(
        world.mem.clone(),
        &world.key,
        warplock_vault::Options {
            read_only: true,
            ..options(&Told::default())
        },
    );
    let [finding] = &*run(&reader.unwrap()).findings else {
        panic!("not one finding");
    };
    assert_eq!(finding.class, Class::Crash);
}

/// Neither a bare error number nor a milder class than for anything else that was exchanged.
#[test]
fn what_is_no_file_is_altered() {
    for (end, folder) in [("", true), (".new", true), ("", false)] {
        let world = World::new();
        world.session(|vault| vault.put("f", b"1"));
        let (mut name, _) = claim(&world.mem, "").unwrap();
        name.push(end);
        let object = Object::new(if folder { 0o040_700 } else { 0o010_600 });
        let inode = world.mem.disk().plant(object);
        world.mem.disk().object(TOP).entries.insert(name, inode);
        let refused = world.try_open(&world.mem, &world.state(), false);
        let refused = refused.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Authentication, "{refused}");
        assert!(refused.to_string().contains("no regular file"), "{refused}");
    }
}

/// Programs that copy the store by lengths and whole seconds see each claim.
#[test]
fn a_claim_is_never_as_old_as_the_one_before() {
    let world = World::new();
    let second = || {
        let (_, inode) = claim(&world.mem, "").unwrap();
        let modified = world.mem.disk().objects[&inode].modified;
        let since = modified.duration_since(std::time::UNIX_EPOCH);
        since.unwrap().as_secs()
    };
    let mut before = 0;
    for file in ["f", "g", "h"] {
        world.session(|vault| vault.put(file, b"1"));
        assert!(second() > before);
        before = second();
    }
}
