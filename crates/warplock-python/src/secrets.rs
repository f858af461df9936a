//! Recipients, identities, passphrases and key files, from Python's arguments.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use warplock_container::{Envelope, InputKey, Suite};
use warplock_keyring::{
    AskPassphrase, Error, ExposeSecret, FileAttributes, Identities, MasterKey, NewIdentity,
    NoPrompt, Recipients, SecretString, attributes, read_key_file, unwrap, wrap_with,
};
use zeroize::Zeroizing;

use crate::buffer::Input;
use crate::errors;

/// A secret that opens what was encrypted for its recipient: an age identity.
///
/// `str(identity)` is the secret text, as in pyrage; `repr` shows nothing of it.
#[pyclass(frozen, module = "warplock.keys")]
pub(crate) struct Identity {
    text: Zeroizing<String>,
    recipient: String,
}

#[pymethods]
impl Identity {
    /// A new random identity.
    #[staticmethod]
    fn generate() -> Self {
        let new = NewIdentity::generate();
        let text = new.file_text();
        let secret = text
            .lines()
            .find(|line| line.starts_with("AGE-SECRET-KEY-"));
        Identity {
            text: Zeroizing::new(secret.unwrap_or_default().to_owned()),
            recipient: new.recipient(),
        }
    }

    /// The identity from a text "AGE-SECRET-KEY-1...".
    #[staticmethod]
    fn from_str(py: Python<'_>, text: &str) -> PyResult<Self> {
        let mut identities = Identities::new(Arc::new(NoPrompt));
        let found = identities
            .add("the text given", text.trim().as_bytes())
            .and_then(|()| identities.recipients())
            .map_err(|error| errors::keyring(py, error))?;
        match <[String; 1]>::try_from(found) {
            Ok([recipient]) => Ok(Identity {
                text: Zeroizing::new(text.trim().to_owned()),
                recipient,
            }),
            Err(found) => Err(PyValueError::new_err(format!(
                "the text holds {} identities, not one",
                found.len()
            ))),
        }
    }

    /// The public half: what others encrypt for.
    fn to_public(&self) -> Recipient {
        Recipient {
            text: self.recipient.clone(),
        }
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<warplock.keys.Identity of {}>", self.recipient)
    }
}

/// Whom something is encrypted for: "age1...", also of plugins, or an SSH public key.
#[pyclass(frozen, eq, hash, module = "warplock.keys")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Recipient {
    text: String,
}

#[pymethods]
impl Recipient {
    /// The recipient of a text "age1..." or "ssh-ed25519 ...".
    #[staticmethod]
    fn from_str(py: Python<'_>, text: &str) -> PyResult<Self> {
        let mut recipients = Recipients::new(Arc::new(NoPrompt));
        let added = recipients.add(text);
        added.map_err(|error| errors::keyring(py, error))?;
        Ok(Recipient {
            text: text.trim().to_owned(),
        })
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<warplock.keys.Recipient {}>", self.text)
    }
}

/// Answers with a passphrase that is known, or asks a Python function.
enum Prompt {
    Known(SecretString),
    Ask(Py<PyAny>),
    Nobody,
}

impl Prompt {
    fn of(passphrase: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(object) = passphrase.filter(|object| !object.is_none()) else {
            return Ok(Prompt::Nobody);
        };
        if object.is_callable() {
            return Ok(Prompt::Ask(object.clone().unbind()));
        }
        Ok(Prompt::Known(secret(object)?))
    }
}

fn secret(object: &Bound<'_, PyAny>) -> PyResult<SecretString> {
    if let Ok(text) = object.extract::<String>() {
        return Ok(SecretString::from(text));
    }
    let bytes = Input::of(object, "passphrase")?;
    let text = std::str::from_utf8(bytes.bytes())
        .map_err(|_| PyValueError::new_err("the passphrase is not UTF-8 text"))?;
    Ok(SecretString::from(text.to_owned()))
}

impl AskPassphrase for Prompt {
    fn ask(&self, what: &str) -> warplock_keyring::Result<SecretString> {
        match self {
            Prompt::Known(passphrase) => Ok(passphrase.clone()),
            Prompt::Nobody => NoPrompt.ask(what),
            Prompt::Ask(function) => Python::attach(|py| {
                let answer = function.bind(py).call1((what,));
                answer
                    .and_then(|answer| secret(&answer))
                    .map_err(|error| Error::NoPassphrase {
                        wanted: what.to_owned(),
                        why: format!("the function for it failed: {}", error.value(py)),
                    })
            }),
        }
    }
}

/// The key arguments of a call.
pub(crate) struct Secrets<'a, 'py> {
    pub(crate) recipients: Option<&'a Bound<'py, PyAny>>,
    pub(crate) identities: Option<&'a Bound<'py, PyAny>>,
    pub(crate) passphrase: Option<&'a Bound<'py, PyAny>>,
    pub(crate) key: Option<&'a Bound<'py, PyAny>>,
    pub(crate) max_work: Option<u8>,
}

