//! Recipients, for whom a key is wrapped.

use std::path::Path;
use std::sync::Arc;

use age::plugin::RecipientPluginV1;
use age::secrecy::SecretString;
use age_core::format::Stanza;

use crate::age_error;
use crate::attributes::Annotated;
use crate::error::{Error, Result};
use crate::file;
use crate::header::MAX_STANZAS;
use crate::identity::Identities;
use crate::passphrase::{AskPassphrase, PluginPrompts};
use crate::ssh;
use crate::text::{normalized, utf8, without_mark};
use crate::work::{MAX_WORK, Work};
use crate::x25519;

/// The largest recipients file read, in bytes.
const MAX_RECIPIENTS_FILE: usize = 1024 * 1024;

/// log2 of the scrypt work for new passphrases: 2^17 takes 128 MiB and about half a second, the
/// first of OWASP's recommendations for scrypt (Password Storage Cheat Sheet), and keeps the whole
/// program under 200 MiB. Fixed: measuring this machine instead, as the age library would, lets a
/// busy machine choose too little.
const WORK: u8 = 17;

/// The recipients of a wrapped key: any number of them, or one passphrase.
pub struct Recipients {
    prompt: Arc<dyn AskPassphrase>,
    keys: Vec<Key>,
    plugins: Vec<age::plugin::Recipient>,
    texts: Vec<String>,
    passphrase: Option<SecretString>,
    work: u8,
    skips_unusable: bool,
    skipped: Vec<SkippedKey>,
}

/// One public key.
enum Key {
    Native(x25519::Recipient),
    Other(Box<dyn age::Recipient + Send>),
}

impl Key {
    fn as_recipient(&self) -> &dyn age::Recipient {
        match self {
            Key::Native(key) => key,
            Key::Other(key) => &**key,
        }
    }
}

/// A key in a list of recipients that cannot be encrypted for, and was left out.
///
/// `Display` is the warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedKey {
    /// The list.
    pub file: String,
    /// The line in it, from 1.
    pub line: usize,
    /// What is wrong with the key.
    pub why: String,
}

impl std::fmt::Display for SkippedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "recipients file {}, line {}: this key is left out: {}",
            self.file, self.line, self.why
        )
    }
}

impl Recipients {
    /// No recipients yet; `prompt` will answer questions of plugins.
    pub fn new(prompt: Arc<dyn AskPassphrase>) -> Self {
        Self {
            prompt,
            keys: Vec::new(),
            plugins: Vec::new(),
            texts: Vec::new(),
            passphrase: None,
            work: WORK,
            skips_unusable: false,
            skipped: Vec::new(),
        }
    }

    /// Leaves SSH keys out that cannot be encrypted for (ECDSA, keys on hardware, RSA keys that are
    /// too short) where a list names them among others, as the `age` program does; see
    /// [`skipped`](Self::skipped). Otherwise they are errors.
    pub fn skip_unusable_keys(&mut self) {
        self.skips_unusable = true;
    }

    /// What was left out of lists: print each as a warning.
    pub fn skipped(&self) -> &[SkippedKey] {
        &self.skipped
    }

    /// What was added as text, alone and in lists, one recipient each: for another process to add
    /// again, as a list may be a pipe, which can be read only once.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Adds a recipient: `age1...` (also of plugins), `ssh-ed25519 ...` or `ssh-rsa ...`.
    ///
    /// # Errors
    /// [`Error::Recipient`] if the text is not one.
    pub fn add(&mut self, recipient: &str) -> Result<()> {
        let recipient = recipient.trim();
        self.parse(recipient).map_err(|why| {
            // A secret given by mistake must not reach a log.
            let shown: String = match looks_secret(recipient) {
                true => "the recipient given".into(),
                false => format!("recipient \"{}\"", shortened(recipient)),
            };
            Error::Recipient { place: shown, why }
        })
    }

