//! `warplock vault passwd` and `warplock vault key`: the keys that open a vault.

use serde_json::json;
use warplock_keyring::{Recipients, StanzaKind};
use warplock_vault::{add_key, info, remove_altered_keys, remove_key, replace_key};

use super::master_key;
use crate::args::{Common, NewKey, VaultKey, VaultPasswd};
use crate::cmd::inputs::stdin_once;
use crate::console::say;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::is_dash;
use crate::passphrase::PassphraseSource;

/// The same under names of their own.
pub(super) fn key(command: VaultKey, common: &Common) -> Result<Exit> {
    passwd(&command.into(), common)
}

pub(super) fn passwd(options: &VaultPasswd, common: &Common) -> Result<Exit> {
    let dash = |path: &Option<_>| path.as_deref().is_some_and(is_dash);
    stdin_once(&[
        (
            "--passphrase-file",
            dash(&options.unlock.from.passphrase_file),
        ),
        (
            "--new-passphrase-file",
            dash(&options.keys.new_from.new_passphrase_file),
        ),
    ])?;
    let dir = &options.dir;
    let named = |error: warplock_vault::Error| Failure::from(error).about(dir.display());
    let given = given_recipients(&options.keys, common)?;
    check_key_name(options)?;
    let master = master_key(dir, &options.unlock, common)?;
    let told = |sentence: String| {
        if !common.quiet {
            say(format_args!("warplock: {}: {sentence}", dir.display()));
        }
    };
    let done = |change: &str, name: &str| match common.json {
        true => common.emit(&json!({
            "vault": dir.display().to_string(),
            "key": name,
            "change": change,
        })),
        false => Ok(()),
    };
    if options.remove_altered {
        for name in remove_altered_keys(dir, &master).map_err(named)? {
            told(format!("removed the altered key '{name}'"));
            done("removed", &name)?;
        }
    } else if let Some(name) = &options.remove {
        let stanzas = remove_key(dir, &master, name).map_err(named)?;
        let opener = opener(&stanzas);
        told(format!(
            "removed the key '{name}', which opened with {opener}"
        ));
        done("removed", name)?;
    } else if let Some(name) = &options.add {
        let source = PassphraseSource::of_new(&options.keys.new_from);
        let recipients = recipients(given, &source, common)?;
        add_key(dir, &master, name, &recipients).map_err(named)?;
        done("added", name)?;
    } else {
        let name = &options.name;
        let source = PassphraseSource::of_new(&options.keys.new_from);
        let recipients = recipients(given, &source, common)?;
        let stanzas = replace_key(dir, &master, name, &recipients).map_err(named)?;
        let opener = opener(&stanzas);
        told(format!(
            "replaced the key '{name}', which opened with {opener}"
        ));
        done("replaced", name)?;
    }
    Ok(Exit::Done)
}

/// What opens a wrapped key, in words.
pub(super) fn opener(stanzas: &[StanzaKind]) -> String {
    let names: Vec<_> = stanzas.iter().map(ToString::to_string).collect();
    match stanzas {
        [] => "nothing, as it is damaged".into(),
        [StanzaKind::Scrypt { .. }] => "a passphrase".into(),
        _ => format!("an identity ({})", names.join(", ")),
    }
}

/// Refuses names of keys that do not exist, or exist already, before the prompt for a passphrase.
fn check_key_name(options: &VaultPasswd) -> Result<()> {
    let dir = options.dir.display();
    let found = info(&options.dir).map_err(|error| Failure::from(error).about(&dir))?;
    let names: Vec<_> = found.keys.iter().map(|(name, _)| &**name).collect();
    let refused = match (&options.add, &options.remove) {
        (Some(name), _) if names.contains(&&**name) => {
            format!("there is a key '{name}' already; choose another name, or replace it")
        }
        (Some(_), _) => return Ok(()),
        (None, None) if options.remove_altered => return Ok(()),
        (None, remove) => {
            let name = remove.as_ref().unwrap_or(&options.name);
            match names.contains(&&**name) {
                true if remove.is_some() && names.len() == 1 => {
                    "this is the vault's last key; add another one first".to_owned()
                }
                true => return Ok(()),
                false => format!(
                    "there is no key '{name}'; this vault's keys are called: {}",
                    names.join(", ")
                ),
            }
        }
    };
    Err(Failure::usage(refused).about(dir))
}

pub(super) fn given_recipients(options: &NewKey, common: &Common) -> Result<Recipients> {
    crate::keys::given_recipients(&options.recipient, &options.recipients_file, common)
}

/// The recipients of a vault's key: those given, or else a new passphrase.
pub(super) fn recipients(
    mut given: Recipients,
    source: &PassphraseSource,
    common: &Common,
) -> Result<Recipients> {
    if given.is_empty() {
        given.add_passphrase(source.ask_new("passphrase for the vault")?)?;
    }
    common.note("wrapping the key");
    Ok(given)
}
