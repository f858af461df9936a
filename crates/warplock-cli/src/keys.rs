//! From the key options of a command to the keys of files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warplock_container::{self as container, Envelope, InputKey, Source};
use warplock_keyring::{
    AskPassphrase, Error, FileAttributes, Identities, MasterKey, Recipients, SecretString,
    Terminal, attributes, read_key_file, shown_name, unwrap, wrap_with,
};

use crate::advice;
use crate::args::{Common, Encrypt, MaxWork, PassphraseFrom, Unlock, UnlockEnvelope};
use crate::failure::{Failure, Result, escaped};
use crate::passphrase::PassphraseSource;

/// The keys that files are encrypted with.
pub(crate) enum Lock {
    /// The same key for all of them, kept elsewhere: bare streams.
    KeyFile(InputKey),
    /// A random key for each, wrapped in its envelope.
    Recipients(Recipients),
}

impl Lock {
    /// Gathers recipients, asks for a passphrase, or reads the key file.
    pub(crate) fn new(options: &Encrypt, common: &Common) -> Result<Self> {
        if let Some(path) = &options.key_file {
            return Ok(Lock::KeyFile(key_from_file(path, common)?));
        }
        let mut recipients =
            given_recipients(&options.recipient, &options.recipients_file, common)?;
        let source = Arc::new(PassphraseSource::of(&options.from));
        if !options.identity.is_empty() {
            let files = &options.identity;
            let identities = read_identities(files, source.clone(), options.work, common)?;
            if options.from.is_given() && !identities.have_passphrase() {
                return Err(Failure::usage(
                    "the identity files have no passphrase, and a file is encrypted either for \
                     identities or with a passphrase: leave out one of the two",
                ));
            }
            recipients.add_identities(&identities)?;
        } else if options.passphrase || options.from.is_given() {
            recipients.add_passphrase(source.ask_new("passphrase")?)?;
        }
        if recipients.is_empty() {
            return Err(Failure::usage(
                "name the keys that shall open it: -r RECIPIENT, -R FILE or -i IDENTITY, -p for a \
                 passphrase, or --key-file FILE (`warplock keygen` makes keys)",
            ));
        }
        Ok(Lock::Recipients(recipients))
    }

    /// The key for one file, and the envelope that goes in front of its stream.
    /// That keeps the file's attributes, if there are any and there is place for them.
    pub(crate) fn key(
        &self,
        attributes: Option<&FileAttributes>,
    ) -> Result<(InputKeyRef<'_>, Option<Envelope>)> {
        match self {
            Lock::KeyFile(key) => Ok((InputKeyRef::Shared(key), None)),
            Lock::Recipients(recipients) => {
                let key = MasterKey::generate()?;
                let envelope = Envelope::new(wrap_with(&key, recipients, attributes)?)?;
                Ok((InputKeyRef::Own(InputKey::from(&key)), Some(envelope)))
            }
        }
    }
}

/// A key of this file alone, or one that all files share.
pub(crate) enum InputKeyRef<'a> {
    Own(InputKey),
    Shared(&'a InputKey),
}

impl std::ops::Deref for InputKeyRef<'_> {
    type Target = InputKey;

    fn deref(&self) -> &InputKey {
        match self {
            InputKeyRef::Own(key) => key,
            InputKeyRef::Shared(key) => key,
        }
    }
}

/// The keys that open files.
pub(crate) enum Unlocker {
    KeyFile(InputKey),
    Identities {
        identities: Identities,
        prompt: Arc<FilePrompt>,
        /// Without any key option, a passphrase is asked for if a file needs one.
        nothing_given: bool,
    },
}

impl Unlocker {
    /// Reads the identities or the key file. Passphrases are asked for only when needed.
    pub(crate) fn new(options: &Unlock, common: &Common) -> Result<Self> {
        if let Some(path) = &options.key_file {
            return Ok(Unlocker::KeyFile(key_from_file(path, common)?));
        }
        let (from, asks) = (&options.from, options.passphrase);
        Unlocker::of(&options.identity, from, asks, options.work, common)
    }

    /// Reads the identities that open an envelope.
    pub(crate) fn for_envelopes(options: &UnlockEnvelope, common: &Common) -> Result<Self> {
        let (from, asks) = (&options.from, options.passphrase);
        Unlocker::of(&options.identity, from, asks, options.work, common)
    }

