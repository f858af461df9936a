//! Arbitrary bytes as `warplock.vault`, and a valid one with arbitrary changes. It is read before
//! anything is authenticated.

use std::sync::OnceLock;

use warplock_vault::{CONFIG, Settings, fuzzing};

use super::changes::change;
use crate::common::new_vault;

fn valid() -> &'static [u8] {
    static VALID: OnceLock<Vec<u8>> = OnceLock::new();
    VALID.get_or_init(|| {
        let (mem, _) = new_vault(&Settings::default());
        let disk = mem.disk();
        let inode = disk.objects[&1].entries[std::ffi::OsStr::new(CONFIG)];
        disk.objects[&inode].data.clone()
    })
}

/// Whether the parser took the input.
pub(crate) fn check(data: &[u8]) -> bool {
    let Some((&choice, rest)) = data.split_first() else {
        return false;
    };
    if choice % 2 == 0 {
        return fuzzing::config(rest);
    }
    let mut changed = valid().to_vec();
    change(&mut changed, rest, 4);
    fuzzing::config(&changed)
}
