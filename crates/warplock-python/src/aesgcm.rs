//! `AESGCM` with the signatures and errors of pyca/cryptography.

use std::sync::Arc;

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warplock::{Aad, Algorithm, Batch, Error, Ivs, Key, Keys, Spans, Text};
use warplock_container::Engines;

use crate::buffer::{Input, View, new_bytes, overlap};
use crate::engine::{self, Engine};
use crate::errors;

const TAG_LEN: usize = 16;
/// From this many bytes on, other Python threads run during a call, as with pyca.
const DETACH: usize = 2048;
/// The most bytes of a text or its associated data that pyca accepts.
const MOST: usize = (1 << 31) - 1;

/// AES-GCM with 128, 192 or 256-bit keys, as cryptography's AESGCM: the same methods, arguments,
/// results and errors (for cryptography's own exception, see warplock.compat.pyca). Long messages
/// use all cores; other threads run meanwhile.
///
/// Never use a nonce twice with one key.
#[pyclass(frozen, subclass, name = "AESGCM", module = "warplock")]
pub(crate) struct AesGcm {
    key: Key,
    engine: Option<Arc<Engines>>,
}

#[pymethods]
impl AesGcm {
    #[new]
    #[pyo3(signature = (key, *, engine=None))]
    fn new(key: &Bound<'_, PyAny>, engine: Option<PyRef<'_, Engine>>) -> PyResult<Self> {
        let bytes = Input::of(key, "key")?;
        let algorithm = match bytes.bytes().len() {
            16 => Algorithm::Aes128Gcm,
            24 => Algorithm::Aes192Gcm,
            32 => Algorithm::Aes256Gcm,
            _ => {
                return Err(PyValueError::new_err(
                    "AESGCM key must be 128, 192, or 256 bits.",
                ));
            }
        };
        let key =
            Key::new(algorithm, bytes.bytes()).map_err(|error| errors::engine(key.py(), error))?;
        Ok(AesGcm {
            key,
            engine: engine.map(|engine| engine.set().clone()),
        })
    }

    /// A random key of 128, 192 or 256 bits.
    #[staticmethod]
    fn generate_key(py: Python<'_>, bit_length: usize) -> PyResult<Bound<'_, PyBytes>> {
        if !matches!(bit_length, 128 | 192 | 256) {
            return Err(PyValueError::new_err("bit_length must be 128, 192, or 256"));
        }
        let (key, memory) = new_bytes(py, bit_length / 8)?;
        warplock::fill_random(memory).map_err(|error| errors::engine(py, error))?;
        Ok(key)
    }

    /// The ciphertext of `data` and its 16-byte tag.
    fn encrypt<'py>(
        &self,
        py: Python<'py>,
        nonce: &Bound<'py, PyAny>,
        data: &Bound<'py, PyAny>,
        associated_data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let nonce = Input::of(nonce, "nonce")?;
        let data = message(data, "data")?;
        let aad = message_or_none(associated_data, "associated_data")?;
        let (nonce, text, aad) = (nonce.bytes(), data.bytes(), aad.bytes());
        check(nonce, text.len(), aad)?;
        let (sealed, memory) = new_bytes(py, text.len() + TAG_LEN)?;
        let len = text.len();
        let text = Text::apart(text, memory);
        self.run(py, Batch::seal(Keys::One(&self.key), text), len, nonce, aad)?;
        Ok(sealed)
    }

    /// The text of a ciphertext with its tag. Raises InvalidTag if anything is not as it was.
    fn decrypt<'py>(
        &self,
        py: Python<'py>,
        nonce: &Bound<'py, PyAny>,
        data: &Bound<'py, PyAny>,
        associated_data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let nonce = Input::of(nonce, "nonce")?;
        let data = message(data, "data")?;
        let aad = message_or_none(associated_data, "associated_data")?;
        let (nonce, sealed, aad) = (nonce.bytes(), data.bytes(), aad.bytes());
        let len = check_sealed(py, nonce, sealed, aad)?;
        let (opened, memory) = new_bytes(py, len)?;
        let text = apart(sealed, memory, len);
        self.run(py, Batch::open(Keys::One(&self.key), text), len, nonce, aad)?;
        Ok(opened)
    }

    /// As encrypt, into a writable buffer of exactly 16 bytes more than `data`, which may start
    /// where `data` does. Returns the number of bytes written.
    fn encrypt_into(
        &self,
        py: Python<'_>,
        nonce: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        associated_data: &Bound<'_, PyAny>,
        buf: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let nonce = Input::of(nonce, "nonce")?;
        let data = message(data, "data")?;
        let aad = message_or_none(associated_data, "associated_data")?;
        let output = View::write(buf, "buf")?;
        let len = data.bytes().len();
        check(nonce.bytes(), len, aad.bytes())?;
        let place = into(py, &output, len + TAG_LEN, &data, [&nonce, &aad])?;
        let text = match place {
            Place::Same => Text::InPlace {
                // SAFETY: it is writable, and `into` found that nothing else lies there but the
                // text, whose slice is not used any more.
                buffer: unsafe { output.bytes_mut() },
                spans: Spans::one(len),
            },
            // SAFETY: as above; the text lies elsewhere.
            Place::Apart => Text::apart(data.bytes(), unsafe { output.bytes_mut() }),
        };
        let batch = Batch::seal(Keys::One(&self.key), text);
        self.run(py, batch, len, nonce.bytes(), aad.bytes())?;
        Ok(len + TAG_LEN)
    }

    /// As decrypt, into a writable buffer of exactly 16 bytes less than `data`, which may start
    /// where `data` does. Returns the number of bytes written; if InvalidTag is raised, the buffer
    /// holds zeros.
    fn decrypt_into(
        &self,
        py: Python<'_>,
        nonce: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        associated_data: &Bound<'_, PyAny>,
        buf: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let nonce = Input::of(nonce, "nonce")?;
        let data = message(data, "data")?;
        let aad = message_or_none(associated_data, "associated_data")?;
        let output = View::write(buf, "buf")?;
        let len = check_sealed(py, nonce.bytes(), data.bytes(), aad.bytes())?;
        let tag;
        let place = into(py, &output, len, &data, [&nonce, &aad])?;
        let keys = Keys::One(&self.key);
        let batch = match place {
            Place::Same => {
                tag = <[u8; TAG_LEN]>::try_from(&data.bytes()[len..]).expect("it has 16 bytes");
                // SAFETY: as in `encrypt_into`.
                let text = Text::in_place(unsafe { output.bytes_mut() });
                Batch::open(keys, text).tags(warplock::Tags::Given(&tag))
            }
            Place::Apart => {
                // SAFETY: as in `encrypt_into`.
                Batch::open(
                    keys,
                    apart(data.bytes(), unsafe { output.bytes_mut() }, len),
                )
            }
        };
        self.run(py, batch, len, nonce.bytes(), aad.bytes())?;
        Ok(len)
    }

    fn __repr__(&self) -> String {
        format!("<warplock.AESGCM {}>", self.key.algorithm())
    }
}

