//! See [`calibration::check`].

#![no_main]

#[path = "../src/calibration.rs"]
mod calibration;
#[path = "../src/changes.rs"]
mod changes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = calibration::check(data);
});
