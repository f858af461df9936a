//! Times that programs set, and those that the vault keeps.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use crate::common::{Short, new_vault, open};
use warplock_vault::Settings;
use warplock_vault::fs::{Changes, FileSystem, SetTime};

/// Blocks on their way from the journal to their slots must not take the time of the last change
/// back to what it was when they set out.
#[test]
fn a_time_set_while_blocks_are_copied_stays() {
    let wanted = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let changes = Changes {
        modified: Some(SetTime::To(wanted)),
        ..Changes::default()
    };
    let (mem, key) = new_vault(&Settings::default());
    let vault = Arc::new(open(mem.clone(), &key));
    vault.put("file", &[1; 40_000]);
    FileSystem::tick(&*vault);
    let node = vault.node("file").unwrap().node;
    let file = vault.file("file").unwrap();
    vault.write(&file, 0, &[2; 8192], false).unwrap();
    vault.fsync(&file, false).unwrap();

    let setting = Arc::new(Mutex::new(None::<JoinHandle<()>>));
    let (with, started) = (Arc::clone(&vault), Arc::clone(&setting));
    mem.disk().on_write = Some(Arc::new(move |_| {
        let vault = Arc::clone(&with);
        let setter = thread::spawn(move || {
            vault.change(node, None, &changes).unwrap();
        });
        // It has to wait until the blocks are copied, and so this is in vain; for how long decides
        // only how surely one that does not wait is caught.
        for _ in 0..200 {
            if !setter.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        *started.lock().unwrap() = Some(setter);
    }));
    FileSystem::tick(&*vault);
    let setter = setting.lock().unwrap().take();
    setter.expect("blocks were copied").join().unwrap();
    assert_eq!(vault.node("file").unwrap().modified, wanted);
    drop(file);
    FileSystem::tick(&*vault);
    assert_eq!(vault.node("file").unwrap().modified, wanted);
}
