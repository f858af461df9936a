//! The checks of the fuzz target `arguments` over its seeds and pseudo-random inputs.

#[path = "../../../../fuzz/src/arguments.rs"]
mod arguments;
#[path = "../../../../fuzz/src/inputs.rs"]
mod inputs;

#[test]
fn values() {
    inputs::try_inputs("arguments", 20, 100, arguments::check);
}
