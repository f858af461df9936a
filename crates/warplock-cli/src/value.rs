//! Values given as hex digits or as a file: `--key`, `--iv`, `--aad`.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use warplock_keyring::shown_name;
use zeroize::Zeroizing;

use crate::failure::{Failure, Result};
use crate::hex;

/// The longest value accepted, in bytes: associated data is held in memory.
const LIMIT: usize = 64 << 20;

/// A value from the command line, perhaps a secret: never shown.
#[derive(Clone)]
pub(crate) struct Value(Zeroizing<String>);

impl FromStr for Value {
    type Err = Infallible;

    // Everything parses: an error here would be printed with the value in it.
    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        Ok(Value(Zeroizing::new(text.to_owned())))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(not shown)")
    }
}

impl Value {
    /// Whether the value should be read from standard input.
    pub(crate) fn is_stdin(&self) -> bool {
        self.0.as_str() == "@-"
    }

    /// The file that the value is read from.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.0.strip_prefix('@').map(Path::new)
    }

    /// The bytes: hex digits, or the content of the file after `@`. `option` is for errors.
    pub(crate) fn read(&self, option: &str) -> Result<Bytes> {
        match self.0.strip_prefix('@') {
            None => Ok(Bytes {
                bytes: hex::decode(&self.0)
                    .map_err(|why| Failure::usage(format_args!("{option}: {why}")))?,
                from_file: false,
            }),
            Some(file) => {
                let failed = |error: io::Error| {
                    let shown = shown_name(Path::new(file));
                    Failure::io("cannot read", &error).about(format_args!("{option} @{shown}"))
                };
                let bytes = if file == "-" {
                    read_all(io::stdin().lock())
                } else {
                    File::open(file).and_then(read_all)
                };
                Ok(Bytes {
                    bytes: bytes.map_err(failed)?,
                    from_file: true,
                })
            }
        }
    }
}

/// The bytes of a value, and where they came from.
pub(crate) struct Bytes {
    /// The bytes, wiped when dropped.
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    from_file: bool,
}

impl Bytes {
    /// This many zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        Bytes {
            bytes: Zeroizing::new(vec![0; len]),
            from_file: false,
        }
    }

    /// A hint for a value of the wrong length: a file holds raw bytes, not hex digits.
    pub(crate) fn hint(&self) -> &'static str {
        let text = self.bytes.trim_ascii_end();
        if self.from_file && !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit) {
            " (the file seems to hold hex digits; @FILE takes raw bytes)"
        } else {
            ""
        }
    }
}

/// As `read_to_end`, but bounded, and a buffer that grows is wiped before it is given up.
fn read_all(mut input: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; 4096]);
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            if filled >= LIMIT {
                return Err(io::Error::other(format!("longer than {} MiB", LIMIT >> 20)));
            }
            let mut larger = Zeroizing::new(vec![0; 2 * filled]);
            larger[..filled].copy_from_slice(&bytes);
            bytes = larger;
        }
        match input.read(&mut bytes[filled..]) {
            Ok(0) => {
                bytes.truncate(filled);
                return Ok(bytes);
            }
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_does_not_show_the_value() {
        assert!(!format!("{:?}", Value::from_str("00ff").unwrap()).contains("00ff"));
    }

    #[test]
    fn reading_grows_past_the_first_buffer() {
        for len in [0, 1, 4095, 4096, 4097, 70_000] {
            let content: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            assert_eq!(*read_all(&content[..]).unwrap(), content, "{len}");
        }
    }
}
