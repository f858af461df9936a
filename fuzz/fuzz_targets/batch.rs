//! See [`batch::check`].

#![no_main]

#[path = "../src/batch.rs"]
mod batch;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = batch::check(data);
});
