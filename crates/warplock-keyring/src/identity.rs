//! Identities: the secrets that open a wrapped key.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use age::armor::ArmoredReader;
use zeroize::Zeroizing;

use crate::age_error;
use crate::error::{Error, Result};
use crate::file::{self, Exposed};
use crate::header::{self, Header};
use crate::passphrase::{AskPassphrase, PluginPrompts};
use crate::ssh::SshKey;
use crate::text::{forms, utf8, without_mark};
use crate::work::{MAX_WORK, UNASKED_WORK, Work};

/// The largest identity file read, in bytes.
const MAX_IDENTITY_FILE: usize = 1024 * 1024;

/// The secrets offered to open a wrapped key: identity files, SSH private keys, a passphrase.
///
/// Passphrases, of the wrapped key and of encrypted identity files, are asked for only when
/// they are needed, and those of identity files once only.
pub struct Identities {
    prompt: Arc<dyn AskPassphrase>,
    entries: Vec<Entry>,
    passphrase: bool,
    accepted_work: u8,
    exposed: Vec<Exposed>,
}

impl Identities {
    /// No identities yet; `prompt` will be asked for passphrases and plugins' questions.
    pub fn new(prompt: Arc<dyn AskPassphrase>) -> Self {
        Self {
            prompt,
            entries: Vec::new(),
            passphrase: false,
            accepted_work: UNASKED_WORK,
            exposed: Vec::new(),
        }
    }

    /// Adds the identities of a file (`-`: standard input): an age identity file, one
    /// encrypted with a passphrase, or an SSH private key, encrypted or not.
    ///
    /// # Errors
    /// [`Error::Io`], or as [`add`](Self::add).
    pub fn add_file(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let (content, exposed) = file::read_secret(path, MAX_IDENTITY_FILE)?;
        self.add(&path.display().to_string(), &content)?;
        // Those that are encrypted are safe from a reader without their passphrase.
        let plain = self
            .entries
            .last()
            .is_some_and(|entry| !entry.is_encrypted());
        self.exposed.extend(exposed.filter(|_| plain));
        Ok(())
    }

    /// Adds the identities in the content of a file called `file`.
    ///
    /// # Errors
    /// [`Error::Identity`], [`Error::Malformed`] and similar if the content is of no known kind; no
    /// part of the content is in the message.
    pub fn add(&mut self, file: &str, content: &[u8]) -> Result<()> {
        self.entries.push(Entry::parse(file, content)?);
        Ok(())
    }

    /// Offers a passphrase: a key wrapped for one makes the prompt ask for it.
    pub fn add_passphrase(&mut self) {
        self.passphrase = true;
    }

    /// Accepts passphrases whose stretching takes as long as 2^`log_n` of scrypt, instead of
    /// [`UNASKED_WORK`]. The maker of a file chooses that work. For more, the prompt is asked
    /// ([`AskPassphrase::confirm`]); more than [`MAX_WORK`] is never done.
    pub fn accept_work(&mut self, log_n: u8) {
        self.accepted_work = log_n;
    }

