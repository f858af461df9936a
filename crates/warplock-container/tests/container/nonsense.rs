//! The checks of the fuzz target `container` over pseudo-random inputs.

#[path = "../../../../fuzz/src/changes.rs"]
mod changes;
#[path = "../../../../fuzz/src/container.rs"]
mod container;
#[path = "../../../../fuzz/src/inputs.rs"]
mod inputs;

#[test]
fn encrypted_files() {
    inputs::try_inputs("container", 60, 4, container::check);
}
