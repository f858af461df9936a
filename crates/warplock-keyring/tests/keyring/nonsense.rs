//! The checks of the fuzz targets over their seeds and pseudo-random inputs.

#[path = "../../../../fuzz/src/changes.rs"]
mod changes;
#[path = "../../../../fuzz/src/identities.rs"]
mod identities;
#[path = "../../../../fuzz/src/inputs.rs"]
mod inputs;
#[path = "../../../../fuzz/src/keys.rs"]
mod keys;
#[path = "../../../../fuzz/src/recipients.rs"]
mod recipients;
#[path = "../../../../fuzz/src/wrapped.rs"]
mod wrapped;

#[test]
fn changed_keys() {
    inputs::try_inputs("keys", 20, 4, keys::check);
}

#[test]
fn wrapped_keys() {
    inputs::try_inputs("wrapped", 100, 200, wrapped::check);
}

#[test]
fn identity_files() {
    inputs::try_inputs("identities", 100, 200, identities::check);
}

#[test]
fn recipient_lists() {
    inputs::try_inputs("recipients", 100, 200, recipients::check);
}
