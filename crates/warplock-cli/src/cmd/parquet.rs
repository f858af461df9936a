//! `warplock parquet`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::json;
use warplock::Engine;
use warplock_keyring::{Exposed, shown_name};
use warplock_parquet::{
    Encryption, Error, GivenKeys, Inspection, KeyBytes, Options, WriteKey, decrypt, encrypt,
    inspect,
};
use zeroize::Zeroizing;

use super::inputs::stdin_once;
use crate::args::{Common, Parquet, ParquetFiles, ParquetKeys};
use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped};
use crate::hex;
use crate::input::{Input, input_name, is_dash};
use crate::output::{Output, distinct};

/// Runs the command.
pub(super) fn run(command: Parquet, common: &Common) -> Result<Exit> {
    match command {
        Parquet::Decrypt { files, keys } => {
            keys_use_stdin(&files, &keys)?;
            let mut given = GivenKeys {
                footer: footer(&keys, common)?,
                columns: columns(&keys, common)?,
            };
            let aad_prefix = keys.aad_prefix.clone().map(String::into_bytes);
            let options = Options { aad_prefix };
            convert(
                &files,
                &keys,
                "decrypted",
                common,
                |input, output, engine| decrypt(input, output, &mut given, &options, engine),
            )
        }
        Parquet::Encrypt {
            files,
            keys,
            ctr,
            plaintext_footer,
            omit_aad_prefix,
        } => {
            keys_use_stdin(&files, &keys)?;
            let key = |bytes| WriteKey {
                bytes,
                metadata: None,
            };
            let missing = || Failure::usage("name the key that encrypts the footer: -k FILE");
            let how = Encryption {
                footer: key(footer(&keys, common)?.ok_or_else(missing)?),
                columns: columns(&keys, common)?
                    .into_iter()
                    .map(|(column, bytes)| (column, key(bytes)))
                    .collect(),
                ctr,
                plaintext_footer,
                aad_prefix: keys.aad_prefix.clone().map(String::into_bytes),
                omit_aad_prefix,
            };
            convert(
                &files,
                &keys,
                "encrypted",
                common,
                |input, output, engine| encrypt(input, output, &how, engine),
            )
        }
        Parquet::Inspect { input } => show(&input, common),
    }
}

fn convert(
    files: &ParquetFiles,
    keys: &ParquetKeys,
    what: &str,
    common: &Common,
    work: impl FnOnce(&File, &File, &Engine) -> warplock_parquet::Result<u64>,
) -> Result<Exit> {
    let input = seekable(&files.input)?;
    let columns = keys.column_key.iter().map(|(_, file)| file);
    let key_files = keys.key_file.iter().chain(columns);
    distinct([&*files.output], key_files.map(PathBuf::as_path))?;
    let output = Output::create(&files.output, files.force, Some(&input))?;
    let name = output.name.clone();
    let written = work(&input.file, output.file(), &common.engine()?).map_err(|error| {
        let about = match error {
            Error::Write(_) => name.clone(),
            _ => shown_name(&files.input),
        };
        Failure::from(error).about(about)
    })?;
    output.publish()?;
    common.note(format_args!("{name}: {what}, {written} bytes"));
    if common.json {
        let file = shown_name(&files.input);
        common.emit(&json!({ "file": file, "output": name, "bytes": written }))?;
    }
    Ok(Exit::Done)
}

fn seekable(path: &Path) -> Result<Input> {
    let input = Input::open(path)?;
    match input.len {
        Some(_) => Ok(input),
        None => Err(Failure::usage(
            "a Parquet file is read from its end: name a file that can be read at any place",
        )
        .about(shown_name(path))),
    }
}

/// Refuses to read several things from standard input.
fn keys_use_stdin(files: &ParquetFiles, keys: &ParquetKeys) -> Result<()> {
    let mut uses = vec![
        ("the input", is_dash(&files.input)),
        ("--key-file", keys.key_file.as_deref().is_some_and(is_dash)),
    ];
    let columns = keys.column_key.iter();
    uses.extend(columns.map(|(_, file)| ("--column-key", is_dash(file))));
    stdin_once(&uses)
}

