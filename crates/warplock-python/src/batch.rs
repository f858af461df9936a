//! Batches: the keys, and one call that runs a batch. The shapes and defaults that users see are
//! made in `warplock._batch`.

use std::ops::Range;
use std::sync::OnceLock;

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use warplock::{Aad, Algorithm, Batch, Direction, Ivs, Key, Keys, Span, Spans, Tags, Text};
use zeroize::Zeroizing;

use crate::buffer::{Input, View, overlap};
use crate::engine::{Engine, chosen};
use crate::errors;

/// From this many bytes of text on, other Python threads run meanwhile.
const DETACH: usize = 2048;

/// One key, or many of an algorithm; wiped when freed.
#[pyclass(frozen, module = "warplock._native")]
pub(crate) struct KeySet {
    algorithm: Algorithm,
    kind: Kind,
}

enum Kind {
    One(Key),
    Many {
        bytes: Zeroizing<Vec<u8>>,
        /// Made when they are first chosen by an index.
        keys: OnceLock<Vec<Key>>,
    },
}

#[pymethods]
impl KeySet {
    /// One key, or with `many` any number of them, one after the other.
    #[new]
    #[pyo3(signature = (algorithm, bytes, many))]
    fn new(algorithm: &str, bytes: &Bound<'_, PyAny>, many: bool) -> PyResult<Self> {
        let py = bytes.py();
        let algorithm: Algorithm = algorithm
            .parse()
            .map_err(|error| errors::engine(py, error))?;
        let bytes = Input::of(bytes, "key")?;
        let bytes = bytes.bytes();
        let kind = match many {
            false => {
                Kind::One(Key::new(algorithm, bytes).map_err(|error| errors::engine(py, error))?)
            }
            true if !bytes.len().is_multiple_of(algorithm.key_len()) => {
                let problem = format!(
                    "{} bytes are no whole number of {algorithm} keys, which have {} bytes",
                    bytes.len(),
                    algorithm.key_len()
                );
                return Err(errors::batch(py, problem));
            }
            true => Kind::Many {
                bytes: Zeroizing::new(bytes.to_vec()),
                keys: OnceLock::new(),
            },
        };
        Ok(KeySet { algorithm, kind })
    }

    /// Random keys.
    #[staticmethod]
    #[pyo3(signature = (algorithm, count))]
    fn generate(
        py: Python<'_>,
        algorithm: &str,
        count: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let failed = |error| errors::engine(py, error);
        let algorithm: Algorithm = algorithm.parse().map_err(failed)?;
        let kind = match count {
            None => Kind::One(Key::generate(algorithm).map_err(failed)?),
            Some(count) => {
                let count = errors::number(count, "count", 0)?;
                let len = count.checked_mul(algorithm.key_len()).ok_or_else(|| {
                    errors::batch(py, format!("there is no memory for {count} keys"))
                })?;
                let mut bytes = Zeroizing::new(Vec::new());
                if bytes.try_reserve_exact(len).is_err() {
                    let message = format!("there is no memory for {count} keys");
                    return Err(PyMemoryError::new_err(message));
                }
                bytes.resize(len, 0);
                warplock::fill_random(&mut bytes).map_err(failed)?;
                Kind::Many {
                    bytes,
                    keys: OnceLock::new(),
                }
            }
        };
        Ok(KeySet { algorithm, kind })
    }

    #[getter]
    fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// Bytes of each nonce or IV.
    #[getter]
    fn iv_len(&self) -> usize {
        self.algorithm.info().iv_len()
    }

    #[getter]
    fn is_aead(&self) -> bool {
        self.algorithm.is_aead()
    }

    /// How many keys.
    #[getter]
    fn count(&self) -> usize {
        match &self.kind {
            Kind::One(_) => 1,
            Kind::Many { bytes, .. } => bytes.len() / self.algorithm.key_len(),
        }
    }

