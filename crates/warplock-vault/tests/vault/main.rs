//! Vaults without a mount, most of them in memory: one program, since what each store takes of the
//! vault is compiled again for every program.

mod adversary;
#[cfg(target_os = "linux")]
mod bombs;
mod bound_keys;
#[cfg(target_os = "linux")]
#[path = "../../../warplock-keyring/tests/keyring/bounded.rs"]
mod bounded;
mod by_path;
mod closing;
#[path = "../common/mod.rs"]
mod common;
mod conflict;
mod copies;
mod crash;
mod depth;
mod document;
mod evicted;
mod exchange;
mod faults;
mod keys;
mod listing;
mod memory;
mod model;
mod nonsense;
mod owners;
mod permissions;
mod read_only;
mod recovery;
mod repair;
mod reused;
mod sparse;
mod tamper;
mod times;
mod told;
mod unnamed;
