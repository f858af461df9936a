//! See [`keys::check`].

#![no_main]

#[path = "../src/changes.rs"]
mod changes;
#[path = "../src/keys.rs"]
mod keys;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = keys::check(data);
});
