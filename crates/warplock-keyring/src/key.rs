//! The 32 secret bytes that everything depends on, and the files that hold them.

use std::fmt;
use std::path::Path;

use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::file::{self, Exposed};

/// Bytes in a [`MasterKey`].
pub const KEY_LEN: usize = 32;

/// A key file is at most this long; one byte more is read to notice longer ones.
const KEY_FILE_MAX: usize = 2 * KEY_LEN + 2;

/// 32 secret bytes: the master key of a vault, or the input key of one encrypted file.
///
/// The bytes live on the heap, so moving the key leaves no copies behind, and are wiped
/// when it is dropped. `Debug` shows nothing of them, `==` takes the same time wherever the
/// keys differ, and there is no `Clone`: share a key by reference or `Arc`.
pub struct MasterKey(Box<Zeroizing<[u8; KEY_LEN]>>);

impl MasterKey {
    /// A new key from the operating system's random number generator.
    ///
    /// # Errors
    /// [`Error::Random`] if the system has none to give.
    pub fn generate() -> Result<Self> {
        let mut key = Self(Box::default());
        getrandom::fill(&mut key.0[..]).map_err(Error::Random)?;
        Ok(key)
    }

    /// The key with these bytes. The caller wipes its own copy.
    pub fn from_bytes(bytes: &[u8; KEY_LEN]) -> Self {
        let mut key = Self(Box::default());
        key.0.copy_from_slice(bytes);
        key
    }

    /// The secret bytes, for the cipher or derivation that uses them.
    pub fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(secret)")
    }
}

impl ConstantTimeEq for MasterKey {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.as_bytes().ct_eq(other.as_bytes())
    }
}

