//! See [`vault_records::check`].

#![no_main]

#[path = "../src/vault_records.rs"]
mod vault_records;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = vault_records::check(data);
});