    /// Whether nothing is offered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.passphrase
    }

    /// Whether any of the identity files is encrypted with a passphrase.
    pub fn have_passphrase(&self) -> bool {
        self.entries.iter().any(Entry::is_encrypted)
    }

    /// Identity files that other users can read: print each as a warning.
    pub fn exposed(&self) -> &[Exposed] {
        &self.exposed
    }

    /// The recipients belonging to the identities, in order: `age-keygen -y`.
    ///
    /// # Errors
    /// If a passphrase is needed and missing or wrong, and for plugin identities, which
    /// only their plugin can convert.
    pub fn recipients(&self) -> Result<Vec<String>> {
        let mut recipients = Vec::new();
        for entry in &self.entries {
            match entry {
                Entry::Ssh(key) => recipients.push(key.recipient()?.to_string()),
                Entry::Plain(file) => recipients.extend(file.recipients(&self.prompt)?),
                Entry::Encrypted(file) => {
                    recipients.extend(file.unlock(self)?.recipients(&self.prompt)?);
                }
            }
        }
        Ok(recipients)
    }

    /// As [`recipients`](Self::recipients), for age to encrypt to; plugins included.
    pub(crate) fn age_recipients(&self) -> Result<Vec<Box<dyn age::Recipient + Send>>> {
        let mut recipients: Vec<Box<dyn age::Recipient + Send>> = Vec::new();
        for entry in &self.entries {
            let file = match entry {
                Entry::Ssh(key) => {
                    recipients.push(Box::new(key.recipient()?));
                    continue;
                }
                Entry::Plain(file) => file,
                Entry::Encrypted(file) => file.unlock(self)?,
            };
            let parsed = file.identities(&self.prompt)?;
            recipients.extend(parsed.to_recipients().map_err(age_error::encrypt)?);
        }
        Ok(recipients)
    }

    pub(crate) fn prompt(&self) -> &dyn AskPassphrase {
        &*self.prompt
    }

    pub(crate) fn accepted_work(&self) -> u8 {
        self.accepted_work
    }

    pub(crate) fn has_passphrase(&self) -> bool {
        self.passphrase
    }

    pub(crate) fn has_files(&self) -> bool {
        !self.entries.is_empty()
    }

    /// age's identities for a file with `header`, one group for each source, each made only
    /// when the iterator comes to it; those that need a passphrase come last.
    pub(crate) fn for_header<'a>(
        &'a self,
        header: &'a Header,
    ) -> impl Iterator<Item = Result<Vec<Box<dyn age::Identity + 'a>>>> + 'a {
        let plain = self.entries.iter().filter(|entry| !entry.is_encrypted());
        let encrypted = self.entries.iter().filter(|entry| entry.is_encrypted());
        plain
            .chain(encrypted)
            .map(move |entry| entry.for_header(header, self))
    }
}

impl std::fmt::Debug for Identities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identities")
            .field("files", &self.entries.len())
            .field("passphrase", &self.passphrase)
            .finish_non_exhaustive()
    }
}

enum Entry {
    Plain(PlainFile),
    Encrypted(EncryptedFile),
    Ssh(Box<SshKey>),
}

impl Entry {
    fn parse(file: &str, content: &[u8]) -> Result<Self> {
        let content = without_mark(content);
        let start = content.trim_ascii_start();
        if content.starts_with(b"age-encryption.org/") {
            Ok(Self::Encrypted(EncryptedFile::parse(
                file,
                content.to_vec(),
            )?))
        } else if start.starts_with(b"-----BEGIN AGE ENCRYPTED FILE-----") {
            let binary = dearmor(file, start)?;
            Ok(Self::Encrypted(EncryptedFile::parse(file, binary)?))
        } else if start.starts_with(b"-----BEGIN ") {
            Ok(Self::Ssh(Box::new(SshKey::parse(file, start)?)))
        } else {
            Ok(Self::Plain(PlainFile::parse(file, content)?))
        }
    }

    fn is_encrypted(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Encrypted(_) => true,
            Self::Ssh(key) => key.is_encrypted(),
        }
    }

    fn for_header<'a>(
        &'a self,
        header: &Header,
        all: &Identities,
    ) -> Result<Vec<Box<dyn age::Identity + 'a>>> {
        let file = match self {
            Self::Ssh(key) => {
                let key = key.for_header(header, &*all.prompt, all.accepted_work)?;
                return Ok(key
                    .map(|key| Box::new(key.clone()) as _)
                    .into_iter()
                    .collect());
            }
            Self::Plain(file) => file,
            Self::Encrypted(file) => file.unlock(all)?,
        };
        let identities = file.identities(&all.prompt)?.into_identities();
        let identities =
            identities.map_err(|error| age_error::decrypt(error, &file.file, false))?;
        Ok(identities
            .into_iter()
            .map(|identity| identity as _)
            .collect())
    }
}

/// Whether a line is a public key of age or SSH.
fn is_recipient(line: &str) -> bool {
    let starts = ["age1", "ssh-ed25519 ", "ssh-rsa "];
    starts.iter().any(|start| line.starts_with(start))
}

/// The text of an age identity file, which was found to be one.
struct PlainFile {
    file: String,
    text: Zeroizing<Vec<u8>>,
}

impl PlainFile {
    fn parse(file: &str, text: &[u8]) -> Result<Self> {
        let plain = Self {
            file: file.into(),
            text: Zeroizing::new(text.to_vec()),
        };
        let mut lines = utf8(text).map_err(|why| plain.error(why))?.lines();
        if let Some(place) = lines.position(|line| is_recipient(line.trim())) {
            return Err(plain.error(&format!(
                "line {} is a recipient, which is a public key and opens nothing; give the file \
                 with the secret key (AGE-SECRET-KEY-1..., or an SSH private key) instead",
                place + 1
            )));
        }
        age::IdentityFile::from_buffer(text).map_err(|error| plain.error(&error.to_string()))?;
        let mut lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        if lines.all(|line| line.is_empty() || line.starts_with(b"#")) {
            return Err(plain.error("it holds no identity (a line AGE-SECRET-KEY-1...)"));
        }
        Ok(plain)
    }