impl AesGcm {
    #[inline]
    fn run(
        &self,
        py: Python<'_>,
        batch: Batch<'_>,
        len: usize,
        nonce: &[u8],
        aad: &[u8],
    ) -> PyResult<()> {
        let set = match &self.engine {
            Some(set) => set,
            None => engine::default(py)?,
        };
        let spans = Spans::one(nonce.len());
        let ivs = match nonce.len() {
            12 => Ivs::Each(nonce),
            _ => Ivs::Ragged {
                bytes: nonce,
                spans,
            },
        };
        let batch = batch.ivs(ivs).aad(Aad::Shared(aad));
        let done = match len + aad.len() < DETACH {
            true => set.engine().run(batch),
            false => py.detach(|| set.engine().run(batch)),
        };
        done.map_err(|error| errors::engine(py, error))
    }
}

/// A text or its associated data. Subclasses of `bytes` have the length that they say, as in pyca's.
#[inline]
fn message<'a>(object: &'a Bound<'_, PyAny>, what: &str) -> PyResult<Input<'a>> {
    let input = Input::of(object, what)?;
    if matches!(input, Input::View(_)) && object.is_instance_of::<PyBytes>() && object.len()? > MOST
    {
        return Err(too_long());
    }
    Ok(input)
}

fn message_or_none<'a>(object: &'a Bound<'_, PyAny>, what: &str) -> PyResult<Input<'a>> {
    match object.is_none() {
        true => Ok(Input::Bytes(&[])),
        false => message(object, what),
    }
}

fn too_long() -> PyErr {
    PyOverflowError::new_err("Data or associated data too long. Max 2**31 - 1 bytes")
}

enum Place {
    Same,
    Apart,
}

/// Checks an output buffer: its length, and that it overlaps nothing, or is the input's own place.
fn into(
    py: Python<'_>,
    output: &View,
    len: usize,
    data: &Input<'_>,
    others: [&Input<'_>; 2],
) -> PyResult<Place> {
    if output.len() != len {
        return Err(PyValueError::new_err(format!("buffer must be {len} bytes")));
    }
    let (to, from) = (output.place(), data.place());
    if others.iter().any(|other| overlap(&to, &other.place())) {
        return Err(errors::batch(
            py,
            "the buffer overlaps the nonce or the associated data",
        ));
    }
    match overlap(&to, &from) {
        false => Ok(Place::Apart),
        true if to.start == from.start => Ok(Place::Same),
        true => Err(errors::batch(
            py,
            "the buffer overlaps the data, but does not start where it does",
        )),
    }
}

fn apart<'a>(sealed: &'a [u8], output: &'a mut [u8], len: usize) -> Text<'a> {
    Text::Apart {
        input: sealed,
        input_spans: Spans::one(len),
        output,
        output_spans: Spans::one(len),
    }
}

fn check(nonce: &[u8], len: usize, aad: &[u8]) -> PyResult<()> {
    if len > MOST || aad.len() > MOST {
        return Err(too_long());
    }
    if !(8..=128).contains(&nonce.len()) {
        return Err(PyValueError::new_err(
            "Nonce must be between 8 and 128 bytes",
        ));
    }
    Ok(())
}

/// The length of the text in `sealed`.
fn check_sealed(py: Python<'_>, nonce: &[u8], sealed: &[u8], aad: &[u8]) -> PyResult<usize> {
    check(nonce, 0, aad)?;
    sealed.len().checked_sub(TAG_LEN).ok_or_else(|| {
        let (failed, total) = (vec![0], 1);
        errors::engine(py, Error::Authentication { failed, total })
    })
}
