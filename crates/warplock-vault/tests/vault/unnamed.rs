//! Files whose last name is gone: complete while they are open, and gone afterwards.

use crate::common::{Short, new_vault, open};
use warplock_vault::fs::{FileSystem, ROOT};
use warplock_vault::{Settings, Storage};

/// Overwriting what was committed goes through the journal, which ticks must not take away.
#[test]
fn an_open_file_outlives_its_name() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem, &key);
    vault.put("a", &[1; 40_000]);
    let file = vault.file("a").unwrap();
    vault.write(&file, 8192, &[2; 4096], false).unwrap();
    vault.unlink(ROOT, "a".as_ref()).unwrap();
    vault.write(&file, 16_384, &[3; 5000], false).unwrap();
    let mut wanted = vec![1; 40_000];
    wanted[8192..12_288].fill(2);
    wanted[16_384..21_384].fill(3);
    for _ in 0..3 {
        FileSystem::tick(&vault);
        let mut data = vec![0; 40_001];
        assert_eq!(vault.read(&file, 0, &mut data), Ok(40_000));
        assert_eq!(data[..40_000], wanted);
        vault.write(&file, 36_000, &[4; 4000], false).unwrap();
        wanted[36_000..].fill(4);
    }
    vault.fsync(&file, false).unwrap();
    drop(file);
    FileSystem::tick(&vault);
    vault.unmounted();
}

/// On a full disk, removing a file frees room without delay.
#[test]
fn a_removed_file_takes_no_room() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let journals = || {
        let folder = mem.open_dir(&mem.root().unwrap(), "warplock.journal".as_ref());
        mem.list(&folder.unwrap()).unwrap().len()
    };
    vault.put("a", &[1; 40_000]);
    let file = vault.file("a").unwrap();
    vault.write(&file, 0, &[2; 8192], false).unwrap();
    assert_eq!(journals(), 1);
    drop(file);
    vault.unlink(ROOT, "a".as_ref()).unwrap();
    assert_eq!(journals(), 0);

    // One that is still open needs it, until a tick finds it closed.
    vault.put("b", &[1; 40_000]);
    let file = vault.file("b").unwrap();
    vault.write(&file, 0, &[2; 8192], false).unwrap();
    vault.unlink(ROOT, "b".as_ref()).unwrap();
    let mut data = [0; 8192];
    assert_eq!(vault.read(&file, 0, &mut data), Ok(8192));
    assert_eq!(data, [2; 8192]);
    drop(file);
    FileSystem::tick(&vault);
    assert_eq!(journals(), 0);
}
