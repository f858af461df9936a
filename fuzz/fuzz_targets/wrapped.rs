//! See [`wrapped::check`].

#![no_main]

#[path = "../src/wrapped.rs"]
mod wrapped;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = wrapped::check(data);
});
