//! The inputs of a batch: files or pipes with equally many items.

use std::io::{ErrorKind, Read};

use warplock_container::ReadAt;
use zeroize::Zeroizing;

use crate::failure::{Failure, Result};
use crate::input::Input;

/// One of the inputs: keys, IVs, texts.
pub(super) struct Part {
    /// What its items are.
    pub(super) name: &'static str,
    /// Bytes of an item.
    pub(super) item: usize,
    input: Input,
    /// How many items, if it can be read at any place.
    pub(super) count: Option<u64>,
}

impl Part {
    pub(super) fn new(name: &'static str, item: usize, input: Input) -> Result<Self> {
        let count = match input.len {
            Some(len) if !len.is_multiple_of(item as u64) => {
                let what = format!("has {len} bytes: {name} have {item} bytes each");
                return Err(Failure::error(what).about(&input.name));
            }
            len => len.map(|len| len / item as u64),
        };
        Ok(Part {
            name,
            item,
            input,
            count,
        })
    }

    pub(super) fn input(&self) -> &Input {
        &self.input
    }

    fn failed(&self) -> impl FnOnce(std::io::Error) -> Failure + '_ {
        |error| Failure::io("cannot read", &error).about(&self.input.name)
    }

    /// Up to `most` items from the current position.
    fn read(&self, most: usize) -> Result<Zeroizing<Vec<u8>>> {
        let mut bytes = Zeroizing::new(vec![0; most * self.item]);
        let mut len = 0;
        while len < bytes.len() {
            match (&self.input.file).read(&mut bytes[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed()(error)),
            }
        }
        if !len.is_multiple_of(self.item) {
            let what = format!(
                "ends within an item: {} have {} bytes each",
                self.name, self.item
            );
            return Err(Failure::error(what).about(&self.input.name));
        }
        bytes.truncate(len);
        Ok(bytes)
    }
}

/// Items `first..` of every part.
pub(super) struct Piece {
    pub(super) first: u64,
    pub(super) count: usize,
    /// In the order of the parts.
    pub(super) bytes: Vec<Zeroizing<Vec<u8>>>,
}

/// All parts; the texts come last.
pub(super) struct Streams {
    pub(super) parts: Vec<Part>,
    /// How many items, if all parts can be read at any place.
    pub(super) count: Option<u64>,
}

impl Streams {
    pub(super) fn new(parts: Vec<Part>) -> Result<Self> {
        let known = || parts.iter().filter_map(|part| Some((part, part.count?)));
        let texts = parts.last().expect("there is a text");
        let expected = texts
            .count
            .or_else(|| known().next().map(|(_, count)| count));
        if let Some(expected) = expected
            && let Some((part, found)) = known().find(|(_, count)| *count != expected)
        {
            return Err(unequal(part, found, expected));
        }
        let all = known().count() == parts.len();
        Ok(Streams {
            count: expected.filter(|_| all),
            parts,
        })
    }

    /// Bytes of an item of every part together.
    pub(super) fn item(&self) -> usize {
        self.parts.iter().map(|part| part.item).sum()
    }

    /// The next items in order; none at the end of all parts.
    pub(super) fn next(&self, first: u64, most: usize) -> Result<Option<Piece>> {
        let read = self.parts.iter().map(|part| part.read(most));
        let bytes = read.collect::<Result<Vec<_>>>()?;
        let counts = || {
            self.parts
                .iter()
                .zip(&bytes)
                .map(|(part, own)| own.len() / part.item)
        };
        let count = counts().next_back().expect("there is a text");
        for (part, own) in self.parts.iter().zip(counts()) {
            if own != count {
                return Err(unequal(part, first + own as u64, first + count as u64));
            }
        }
        Ok((count > 0).then_some(Piece {
            first,
            count,
            bytes,
        }))
    }

    /// Room for pieces of up to `most` items.
    pub(super) fn room(&self, most: usize) -> Piece {
        let room = |part: &Part| Zeroizing::new(vec![0; most * part.item]);
        Piece {
            first: 0,
            count: most,
            bytes: self.parts.iter().map(room).collect(),
        }
    }

    /// Reads items at a place of parts that can be read at any, into a room for as many or more.
    pub(super) fn read_at(&self, first: u64, count: usize, piece: &mut Piece) -> Result<()> {
        (piece.first, piece.count) = (first, count);
        for (part, bytes) in self.parts.iter().zip(&mut piece.bytes) {
            bytes.truncate(count * part.item);
            let file = &part.input.file;
            file.read_exact_at(bytes, first * part.item as u64)
                .map_err(part.failed())?;
        }
        Ok(())
    }
}

fn unequal(part: &Part, found: u64, expected: u64) -> Failure {
    let what = format!(
        "{} {} for {expected} items of the other files: there must be as many",
        found, part.name
    );
    Failure::error(what).about(&part.input.name)
}
