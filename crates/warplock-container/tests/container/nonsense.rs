//! The checks of the fuzz target `container` over pseudo-random inputs, for two seconds.

#[path = "../../../../fuzz/src/container.rs"]
mod container;
#[path = "../../../../fuzz/src/inputs.rs"]
mod inputs;

#[test]
fn nonsense() {
    inputs::try_nonsense(container::check);
}