    /// Runs a batch. `layout` and `out_layout` say where the texts lie: (count, length, stride), or
    /// (offsets, sizes) of 4-byte or 8-byte integers, or (offsets, None) of one more offset than
    /// there are messages; appended tags count in sizes and offsets, but not in `length`. Without
    /// `out` the batch is in place. `iv_len`: bytes of each IV, if not the usual.
    #[pyo3(signature = (encrypts, authenticated, data, layout, out, out_layout, ivs, iv_len, draw, first_sector, aad, aad_layout, tags, tag_len, index, engine))]
    #[expect(
        clippy::too_many_arguments,
        reason = "one caller, which names them all"
    )]
    fn run(
        &self,
        py: Python<'_>,
        encrypts: bool,
        authenticated: bool,
        data: &Bound<'_, PyAny>,
        layout: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        out_layout: Option<&Bound<'_, PyAny>>,
        ivs: Option<&Bound<'_, PyAny>>,
        iv_len: Option<usize>,
        draw: bool,
        first_sector: Option<u128>,
        aad: Option<&Bound<'_, PyAny>>,
        aad_layout: Option<&Bound<'_, PyAny>>,
        tags: Option<&Bound<'_, PyAny>>,
        tag_len: usize,
        index: Option<&Bound<'_, PyAny>>,
        engine: Option<PyRef<'_, Engine>>,
    ) -> PyResult<()> {
        let set = chosen(py, &engine)?;
        let direction = match encrypts {
            true => Direction::Encrypt,
            false => Direction::Decrypt,
        };

        let is_appended = self.algorithm.is_aead() && tags.is_none();
        let (tag_in, tag_out) = match (is_appended, direction) {
            (false, _) => (0, 0),
            (true, Direction::Encrypt) => (0, tag_len),
            (true, Direction::Decrypt) => (tag_len, 0),
        };
        let layout = Layout::of(layout, tag_in)?;
        let out_layout = out_layout.map(|layout| Layout::of(layout, tag_out));
        let out_layout = out_layout.transpose()?;
        let aad_layout = aad_layout.map(|layout| Layout::of(layout, 0)).transpose()?;

        // Every buffer first: while they are held, they cannot be resized.
        let target = out.unwrap_or(data);
        let output = View::write(target, "out")?;
        let input = View::read(data, "data")?;
        let ivs = match (ivs, draw) {
            (None, _) => None,
            (Some(ivs), true) => Some(View::write(ivs, "nonces")?),
            (Some(ivs), false) => Some(View::read(ivs, "nonces")?),
        };
        let aad = aad.map(|aad| Input::of(aad, "aad")).transpose()?;
        let tags = match (tags, encrypts) {
            (None, _) => None,
            (Some(tags), true) => Some(View::write(tags, "tags")?),
            (Some(tags), false) => Some(View::read(tags, "tags")?),
        };
        let index = index.map(|index| integers(index, "index")).transpose()?;
        let index = index.map(|index| indices(py, &index)).transpose()?;

        let same = input.place() == output.place() && !input.place().is_empty();
        let mut written = vec![("out", output.place())];
        let mut read = vec![];
        if !same {
            read.push(("data", input.place()));
        }
        if let Some(ivs) = &ivs {
            if draw { &mut written } else { &mut read }.push(("nonces", ivs.place()));
        }
        if let Some(tags) = &tags {
            if encrypts { &mut written } else { &mut read }.push(("tags", tags.place()));
        }
        if let Some(aad) = &aad {
            read.push(("aad", aad.place()));
        }
        refuse_overlap(py, &written, &read)?;

        let spans = layout.spans();
        let to = out_layout.as_ref().unwrap_or(&layout);
        let text = match same {
            true if !to.equals(&layout) => {
                return Err(errors::batch(
                    py,
                    "in place, each message stays where it is: leave out out_offsets",
                ));
            }
            true => Text::InPlace {
                // SAFETY: it is writable, overlaps nothing, and no slice of the input is made.
                buffer: unsafe { output.bytes_mut() },
                spans,
            },
            false => Text::Apart {
                input: input.bytes(),
                input_spans: spans,
                // SAFETY: it is writable and overlaps nothing.
                output: unsafe { output.bytes_mut() },
                output_spans: to.spans(),
            },
        };
        let keys = self.keys(py, index.as_deref())?;
        let batch = match (authenticated, direction) {
            (true, Direction::Encrypt) => Batch::seal(keys, text),
            (true, Direction::Decrypt) => Batch::open(keys, text),
            (false, _) => Batch::new(direction, keys, text),
        };
        let batch = batch.tag_len(tag_len).ivs(match (&ivs, first_sector) {
            (None, None) => Ivs::None,
            (None, Some(first)) => Ivs::Sectors { first },
            // SAFETY: it is writable and overlaps nothing.
            (Some(view), _) if draw => Ivs::Random(unsafe { view.bytes_mut() }),
            (Some(view), _) => match iv_len.filter(|&len| len != self.algorithm.info().iv_len()) {
                None => Ivs::Each(view.bytes()),
                Some(len) => Ivs::Ragged {
                    bytes: view.bytes(),
                    spans: Spans::Even {
                        count: spans.count(),
                        len,
                        stride: len,
                    },
                },
            },
        });
        let batch = batch.aad(match (&aad, &aad_layout) {
            (None, _) => Aad::None,
            (Some(aad), None) => Aad::Shared(aad.bytes()),
            (Some(aad), Some(layout)) => Aad::Each {
                bytes: aad.bytes(),
                spans: layout.spans(),
            },
        });
        let batch = match &tags {
            None => batch,
            // SAFETY: it is writable and overlaps nothing.
            Some(view) if encrypts => batch.tags(Tags::Apart(unsafe { view.bytes_mut() })),
            Some(view) => batch.tags(Tags::Given(view.bytes())),
        };
        let done = match input.len() < DETACH {
            true => set.engine().run(batch),
            false => py.detach(|| set.engine().run(batch)),
        };
        done.map_err(|error| errors::engine(py, error))
    }
}

