//! Attacks on the settings and on all of a vault.

use super::*;

#[test]
fn the_vault_file() {
    let config = OsStr::new("warplock.vault");
    let victim = Victim::new();
    let inode = victim.mem.disk().objects[&1].entries[config];
    let text = String::from_utf8(victim.mem.disk().objects[&inode].data.clone()).unwrap();
    let id = text.lines().find(|line| line.starts_with("id = ")).unwrap();
    let mac = text
        .lines()
        .find(|line| line.starts_with("mac = "))
        .unwrap();
    for (from, to) in [
        ("block_size = 4096", "block_size = 16384"),
        ("aes-256-gcm", "aes-128-gcm"),
        (id, "id = \"00000000000000000000000000000000\""),
        (mac, "mac = \"00\""),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        let mem = victim.mem.fork();
        mem.disk().object(inode).data = changed.into_bytes();
        let refused = Vault::open_on(mem, &victim.key, options(&Told::default()));
        assert_eq!(
            refused.err().unwrap().kind(),
            ErrorKind::Authentication,
            "{from}"
        );
    }
    for changed in ["", "format = 2\n", "format = 1\n", "\0"] {
        let mem = victim.mem.fork();
        mem.disk().object(inode).data = changed.into();
        let refused = Vault::open_on(mem, &victim.key, options(&Told::default()));
        assert_eq!(refused.err().unwrap().kind(), ErrorKind::Failure);
    }
    victim.mem.disk().object(1).entries.remove(config);
    let refused = Vault::open_on(victim.mem.clone(), &victim.key, options(&Told::default()));
    assert!(
        refused
            .err()
            .unwrap()
            .to_string()
            .contains("not a vault's store")
    );
}

/// Another vault's things: its vault file, its topmost record, a file of its.
#[test]
fn another_vault() {
    let (victim, other) = (Victim::new(), Victim::new());
    for name in ["warplock.vault", "warplock.dir"] {
        let name = OsStr::new(name);
        let mem = victim.mem.fork();
        let theirs = {
            let disk = other.mem.disk();
            disk.objects[&disk.objects[&1].entries[name]].clone()
        };
        {
            let mut disk = mem.disk();
            let inode = disk.objects[&1].entries[name];
            *disk.object(inode) = theirs;
        }
        let refused = Vault::open_on(mem, &victim.key, options(&Told::default()));
        assert_eq!(refused.err().unwrap().kind(), ErrorKind::Authentication);
    }
    let theirs = other.copy("long");
    let inode = victim.inode("long");
    *victim.mem.disk().object(inode) = theirs;
    assert_eq!(victim.noticed("long"), Open);
}

/// Nobody can be made to wait or crash by what stands in the store.
#[test]
fn rubbish_everywhere() {
    let victim = Victim::new();
    let mut rng = Rng::new(11);
    for _ in 0..100 {
        let mem = victim.mem.fork();
        {
            let mut disk = mem.disk();
            let mut inodes: Vec<_> = disk.objects.keys().copied().collect();
            inodes.sort_unstable();
            for _ in 0..5 {
                let inode = inodes[rng.below(inodes.len() as u64) as usize];
                let len = rng.below(5000) as usize;
                let object = disk.object(inode);
                match rng.below(4) {
                    0 => object.data = rng.bytes(len),
                    1 => object.data.truncate(len),
                    2 => object.target = rng.bytes(len % 100),
                    _ => {
                        let at = rng.below(object.data.len() as u64 + 1) as usize;
                        if let Some(byte) = object.data.get_mut(at) {
                            *byte ^= 1 << rng.below(8);
                        }
                    }
                }
            }
        }
        let told = Told::default();
        if let Ok(vault) = Vault::open_on(mem, &victim.key, options(&told)) {
            let report = check(
                &vault,
                CheckOptions {
                    quick: false,
                    repair: true,
                },
                &mut |_| {},
            )
            .unwrap();
            assert!(report.findings.iter().all(|finding| finding.repaired));
            let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
            let noted = |finding: &Finding| finding.class == Class::Note;
            assert!(report.findings.iter().all(noted), "{report:?}");
        }
    }
}

