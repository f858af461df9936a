//! The encrypted files of tests/vectors/parquet, and their keys, for tests inside the crate and out.

use std::path::{Path, PathBuf};

use super::{GivenKeys, Options};

/// The keys of all the files.
pub(crate) fn keys() -> GivenKeys {
    let key = |text: &str| text.as_bytes().to_vec().into();
    GivenKeys {
        footer: Some(key("0123456789012345")),
        columns: [
            ("double_field".to_owned(), key("1234567890123450")),
            ("float_field".to_owned(), key("1234567890123451")),
        ]
        .into(),
    }
}

/// The files, by name, and what each needs.
pub(crate) fn files() -> Vec<(PathBuf, Options)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/parquet");
    let paths = std::fs::read_dir(folder).unwrap();
    let paths = paths.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "parquet"))
        .map(|path| {
            let needs_prefix = path.to_string_lossy().contains("disable_aad_storage");
            let aad_prefix = needs_prefix.then(|| b"tester".to_vec());
            (path, Options { aad_prefix })
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found.len(), 7);
    found
}