    fn error(&self, why: &str) -> Error {
        Error::Identity {
            file: self.file.clone(),
            why: why.into(),
        }
    }

    /// age's identities. They wipe themselves, but cannot be used twice, so the text stays.
    fn identities(
        &self,
        prompt: &Arc<dyn AskPassphrase>,
    ) -> Result<age::IdentityFile<PluginPrompts>> {
        age::IdentityFile::from_buffer(&self.text[..])
            .map(|parsed| parsed.with_callbacks(PluginPrompts(prompt.clone())))
            .map_err(|error| self.error(&error.to_string()))
    }

    fn recipients(&self, prompt: &Arc<dyn AskPassphrase>) -> Result<Vec<String>> {
        let mut list = Vec::new();
        self.identities(prompt)?
            .write_recipients_file(&mut list)
            .map_err(|error| match error {
                age::IdentityFileConvertError::IdentityFileContainsPlugin {
                    plugin_name, ..
                } => self.error(&format!(
                    "only the program age-plugin-{plugin_name} knows its recipient"
                )),
                other => self.error(&other.to_string()),
            })?;
        let list = String::from_utf8(list).expect("age writes recipients as ASCII text");
        Ok(list.lines().map(String::from).collect())
    }
}

/// An identity file encrypted with a passphrase, and its content once that was given.
struct EncryptedFile {
    file: String,
    encrypted: Vec<u8>,
    work: Work,
    unlocked: OnceLock<PlainFile>,
}

impl EncryptedFile {
    fn parse(file: &str, encrypted: Vec<u8>) -> Result<Self> {
        let Some(work) = Header::read(&encrypted, file)?.passphrase_work() else {
            let why = "it is encrypted for recipients; only a passphrase is supported here: \
                       decrypt it with age first";
            return Err(Error::Identity {
                file: file.into(),
                why: why.into(),
            });
        };
        Ok(Self {
            file: file.into(),
            encrypted,
            work,
            unlocked: OnceLock::new(),
        })
    }

    fn unlock(&self, all: &Identities) -> Result<&PlainFile> {
        if let Some(plain) = self.unlocked.get() {
            return Ok(plain);
        }
        let prompt = &*all.prompt;
        self.work.permit(&self.file, all.accepted_work, prompt)?;
        let text = open_with_passphrase(&self.encrypted, &self.file, prompt, MAX_IDENTITY_FILE)?;
        let plain = PlainFile::parse(&self.file, &text)?;
        Ok(self.unlocked.get_or_init(|| plain))
    }
}

/// Opens the age file `encrypted`, whose header holds a passphrase stanza with work that was
/// permitted, and reads its content; of a content longer than `limit` bytes it reads one byte more.
pub(crate) fn open_with_passphrase(
    encrypted: &[u8],
    what: &str,
    prompt: &dyn AskPassphrase,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>> {
    let passphrase = prompt.ask(&format!("passphrase for {what}"))?;
    let mut refused = None;
    for form in forms(&passphrase) {
        let mut identity = age::scrypt::Identity::new(form);
        identity.set_max_work_factor(MAX_WORK);
        let identities = std::iter::once(&identity as &dyn age::Identity);
        match header::decryptor(encrypted, what)?.decrypt(identities) {
            Ok(reader) => return header::read_content(reader, what, limit),
            Err(error) => match age_error::decrypt(error, what, true) {
                error @ Error::WrongPassphrase { .. } => refused = Some(error),
                error => return Err(error),
            },
        }
    }
    Err(refused.expect("there is at least one form"))
}

/// The binary form of an age file in ASCII armor.
pub(crate) fn dearmor(what: &str, text: &[u8]) -> Result<Vec<u8>> {
    let mut binary = Vec::new();
    std::io::Read::read_to_end(&mut ArmoredReader::new(text), &mut binary).map_err(|_| {
        Error::Malformed {
            what: what.into(),
            why: "its armor is invalid",
        }
    })?;
    Ok(binary)
}
