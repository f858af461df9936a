//! Attacks on what is in files.

use super::*;

/// Attacks on a file's bytes, and when they show in a long, a short and a sparse file.
#[test]
fn data() {
    type Edit = fn(&mut Vec<u8>);
    /// Where the first page of seals of a file of more than 16 blocks begins.
    const PAGE: usize = 2 * HEADER + 16 * BLOCK;
    let all: [(&str, Edit, Noticed); 9] = [
        ("flip a bit", |d| d[2 * HEADER + 100] ^= 1, Read),
        (
            "swap blocks",
            |d| {
                let (a, b) = d.split_at_mut(2 * HEADER + BLOCK);
                a[2 * HEADER..].swap_with_slice(&mut b[..BLOCK]);
            },
            Read,
        ),
        (
            "repeat a block",
            |d| d.copy_within(2 * HEADER..2 * HEADER + BLOCK, 2 * HEADER + BLOCK),
            Read,
        ),
        ("zero a block", |d| d[2 * HEADER..][..BLOCK].fill(0), Read),
        ("cut within a block", |d| d.truncate(d.len() - 1), Open),
        ("cut everything", |d| d.truncate(2 * HEADER), Open),
        ("append", |d| d.extend([7; 5000]), Open),
        ("empty", Vec::clear, Open),
        ("zero all blocks", |d| d[2 * HEADER..].fill(0), Read),
    ];
    let pages: [(&str, Edit, Noticed); 4] = [
        (
            "flip a bit of both slots",
            |d| {
                d[PAGE + 9] ^= 1;
                d[PAGE + BLOCK + 9] ^= 1;
            },
            Read,
        ),
        ("zero a page", |d| d[PAGE..][..2 * BLOCK].fill(0), Read),
        (
            "exchange the slots",
            |d| {
                let (a, b) = d[PAGE..].split_at_mut(BLOCK);
                a.swap_with_slice(&mut b[..BLOCK]);
            },
            Read,
        ),
        (
            "a block for a page",
            |d| {
                d.copy_within(2 * HEADER..2 * HEADER + BLOCK, PAGE);
                d.copy_within(2 * HEADER..2 * HEADER + BLOCK, PAGE + BLOCK);
            },
            Read,
        ),
    ];
    let victim = Victim::new();
    let attack = |name: &str, path: &str, edit: Edit, noticed: Noticed| {
        let victim = Victim {
            mem: victim.mem.fork(),
            key: MasterKey::from_bytes(victim.key.as_bytes()),
        };
        victim.edit(path, edit);
        assert_eq!(victim.noticed(path), noticed, "{name}: {path}");
    };
    for (name, edit, noticed) in all {
        for path in ["long", "short", "sparse"] {
            attack(name, path, edit, noticed);
        }
    }
    for (name, edit, noticed) in pages {
        for path in ["long", "sparse"] {
            attack(name, path, edit, noticed);
        }
    }
}

#[test]
fn a_block_of_another_file() {
    let victim = Victim::new();
    let other = victim.copy("long2").data;
    victim.edit("long", |data| {
        data[2 * HEADER..][..BLOCK].copy_from_slice(&other[2 * HEADER..][..BLOCK]);
    });
    assert_eq!(victim.noticed("long"), Read);
}

#[test]
fn an_old_block() {
    for path in ["long", "short", "sparse"] {
        let victim = Victim::new();
        let old = victim.copy(path).data;
        victim.legitimately(|vault| {
            let file = vault.file(path).unwrap();
            vault.write(&file, 4096, &[1; 4096], false).unwrap();
        });
        let block = 2 * HEADER + BLOCK;
        victim.edit(path, |data| {
            assert_ne!(data[block..][..BLOCK], old[block..][..BLOCK]);
            data[block..][..BLOCK].copy_from_slice(&old[block..][..BLOCK]);
        });
        assert_eq!(victim.noticed(path), Read);
    }
}

