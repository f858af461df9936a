//! Random operations on files, against a vector of bytes.

use crate::common::mem::Mem;
use crate::common::rng::Rng;
use crate::common::{Short, new_vault, open};
use warplock_vault::fs::{FileSystem, Seek};
use warplock_vault::{CheckOptions, OpenFile, Settings, Vault, check};

/// One file under test, and what must be in it.
struct Pair {
    file: OpenFile<Mem>,
    node: u64,
    model: Vec<u8>,
    block: u64,
    longest: u64,
}

impl Pair {
    fn step(&mut self, vault: &Vault<Mem>, rng: &mut Rng) {
        let len = self.model.len() as u64;
        let offset = rng.below(self.longest);
        match rng.below(100) {
            0..35 => {
                // Often at the end, as files grow.
                let offset = if rng.below(3) == 0 { len } else { offset };
                let most = if rng.below(4) == 0 {
                    self.longest / 2
                } else {
                    6000
                };
                let count = rng.below(most);
                // Whole blocks take a way of their own.
                let block = self.block;
                let (offset, count) = match rng.below(3) {
                    0 => (offset / block * block, count.div_ceil(block) * block),
                    _ => (offset, count),
                };
                let data = rng.bytes(count as usize);
                vault.write(&self.file, offset, &data, false).unwrap();
                if data.is_empty() {
                    return;
                }
                let end = offset as usize + data.len();
                self.model.resize(self.model.len().max(end), 0);
                self.model[offset as usize..][..data.len()].copy_from_slice(&data);
            }
            35..45 => {
                let len = if rng.below(4) == 0 { 0 } else { offset };
                vault.resize(&self.file, self.node, len).unwrap();
                self.model.resize(len as usize, 0);
            }
            45..55 => {
                let count = 1 + rng.below(self.longest / 2);
                vault.allocate(&self.file, 3, offset, count).unwrap();
                let start = offset.min(len) as usize;
                let end = (offset + count).min(len) as usize;
                self.model[start..end].fill(0);
            }
            55..58 => {
                let count = 1 + rng.below(5000);
                vault.allocate(&self.file, 0, offset, count).unwrap();
                let end = (offset + count).max(len) as usize;
                self.model.resize(end, 0);
            }
            58..62 => vault.fsync(&self.file, rng.below(2) == 0).unwrap(),
            62..65 => vault.tick().unwrap(),
            65..70 => self.seek(vault, offset),
            _ => {
                let mut buffer = vec![7; rng.below(self.longest) as usize];
                let count = vault.read(&self.file, offset, &mut buffer).unwrap();
                let start = self.model.len().min(offset as usize);
                let end = self.model.len().min(start + buffer.len());
                assert_eq!(buffer[..count], self.model[start..end]);
            }
        }
        let shown = vault.attributes(self.node, Some(&self.file)).unwrap();
        assert_eq!(shown.size, self.model.len() as u64);
    }

    /// Data is never said to be a hole, and what is said to be a hole is zeros.
    fn seek(&self, vault: &Vault<Mem>, offset: u64) {
        if let Ok(data) = vault.seek(&self.file, offset, Seek::Data) {
            assert!(data >= offset);
            let skipped = &self.model[offset as usize..data as usize];
            assert!(skipped.iter().all(|byte| *byte == 0));
        } else if let Some(rest) = self.model.get(offset as usize..) {
            assert!(rest.iter().all(|byte| *byte == 0));
        }
    }

    fn compare(&self, vault: &Vault<Mem>) {
        let mut buffer = vec![0; self.model.len() + 1];
        let count = vault.read(&self.file, 0, &mut buffer).unwrap();
        assert!(buffer[..count] == self.model[..]);
    }
}

fn random_operations(settings: &Settings, blocks: u64, steps: u64, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let (mem, key) = new_vault(settings);
        let mut vault = open(mem.clone(), &key);
        let file = vault.new_file("file");
        let node = vault.node("file").unwrap().node;
        let longest = blocks * u64::from(settings.block_size) + 77;
        let mut pair = Pair {
            file,
            node,
            model: Vec::new(),
            block: settings.block_size.into(),
            longest,
        };
        for _ in 0..steps {
            pair.step(&vault, &mut rng);
            if rng.below(60) == 0 {
                let (model, block) = (pair.model, pair.block);
                drop(pair.file);
                vault.unmounted();
                vault = open(mem.clone(), &key);
                let node = vault.node("file").unwrap().node;
                let file = vault.file("file").unwrap();
                pair = Pair {
                    file,
                    node,
                    model,
                    block,
                    longest,
                };
                pair.compare(&vault);
            }
        }
        pair.compare(&vault);
    }
}

/// How many operations each test makes; more by `WARPLOCK_VAULT_STEPS`.
fn steps(default: u64) -> u64 {
    std::env::var("WARPLOCK_VAULT_STEPS").map_or(default, |text| text.parse().unwrap())
}

#[test]
fn small_blocks() {
    random_operations(&Settings::default(), 12, steps(500), 0..10);
}

#[test]
fn larger_blocks_with_aes_128() {
    let settings = Settings {
        algorithm: warplock::Algorithm::Aes128Gcm,
        block_size: 16 << 10,
    };
    random_operations(&settings, 4, steps(300), 100..104);
}

/// Threads overwrite, read, sync and commit one file at the same time. Each block always holds one
/// thread's bytes, the sum is right, and the final content is there after opening again.
#[test]
fn side_by_side() {
    const BLOCKS: u64 = 64;
    const BLOCK: usize = 4096;
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let file = vault.new_file("file");
    vault
        .write(&file, 0, &[0; BLOCKS as usize * BLOCK], false)
        .unwrap();
    vault.fsync(&file, false).unwrap();
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let (vault, file) = (&vault, &file);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for step in 0..steps(400) {
                    let (first, count) = (rng.below(BLOCKS - 3), 1 + rng.below(3) as usize);
                    let offset = first * BLOCK as u64;
                    match rng.below(8) {
                        0 => vault.fsync(file, true).unwrap(),
                        1 => vault.tick().unwrap(),
                        2 | 3 => {
                            let mut buffer = vec![0xff; count * BLOCK];
                            vault.read(file, offset, &mut buffer).unwrap();
                            for block in buffer.chunks(BLOCK) {
                                assert!(block.iter().all(|byte| *byte == block[0]));
                            }
                        }
                        // The end of the file: the way that has the file to itself.
                        4 => {
                            let data = vec![thread as u8; BLOCK + 1 + step as usize % 9];
                            let offset = BLOCKS * BLOCK as u64 - BLOCK as u64;
                            vault.write(file, offset, &data, false).unwrap();
                        }
                        _ => {
                            let data = vec![thread as u8; count * BLOCK];
                            vault.write(file, offset, &data, false).unwrap();
                        }
                    }
                }
            });
        }
    });
    let found = vault.get("file").unwrap();
    vault.unmounted();
    drop((file, vault));
    let vault = open(mem, &key);
    assert!(vault.get("file").unwrap() == found);
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
}