fn footer(keys: &ParquetKeys, common: &Common) -> Result<Option<KeyBytes>> {
    let path = keys.key_file.as_deref();
    path.map(|path| read_key(path, common)).transpose()
}

fn columns(keys: &ParquetKeys, common: &Common) -> Result<BTreeMap<String, KeyBytes>> {
    let mut found = BTreeMap::new();
    for (column, file) in &keys.column_key {
        if found
            .insert(column.clone(), read_key(file, common)?)
            .is_some()
        {
            return Err(Failure::usage(format_args!(
                "--column-key: column '{column}' has two keys; give it one"
            )));
        }
    }
    Ok(found)
}

/// A key of 16, 24 or 32 bytes; as hex digits, if the file has as many for one.
fn read_key(path: &Path, common: &Common) -> Result<KeyBytes> {
    let about = |failure: Failure| failure.about(input_name(path));
    // Room for all of it: growing would leave copies in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(128));
    let file = Input::open(path)?.file;
    if !is_dash(path) {
        common.warn_exposed(&Exposed::of(path, &file));
    }
    file.take(100)
        .read_to_end(&mut bytes)
        .map_err(|error| about(Failure::io("cannot read", &error)))?;
    if let Ok(text) = std::str::from_utf8(&bytes) {
        let digits = text.trim_end();
        if matches!(digits.len(), 32 | 48 | 64)
            && let Ok(key) = hex::decode(digits)
        {
            return Ok(key);
        }
    }
    match bytes.len() {
        16 | 24 | 32 => Ok(bytes),
        _ => Err(about(Failure::error(
            "is no Parquet key: that is 16, 24 or 32 bytes, or twice as many hex digits",
        ))),
    }
}

fn show(path: &Path, common: &Common) -> Result<Exit> {
    let name = shown_name(path);
    let found = match inspect(&seekable(path)?.file) {
        Ok(found) => Some(found),
        Err(Error::NotEncrypted) => None,
        Err(error) => return Err(Failure::from(error).about(name)),
    };
    if common.json {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let told = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(text);
        common.emit(&match &found {
            None => json!({ "file": name, "encrypted": false }),
            Some(found) => json!({
                "file": name,
                "encrypted": true,
                "algorithm": found.algorithm,
                "encrypted_footer": found.encrypted_footer,
                "aad_prefix": told(&found.aad_prefix),
                "needs_aad_prefix": found.needs_aad_prefix,
                "key_metadata": told(&found.key_metadata),
            }),
        })?;
    } else {
        crate::console::print(&match &found {
            None => format!("{name}: not encrypted\n"),
            Some(found) => describe(&name, found),
        })?;
    }
    Ok(Exit::Done)
}

fn describe(name: &str, found: &Inspection) -> String {
    let text = |bytes: &[u8]| escaped(&String::from_utf8_lossy(bytes));
    let footer = match found.encrypted_footer {
        true => "encrypted",
        false => "readable, and signed",
    };
    let prefix = match (&found.aad_prefix, found.needs_aad_prefix) {
        (Some(prefix), _) => text(prefix),
        (None, true) => "one that is not stored: give it".to_owned(),
        (None, false) => "none".to_owned(),
    };
    let key = match &found.key_metadata {
        Some(metadata) => text(metadata),
        None => "nothing is stored that tells which".to_owned(),
    };
    format!(
        "{name}: encrypted with {}\nfooter: {footer}\nAAD prefix: {prefix}\nfooter key: {key}\n",
        found.algorithm
    )
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Footer | Error::AadPrefix(_) => Failure::wrong_key(error),
            Error::NoKey { .. } => Failure::wrong_key(error).coded("no_key"),
            Error::Changed(_) => Failure::authentication(error),
            Error::Read(error) => Failure::io("cannot read", &error),
            Error::Write(error) => Failure::writing(&error),
            error => Failure::error(error),
        }
    }
}