impl PartialEq for MasterKey {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl Eq for MasterKey {}

/// The result of [`read_key_file`].
#[derive(Debug)]
pub struct KeyFile {
    /// The key.
    pub key: MasterKey,
    /// Set if others may read the file: print it as a warning.
    pub exposed: Option<Exposed>,
}

/// Reads a key file: 32 raw bytes, or 64 hex digits with or without a final newline.
///
/// `path` may be a pipe such as `/dev/fd/3`, and `-` is standard input.
///
/// # Errors
/// [`Error::Io`] if it cannot be read, [`Error::KeyFile`] naming the file and the size
/// found if it holds anything else.
pub fn read_key_file(path: impl AsRef<Path>) -> Result<KeyFile> {
    let path = path.as_ref();
    // A longer file needs no exact count: it is wrong anyway.
    let (bytes, exposed) = file::read_secret_prefix(path, KEY_FILE_MAX + 1)?;
    let key = parse_key(&bytes).map_err(|why| Error::KeyFile {
        file: path.display().to_string(),
        why,
    })?;
    Ok(KeyFile { key, exposed })
}

/// The key in the content of a key file, or the reason why there is none.
///
/// The two forms cannot be mixed up: their lengths differ.
pub fn parse_key(content: &[u8]) -> std::result::Result<MasterKey, String> {
    let mut key = MasterKey(Box::default());
    if content.len() == KEY_LEN {
        key.0.copy_from_slice(content);
        return Ok(key);
    }
    let text = content.strip_suffix(b"\n").unwrap_or(content);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if text.len() != 2 * KEY_LEN {
        let found = match content.len() {
            0 => "it is empty".to_string(),
            n if n > KEY_FILE_MAX => format!("it holds more than {KEY_FILE_MAX} bytes"),
            n => format!("it holds {n} bytes"),
        };
        return Err(format!(
            "{found}; a key file holds 32 raw bytes or 64 hex digits"
        ));
    }
    // Every digit is checked before the verdict, so that the time reveals nothing about it.
    let mut bad = 0;
    for (byte, pair) in key.0.iter_mut().zip(text.as_chunks::<2>().0) {
        let (high, low) = (hex_value(pair[0]), hex_value(pair[1]));
        bad |= high | low;
        *byte = (high << 4) | (low & 15);
    }
    if bad & INVALID != 0 {
        return Err("it holds 64 characters, but not all are hex digits".into());
    }
    Ok(key)
}

/// Set in [`hex_value`]'s result for anything but a hex digit.
const INVALID: u8 = 0x80;

/// The value of a hex digit without a branch or table look-up that depends on it.
fn hex_value(digit: u8) -> u8 {
    // 0xff if from <= x <= to, else 0. One of the differences goes negative outside.
    let within = |x: u8, from: u8, to: u8| {
        let (x, from, to) = (i16::from(x), i16::from(from), i16::from(to));
        !((((x - from) | (to - x)) >> 8) as u8)
    };
    let lower = digit | 0x20;
    let decimal = within(digit, b'0', b'9');
    let letter = within(lower, b'a', b'f');
    (digit.wrapping_sub(b'0') & decimal)
        | (lower.wrapping_sub(b'a').wrapping_add(10) & letter)
        | (!(decimal | letter) & INVALID)
}

/// The hex digit of a value under 16, again without branch or table.
fn hex_digit(value: u8) -> u8 {
    let above_nine = ((9 - i16::from(value)) >> 8) as u8;
    value + b'0' + (above_nine & (b'a' - b'0' - 10))
}

/// Writes `key` to a new file as 64 hex digits and a newline, readable by its owner only.
///
/// The file is on the disk when this returns.
///
/// # Errors
/// [`Error::Io`] if the file exists (unless `force`, which replaces it) or cannot be
/// written.
pub fn write_key_file(path: impl AsRef<Path>, key: &MasterKey, force: bool) -> Result<()> {
    let mut text = Zeroizing::new([b'\n'; 2 * KEY_LEN + 1]);
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(key.as_bytes()) {
        *pair = [hex_digit(byte >> 4), hex_digit(byte & 15)];
    }
    file::write_secret_file(path, &text[..], force)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_of_every_byte() {
        for byte in 0..=255u8 {
            let expected = (byte as char).to_digit(16).map_or(INVALID, |v| v as u8);
            assert_eq!(hex_value(byte), expected, "byte {byte:#04x}");
        }
        for value in 0..16u8 {
            assert_eq!(
                hex_digit(value) as char,
                char::from_digit(value.into(), 16).unwrap()
            );
        }
    }

    #[test]
    fn forms_of_a_key_file() {
        let bytes: [u8; 32] = std::array::from_fn(|i| (i * 7 + 3) as u8);
        let key = MasterKey::from_bytes(&bytes);
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(parse_key(&bytes).unwrap(), key);
        assert_eq!(parse_key(hex.as_bytes()).unwrap(), key);
        assert_eq!(parse_key(format!("{hex}\n").as_bytes()).unwrap(), key);
        assert_eq!(parse_key(format!("{hex}\r\n").as_bytes()).unwrap(), key);
        assert_eq!(parse_key(hex.to_uppercase().as_bytes()).unwrap(), key);
        // Raw bytes that end like a text line are still raw.
        let mut newline = bytes;
        newline[31] = b'\n';
        assert_eq!(parse_key(&newline).unwrap().as_bytes(), &newline);
    }

    #[test]
    fn refused_key_files_name_the_size() {
        for (len, says) in [
            (0, "empty"),
            (31, "31 bytes"),
            (33, "33 bytes"),
            (63, "63 bytes"),
        ] {
            let why = parse_key(&vec![b'a'; len]).unwrap_err();
            assert!(why.contains(says), "{len}: {why}");
        }
        assert!(
            parse_key(&[b'a'; 200])
                .unwrap_err()
                .contains("more than 66")
        );
        assert!(parse_key(&[b'g'; 64]).unwrap_err().contains("hex digits"));
        assert!(parse_key(&[b'a'; 65]).is_err());
        let two_newlines = [&[b'a'; 64][..], b"\n\n"].concat();
        assert!(parse_key(&two_newlines).is_err());
    }

    #[test]
    fn debug_shows_no_bytes() {
        assert_eq!(
            format!("{:?}", MasterKey::from_bytes(&[0xab; 32])),
            "MasterKey(secret)"
        );
    }

    #[test]
    fn keys_differ_and_compare() {
        let (a, b) = (
            MasterKey::generate().unwrap(),
            MasterKey::generate().unwrap(),
        );
        assert_ne!(a, b);
        assert_eq!(a, MasterKey::from_bytes(a.as_bytes()));
    }
}