    fn of(
        files: &[PathBuf],
        from: &PassphraseFrom,
        asks: bool,
        work: MaxWork,
        common: &Common,
    ) -> Result<Self> {
        let prompt = Arc::new(FilePrompt::new(PassphraseSource::of(from)));
        let passphrase = asks || from.is_given();
        let nothing_given = !passphrase && files.is_empty();
        let mut identities = read_identities(files, prompt.clone(), work, common)?;
        if passphrase || nothing_given {
            identities.add_passphrase();
        }
        Ok(Unlocker::Identities {
            identities,
            prompt,
            nothing_given,
        })
    }

    /// The key of the file called `name`; reads the envelope from `source`, if there must be one.
    /// With the attributes in there.
    pub(crate) fn key(
        &self,
        name: &str,
        source: &mut Source<'_>,
    ) -> Result<(InputKeyRef<'_>, Option<FileAttributes>)> {
        match self {
            Unlocker::KeyFile(key) => Ok((InputKeyRef::Shared(key), None)),
            Unlocker::Identities {
                identities,
                prompt,
                nothing_given,
            } => {
                let envelope = Envelope::read(source)?;
                let unwrapped = offering(prompt, name, || {
                    unwrap(envelope.wrapped(), identities).map_err(container::Error::from)
                });
                match unwrapped {
                    Ok(key) => {
                        let attributes = attributes(envelope.wrapped(), &key)?;
                        Ok((InputKeyRef::Own(InputKey::from(&key)), attributes))
                    }
                    Err(error) => Err(refused(error, prompt, *nothing_given)),
                }
            }
        }
    }

    /// The failure to open a stream. Where the key comes from the file's own envelope, it is the right
    /// one.
    pub(crate) fn blame(&self, failure: Failure) -> Failure {
        match self {
            Unlocker::Identities { .. } => failure.with_right_key(),
            Unlocker::KeyFile(_) => failure,
        }
    }

    /// Does `work` on the file called `name` with the identities.
    pub(crate) fn with_identities<T>(
        &self,
        name: &str,
        work: impl Fn(&Identities) -> container::Result<T>,
    ) -> Result<T> {
        let Unlocker::Identities {
            identities,
            prompt,
            nothing_given,
        } = self
        else {
            return Err(Failure::usage("a key file opens no envelope"));
        };
        offering(prompt, name, || work(identities))
            .map_err(|error| self.blame(refused(error, prompt, *nothing_given)))
    }
}

/// Does `work` on the file called `name`, and again if another file's passphrase did not fit.
fn offering<T>(
    prompt: &FilePrompt,
    name: &str,
    work: impl Fn() -> container::Result<T>,
) -> container::Result<T> {
    prompt.next_file(name);
    let done = work();
    let wrong = |error: &container::Error| {
        matches!(
            error,
            container::Error::Keyring(Error::WrongPassphrase { .. })
        )
    };
    // Another file's passphrase says nothing about this one's.
    if done.as_ref().is_err_and(wrong) && prompt.was_reused() {
        prompt.forget();
        return work();
    }
    done
}

fn refused(error: container::Error, prompt: &FilePrompt, nothing_given: bool) -> Failure {
    match error {
        container::Error::Keyring(Error::NoMatch {
            wanted,
            had_identities,
            ..
        }) if nothing_given => {
            // A passphrase was only offered in case that the file needs one.
            let error = Error::NoMatch {
                wanted,
                had_identities,
                had_passphrase: false,
            };
            let advice = advice::keyring(&error);
            Failure::usage(format_args!("{error}{advice}"))
        }
        error => {
            prompt.forget();
            error.into()
        }
    }
}

/// The recipients that are named on the command line.
pub(crate) fn given_recipients(
    named: &[String],
    files: &[PathBuf],
    common: &Common,
) -> Result<Recipients> {
    let mut recipients = Recipients::new(Arc::new(Terminal));
    recipients.skip_unusable_keys();
    for recipient in named {
        recipients
            .add(recipient)
            .map_err(|error| match Path::new(recipient).is_file() {
                true => Failure::usage(format_args!(
                    "{} is a file, not a recipient: give it with -R, or with -i if it holds an \
                     identity",
                    shown_name(Path::new(recipient))
                )),
                false => Failure::usage(error),
            })?;
    }
    for file in files {
        recipients.add_file(file)?;
    }
    recipients.skipped().iter().for_each(|key| common.warn(key));
    Ok(recipients)
}

fn key_from_file(path: &Path, common: &Common) -> Result<InputKey> {
    let file = read_key_file(path)?;
    common.warn_exposed(&file.exposed);
    Ok(InputKey::from(&file.key))
}

