//! See [`arguments::check`].

#![no_main]

#[path = "../src/arguments.rs"]
mod arguments;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = arguments::check(data);
});