/// What a file is encrypted with.
pub(crate) enum Lock {
    Key(InputKey),
    Recipients(Recipients),
}

impl Lock {
    /// The key of a new stream; writes the envelope, if there is one, with a file's attributes.
    pub(crate) fn begin(
        self,
        to: &mut impl Write,
        attributes: Option<&FileAttributes>,
    ) -> warplock_container::Result<InputKey> {
        match self {
            Lock::Key(key) => Ok(key),
            Lock::Recipients(recipients) => {
                let (key, envelope) = enveloped(&recipients, attributes)?;
                envelope.write(to)?;
                Ok(InputKey::from(&key))
            }
        }
    }
}

/// What opens a file.
pub(crate) enum Unlock {
    Key(InputKey),
    Identities(Identities),
}

impl Secrets<'_, '_> {
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<Lock> {
        if let Some(key) = self.key()? {
            return Ok(Lock::Key(key));
        }
        let failed = |error| errors::keyring(py, error);
        let mut recipients = Recipients::new(Arc::new(Prompt::of(self.passphrase)?));
        for item in items(self.recipients)? {
            if let Ok(recipient) = item.cast::<Recipient>() {
                recipients.add(&recipient.get().text).map_err(failed)?;
            } else if let Ok(identity) = item.cast::<Identity>() {
                recipients.add(&identity.get().recipient).map_err(failed)?;
            } else if let Ok(text) = item.cast::<PyString>() {
                let text = text.to_cow()?;
                let added = recipients.add(&text);
                added.map_err(|error| match Path::new(&*text).is_file() {
                    true => errors::raise(py, "KeyringError", (path_of(&text),)),
                    false => failed(error),
                })?;
            } else if let Ok(path) = item.extract::<PathBuf>() {
                recipients.add_file(path).map_err(failed)?;
            } else {
                return Err(wrong(&item, RECIPIENT));
            }
        }
        if self.identities.is_some() {
            recipients
                .add_identities(&self.identities(py)?)
                .map_err(failed)?;
        } else if let Some(passphrase) = self.passphrase.filter(|given| !given.is_none()) {
            let secret = match passphrase.is_callable() {
                true => secret(&passphrase.call1(("passphrase",))?)?,
                false => secret(passphrase)?,
            };
            if secret.expose_secret().is_empty() {
                return Err(PyValueError::new_err("the passphrase is empty"));
            }
            recipients.add_passphrase(secret).map_err(failed)?;
        }
        match recipients.is_empty() {
            true => Err(PyValueError::new_err(
                "say what shall open it: recipients, identities, passphrase or key",
            )),
            false => Ok(Lock::Recipients(recipients)),
        }
    }

    pub(crate) fn unlock(&self, py: Python<'_>) -> PyResult<Unlock> {
        if let Some(key) = self.key()? {
            return Ok(Unlock::Key(key));
        }
        let identities = self.identities(py)?;
        match identities.is_empty() {
            true => Err(PyValueError::new_err(
                "say what opens it: identities, passphrase or key",
            )),
            false => Ok(Unlock::Identities(identities)),
        }
    }

    fn identities(&self, py: Python<'_>) -> PyResult<Identities> {
        let mut identities = Identities::new(Arc::new(Prompt::of(self.passphrase)?));
        for item in items(self.identities)? {
            let added = if let Ok(identity) = item.cast::<Identity>() {
                identities.add("an identity", identity.get().text.as_bytes())
            } else if let Ok(path) = item.extract::<PathBuf>() {
                identities.add_file(path)
            } else {
                return Err(wrong(&item, IDENTITY));
            };
            added.map_err(|error| errors::keyring(py, error))?;
        }
        if self.passphrase.is_some_and(|given| !given.is_none()) {
            identities.add_passphrase();
        }
        if let Some(log_n) = self.max_work {
            identities.accept_work(log_n);
        }
        Ok(identities)
    }

    fn key(&self) -> PyResult<Option<InputKey>> {
        let Some(object) = self.key.filter(|object| !object.is_none()) else {
            return Ok(None);
        };
        let given = [self.recipients, self.identities, self.passphrase];
        if given
            .iter()
            .any(|other| other.is_some_and(|other| !other.is_none()))
        {
            return Err(PyValueError::new_err(
                "a key stands alone: leave out recipients, identities and passphrase",
            ));
        }
        input_key(object).map(Some)
    }
}

/// The 32 bytes given, those of a key file, or those that a function returns.
pub(crate) fn input_key(object: &Bound<'_, PyAny>) -> PyResult<InputKey> {
    if object.is_callable() {
        let bytes = object.call0()?;
        return key_of_bytes(&bytes);
    }
    let is_path = object.is_instance_of::<PyString>() || object.hasattr("__fspath__")?;
    if is_path {
        let file = read_key_file(object.extract::<PathBuf>()?)
            .map_err(|error| errors::keyring(object.py(), error))?;
        return Ok(InputKey::from(&file.key));
    }
    key_of_bytes(object)
}

