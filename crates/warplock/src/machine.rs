//! The planner's view of this machine: its GPUs, and the model of its speed.

use std::num::NonZeroUsize;
use std::path::Path;

use crate::InstructionSet;
use crate::auto::{Calibration, Model, Planner};
use crate::cuda;

/// A planner for this machine's GPUs, with the model that was measured here or guesses.
pub(crate) fn planner(set: InstructionSet, threads: NonZeroUsize, warn: fn(&str)) -> Planner {
    Planner::new(
        Box::new(move || cuda::all(threads)),
        Box::new(move || model(set, threads, warn)),
        may_have_gpu,
        warn,
    )
}

/// Whether the system shows devices of NVIDIA's driver. Looks at a file: loading the driver would
/// take a tenth of a second.
pub(crate) fn may_have_gpu() -> bool {
    cfg!(feature = "cuda")
        && (!cfg!(target_os = "linux")
            || Path::new("/dev/nvidiactl").exists()
            || Path::new("/dev/dxg").exists())
}

/// The model that was measured on this machine, or guesses.
fn model(set: InstructionSet, threads: NonZeroUsize, warn: fn(&str)) -> Model {
    let calibration = Calibration::load().unwrap_or_else(|reason| {
        warn(&reason);
        None
    });
    match calibration {
        Some(calibration) => calibration.model(set, threads.get()),
        None => Model::guess(set, threads.get()),
    }
}
