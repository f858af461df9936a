//! Long files of holes, whose trees of seals have several levels, compared with a model.

use std::collections::BTreeMap;

use crate::common::rng::Rng;
use crate::common::{Short, engine, recipients};
use rustix::io::Errno;
use warplock_vault::fs::{FileSystem, Seek};
use warplock_vault::{CheckOptions, OpenFile, Options, Posix, Settings, Vault, check, init};

const BLOCK: u64 = 4096;
/// Up to 64 GiB: three levels.
const LONGEST: u64 = 1 << 24;

struct Sparse {
    vault: Vault<Posix>,
    file: OpenFile<Posix>,
    node: u64,
    /// The first byte of each block that is no hole.
    model: BTreeMap<u64, u8>,
    blocks: u64,
}

impl Sparse {
    /// Blocks near those where something begins: pages of all levels.
    fn number(rng: &mut Rng) -> u64 {
        let near = [0, 16, 128, 2048, 16_384, 262_144, 2_097_152][rng.below(7) as usize];
        (near * (1 + rng.below(3)) + rng.below(8)).saturating_sub(rng.below(8)) % LONGEST
    }

    fn step(&mut self, rng: &mut Rng) {
        let number = Self::number(rng);
        match rng.below(12) {
            0..6 => {
                let count = 1 + rng.below(20);
                let byte = 1 + rng.below(255) as u8;
                let data = vec![byte; (count * BLOCK) as usize];
                self.vault
                    .write(&self.file, number * BLOCK, &data, false)
                    .unwrap();
                self.model
                    .extend((number..number + count).map(|at| (at, byte)));
                self.blocks = self.blocks.max(number + count);
            }
            6..8 => {
                let end = Self::number(rng).max(number + 1);
                let len = (end - number) * BLOCK;
                self.vault
                    .allocate(&self.file, 3, number * BLOCK, len)
                    .unwrap();
                self.model.retain(|at, _| !(number..end).contains(at));
            }
            8 => {
                self.vault
                    .resize(&self.file, self.node, number * BLOCK)
                    .unwrap();
                self.model.retain(|at, _| *at < number);
                self.blocks = number;
            }
            9 => self.vault.tick().unwrap(),
            10 => self.vault.fsync(&self.file, false).unwrap(),
            _ => self.compare(),
        }
    }

    /// Every block is found by looking for data, and nothing else is.
    fn compare(&self) {
        let mut found = BTreeMap::new();
        let mut offset = 0;
        loop {
            let data = match self.vault.seek(&self.file, offset, Seek::Data) {
                Err(Errno::NXIO) => break,
                data => data.unwrap(),
            };
            offset = self.vault.seek(&self.file, data, Seek::Hole).unwrap();
            for number in data / BLOCK..offset / BLOCK {
                let mut byte = [0];
                self.vault
                    .read(&self.file, number * BLOCK + 9, &mut byte)
                    .unwrap();
                found.insert(number, byte[0]);
            }
        }
        assert_eq!(found, self.model);
        let mut byte = [7];
        let hole = (0..self.blocks).find(|at| !self.model.contains_key(at));
        if let Some(hole) = hole {
            self.vault
                .read(&self.file, hole * BLOCK, &mut byte)
                .unwrap();
            assert_eq!(byte, [0]);
        }
    }
}

#[test]
fn long_files_of_holes() {
    for seed in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::default();
        let key = init(folder.path(), &settings, "test", &recipients()).unwrap();
        let open = || {
            let options = Options {
                engine: Some(engine()),
                ..Options::default()
            };
            Vault::open(folder.path(), &key, options).unwrap()
        };
        let vault = open();
        let file = vault.new_file("sparse");
        let node = vault.node("sparse").unwrap().node;
        let mut sparse = Sparse {
            vault,
            file,
            node,
            model: BTreeMap::new(),
            blocks: 0,
        };
        let mut rng = Rng::new(seed);
        for _ in 0..6 {
            for _ in 0..60 {
                sparse.step(&mut rng);
            }
            let Sparse {
                vault,
                file,
                model,
                blocks,
                ..
            } = sparse;
            drop(file);
            vault.unmounted();
            drop(vault);
            let vault = open();
            let node = vault.node("sparse").unwrap();
            assert_eq!(node.size, blocks * BLOCK);
            let file = vault.file("sparse").unwrap();
            sparse = Sparse {
                vault,
                file,
                node: node.node,
                model,
                blocks,
            };
            sparse.compare();
        }
        let report = check(&sparse.vault, CheckOptions::default(), &mut |_| {}).unwrap();
        assert_eq!(report.findings, []);
        // Room is given back: what is left is about the blocks and their pages.
        let shown = sparse.vault.attributes(sparse.node, None).unwrap();
        let pages = 2 * 2 * 3 * sparse.model.len() as u64 + 20;
        let most = (sparse.model.len() as u64 + pages) * BLOCK;
        assert!(shown.blocks * 512 <= most, "{} {most}", shown.blocks * 512);
    }
}