impl KeySet {
    /// The only key.
    pub(crate) fn one(&self, py: Python<'_>) -> PyResult<&Key> {
        match &self.kind {
            Kind::One(key) => Ok(key),
            Kind::Many { .. } => Err(errors::batch(py, "one key is needed, not several")),
        }
    }

    fn keys<'a>(&'a self, py: Python<'_>, index: Option<&'a [u32]>) -> PyResult<Keys<'a>> {
        match (&self.kind, index) {
            (Kind::One(key), None) => Ok(Keys::One(key)),
            (Kind::One(_), Some(_)) => Err(errors::batch(py, "an index needs several keys")),
            (Kind::Many { bytes, .. }, None) => Ok(Keys::Each {
                algorithm: self.algorithm,
                bytes,
            }),
            (Kind::Many { bytes, keys }, Some(index)) => {
                let keys = match keys.get() {
                    Some(keys) => keys,
                    None => {
                        let each = bytes.chunks_exact(self.algorithm.key_len());
                        let made: Result<Vec<_>, _> =
                            each.map(|key| Key::new(self.algorithm, key)).collect();
                        let made = made.map_err(|error| errors::engine(py, error))?;
                        keys.get_or_init(|| made)
                    }
                };
                Ok(Keys::Indexed { keys, index })
            }
        }
    }
}

/// Where messages lie in a buffer.
pub(crate) enum Layout {
    Even {
        count: usize,
        len: usize,
        stride: usize,
    },
    Ragged(Vec<Span>),
}

