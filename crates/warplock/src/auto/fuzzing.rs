//! Entry points for the fuzz target of calibrations. Not part of the interface.

use std::sync::OnceLock;

use super::calibration::{Calibration, Machine};
use super::model::Shape;
use crate::{Algorithm, Direction, InstructionSet};

/// A calibration of this machine with guessed values, as its file has it.
pub fn calibration_text() -> String {
    Calibration::guessed().text()
}

/// Reads a calibration and plans with it. False if it was refused.
pub fn calibration(text: &str) -> bool {
    static HERE: OnceLock<Machine> = OnceLock::new();
    let here = HERE.get_or_init(Machine::here);
    let Ok(calibration) = Calibration::parse(text, here.clone()) else {
        return false;
    };
    let again = Calibration::parse(&calibration.text(), here.clone());
    assert_eq!(again.as_ref(), Ok(&calibration));
    let _ = (calibration.lines(), calibration.values());
    let model = calibration.model(InstructionSet::best(), 2);
    for (count, len) in [(1, 0), (1, 1 << 40), (1 << 20, 16)] {
        let (algorithm, direction) = (Algorithm::Aes256Gcm, Direction::Encrypt);
        let shape = Shape::of_messages(algorithm, direction, count, len);
        assert!(!model.teams(&shape, 2, 1, true).is_empty());
    }
    true
}
