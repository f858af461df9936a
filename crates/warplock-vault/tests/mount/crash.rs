//! The process that serves a vault is killed at any moment: nothing synced is lost, nothing wrong
//! is served.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::harness::{Place, Random, Subject, limited, number};

/// A file's content tells its name and version; `len` follows from both.
fn content(name: u64, version: u64) -> Vec<u8> {
    let mut random = Random::new(name << 32 | version);
    let len = match random.below(3) {
        0 => random.below(300),
        1 => random.below(9_000),
        _ => random.below(300_000),
    };
    let mut bytes = random.bytes(len as usize);
    bytes.splice(0..0, version.to_le_bytes());
    bytes
}

/// What a test knows of a file: the version that was synced last, and the one begun last.
#[derive(Clone, Copy, Default)]
struct Known {
    synced: Option<u64>,
    begun: u64,
}

/// The number of files, each written by one thread at a time.
const FILES: u64 = 12;
const THREADS: u64 = 3;

#[test]
fn what_was_synced_survives_a_kill() {
    limited(|| {
        let Some(place) = Place::new(Subject::Vault(4096)) else {
            return;
        };
        let mut random = Random::seeded();
        let known = Mutex::new(HashMap::<u64, Known>::new());
        for round in 0..number("WARPLOCK_KILLS", 8) {
            let standing = place.mount();
            check(standing.root(), &mut known.lock().unwrap(), round);
            let stop = AtomicBool::new(false);
            let wait = Duration::from_micros(random.below(250_000));
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let random = Random::new(random.next());
                    let (known, stop, root) = (&known, &stop, standing.root());
                    scope.spawn(move || write(root, thread, random, known, stop));
                }
                thread::sleep(wait);
                // The serving process dies in the middle of what the threads do.
                let process = rustix::process::Pid::from_raw(standing.process() as i32).unwrap();
                rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
                stop.store(true, Ordering::Relaxed);
            });
            standing.kill();
            // As after `umount -l`, which a user would do now.
            let _ = warplock_vault::fuse::unmount(&place.point, true);
        }
        let standing = place.mount();
        check(standing.root(), &mut known.lock().unwrap(), u64::MAX);
        standing.end();
    });
}

/// Writes versions until the mount is gone: in place, or as a new file that takes the old one's
/// name.
fn write(
    root: &std::path::Path,
    thread: u64,
    mut random: Random,
    known: &Mutex<HashMap<u64, Known>>,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        let name = THREADS * random.below(FILES / THREADS) + thread;
        let version = {
            let mut known = known.lock().unwrap();
            let file = known.entry(name).or_default();
            file.begun += 1;
            file.begun
        };
        let path = root.join(format!("file {name}"));
        let data = content(name, version);
        let new = root.join(format!("new {name}"));
        let written = (|| {
            let file = File::create(&new)?;
            file.write_all_at(&data, 0)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(root)?.sync_all()
        })();
        match written {
            Ok(()) => known.lock().unwrap().get_mut(&name).unwrap().synced = Some(version),
            Err(_) => return,
        }
    }
}

/// Every file is whole, and no older than what was synced.
fn check(root: &std::path::Path, known: &mut HashMap<u64, Known>, round: u64) {
    for (&name, file) in known {
        let path = root.join(format!("file {name}"));
        let found = match fs::read(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                assert_eq!(file.synced, None, "round {round}: file {name} is gone");
                continue;
            }
            Err(error) => panic!("round {round}: file {name}: {error}"),
        };
        let version = u64::from_le_bytes(found[..8].try_into().unwrap());
        assert!(
            version >= file.synced.unwrap_or(0) && version <= file.begun,
            "round {round}: file {name} has version {version}, synced was {:?}",
            file.synced
        );
        assert!(
            found == content(name, version),
            "round {round}: file {name}: wrong bytes"
        );
        // It may be newer than what was known; from now on it is at least this one.
        file.synced = Some(version);
    }
}

/// One file, changed in place at many blocks, each of which tells its version.
#[test]
fn blocks_that_were_synced_survive_a_kill() {
    const BLOCK: usize = 4096;
    const BLOCKS: u64 = 200;
    limited(|| {
        let Some(place) = Place::new(Subject::Vault(4096)) else {
            return;
        };
        let mut random = Random::seeded();
        let mut synced = vec![0_u64; BLOCKS as usize];
        let mut begun = synced.clone();
        let mut version = 0;
        let block = |number: u64, version: u64| {
            let mut bytes = Random::new(number << 40 | version).bytes(BLOCK);
            bytes.splice(0..8, version.to_le_bytes());
            bytes
        };
        let standing = place.mount();
        let all: Vec<u8> = (0..BLOCKS).flat_map(|number| block(number, 0)).collect();
        fs::write(standing.path("blocks"), all).unwrap();
        standing.end();
        for round in 0..number("WARPLOCK_KILLS", 8) {
            let standing = place.mount();
            let found = fs::read(standing.path("blocks")).unwrap();
            for (number, found) in found.chunks(BLOCK).enumerate() {
                let version = u64::from_le_bytes(found[..8].try_into().unwrap());
                let (old, new) = (synced[number], begun[number]);
                assert!(
                    (old..=new).contains(&version) && found == block(number as u64, version),
                    "round {round}: block {number} has version {version}, not {old} to {new}"
                );
                synced[number] = version;
            }
            begun.clone_from(&synced);
            let file = File::options()
                .write(true)
                .open(standing.path("blocks"))
                .unwrap();
            let killer = {
                let process = rustix::process::Pid::from_raw(standing.process() as i32).unwrap();
                let wait = Duration::from_micros(random.below(120_000));
                thread::spawn(move || {
                    thread::sleep(wait);
                    let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
                })
            };
            loop {
                version += 1;
                let numbers: Vec<u64> = (0..1 + random.below(20))
                    .map(|_| random.below(BLOCKS))
                    .collect();
                let written = (|| {
                    for &number in &numbers {
                        begun[number as usize] = version;
                        file.write_all_at(&block(number, version), number * BLOCK as u64)?;
                    }
                    file.sync_data()
                })();
                if written.is_err() {
                    break;
                }
                for number in numbers {
                    synced[number as usize] = version;
                }
            }
            killer.join().unwrap();
            drop(file);
            standing.kill();
            let _ = warplock_vault::fuse::unmount(&place.point, true);
        }
    });
}
