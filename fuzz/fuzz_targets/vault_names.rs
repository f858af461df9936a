//! See [`vault_names::check`].

#![no_main]

#[path = "../src/vault_names.rs"]
mod vault_names;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = vault_names::check(data);
});
