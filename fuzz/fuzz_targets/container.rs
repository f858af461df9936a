//! See [`container::check`].

#![no_main]

#[path = "../src/changes.rs"]
mod changes;
#[path = "../src/container.rs"]
mod container;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = container::check(data);
});