/// What only the witness notices.
#[test]
fn with_a_witness() {
    let folder = tempfile::tempdir().unwrap();
    let victim = Victim::new();
    let open_with = |mem: &Mem| {
        let told = Told::default();
        let mut options = options(&told);
        options.witness = Some(folder.path().join("witness"));
        (
            Vault::open_on(mem.clone(), &victim.key, options).unwrap(),
            told,
        )
    };
    let findings = |vault: &Vault<Mem>| {
        check(vault, CheckOptions::default(), &mut |_| {})
            .unwrap()
            .findings
            .len()
    };
    // It gets to know everything.
    let (vault, _) = open_with(&victim.mem);
    assert_eq!(findings(&vault), 0);
    vault.unmounted();
    drop(vault);
    let old = victim.mem.fork();

    let (vault, _) = open_with(&victim.mem);
    let file = vault.file("long").unwrap();
    vault.write(&file, 0, &[1; 4096], false).unwrap();
    drop(file);
    vault.unlink(ROOT, OsStr::new("s2")).unwrap();
    vault.put("new", b"new");
    vault.unmounted();
    drop(vault);
    let (vault, _) = open_with(&victim.mem);
    assert_eq!(findings(&vault), 0);
    drop(vault);
    victim
        .mem
        .disk()
        .object(1)
        .entries
        .remove(OsStr::new("warplock.journal"));

    // All of the vault as it was.
    let (vault, told) = open_with(&old);
    assert_eq!(vault.get("long"), Err(Errno::IO));
    assert!(told.lock().unwrap().join("\n").contains("old version"));
    // The old file, the file that came back, and the one that is gone.
    assert_eq!(findings(&vault), 4, "and the old file is not where it was");
    drop(vault);

    // One file as it was.
    let inode = victim.inode("long");
    let object = old.disk().objects[&inode].clone();
    *victim.mem.disk().object(inode) = object;
    let (vault, _) = open_with(&victim.mem);
    assert_eq!(vault.get("long"), Err(Errno::IO));
    drop(vault);

    // Another vault's witness.
    let other = Victim::new();
    let mut options = options(&Told::default());
    options.witness = Some(folder.path().join("witness"));
    let refused = Vault::open_on(other.mem, &other.key, options)
        .err()
        .unwrap();
    assert_eq!(refused.kind(), ErrorKind::Authentication);
}

/// The witness knows of files only: what this costs is in the table, too.
#[test]
fn old_symlinks_and_names_of_folders_pass() {
    let folder = tempfile::tempdir().unwrap();
    let victim = Victim::new();
    let open_with = || {
        let mut options = options(&Told::default());
        options.witness = Some(folder.path().join("witness"));
        Vault::open_on(victim.mem.clone(), &victim.key, options).unwrap()
    };
    let findings = |vault: &Vault<Mem>| {
        check(vault, CheckOptions::default(), &mut |_| {})
            .unwrap()
            .findings
    };
    let link = victim.copy("link");
    let (dir, _, old) = victim.find("dir");
    let record = OsStr::new("warplock.dir");
    let record_of = || victim.mem.disk().objects[&dir].entries[record];
    let then = record_of();
    let old_record = victim.mem.disk().objects[&then].clone();

    let vault = open_with();
    assert_eq!(findings(&vault), []);
    let (name, target) = (OsStr::new("link"), OsStr::new("elsewhere"));
    vault.unlink(ROOT, name).unwrap();
    vault.symlink(ROOT, name, target, FILE.caller).unwrap();
    let (from, to) = ((ROOT, OsStr::new("dir")), (ROOT, OsStr::new("renamed")));
    vault.rename(from, to, RenameFlags::empty()).unwrap();
    vault.unmounted();
    drop(vault);

    let inode = victim.inode("link");
    *victim.mem.disk().object(inode) = link;
    let (_, top, new) = victim.find("renamed");
    let (_, _, removed) = victim.find("link2");
    let now = record_of();
    {
        let mut disk = victim.mem.disk();
        disk.object(top).entries.remove(&removed);
        disk.object(top).entries.remove(&new);
        disk.object(top).entries.insert(old, dir);
    }
    // With the record it has now, that is noticed.
    assert_eq!(victim.noticed("dir"), Open);
    *victim.mem.disk().object(now) = old_record;
    let vault = open_with();
    assert_eq!(findings(&vault), []);
    assert_eq!(vault.get("dir/inner").unwrap(), b"dir");
    let node = vault.node("link").unwrap().node;
    assert_eq!(vault.readlink(node).unwrap(), b"link");
}
