//! Tests that need a GPU, against the CPU's results: each test skipped where there is no
//! GPU. Those that take very much memory run with `--ignored`; `scripts/device-check` runs all.

mod failures;
mod large;
mod many;
mod pinned;
#[path = "../engine/common/random.rs"]
#[allow(
    dead_code,
    reason = "shared with the engine's tests, which use all of it"
)]
mod random;
mod sample;
mod shared;

use std::sync::Once;

use warplock::{Engine, InstructionSet};

/// An engine on the first GPU; without one, a line that says so.
fn gpu() -> Option<Engine> {
    static WHY_NOT: Once = Once::new();
    let built = Engine::builder().backend("cuda".parse().unwrap()).build();
    built
        .inspect_err(|error| WHY_NOT.call_once(|| eprintln!("skipped: no GPU ({error})")))
        .ok()
}

/// An engine on the CPU.
fn cpu() -> Engine {
    let best = warplock::BackendChoice::Cpu(Some(InstructionSet::best()));
    Engine::builder().backend(best).build().unwrap()
}
