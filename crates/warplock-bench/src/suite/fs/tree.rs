//! A tree of small files, packed for `tar`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::work::checksum;
use crate::error::Result;
use crate::{Error, random};

/// The archive and what is in it.
pub(super) struct Tree {
    archive: PathBuf,
    /// Path and checksum of each file.
    files: Vec<(PathBuf, u64)>,
    bytes: u64,
}

/// Files of one folder.
const IN_A_FOLDER: usize = 40;
/// Their lengths, in turn: half of them under 4 KiB, as in trees of source code.
const LENGTHS: [usize; 10] = [
    100, 700, 1_500, 2_500, 3_900, 6_000, 9_000, 14_000, 25_000, 60_000,
];

impl Tree {
    /// Writes `count` files into the folder `source` (which is made), packs and removes them.
    pub(super) fn make(source: &Path, count: usize) -> Result<Self> {
        let longest = LENGTHS.into_iter().max().unwrap_or(0);
        let data = random::bytes(longest + count)?;
        let mut tree = Tree {
            archive: source.with_extension("tar"),
            files: Vec::new(),
            bytes: 0,
        };
        for number in 0..count {
            let folder = PathBuf::from(format!(
                "tree/part{}/folder{}",
                number / IN_A_FOLDER / 10,
                number / IN_A_FOLDER
            ));
            let path = folder.join(format!("file number {number}.data"));
            let content = &data[number..][..LENGTHS[number % LENGTHS.len()]];
            let folder = source.join(folder);
            fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
            let full = source.join(&path);
            fs::write(&full, content).map_err(Error::file("write", &full))?;
            tree.bytes += content.len() as u64;
            tree.files.push((path, checksum(content)));
        }
        run(Command::new("tar")
            .arg("-cf")
            .arg(&tree.archive)
            .arg("-C")
            .arg(source)
            .arg("tree"))?;
        fs::remove_dir_all(source).map_err(Error::file("remove", source))?;
        Ok(tree)
    }

    pub(super) fn archive(&self) -> &Path {
        &self.archive
    }

    pub(super) fn files(&self) -> &[(PathBuf, u64)] {
        &self.files
    }

    /// Of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Runs a program that prints nothing if it succeeds.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let outcome = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output();
    let output = outcome.map_err(Error::file("run", Path::new(&program)))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Wrong(format!(
        "{} failed: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
            .lines()
            .next()
            .unwrap_or("(it said nothing)")
    )))
}
