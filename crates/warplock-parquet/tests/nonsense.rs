//! The checks of the fuzz target `parquet` over pseudo-random inputs.

#[path = "../../../fuzz/src/changes.rs"]
mod changes;
#[path = "../../../fuzz/src/inputs.rs"]
mod inputs;
#[path = "../../../fuzz/src/parquet.rs"]
mod parquet;

#[test]
fn encrypted_tables() {
    inputs::try_inputs("parquet", 30, 10, parquet::check);
}
