//! See [`identities::check`].

#![no_main]

#[path = "../src/identities.rs"]
mod identities;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = identities::check(data);
});
