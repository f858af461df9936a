//! See [`parquet::check`].

#![no_main]

#[path = "../src/changes.rs"]
mod changes;
#[path = "../src/parquet.rs"]
mod parquet;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = parquet::check(data);
});