/// Blocks that were cut off, punched out or overwritten do not come back, whatever is done to the
/// store before and after.
#[test]
fn discarded_data_stays_discarded() {
    type Work = fn(&Vault<Mem>);
    fn resize(vault: &Vault<Mem>, len: u64) {
        let node = vault.node("long").unwrap().node;
        let file = vault.file("long").unwrap();
        vault.resize(&file, node, len).unwrap();
    }
    let works: [(&str, Work); 3] = [
        ("cut and grow", |vault| {
            resize(vault, 40 * 4096);
            resize(vault, LONG as u64);
        }),
        ("punch", |vault| {
            let file = vault.file("long").unwrap();
            vault.allocate(&file, 3, 40 * 4096, 60 * 4096).unwrap();
        }),
        ("overwrite", |vault| {
            let file = vault.file("long").unwrap();
            vault
                .write(&file, 40 * 4096, &[0; 60 * 4096 + 50], false)
                .unwrap();
        }),
    ];
    // Blocks from 40 on; a page of seals, in two slots, stands before block 16.
    const FROM: usize = 2 * HEADER + 42 * BLOCK;
    for (name, work) in works {
        for spoil_before in [false, true] {
            let victim = Victim::new();
            let old = victim.copy("long").data;
            if spoil_before {
                victim.edit("long", |data| data[FROM + BLOCK..].fill(0));
            }
            victim.legitimately(work);
            victim.edit("long", |data| {
                let len = data.len().min(old.len());
                data[FROM..len].copy_from_slice(&old[FROM..len]);
            });
            let vault = open(victim.mem.fork(), &victim.key);
            if let Ok(found) = vault.get("long") {
                assert!(
                    found[40 * 4096..100 * 4096].iter().all(|byte| *byte == 0),
                    "{name}"
                );
            }
        }
    }
}

/// A hole is proven: whatever stands in its place in the store is not read.
#[test]
fn what_stands_in_a_hole_is_not_read() {
    let victim = Victim::new();
    let hole = 2 * HEADER + (LONG / BLOCK + 2) * BLOCK + 2 * BLOCK;
    let before = open(victim.mem.fork(), &victim.key).get("sparse").unwrap();
    victim.edit("sparse", |data| {
        assert_eq!(data[hole..][..BLOCK], [0; BLOCK]);
        data.copy_within(2 * HEADER..2 * HEADER + BLOCK, hole);
    });
    let vault = open(victim.mem.fork(), &victim.key);
    assert!(vault.get("sparse").unwrap() == before);
}

#[test]
fn headers() {
    type Edit = fn(&mut Vec<u8>);
    let attacks: [(&str, Edit); 9] = [
        ("flip both", |d| {
            d[100] ^= 1;
            d[HEADER + 100] ^= 1;
        }),
        ("flip the first", |d| d[100] ^= 1),
        ("flip the second", |d| d[HEADER + 100] ^= 1),
        ("flip the id", |d| d[0] ^= 1),
        ("zero both", |d| d[..2 * HEADER].fill(0)),
        ("zero the first", |d| d[..HEADER].fill(0)),
        ("zero the second", |d| d[HEADER..2 * HEADER].fill(0)),
        ("the first twice", |d| d.copy_within(..HEADER, HEADER)),
        ("the second twice", |d| d.copy_within(HEADER..2 * HEADER, 0)),
    ];
    let victim = Victim::new();
    for (name, edit) in attacks {
        for path in ["long", "short", "sparse"] {
            let victim = Victim {
                mem: victim.mem.fork(),
                key: MasterKey::from_bytes(victim.key.as_bytes()),
            };
            victim.edit(path, edit);
            assert_eq!(victim.noticed(path), Open, "{name}: {path}");
        }
    }
}

/// A file's first header is of an empty one; only the second says that something was written.
#[test]
fn a_file_that_is_to_look_just_made() {
    let (mem, key) = new_vault(&Settings::default());
    let victim = Victim { mem, key };
    victim.legitimately(|vault| {
        vault.put("synced", b"content");
        vault.new_file("linked");
        let node = vault.node("linked").unwrap().node;
        vault.link(node, ROOT, OsStr::new("also")).unwrap();
        // More than are synced one by one.
        for number in 0..9 {
            let file = vault.new_file(&number.to_string());
            vault.write(&file, 0, &[1; 9000], false).unwrap();
        }
    });
    // And one that a crash kept from its next commit.
    let vault = open(victim.mem.clone(), &victim.key);
    vault.put("crashed", b"content");
    drop(vault);
    victim.legitimately(|vault| {
        let options = CheckOptions {
            repair: true,
            ..CheckOptions::default()
        };
        let report = check(vault, options, &mut |_| {}).unwrap();
        assert_eq!(report.findings, []);
    });
    for path in ["synced", "linked", "0", "8", "crashed"] {
        victim.edit(path, |data| {
            data.truncate(2 * HEADER);
            data[HEADER..].fill(0);
        });
        assert_eq!(victim.noticed(path), Open, "{path}");
    }
}

#[test]
fn a_header_of_another_file() {
    for (from, to) in [(0, HEADER), (0, 2 * HEADER), (HEADER, 2 * HEADER)] {
        let victim = Victim::new();
        let other = victim.copy("long2").data;
        victim.edit("long", |data| {
            data[from..to].copy_from_slice(&other[from..to])
        });
        assert_eq!(victim.noticed("long"), Open);
    }
}