pub(crate) fn read_identities(
    files: &[PathBuf],
    prompt: Arc<dyn AskPassphrase>,
    work: MaxWork,
    common: &Common,
) -> Result<Identities> {
    let mut identities = Identities::new(prompt);
    if let Some(log_n) = work.max_work {
        identities.accept_work(log_n);
    }
    for file in files {
        identities.add_file(file)?;
    }
    common.warn_exposed(identities.exposed());
    Ok(identities)
}

/// Asks for the passphrase of a file by the file's name, and offers one that was right to the
/// next files too.
pub(crate) struct FilePrompt {
    inner: Box<dyn AskPassphrase>,
    state: Mutex<PromptState>,
}

#[derive(Default)]
struct PromptState {
    file: String,
    known: Option<SecretString>,
    /// The known passphrase was offered to the current file, without a prompt.
    reused: bool,
}

/// The keyring's name for the key of a file in a prompt.
const WRAPPED_KEY: &str = "the wrapped key";

impl FilePrompt {
    pub(crate) fn new(inner: impl AskPassphrase + 'static) -> Self {
        FilePrompt {
            inner: Box::new(inner),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, PromptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next_file(&self, name: &str) {
        let mut state = self.state();
        state.file = escaped(name);
        state.reused = false;
    }

    fn was_reused(&self) -> bool {
        self.state().reused
    }

    fn forget(&self) {
        self.state().known = None;
    }
}

impl AskPassphrase for FilePrompt {
    fn ask(&self, what: &str) -> warplock_keyring::Result<SecretString> {
        let Some(what) = what.strip_suffix(WRAPPED_KEY) else {
            return self.inner.ask(what);
        };
        let mut state = self.state();
        if let Some(known) = state.known.clone() {
            state.reused = true;
            return Ok(known);
        }
        let passphrase = self.inner.ask(&format!("{what}{}", state.file))?;
        state.known = Some(passphrase.clone());
        Ok(passphrase)
    }

    fn ask_new(&self, what: &str) -> warplock_keyring::Result<SecretString> {
        self.inner.ask_new(what)
    }

    fn show(&self, message: &str) {
        self.inner.show(message);
    }

    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        match message.strip_prefix(WRAPPED_KEY) {
            Some(rest) => {
                let message = format!("{}{rest}", self.state().file);
                self.inner.confirm(&message, yes, no)
            }
            None => self.inner.confirm(message, yes, no),
        }
    }

    fn ask_public(&self, message: &str) -> Option<String> {
        self.inner.ask_public(message)
    }
}

#[cfg(test)]
mod tests {
    use warplock_keyring::wrap;

    use super::*;

    /// The beginning of a file that this passphrase opens.
    fn file(passphrase: &str) -> Vec<u8> {
        let mut recipients = Recipients::new(Arc::new(Terminal));
        let passphrase = SecretString::from(passphrase.to_owned());
        recipients.add_passphrase(passphrase).unwrap();
        recipients.set_work_factor(1);
        let wrapped = wrap(&MasterKey::generate().unwrap(), &recipients).unwrap();
        let mut bytes = Vec::new();
        let envelope = Envelope::new(wrapped).unwrap();
        envelope.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_passphrase_is_kept_for_the_next_files_while_it_fits() {
        let answers = [
            ("a", "one"),
            ("b", "two"),
            ("wrong", "mistyped"),
            ("c", "one"),
        ];
        let asked = Arc::new(Mutex::new(Vec::new()));
        let person = {
            let asked = asked.clone();
            move |what: &str| {
                let mut asked = asked.lock().unwrap();
                let (name, answer) = answers[asked.len()];
                assert_eq!(what, format!("passphrase for {name}"));
                asked.push(name);
                Ok(SecretString::from(answer.to_owned()))
            }
        };
        let prompt = Arc::new(FilePrompt::new(person));
        let mut identities = Identities::new(prompt.clone());
        identities.add_passphrase();
        let unlocker = Unlocker::Identities {
            identities,
            prompt,
            nothing_given: true,
        };
        for (name, passphrase, opens, asks) in [
            ("a", "one", true, 1),
            ("a too", "one", true, 1),
            ("b", "two", true, 2),
            ("b too", "two", true, 2),
            // A mistyped passphrase is reported, and not asked for again.
            ("wrong", "three", false, 3),
            ("c", "one", true, 4),
        ] {
            let bytes = file(passphrase);
            let key = unlocker.key(name, &mut Source::bytes(&bytes));
            assert_eq!(key.is_ok(), opens, "{name}");
            assert_eq!(asked.lock().unwrap().len(), asks, "{name}");
        }
    }
}
