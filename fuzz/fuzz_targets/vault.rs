//! See [`vault::check`].

#![no_main]

#[path = "../src/changes.rs"]
mod changes;
#[path = "../../crates/warplock-vault/tests/common/mod.rs"]
mod common;
#[path = "../src/vault.rs"]
mod vault;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = vault::check(data);
});
