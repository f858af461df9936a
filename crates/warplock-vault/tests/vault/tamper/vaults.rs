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

/// Nothing in the store can make a program wait or crash.
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
