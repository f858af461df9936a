//! The lines of Python in `docs/format.md` open what we write, and refuse it when it was damaged.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use crate::common::*;
use warplock_container::{Envelope, InputKey};
use warplock_keyring::{MasterKey, NewIdentity, NoPrompt, Recipients, wrap};

/// The pieces of Python in the document, in order.
fn scripts() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");
    let document = fs::read_to_string(path).unwrap();
    let blocks = document.split("```python\n").skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

fn run(python: &str, script: &str, secret: &Path, file: &Path) -> Output {
    Command::new(python)
        .args(["-c", script])
        .args([secret, file])
        .output()
        .unwrap()
}

#[test]
fn the_documents_python_opens_envelope_and_stream() {
    let Some(python) = python() else { return };
    if Command::new("age").arg("--version").output().is_err() {
        eprintln!("skipped: the program age was not found");
        return;
    }
    let scripts = scripts();
    let [open_envelope, open_stream] = &scripts[..] else {
        panic!("two pieces of Python")
    };
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| work.path().join(name);

    let alice = NewIdentity::generate();
    fs::write(at("identity"), alice.file_text().as_bytes()).unwrap();
    let master = MasterKey::generate().unwrap();
    fs::write(at("key"), master.as_bytes()).unwrap();
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    recipients.add(&alice.recipient()).unwrap();
    let envelope = Envelope::new(wrap(&master, &recipients).unwrap()).unwrap();

    for len in [0, 1, CHUNK, 2 * CHUNK - 1, 3 * SEGMENT + 5] {
        let plain = Random(len as u64).bytes(len);
        let stream = seal_all(&plain, &InputKey::from(&master));
        let mut file = Vec::new();
        envelope.write(&mut file).unwrap();
        file.extend_from_slice(&stream);
        let cases = [
            (open_envelope, at("identity"), file),
            (open_stream, at("key"), stream),
        ];
        for (script, secret, bytes) in cases {
            fs::write(at("file"), &bytes).unwrap();
            let output = run(&python, script, &secret, &at("file"));
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(output.stdout == plain, "{len}");

            let mut altered = bytes.clone();
            *altered.last_mut().unwrap() ^= 1;
            let longer = [&bytes[..], b"x"].concat();
            for damaged in [&altered, &bytes[..bytes.len() - 1], &longer] {
                fs::write(at("file"), damaged).unwrap();
                assert!(!run(&python, script, &secret, &at("file")).status.success());
            }
        }
    }
}
