//! A check's position in the tree.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Where something stands: the number of its folder in [`Trails`], and its name. Full paths would
/// take memory quadratic in the depth of folders.
#[derive(Clone)]
pub(super) struct Trail {
    pub(super) folder: usize,
    pub(super) name: OsString,
}

/// The folders of the walk; the root is the first.
pub(super) struct Trails(pub(super) Vec<Trail>);

impl Trails {
    /// A number for a folder.
    pub(super) fn add(&mut self, folder: Trail) -> usize {
        self.0.push(folder);
        self.0.len() - 1
    }

    pub(super) fn folder(&self, mut number: usize) -> PathBuf {
        let mut names = Vec::new();
        while number > 0 {
            names.push(&self.0[number].name);
            number = self.0[number].folder;
        }
        let names = names.into_iter().rev().map(OsString::as_os_str);
        std::iter::once(OsStr::new("/")).chain(names).collect()
    }

    pub(super) fn path(&self, trail: &Trail) -> PathBuf {
        self.folder(trail.folder).join(&trail.name)
    }
}