impl Layout {
    /// From what [`KeySet::run`] describes; the last `less` bytes of each are its tag.
    pub(crate) fn of(object: &Bound<'_, PyAny>, less: usize) -> PyResult<Self> {
        let py = object.py();
        if let Ok((count, len, stride)) = object.extract::<(usize, usize, usize)>() {
            return Ok(Layout::Even { count, len, stride });
        }
        let (offsets, sizes): (Bound<'_, PyAny>, Option<Bound<'_, PyAny>>) = object.extract()?;
        let offsets = integers(&offsets, "offsets")?;
        let spans: Option<Vec<Span>> = match sizes {
            Some(sizes) => {
                let sizes = integers(&sizes, "sizes")?;
                if sizes.len() != offsets.len() {
                    let problem = format!(
                        "there are {} offsets and {} sizes",
                        offsets.len(),
                        sizes.len()
                    );
                    return Err(errors::batch(py, problem));
                }
                let each = offsets.iter().zip(&sizes);
                each.map(|(&offset, &len)| span(offset, len, less))
                    .collect()
            }
            None if offsets.is_empty() => {
                return Err(errors::batch(
                    py,
                    "offsets without sizes are one more than there are messages, at least 1",
                ));
            }
            None => {
                let each = offsets.windows(2);
                each.map(|pair| span(pair[0], pair[1].checked_sub(pair[0])?, less))
                    .collect()
            }
        };
        spans.map(Layout::Ragged).ok_or_else(|| {
            errors::batch(
                py,
                "offsets and sizes must not be negative, offsets without sizes must ascend, and an \
                 appended tag must fit",
            )
        })
    }

    pub(crate) fn spans(&self) -> Spans<'_> {
        match self {
            &Layout::Even { count, len, stride } => Spans::Even { count, len, stride },
            Layout::Ragged(spans) => Spans::Ragged(spans),
        }
    }

    fn equals(&self, other: &Layout) -> bool {
        let (one, other) = (self.spans(), other.spans());
        one.count() == other.count() && (0..one.count()).all(|i| one.get(i) == other.get(i))
    }
}

fn span(offset: i64, len: i64, less: usize) -> Option<Span> {
    Some(Span {
        offset: usize::try_from(offset).ok()?,
        len: usize::try_from(len).ok()?.checked_sub(less)?,
    })
}

/// Integers of 4 or 8 bytes in the machine's byte order; larger than 2^63 count as negative.
fn integers(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<i64>> {
    let view = View::formatted(object, what)?;
    let bytes = view.bytes();
    let refused = || {
        errors::batch(
            object.py(),
            format!("{what} must be an array of integers with 4 or 8 bytes, such as NumPy's int64"),
        )
    };
    // A format may begin with the byte order.
    let format = view.format().trim_start_matches(['@', '=', '<']);
    let values = match (format, view.item_len()) {
        ("i" | "l", 4) => fixed(bytes, i32::from_ne_bytes),
        ("I" | "L", 4) => fixed(bytes, u32::from_ne_bytes),
        ("q" | "l" | "n", 8) => fixed(bytes, i64::from_ne_bytes),
        ("Q" | "L" | "N", 8) => fixed(bytes, |value| {
            i64::try_from(u64::from_ne_bytes(value)).unwrap_or(-1)
        }),
        _ => return Err(refused()),
    };
    Ok(values)
}

fn fixed<const N: usize, T: Into<i64>>(bytes: &[u8], value: fn([u8; N]) -> T) -> Vec<i64> {
    let (items, _) = bytes.as_chunks::<N>();
    items.iter().map(|&item| value(item).into()).collect()
}

fn indices(py: Python<'_>, values: &[i64]) -> PyResult<Vec<u32>> {
    let each = values.iter().map(|&value| u32::try_from(value).ok());
    let indices: Option<Vec<_>> = each.collect();
    indices.ok_or_else(|| errors::batch(py, "an index must be from 0 to 2^32 - 1"))
}

fn refuse_overlap(
    py: Python<'_>,
    written: &[(&str, Range<usize>)],
    read: &[(&str, Range<usize>)],
) -> PyResult<()> {
    for (number, (name, place)) in written.iter().enumerate() {
        let others = written[number + 1..].iter().chain(read);
        if let Some((other, _)) = others.into_iter().find(|(_, at)| overlap(place, at)) {
            let how = match (*name, *other) {
                ("out", "data") => ": to work in place, give out=data itself",
                _ => "",
            };
            return Err(errors::batch(
                py,
                format!("{name} and {other} overlap{how}"),
            ));
        }
    }
    Ok(())
}
