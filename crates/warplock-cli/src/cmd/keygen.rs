//! `warplock keygen`: identities as age-keygen makes them, and key files.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use warplock_keyring::{
    Error, MasterKey, NewIdentity, Terminal, write_key_file, write_secret_file,
};
use zeroize::Zeroizing;

use super::{print, say};
use crate::args::{Common, Keygen};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Input, is_dash};
use crate::keys::read_identities;
use crate::output::{Output, exists};

/// Makes a key and prints or writes it.
pub(super) fn run(options: &Keygen, common: &Common) -> Result<Exit> {
    let output = options.output.as_deref().filter(|path| !is_dash(path));
    if let Some(identity) = &options.recipients_of {
        recipients(identity, output, options, common)?;
    } else if options.raw_key {
        let key = MasterKey::generate()?;
        match output {
            Some(path) => write_key_file(path, &key, options.force).map_err(hint(path, options))?,
            None => {
                let hex = hex_digits(key.as_bytes());
                let (before, after) = match common.json {
                    true => ("{\"key\":\"", "\"}\n"),
                    false => ("", "\n"),
                };
                print_secret(&[before, &hex, after])?;
            }
        }
    } else {
        identity(output, options, common)?;
    }
    Ok(Exit::Done)
}

fn identity(output: Option<&Path>, options: &Keygen, common: &Common) -> Result<()> {
    let identity = NewIdentity::generate();
    let (text, recipient) = (identity.file_text(), identity.recipient());
    match output {
        Some(path) => {
            write_secret_file(path, text.as_bytes(), options.force).map_err(hint(path, options))?
        }
        None if common.json => {
            let secret = text.lines().last().unwrap_or_default();
            return print_secret(&[
                "{\"identity\":\"",
                secret,
                "\",\"recipient\":\"",
                &recipient,
                "\"}\n",
            ]);
        }
        None => print(&text)?,
    }
    if common.json {
        print(&format!("{}\n", json!({ "recipient": recipient })))
    } else {
        // On a terminal it can be seen already.
        if !common.quiet && (output.is_some() || !io::stdout().is_terminal()) {
            say(format_args!("Public key: {recipient}"));
        }
        Ok(())
    }
}

/// Says what to do about a file that is there already.
fn hint<'a>(path: &'a Path, options: &'a Keygen) -> impl Fn(Error) -> Failure + 'a {
    move |error| match &error {
        Error::Io { source, .. }
            if source.kind() == io::ErrorKind::AlreadyExists && !options.force =>
        {
            exists().about(path.display())
        }
        _ => error.into(),
    }
}

/// Prints texts of letters and digits one behind the other; no copy of them is left.
fn print_secret(parts: &[&str]) -> Result<()> {
    // The exact size, so that no copy is left by a growing buffer.
    let len = parts.iter().map(|part| part.len()).sum();
    let mut line = Zeroizing::new(String::with_capacity(len));
    parts.iter().for_each(|part| line.push_str(part));
    print(&line)
}

/// Converts an identity file.
fn recipients(
    identity: &Path,
    output: Option<&Path>,
    options: &Keygen,
    common: &Common,
) -> Result<()> {
    let files = [identity.to_owned()];
    let identities = read_identities(&files, Arc::new(Terminal), options.work, common)?;
    let list = identities.recipients()?;
    let lines: String = match common.json {
        true => list
            .iter()
            .map(|one| format!("{}\n", json!({ "recipient": one })))
            .collect(),
        false => list.iter().map(|one| format!("{one}\n")).collect(),
    };
    let Some(path) = output else {
        return print(&lines);
    };
    // Not a pipe, which cannot be opened twice.
    let source = (is_dash(identity) || identity.is_file()).then(|| Input::open(identity));
    let output = Output::create(path, options.force, source.transpose()?.as_ref())?;
    let written = output.file().write_all(lines.as_bytes());
    written.map_err(|error| Failure::writing(&error).about(path.display()))?;
    output.publish()
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
