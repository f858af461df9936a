//! `warplock keygen`: identities as age-keygen makes them, and key files.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use warplock_keyring::{MasterKey, NewIdentity};
use zeroize::Zeroizing;

use super::inputs::stdin_once;
use crate::args::{Common, Keygen};
use crate::console::{print, say};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Input, is_dash};
use crate::keys::read_identities;
use crate::output::{Access, Output, distinct, is_stdout};
use crate::passphrase::PassphraseSource;
use crate::system;

/// Makes a key and prints or writes it.
pub(super) fn run(options: &Keygen, common: &Common) -> Result<Exit> {
    if let Some(identity) = &options.recipients_of {
        let file = options.from.passphrase_file.as_ref();
        stdin_once(&[
            ("the identity", is_dash(identity)),
            ("--passphrase-file", file.is_some_and(|file| is_dash(file))),
        ])?;
        recipients(identity, options, common)?;
        return Ok(Exit::Done);
    }
    let path = options.output.as_deref().unwrap_or(Path::new("-"));
    let output = Output::with_access(path, options.force, None, Access::Owner)?;
    // As JSON, standard output gets the key itself, a file the key that others read.
    let json_key = common.json && is_stdout(path);
    match options.raw_key || options.key_file {
        true => raw_key(output, json_key, common)?,
        false => identity(output, json_key, common)?,
    }
    Ok(Exit::Done)
}

fn raw_key(output: Output, json_key: bool, common: &Common) -> Result<()> {
    let key = MasterKey::generate()?;
    let hex = hex_digits(key.as_bytes());
    if json_key {
        return write_secret(output, &["{\"key\":\"", hex.as_str(), "\"}\n"], common);
    }
    let name = output.name.clone();
    write_secret(output, &[hex.as_str(), "\n"], common)?;
    match common.json {
        true => common.emit(&json!({ "output": name })),
        false => Ok(()),
    }
}

fn identity(output: Output, json_key: bool, common: &Common) -> Result<()> {
    let identity = NewIdentity::generate();
    let (text, recipient) = (identity.file_text(), identity.recipient());
    if json_key {
        let secret = text.lines().last().unwrap_or_default();
        let parts = [
            "{\"identity\":\"",
            secret,
            "\",\"recipient\":\"",
            &recipient,
        ];
        return write_secret(output, &[&parts[..], &["\"}\n"]].concat(), common);
    }
    let (name, seen) = (output.name.clone(), output.is_terminal());
    write_secret(output, &[text.as_str()], common)?;
    if common.json {
        return common.emit(&json!({ "recipient": recipient, "output": name }));
    }
    if !common.quiet && !seen {
        say(format_args!("Public key: {recipient}"));
    }
    Ok(())
}

/// Writes texts one after the other; no copy of them is left in memory.
fn write_secret(output: Output, parts: &[&str], common: &Common) -> Result<()> {
    let failed = |error: io::Error| Failure::writing(&error).about(&output.name);
    if let Some(mode) = system::mode_for_others(output.file()).map_err(failed)? {
        common.warn(format_args!(
            "{}: a secret key goes to a file that is open to other users (mode {mode:04o}); name a \
             file with -o, or chmod 600",
            output.name
        ));
    }
    // The exact size, so that no copy is left by a growing buffer.
    let len = parts.iter().map(|part| part.len()).sum();
    let mut text = Zeroizing::new(String::with_capacity(len));
    parts.iter().for_each(|part| text.push_str(part));
    output.file().write_all(text.as_bytes()).map_err(failed)?;
    output.publish()
}

/// Converts an identity file.
fn recipients(identity: &Path, options: &Keygen, common: &Common) -> Result<()> {
    let path = options.output.as_deref().filter(|path| !is_dash(path));
    let output = match path {
        None => None,
        // Before the prompt for the identity's passphrase.
        Some(path) => {
            let input = Input::check(identity)?;
            distinct([path], options.from.passphrase_file.as_deref())?;
            Some(Output::create(path, options.force, input.as_ref())?)
        }
    };
    let files = [identity.to_owned()];
    let prompt = Arc::new(PassphraseSource::of(&options.from));
    let identities = read_identities(&files, prompt, options.work, common)?;
    let list = identities.recipients()?;
    let lines: String = list.iter().map(|one| format!("{one}\n")).collect();
    let name = output.as_ref().map(|output| output.name.clone());
    if let Some(output) = output {
        let written = output.file().write_all(lines.as_bytes());
        written.map_err(|error| Failure::writing(&error).about(&output.name))?;
        output.publish()?;
    } else if !common.json {
        print(&lines)?;
    }
    if common.json {
        for recipient in &list {
            common.emit(&json!({ "recipient": recipient, "output": name }))?;
        }
    }
    Ok(())
}

/// The key as 64 hex digits.
fn hex_digits(key: &[u8; 32]) -> Zeroizing<String> {
    let digit = |value: u8| char::from_digit(value.into(), 16).expect("four bits are one digit");
    // The exact size, so that no copy is left by a growing buffer.
    let mut digits = Zeroizing::new(String::with_capacity(64));
    for byte in key {
        digits.push(digit(byte >> 4));
        digits.push(digit(byte & 15));
    }
    digits
}
