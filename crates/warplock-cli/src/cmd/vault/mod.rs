//! `warplock vault`: encrypted folders.

mod background;
mod check;
mod keys;
mod list;
mod log;
mod memory;
mod mount;
mod notices;
mod notify;
mod recovery;
mod unmount;

use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use warplock_keyring::{MasterKey, shown_name};
use warplock_vault::fuse::mounted_from;
use warplock_vault::{
    BLOCK_SIZES, CONFIG, Settings, Unlocked, harden, info, init, raise_descriptor_limit,
};

use self::keys::{given_recipients, opener, recipients};
use crate::advice;
use crate::args::{
    Common, NewPassphraseFrom, Vault, VaultInfo, VaultInit, VaultMemory, VaultUnlock,
};
use crate::console::{print, say};
use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped, without_numbers};
use crate::keys::{FilePrompt, read_identities};
use crate::passphrase::{NEW_VARIABLE, PassphraseSource, VARIABLE};

/// Runs one of the commands.
pub(super) fn run(command: Vault, common: &Common) -> Result<Exit> {
    match harden() {
        Ok(true) => {}
        Ok(false) => common.note(
            "memory cannot be locked: if this machine swaps, keys may reach the disk; use \
             encrypted swap, or `ulimit -l unlimited`",
        ),
        Err(error) => return Err(Failure::io("cannot forbid core dumps", &error)),
    }
    raise_descriptor_limit();
    match command {
        Vault::Init(options) => make(&options, common),
        Vault::Mount(options) => mount::run(&options, common),
        Vault::Unmount(options) => unmount::run(&options, common),
        Vault::List(options) => list::run(&options, common),
        Vault::Passwd(options) => keys::passwd(&options, common),
        Vault::Key(command) => keys::key(command, common),
        Vault::ExportKey(options) => recovery::export(&options, common),
        Vault::Recover(options) => recovery::recover(&options, common),
        Vault::Check(options) => check::run(&options, common),
        Vault::Info(options) => show(&options, common),
        Vault::Memory(command) => memory::run(command, common),
    }
}

/// The first fields of a failed command's JSON object.
pub(super) fn subject(command: &Vault) -> Value {
    let of = |name: &str, path: &Path| json!({ name: shown_name(path) });
    match command {
        Vault::Init(options) => of("vault", &options.dir),
        Vault::Mount(options) => of("vault", &options.dir),
        Vault::Unmount(options) => of("mount_point", &options.point),
        Vault::List(_) => json!({}),
        Vault::Passwd(options) => of("vault", &options.dir),
        Vault::Key(command) => of("vault", command.dir()),
        Vault::ExportKey(options) => of("vault", &options.dir),
        Vault::Recover(options) => of("vault", &options.dir),
        Vault::Check(options) => {
            let mut object = of("vault", &options.dir);
            object["type"] = "error".into();
            object
        }
        Vault::Info(options) => of("vault", &options.dir),
        Vault::Memory(command) => of(
            "vault",
            match command {
                VaultMemory::Info(options) => &options.dir,
                VaultMemory::Accept(options) => &options.dir,
                VaultMemory::Forget(options) => &options.dir,
            },
        ),
    }
}

fn make(options: &VaultInit, common: &Common) -> Result<Exit> {
    let dir = &options.dir;
    let named = |failure: Failure| failure.about(dir.display());
    let settings = Settings {
        algorithm: options
            .algorithm
            .parse()
            .expect("the parser lets only these names through"),
        block_size: u32::try_from(options.block_size).unwrap_or(u32::MAX),
    };
    let keys = options.new_key();
    let memory = memory::place(&options.memory, common)?;
    check_new(dir, &settings).map_err(named)?;
    // Asked for before anything is made.
    let given = given_recipients(&keys, common)?;
    let source = first_passphrase(&keys.new_from);
    let recipients = recipients(given, &source, common)?;
    let made = match fs::create_dir(dir) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(named(Failure::io("cannot make the folder", &error))),
    };
    let undo = |failure: Failure| {
        if made {
            let _ = fs::remove_dir(dir);
        }
        named(failure)
    };
    memory::refuse_in(memory.as_deref(), dir, "the vault's store").map_err(undo)?;
    let master =
        init(dir, &settings, &options.name, &recipients).map_err(|error| undo(error.into()))?;
    // From the first moment on, no other can take its place.
    memory::begin(dir, &master, memory, common)
        .map_err(|failure| named(failure.advise("the vault was made, and its key opens it")))?;
    common.note(format_args!(
        "{}: a vault with {} and blocks of {} bytes",
        dir.display(),
        settings.algorithm,
        settings.block_size
    ));
    if common.json {
        common.emit(&json!({
            "vault": dir.display().to_string(),
            "algorithm": settings.algorithm.name(),
            "block_size": settings.block_size,
        }))?;
    }
    Ok(Exit::Done)
}

/// Refuses what can be refused before the prompt for a passphrase.
fn check_new(dir: &Path, settings: &Settings) -> Result<()> {
    if !BLOCK_SIZES.contains(&settings.block_size) {
        return Err(Failure::usage(format_args!(
            "blocks of {} bytes do not exist; choose 4KiB, 16KiB, 64KiB or 1MiB",
            settings.block_size
        )));
    }
    match fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::usage(
            "the folder for the new vault is not empty; name an empty one",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match parent(dir).is_dir() {
            true => Ok(()),
            false => Err(Failure::error(
                "cannot make the folder, as the one above it does not exist; make that first",
            )),
        },
        Err(error) => Err(Failure::io("cannot make a vault here", &error)),
    }
}

