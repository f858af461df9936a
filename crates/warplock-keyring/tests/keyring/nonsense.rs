//! The checks of the fuzz target `keys` over pseudo-random inputs, for two seconds.

#[path = "../../../../fuzz/src/inputs.rs"]
mod inputs;
#[path = "../../../../fuzz/src/keys.rs"]
mod keys;

#[test]
fn nonsense() {
    inputs::try_nonsense(keys::check);
}
