//! The checks of the fuzz targets over their seeds and pseudo-random inputs.

#[path = "../../../../fuzz/src/changes.rs"]
mod changes;
#[path = "../../../../fuzz/src/inputs.rs"]
mod inputs;
#[path = "../../../../fuzz/src/vault.rs"]
mod vault;
#[path = "../../../../fuzz/src/vault_config.rs"]
mod vault_config;
#[path = "../../../../fuzz/src/vault_names.rs"]
mod vault_names;
#[path = "../../../../fuzz/src/vault_records.rs"]
mod vault_records;

#[test]
fn attacked_stores() {
    inputs::try_inputs("vault", 56, 4, vault::check);
}

#[test]
fn configurations() {
    inputs::try_inputs("vault_config", 60, 50, vault_config::check);
}

#[test]
fn records() {
    inputs::try_inputs("vault_records", 100, 8, vault_records::check);
}

#[test]
fn names_in_the_store() {
    inputs::try_inputs("vault_names", 60, 40, vault_names::check);
}