#[test]
fn old_headers_with_new_data() {
    // Of the same length, of another length, and in a short file.
    for (path, offset, noticed) in [("long", 0, Read), ("long", LONG, Open), ("short", 0, Read)] {
        let victim = Victim::new();
        let old = victim.copy(path).data;
        victim.legitimately(|vault| {
            let file = vault.file(path).unwrap();
            vault
                .write(&file, offset as u64, &[1; 4096], false)
                .unwrap();
        });
        victim.edit(path, |data| {
            data[..2 * HEADER].copy_from_slice(&old[..2 * HEADER])
        });
        assert_eq!(victim.noticed(path), noticed);
    }
}

/// The one thing that may pass: all of a file as it was.
#[test]
fn a_whole_old_file() {
    let victim = Victim::new();
    let old = victim.copy("long").data;
    victim.legitimately(|vault| {
        let file = vault.file("long").unwrap();
        vault.write(&file, 0, &[1; 4096], false).unwrap();
    });
    victim.edit("long", |data| data.clone_from(&old));
    assert_eq!(victim.noticed("long"), Never);
}

/// A crash that never was: the folder of journals is put there to make damage look like one.
#[test]
fn a_pretended_crash_is_told() {
    let victim = Victim::new();
    victim.edit("long", |data| data[HEADER + 100] ^= 1);
    let vault = open(victim.mem.clone(), &victim.key);
    drop(vault); // without closing it, which leaves the folder
    let told = Told::default();
    let vault = Vault::open_on(victim.mem.clone(), &victim.key, options(&told)).unwrap();
    let _ = vault.get("long");
    let told = told.lock().unwrap().join("\n");
    assert!(
        told.contains("was not closed properly") && told.contains("/long"),
        "{told}"
    );
}

/// A journal from before, put back: nothing happens.
#[test]
fn an_old_journal() {
    let victim = Victim::new();
    let before = victim.mem.disk().clone();
    victim.mem.disk().log.clear();
    victim.legitimately(|vault| {
        let file = vault.file("long").unwrap();
        vault.write(&file, 0, &[1; 5000], false).unwrap();
        vault.fsync(&file, false).unwrap();
    });
    // The disk at the moment when the journal was written, but not yet emptied.
    let log = victim.mem.disk().log.clone();
    let mut rng = Rng::new(5);
    let mut tried = 0;
    for cut in 0..log.len() {
        let disk = before.crash(&log, cut, &mut rng);
        let journals = disk.objects[&1].entries.get(OsStr::new("warplock.journal"));
        let Some(journals) = journals.map(|inode| disk.objects[inode].clone()) else {
            continue;
        };
        let Some((name, inode)) = journals.entries.iter().next() else {
            continue;
        };
        let journal = disk.objects[inode].clone();
        let now = Victim {
            mem: victim.mem.fork(),
            key: MasterKey::from_bytes(victim.key.as_bytes()),
        };
        now.legitimately(|vault| {
            let file = vault.file("long").unwrap();
            vault.write(&file, 0, &[2; 5000], false).unwrap();
        });
        {
            let mut disk = now.mem.disk();
            let mut folder = disk.objects[&1].clone();
            folder.entries.clear();
            folder.entries.insert(name.clone(), 1 << 50);
            disk.objects.insert(1 << 50, journal);
            disk.objects.insert(1 << 51, folder);
            disk.object(1)
                .entries
                .insert("warplock.journal".into(), 1 << 51);
        }
        let vault = open(now.mem.clone(), &now.key);
        assert_eq!(vault.get("long").unwrap()[..5000], [2; 5000]);
        tried += 1;
    }
    assert!(tried > 3);
}

/// A journal that says it ends in a record of megabytes takes no memory for it.
#[test]
fn a_record_that_cannot_be() {
    const LEN: u32 = 32 << 20;
    let victim = Victim::new();
    let id: String = victim.copy("long").data[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut journal = Object::new(0o100_600);
    journal.data = vec![0; LEN as usize];
    journal.data.extend(LEN.to_be_bytes());
    journal.data.extend(b"WLJ2");
    let mut folder = Object::new(0o40_700);
    folder.entries.insert(id.into(), 1 << 50);
    {
        let mut disk = victim.mem.disk();
        disk.objects.insert(1 << 50, journal);
        disk.objects.insert(1 << 51, folder);
        let top = disk.object(1);
        top.entries.insert("warplock.journal".into(), 1 << 51);
    }
    let vault = open(victim.mem.clone(), &victim.key);
    assert_eq!(vault.get("long").unwrap(), text(0, LONG));
    assert!(victim.mem.disk().longest_read <= 16 << 20);
}