/// The folder above.
fn parent(dir: &Path) -> &Path {
    match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => dir,
    }
}

fn show(options: &VaultInfo, common: &Common) -> Result<Exit> {
    let dir = options.dir.display();
    let info = info(&options.dir).map_err(|error| Failure::from(error).about(&dir))?;
    if common.json {
        let keys = info.keys.iter().map(|(name, stanzas)| {
            let kinds: Vec<_> = stanzas.iter().map(ToString::to_string).collect();
            json!({ "name": name, "opens_with": kinds })
        });
        let object = json!({
            "vault": options.dir.display().to_string(),
            "format": info.format,
            "id": info.id,
            "algorithm": info.algorithm.name(),
            "block_size": info.block_size,
            "keys": keys.collect::<Vec<_>>(),
        });
        common.emit(&object)?;
        return Ok(Exit::Done);
    }
    let mut text = format!(
        "{}\n  format      {}\n  id          {}\n  contents    {}, blocks of {} bytes\n",
        escaped(&dir.to_string()),
        info.format,
        escaped(&info.id),
        info.algorithm,
        info.block_size
    );
    for (name, stanzas) in &info.keys {
        let (name, opener) = (escaped(name), opener(stanzas));
        text.push_str(&format!("  key         {name}: opens with {opener}\n"));
    }
    print(&text)?;
    Ok(Exit::Done)
}

/// Why a vault cannot be opened; where it is mounted, with the mount point.
fn in_use(store: &Path, error: warplock_vault::Error) -> Failure {
    let mounted = match (&error, fs::canonicalize(store)) {
        (warplock_vault::Error::Locked { .. }, Ok(store)) => mounted_from(store.as_os_str()),
        _ => Ok(None),
    };
    match mounted {
        Ok(Some(mounted)) => Failure::error(format_args!(
            "the vault is in use: it is mounted at {0}; unmount it first (`warplock vault unmount \
             {0}`)",
            mounted.point.display()
        ))
        .coded("in_use"),
        _ => error.into(),
    }
}

/// Refuses a vault that is open elsewhere.
fn refuse_used(dir: &Path, read_only: bool) -> Result<()> {
    warplock_vault::Vault::check_unused(dir, read_only)
        .map_err(|error| in_use(dir, error).about(dir.display()))
}

/// The vault's master key, and a report of what was done to wrapped keys.
fn unlock(dir: &Path, options: &VaultUnlock, common: &Common) -> Result<Unlocked> {
    let prompt = Arc::new(FilePrompt::new(PassphraseSource::of(&options.from)));
    prompt.next_file(&dir.display().to_string());
    let mut identities = read_identities(&options.identity, prompt, options.work, common)?;
    if options.identity.is_empty() || options.from.is_given() {
        identities.add_passphrase();
    }
    warplock_vault::unlock(dir, &identities).map_err(|error| {
        let wrong_key = matches!(error, warplock_vault::Error::Keyring(_));
        let failure = match error {
            warplock_vault::Error::Keyring(error) => {
                let advice = advice::vault_keyring(&error);
                Failure::of_keyring(error, &advice)
            }
            error => Failure::from(error),
        };
        let failure = match openers(dir).filter(|_| wrong_key) {
            Some(openers) => failure.advise(format_args!("the vault opens with {openers}")),
            None => failure,
        };
        failure.about(dir.display())
    })
}

/// What opens a vault that has several keys: an error says what is wrong with one of them.
fn openers(dir: &Path) -> Option<String> {
    let keys = info(dir).ok()?.keys;
    let openers = keys.iter().map(|(name, stanzas)| {
        let (name, opener) = (escaped(name), opener(stanzas));
        format!("{opener} (its key '{name}')")
    });
    let openers: Vec<_> = openers.collect();
    (openers.len() > 1).then(|| openers.join(", or "))
}

/// The vault's master key. Prints what was done to wrapped keys.
fn master_key(dir: &Path, options: &VaultUnlock, common: &Common) -> Result<MasterKey> {
    let unlocked = unlock(dir, options, common)?;
    for sentence in &unlocked.altered {
        say(format_args!(
            "warplock: {}: {CONFIG} was altered: {sentence}",
            dir.display()
        ));
    }
    Ok(unlocked.master)
}

/// The source of a vault's first passphrase: as there is no other, the variable for one may be meant.
fn first_passphrase(options: &NewPassphraseFrom) -> PassphraseSource {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    match !options.is_given() && !is_set(NEW_VARIABLE) && is_set(VARIABLE) {
        true => PassphraseSource::Variable(VARIABLE),
        false => PassphraseSource::of_new(options),
    }
}

/// A sentence of the system or a library as one line for people.
fn one_line(sentence: &str) -> String {
    escaped(&without_numbers(sentence.to_owned()))
}

impl From<warplock_vault::Error> for Failure {
    fn from(error: warplock_vault::Error) -> Self {
        use warplock_vault::{Error, ErrorKind};
        match (error.kind(), error) {
            (_, Error::Engine(error)) => error.into(),
            (_, Error::Keyring(error)) => error.into(),
            (_, error @ Error::Locked { .. }) => Failure::error(error).coded("in_use"),
            (ErrorKind::Authentication, error) => Failure::authentication(error).coded("altered"),
            (ErrorKind::Usage, error) => Failure::usage(error),
            (ErrorKind::Failure, error) => Failure::error(error),
        }
    }
}

impl From<warplock_vault::fuse::Error> for Failure {
    fn from(error: warplock_vault::fuse::Error) -> Self {
        Failure::error(error)
    }
}
