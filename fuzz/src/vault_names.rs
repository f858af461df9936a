//! Arbitrary bytes as a name in a vault's store.

use warplock_vault::fuzzing;

/// Whether it has the form of one of the vault's names.
pub(crate) fn check(data: &[u8]) -> bool {
    // File systems have no others.
    let name = data.split(|&byte| byte == 0 || byte == b'/').next();
    name.is_some_and(fuzzing::name)
}
