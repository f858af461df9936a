//! `warplock rewrap`.

use std::path::{Path, PathBuf};

use serde_json::json;
use warplock_container::{Rewrapped, rekey_file, rewrap_file};
use warplock_keyring::{Recipients, shown_name};

use super::inputs::{each, file_object, stdin_once};
use crate::args::{Common, Rewrap};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::is_dash;
use crate::keys::{Unlocker, given_recipients};
use crate::passphrase::PassphraseSource;
use crate::progress::Progress;

/// Rewraps each input.
pub(super) fn run(options: &Rewrap, common: &Common) -> Result<Exit> {
    let (dash, optional) = (|path: &PathBuf| is_dash(path), Option::as_ref);
    if options.input.iter().any(dash) {
        return Err(Failure::usage(
            "a file is changed, and stdin is none; name the file",
        ));
    }
    stdin_once(&[
        ("--identity", options.unlock.identity.iter().any(dash)),
        (
            "--passphrase-file",
            optional(&options.unlock.from.passphrase_file).is_some_and(dash),
        ),
        (
            "--recipients-file",
            options.recipients_file.iter().any(dash),
        ),
        (
            "--new-passphrase-file",
            optional(&options.new_from.new_passphrase_file).is_some_and(dash),
        ),
    ])?;
    let unlocker = Unlocker::for_envelopes(&options.unlock, common)?;
    let recipients = recipients(options, common)?;
    Ok(each(&options.input, common, file_object, |input| {
        let name = shown_name(input);
        rewrap(input, &name, options.rekey, &unlocker, &recipients, common)
            .map_err(|failure| failure.about(name))
    }))
}

fn recipients(options: &Rewrap, common: &Common) -> Result<Recipients> {
    let mut recipients = given_recipients(&options.recipient, &options.recipients_file, common)?;
    if options.new_passphrase || options.new_from.is_given() {
        let source = PassphraseSource::of_new(&options.new_from);
        recipients.add_passphrase(source.ask_new("passphrase")?)?;
    }
    match recipients.is_empty() {
        true => Err(Failure::usage(
            "name the keys that shall open it from now on: -r RECIPIENT or -R FILE, or \
             --new-passphrase",
        )),
        false => Ok(recipients),
    }
}

fn rewrap(
    input: &Path,
    name: &str,
    rekey: bool,
    unlocker: &Unlocker,
    recipients: &Recipients,
    common: &Common,
) -> Result<()> {
    let mut object = json!({"file": name, "rewrapped": true});
    if rekey {
        let pipeline = common.pipeline()?;
        let monitor = pipeline.monitor().clone();
        let total = input.metadata().ok().map(|found| found.len());
        // Each byte is read, and its plaintext again.
        let done = move || monitor.done() / 2;
        let progress = Progress::start(name, total, done, !common.quiet);
        let work = |identities: &_| rekey_file(input, identities, recipients, &pipeline);
        let content = unlocker.with_identities(name, work)?;
        drop(progress);
        object["content_bytes"] = content.into();
        common.note(format_args!(
            "{name}: encrypted again under a fresh key, {content} bytes of content"
        ));
    } else {
        let work = |identities: &_| rewrap_file(input, identities, recipients);
        let how = match unlocker.with_identities(name, work)? {
            Rewrapped::InPlace => "in place",
            Rewrapped::Cloned => "in a clone",
            Rewrapped::Copied => "in a copy",
        };
        common.note(format_args!("{name}: rewrapped {how}"));
    }
    match common.json {
        true => common.emit(&object),
        false => Ok(()),
    }
}
