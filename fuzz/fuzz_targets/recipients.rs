//! See [`recipients::check`].

#![no_main]

#[path = "../src/recipients.rs"]
mod recipients;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = recipients::check(data);
});
