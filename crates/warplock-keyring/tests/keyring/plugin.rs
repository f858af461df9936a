//! Plugins: a key is wrapped and unwrapped by a program of the name `age-plugin-NAME`.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;

use crate::common::*;
use warplock_keyring::{
    Identities, NewIdentity, NoPrompt, Recipients, StanzaKind, inspect_wrapped, unwrap, wrap,
};

/// A plugin for `--age-plugin=recipient-v1` and `--age-plugin=identity-v1` that "wraps" the file key
/// by handing it out as it is, enough to speak age's plugin protocol: it reads stanzas until `done`,
/// answers, and reads the `ok` to each.
const PLUGIN: &str = r#"#!/bin/sh
machine=${1#--age-plugin=}
body=
while read -r arrow command rest; do
    case "$arrow $command" in
        "-> wrap-file-key") read -r body ;;
        "-> recipient-stanza") read -r line; [ "$rest" = "0 warptest" ] && body=$line ;;
        "-> done") read -r empty; break ;;
        *) ;;
    esac
done
if [ "$machine" = recipient-v1 ]; then
    printf -- '-> recipient-stanza 0 warptest\n%s\n' "$body"
    read -r reply; read -r empty
elif [ -n "$body" ]; then
    printf -- '-> file-key 0\n%s\n' "$body"
    read -r reply; read -r empty
fi
printf -- '-> done\n\n'
"#;

/// Bech32 of nothing, with the plugin's prefix.
const PLUGIN_RECIPIENT: &str = "age1warptest139jhp4";

/// Runs `inner` with the plugin in PATH, which only a new process can be given.
#[test]
fn a_plugin_wraps_and_unwraps() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("age-plugin-warptest");
    std::fs::write(&program, PLUGIN).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!(
        "{}:{}",
        dir.path().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "plugin::inner", "--ignored", "--nocapture"])
        .env("PATH", path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[test]
#[ignore = "needs the plugin in PATH: a_plugin_wraps_and_unwraps runs it"]
fn inner() {
    let identity = age::plugin::Identity::default_for_plugin("warptest")
        .unwrap()
        .to_string();
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities.add("token", identity.as_bytes()).unwrap();

    // For the identity itself, and for the plugin's recipient next to an ordinary one.
    let mut itself = Recipients::new(Arc::new(NoPrompt));
    itself.add_identities(&identities).unwrap();
    let other = NewIdentity::generate().recipient();
    let both = recipients(&[PLUGIN_RECIPIENT, &other]);
    for (recipients, kinds) in [(itself, 1), (both, 2)] {
        let wrapped = wrap(&known_key(), &recipients).unwrap();
        let found = inspect_wrapped(&wrapped).unwrap();
        assert_eq!(found.len(), kinds);
        assert!(found.contains(&StanzaKind::Other("warptest".into())));
        assert_eq!(unwrap(&wrapped, &identities).unwrap(), known_key());
    }
    // The plugin finds nothing of its own here.
    let wrapped = wrap(&known_key(), &recipients(&[&other])).unwrap();
    let error = unwrap(&wrapped, &identities).unwrap_err().to_string();
    assert!(error.contains("none of the identities"), "{error}");
}
