//! The memory of the process that serves a vault.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::harness::{Place, Random, Subject, limited, number};

const MOST: u64 = 150 << 20;
const CHUNK: usize = 1 << 20;
/// Chunks of one file.
const CHUNKS: u64 = 1024;

/// However much is written and read, in new files and over old ones, the process stays small.
#[test]
fn memory_stays_small() {
    limited(|| {
        let Some(place) = Place::new(Subject::Vault(4096)) else {
            return;
        };
        // Without a wish, a little of it.
        let total = match number("WARPLOCK_GIGABYTES", 0) {
            0 => 400,
            gigabytes => gigabytes * 1_000_000_000 / CHUNK as u64,
        };
        let chunks = CHUNKS.min(total / 4);
        let standing = place.mount();
        let path = standing.path("file");
        let data = Random::new(1).bytes(2 * CHUNK);
        let mut found = vec![0; CHUNK];
        let mut done = 0;
        let mut pass = 0;
        while done < total {
            // A new file, then the same once more over it.
            if pass % 2 == 0 {
                let _ = fs::remove_file(&path);
            }
            let piece = |number: u64| &data[(number * 8 + pass) as usize % CHUNK..][..CHUNK];
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .unwrap();
            for number in 0..chunks {
                file.write_all_at(piece(number), number * CHUNK as u64)
                    .unwrap();
            }
            file.sync_all().unwrap();
            // What is read comes from the vault.
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            for number in 0..chunks {
                file.read_exact_at(&mut found, number * CHUNK as u64)
                    .unwrap();
                assert!(found == piece(number), "pass {pass}, chunk {number}");
            }
            done += chunks;
            pass += 1;
            let memory = standing.memory();
            println!("{done} MiB written and read: {memory:?}");
            assert!(memory.most < MOST, "{memory:?}");
        }
        standing.end();
    });
}