fn key_of_bytes(object: &Bound<'_, PyAny>) -> PyResult<InputKey> {
    let bytes = Input::of(object, "key")?;
    InputKey::new(Suite::Cobblestone256, bytes.bytes())
        .map_err(|error| errors::container(object.py(), error))
}

/// One object, or each of a list, tuple or other iterable.
fn items<'py>(object: Option<&Bound<'py, PyAny>>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let Some(object) = object.filter(|object| !object.is_none()) else {
        return Ok(Vec::new());
    };
    let is_one = object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<Identity>()
        || object.is_instance_of::<Recipient>()
        || object.hasattr("__fspath__")?;
    match is_one {
        true => Ok(vec![object.clone()]),
        false => match object.try_iter() {
            Ok(each) => each.collect(),
            Err(_) => Ok(vec![object.clone()]),
        },
    }
}

/// What to do about a text that should have been a path.
fn path_of(text: &str) -> String {
    format!("{text:?} is a file, and a text is a recipient itself: give pathlib.Path({text:?})")
}

const RECIPIENT: &str = "a recipient is a text, a Recipient, an Identity or the path of a list";
const IDENTITY: &str = "an identity is an Identity, or the path of its file";

fn wrong(item: &Bound<'_, PyAny>, what: &str) -> PyErr {
    let kind = item.get_type();
    let kind = kind
        .name()
        .map_or_else(|_| String::new(), |name| name.to_string());
    PyTypeError::new_err(format!("{what}, not {kind}"))
}

/// A new file key wrapped for recipients: the key, and the envelope that goes before the stream
/// which is sealed with it.
#[pyfunction]
#[pyo3(signature = (recipients=None, *, identities=None, passphrase=None))]
pub(crate) fn new_envelope<'py>(
    py: Python<'py>,
    recipients: Option<&Bound<'py, PyAny>>,
    identities: Option<&Bound<'py, PyAny>>,
    passphrase: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let secrets = Secrets {
        recipients,
        identities,
        passphrase,
        key: None,
        max_work: None,
    };
    let Lock::Recipients(recipients) = secrets.lock(py)? else {
        unreachable!("no key was given");
    };
    let (key, envelope) = py
        .detach(move || enveloped(&recipients, None))
        .map_err(|error| errors::container(py, error))?;
    let mut bytes = Vec::new();
    envelope
        .write(&mut bytes)
        .map_err(|error| errors::container(py, error))?;
    let parts = [PyBytes::new(py, key.as_bytes()), PyBytes::new(py, &bytes)];
    PyTuple::new(py, parts)
}

/// A fresh key, and its envelope.
fn enveloped(
    recipients: &Recipients,
    attributes: Option<&FileAttributes>,
) -> warplock_container::Result<(MasterKey, Envelope)> {
    let key = MasterKey::generate()?;
    let envelope = Envelope::new(wrap_with(&key, recipients, attributes)?)?;
    Ok((key, envelope))
}

/// The key of an envelope, and the attributes of the file that it was made for.
pub(crate) fn opened(
    envelope: &Envelope,
    identities: &Identities,
) -> warplock_container::Result<(InputKey, Option<FileAttributes>)> {
    let key = unwrap(envelope.wrapped(), identities)?;
    let attributes = attributes(envelope.wrapped(), &key)?;
    Ok((InputKey::from(&key), attributes))
}

/// The recipients of identity files or identities.
#[pyfunction]
#[pyo3(signature = (identities, *, passphrase=None))]
pub(crate) fn recipients_of<'py>(
    py: Python<'py>,
    identities: &Bound<'py, PyAny>,
    passphrase: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let secrets = Secrets {
        recipients: None,
        identities: Some(identities),
        passphrase,
        key: None,
        max_work: None,
    };
    let identities = secrets.identities(py)?;
    let found = py
        .detach(|| identities.recipients())
        .map_err(|error| errors::keyring(py, error))?;
    let found = found.into_iter().map(|text| Recipient { text });
    let found: PyResult<Vec<_>> = found.map(|found| Bound::new(py, found)).collect();
    PyList::new(py, found?)
}

/// Writes a new identity to a file that only its owner may read; returns its recipient.
#[pyfunction]
#[pyo3(signature = (path, *, replace=false))]
pub(crate) fn write_identity(py: Python<'_>, path: PathBuf, replace: bool) -> PyResult<Recipient> {
    let new = NewIdentity::generate();
    warplock_keyring::write_secret_file(path, new.file_text().as_bytes(), replace)
        .map_err(|error| errors::keyring(py, error))?;
    Ok(Recipient {
        text: new.recipient(),
    })
}

/// Writes a new random key file that only its owner may read.
#[pyfunction]
#[pyo3(signature = (path, *, replace=false))]
pub(crate) fn write_key_file(py: Python<'_>, path: PathBuf, replace: bool) -> PyResult<()> {
    MasterKey::generate()
        .and_then(|key| warplock_keyring::write_key_file(path, &key, replace))
        .map_err(|error| errors::keyring(py, error))
}