    /// Adds the recipients of a file (`-`: standard input), one a line; empty lines and
    /// lines that start with `#` are skipped.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::TooLarge`], and [`Error::Recipient`] naming the first line
    /// that is not a recipient, or the file if it holds none.
    pub fn add_file(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        // Read as a secret, as an identity may be given here by mistake.
        let (content, _) = file::read_secret(path, MAX_RECIPIENTS_FILE)?;
        self.add_list(&path.display().to_string(), &content)
    }

    /// Adds the recipients in the content of a file called `file`, as
    /// [`add_file`](Self::add_file) does.
    ///
    /// # Errors
    /// As [`add_file`](Self::add_file); no part of the content is in the message.
    pub fn add_list(&mut self, file: &str, content: &[u8]) -> Result<()> {
        let error = |place: String, why: &str| Error::Recipient {
            place,
            why: why.into(),
        };
        let named = format!("recipients file {file}");
        let text = utf8(without_mark(content)).map_err(|why| error(named.clone(), why))?;
        let mut found = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let why = match self.parse(line) {
                Ok(()) => {
                    found = true;
                    continue;
                }
                Err(why) => why,
            };
            let line_number = number + 1;
            if !(self.skips_unusable && ssh::is_of_unusable_kind(line)) {
                return Err(error(format!("{named}, line {line_number}"), &why));
            }
            self.skipped.push(SkippedKey {
                file: file.to_owned(),
                line: line_number,
                why,
            });
        }
        match (found, self.skipped.iter().any(|key| key.file == file)) {
            (true, _) => Ok(()),
            (false, false) => Err(error(named, "it names no recipient")),
            (false, true) => Err(error(
                named,
                "it names no recipient but keys that cannot be encrypted for",
            )),
        }
    }

    /// Adds the recipients that belong to `identities`, so that they can open the result.
    ///
    /// # Errors
    /// As [`Identities::recipients`], but plugin identities are fine if the plugin is there.
    pub fn add_identities(&mut self, identities: &Identities) -> Result<()> {
        let keys = identities.age_recipients()?;
        self.keys.extend(keys.into_iter().map(Key::Other));
        Ok(())
    }

    /// Wraps for a passphrase, which excludes everything else. It is used in Unicode's form NFC.
    ///
    /// # Errors
    /// [`Error::MixedPassphrase`] if there is one already (recipients in addition to it are noticed
    /// by [`wrap`](crate::wrap())).
    pub fn add_passphrase(&mut self, passphrase: SecretString) -> Result<()> {
        match self.passphrase.replace(normalized(&passphrase)) {
            None => Ok(()),
            Some(_) => Err(Error::MixedPassphrase),
        }
    }

    /// Sets the scrypt work for a passphrase to 2^`log_n`, instead of 17.
    ///
    /// For tests, which must be fast; less than 17 weakens every passphrase.
    ///
    /// # Panics
    /// Unless `log_n` is within 1 and 22, the most that is accepted when reading.
    pub fn set_work_factor(&mut self, log_n: u8) {
        assert!((1..=MAX_WORK).contains(&log_n), "work factor out of range");
        self.work = log_n;
    }

    /// Prepares for wrapping hundreds of keys: takes up to 2 ms and 30 KB for each `age1...` added
    /// so far, and saves two fifths of the time of each [`wrap`](crate::wrap()) for it.
    pub fn prepare_for_many(&mut self) {
        // More would not stay in the caches.
        const MOST: usize = 16;
        let native = self.keys.iter_mut().filter_map(|key| match key {
            Key::Native(key) => Some(key),
            Key::Other(_) => None,
        });
        native.take(MOST).for_each(x25519::Recipient::make_table);
    }

    /// Whether there is neither a recipient nor a passphrase.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.plugins.is_empty() && self.passphrase.is_none()
    }

    fn parse(&mut self, text: &str) -> std::result::Result<(), String> {
        if is_identity(text) {
            return Err("this is a secret identity, not a recipient; \
                        give its file with -i, or convert it with: warplock keygen -y FILE"
                .into());
        }
        if ssh::looks_like_public_key(text) {
            let key = ssh::parse_recipient(text)?;
            self.keys.push(Key::Other(Box::new(key)));
        } else if let Some(key) = x25519::Recipient::parse(text) {
            self.keys.push(Key::Native(key?));
        } else if let Ok(key) = text.parse::<age::tag::Recipient>() {
            self.keys.push(Key::Other(Box::new(key)));
        } else if let Ok(key) = text.parse::<age::tagpq::Recipient>() {
            self.keys.push(Key::Other(Box::new(key)));
        } else if let Ok(key) = text.parse::<age::plugin::Recipient>() {
            self.plugins.push(key);
        } else {
            return Err(
                "this is not a recipient; recipients are age1..., ssh-ed25519 ... \
                        and ssh-rsa ..., complete and without spelling mistakes"
                    .into(),
            );
        }
        self.texts.push(text.to_owned());
        Ok(())
    }

    /// All of them for age's encryptor; looks for the plugins' programs.
    /// `stanza` is added to theirs, but not to a passphrase's, which must stand alone.
    pub(crate) fn encryptor(&self, stanza: Option<Stanza>) -> Result<age::Encryptor> {
        if self.passphrase.is_some() && !(self.keys.is_empty() && self.plugins.is_empty()) {
            return Err(Error::MixedPassphrase);
        }
        if self.keys.len() + self.plugins.len() > MAX_STANZAS {
            return Err(Error::TooManyStanzas);
        }
        if self.passphrase.is_some() {
            Work::Scrypt { log_n: self.work }.reserve("the new key")?;
        }
        let scrypt = self.passphrase.as_ref().map(|passphrase| {
            let mut recipient = age::scrypt::Recipient::new(passphrase.clone());
            recipient.set_work_factor(self.work);
            recipient
        });
        let mut names: Vec<_> = self
            .plugins
            .iter()
            .map(age::plugin::Recipient::plugin)
            .collect();
        names.sort_unstable();
        names.dedup();
        let plugins = names
            .into_iter()
            .map(|name| {
                let prompts = PluginPrompts(self.prompt.clone());
                RecipientPluginV1::new(name, &self.plugins, &[], prompts)
                    .map_err(|error| age_error::encrypt(age::EncryptError::PluginResolve(error)))
            })
            .collect::<Result<Vec<_>>>()?;
        let all = (scrypt
            .iter()
            .map(|recipient| recipient as &dyn age::Recipient))
        .chain(self.keys.iter().map(Key::as_recipient))
        .chain(
            plugins
                .iter()
                .map(|recipient| recipient as &dyn age::Recipient),
        );
        let mut all: Vec<_> = all.collect();
        let annotated = stanza
            .filter(|_| self.passphrase.is_none())
            .and_then(|stanza| Some((*all.first()?, stanza)))
            .map(|(recipient, stanza)| Annotated { recipient, stanza });
        if let Some(annotated) = &annotated {
            all[0] = annotated;
        }
        age::Encryptor::with_recipients(all.into_iter()).map_err(age_error::encrypt)
    }
}

impl std::fmt::Debug for Recipients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recipients")
            .field("keys", &(self.keys.len() + self.plugins.len()))
            .field("passphrase", &self.passphrase.is_some())
            .finish_non_exhaustive()
    }
}

/// Whether a text that was given by mistake must not reach a log: an identity, or a key in hex
/// digits.
pub(crate) fn looks_secret(text: &str) -> bool {
    // The shortest keys are those of AES-128.
    const DIGITS: usize = 32;
    is_identity(text) || text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_identity(text: &str) -> bool {
    let start: String = text
        .chars()
        .take(11)
        .collect::<String>()
        .to_ascii_uppercase();
    start.starts_with("AGE-SECRET-") || start.starts_with("AGE-PLUGIN-")
}

fn shortened(text: &str) -> String {
    let mut start: String = text.chars().filter(|c| !c.is_control()).take(24).collect();
    if start.len() < text.len() {
        start.push_str("...");
    }
    start
}
