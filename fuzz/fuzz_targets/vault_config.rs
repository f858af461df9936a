//! See [`vault_config::check`].

#![no_main]

#[path = "../src/changes.rs"]
mod changes;
#[path = "../../crates/warplock-vault/tests/common/mod.rs"]
mod common;
#[path = "../src/vault_config.rs"]
mod vault_config;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = vault_config::check(data);
});
