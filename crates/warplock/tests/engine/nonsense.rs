//! The checks of the fuzz targets over their seeds and pseudo-random inputs.

#[path = "../../../../fuzz/src/batch.rs"]
mod batch;
#[path = "../../../../fuzz/src/calibration.rs"]
mod calibration;
#[path = "../../../../fuzz/src/changes.rs"]
mod changes;
#[path = "../../../../fuzz/src/inputs.rs"]
mod inputs;

#[test]
fn batches() {
    inputs::try_inputs("batch", 600, 100, batch::check);
}

#[test]
fn calibrations() {
    inputs::try_inputs("calibration", 30, 100, calibration::check);
}
