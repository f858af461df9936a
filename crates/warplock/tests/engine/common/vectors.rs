//! Readers for the vector files under `tests/vectors`.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::Value;

/// Names the folder with the vectors, where the tests do not run next to their sources.
const FOLDER_VARIABLE: &str = "WARPLOCK_VECTORS";

/// The text of a vector file.
pub(crate) fn read(name: &str) -> String {
    let folder = match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors"),
    };
    let path = folder.join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One record of a `NAME = VALUE` file.
pub(crate) struct Record {
    /// Where it stands: file and first line.
    pub(crate) name: String,
    /// The last heading in brackets before it, without them.
    pub(crate) section: String,
    /// Names in lower case; a line without `=` has the empty value.
    fields: HashMap<String, String>,
}

impl Record {
    pub(crate) fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).map(String::as_str)
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    /// A field in hexadecimal; panics if there is none.
    pub(crate) fn bytes(&self, field: &str) -> Vec<u8> {
        match self.text(field) {
            Some(digits) => hex(digits),
            None => panic!("{} has no {field}", self.name),
        }
    }

    pub(crate) fn number(&self, field: &str) -> Option<u128> {
        self.text(field).map(|digits| digits.parse().unwrap())
    }
}

/// The records of a CAVP `.rsp`, a pyca `.txt` or a Botan `.vec` file: groups of `NAME = VALUE`
/// lines between empty ones. Line ends may be LF, CR LF or (in one NIST file) a lone CR.
pub(crate) fn records(name: &str) -> Vec<Record> {
    let text = read(name).replace("\r\n", "\n").replace('\r', "\n");
    let mut records = Vec::new();
    let mut section = String::new();
    let mut fields = HashMap::new();
    let mut first = 0;
    for (number, line) in text.lines().chain([""]).enumerate() {
        let line = line.trim();
        if let Some(heading) = line.strip_prefix('[') {
            section = heading.trim_end_matches(']').to_owned();
        } else if line.is_empty() {
            if fields.contains_key("key") {
                records.push(Record {
                    name: format!("{name}:{first}"),
                    section: section.clone(),
                    fields: std::mem::take(&mut fields),
                });
            }
        } else if !line.starts_with('#') {
            if fields.is_empty() {
                first = number + 1;
            }
            let (field, value) = line.split_once('=').unwrap_or((line, ""));
            fields.insert(field.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    records
}

pub(crate) fn json(name: &str) -> Value {
    serde_json::from_str(&read(name)).unwrap()
}

/// A field in hexadecimal; panics if there is none.
pub(crate) fn json_bytes(value: &Value, field: &str) -> Vec<u8> {
    hex(value[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field}")))
}

/// The tests of a Wycheproof file, and whether each is valid.
pub(crate) fn wycheproof(name: &str) -> Vec<(Value, bool)> {
    let file = json(&format!("wycheproof/{name}"));
    let groups = file["testGroups"].as_array().unwrap();
    let tests = groups
        .iter()
        .flat_map(|group| group["tests"].as_array().unwrap());
    tests
        .map(|test| {
            let valid = match test["result"].as_str().unwrap() {
                "valid" => true,
                "invalid" => false,
                other => panic!("{name} has a result '{other}'"),
            };
            (test.clone(), valid)
        })
        .collect()
}

pub(crate) fn hex(digits: &str) -> Vec<u8> {
    assert!(digits.len().is_multiple_of(2), "odd hex: {digits}");
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).unwrap();
        u8::from_str_radix(pair, 16).unwrap()
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}
