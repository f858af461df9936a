//! The algorithm table: every cipher and mode that the engine knows, one row each.

use std::fmt;
use std::str::FromStr;

use crate::{Direction, Error};

/// A cipher: a block cipher as FIPS 197 names it, or one that is its own mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES with a 128-bit key, 10 rounds.
    Aes128,
    /// AES with a 192-bit key, 12 rounds.
    Aes192,
    /// AES with a 256-bit key, 14 rounds.
    Aes256,
    /// ACORN-128 v3, a shift register with a 128-bit key.
    Acorn128,
}

/// A mode of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Electronic codebook (SP 800-38A). For interoperability and benchmarks only: equal blocks
    /// of text stay visible as equal blocks.
    Ecb,
    /// Cipher block chaining (SP 800-38A), without padding. For interoperability: it does not
    /// detect changes. [`crate::pkcs7`] pads.
    Cbc,
    /// Counter mode (SP 800-38A) with a whole 16-byte big-endian start counter that wraps at 2^128.
    /// It does not detect changes.
    Ctr,
    /// XEX with ciphertext stealing (IEEE 1619, SP 800-38E), for storage sectors. It does not
    /// detect changes.
    Xts,
    /// Galois/counter mode (SP 800-38D): authenticated encryption. The one to use.
    Gcm,
    /// ACORN-128 v3 (H. Wu, 2016; in CAESAR's portfolio for small devices): lightweight
    /// authenticated encryption, here for interoperability and research. It claims nothing once a
    /// nonce was used twice under one key.
    Acorn,
}

/// An algorithm: a cipher in a mode, or ACORN, which is both. `Display` and `FromStr` use names like `aes-256-gcm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name is its own documentation")]
pub enum Algorithm {
    Aes128Ecb,
    Aes192Ecb,
    Aes256Ecb,
    Aes128Cbc,
    Aes192Cbc,
    Aes256Cbc,
    Aes128Ctr,
    Aes192Ctr,
    Aes256Ctr,
    Aes128Xts,
    Aes256Xts,
    Aes128Gcm,
    Aes192Gcm,
    Aes256Gcm,
    Acorn128,
}

/// One row of the algorithm table.
#[derive(Debug)]
pub struct AlgorithmInfo {
    /// The algorithm that this row describes.
    pub algorithm: Algorithm,
    /// Its name in commands and messages.
    pub name: &'static str,
    /// The block cipher.
    pub cipher: Cipher,
    /// The mode of operation.
    pub mode: Mode,
    /// Key length in bytes (for XTS both halves together).
    pub key_len: usize,
}

const fn row(
    algorithm: Algorithm,
    name: &'static str,
    cipher: Cipher,
    mode: Mode,
) -> AlgorithmInfo {
    let halves = if matches!(mode, Mode::Xts) { 2 } else { 1 };
    AlgorithmInfo {
        algorithm,
        name,
        cipher,
        mode,
        key_len: cipher.key_len() * halves,
    }
}

/// In the order of the enum, so that a discriminant is an index.
static TABLE: [AlgorithmInfo; Algorithm::COUNT] = {
    use Algorithm::*;
    use Cipher::{Aes128, Aes192, Aes256};
    use Mode::*;
    [
        row(Aes128Ecb, "aes-128-ecb", Aes128, Ecb),
        row(Aes192Ecb, "aes-192-ecb", Aes192, Ecb),
        row(Aes256Ecb, "aes-256-ecb", Aes256, Ecb),
        row(Aes128Cbc, "aes-128-cbc", Aes128, Cbc),
        row(Aes192Cbc, "aes-192-cbc", Aes192, Cbc),
        row(Aes256Cbc, "aes-256-cbc", Aes256, Cbc),
        row(Aes128Ctr, "aes-128-ctr", Aes128, Ctr),
        row(Aes192Ctr, "aes-192-ctr", Aes192, Ctr),
        row(Aes256Ctr, "aes-256-ctr", Aes256, Ctr),
        row(Aes128Xts, "aes-128-xts", Aes128, Xts),
        row(Aes256Xts, "aes-256-xts", Aes256, Xts),
        row(Aes128Gcm, "aes-128-gcm", Aes128, Gcm),
        row(Aes192Gcm, "aes-192-gcm", Aes192, Gcm),
        row(Aes256Gcm, "aes-256-gcm", Aes256, Gcm),
        row(Acorn128, "acorn-128", Cipher::Acorn128, Acorn),
    ]
};

impl Cipher {
    /// Key length in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Cipher::Aes128 | Cipher::Acorn128 => 16,
            Cipher::Aes192 => 24,
            Cipher::Aes256 => 32,
        }
    }
}

impl Algorithm {
    /// How many there are.
    pub(crate) const COUNT: usize = 15;

    /// Every algorithm, in the order of the table.
    pub fn all() -> impl Iterator<Item = Algorithm> {
        TABLE.iter().map(|row| row.algorithm)
    }

    /// This algorithm's row of the table.
    pub fn info(self) -> &'static AlgorithmInfo {
        &TABLE[self as usize]
    }

    /// The name used in commands and messages, such as `aes-256-gcm`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Key length in bytes (for XTS both halves together).
    pub fn key_len(self) -> usize {
        self.info().key_len
    }

    /// Whether the algorithm authenticates what it encrypts.
    pub fn is_aead(self) -> bool {
        matches!(self.info().mode, Mode::Gcm | Mode::Acorn)
    }
}

impl AlgorithmInfo {
    /// Bytes of each IV in [`crate::Ivs::Each`] and [`crate::Ivs::Random`]: none for ECB, 12 for
    /// GCM, a block of 16 for the others.
    pub fn iv_len(&self) -> usize {
        match self.mode {
            Mode::Ecb => 0,
            Mode::Gcm => 12,
            Mode::Cbc | Mode::Ctr | Mode::Xts | Mode::Acorn => 16,
        }
    }

    /// Whether an IV, nonce, start counter or tweak of `len` bytes fits this algorithm: none for
    /// ECB, 16 bytes for CBC, CTR, XTS and ACORN, at least one byte for GCM.
    pub fn accepts_iv_len(&self, len: usize) -> bool {
        match self.mode {
            Mode::Ecb => len == 0,
            Mode::Cbc | Mode::Ctr | Mode::Xts | Mode::Acorn => len == 16,
            Mode::Gcm => len > 0,
        }
    }

    /// What [`AlgorithmInfo::accepts_iv_len`] accepts, in words for an error message.
    pub fn iv_rule(&self) -> &'static str {
        match self.mode {
            Mode::Ecb => "no IV",
            Mode::Cbc => "an IV of 16 bytes",
            Mode::Ctr => "a start counter of 16 bytes",
            Mode::Xts => "a tweak of 16 bytes",
            Mode::Gcm => "an IV of at least one byte (12 is best)",
            Mode::Acorn => "a nonce of 16 bytes",
        }
    }

    /// Whether the algorithm can take a text of `len` bytes: whole blocks for ECB and CBC, no
    /// text at all or at least one block for XTS (at most 2^20 blocks by IEEE 1619 is advice, not
    /// checked), at most 2^36 - 32 bytes for GCM (SP 800-38D, 5.2.1.1), less than 2^61
    /// bytes for ACORN, anything for CTR.
    pub fn accepts_text_len(&self, len: u64) -> bool {
        match self.mode {
            Mode::Ecb | Mode::Cbc => len.is_multiple_of(16),
            Mode::Ctr => true,
            Mode::Xts => len == 0 || len >= 16,
            Mode::Gcm => len <= (1 << 36) - 32,
            Mode::Acorn => len < 1 << 61,
        }
    }

    /// What [`AlgorithmInfo::accepts_text_len`] accepts, in words for an error message.
    pub fn text_rule(&self) -> &'static str {
        match self.mode {
            Mode::Ecb | Mode::Cbc => "a multiple of 16 bytes (or PKCS#7 padding)",
            Mode::Ctr => "any length",
            Mode::Xts => "at least 16 bytes",
            Mode::Gcm => "at most 68,719,476,704 bytes",
            Mode::Acorn => "less than 2^61 bytes",
        }
    }

    /// Whether a tag of `len` bytes fits: for GCM 12 to 16 to seal, also 4 or 8 to open (SP
    /// 800-38D, 5.2.1.2). For ACORN only 16: that is what its authors propose, and a shorter tag
    /// would be the last bytes of this one, not the first. None for the other modes.
    pub fn accepts_tag_len(&self, direction: Direction, len: usize) -> bool {
        match (self.mode, direction) {
            (Mode::Gcm, Direction::Encrypt) => matches!(len, 12..=16),
            (Mode::Gcm, Direction::Decrypt) => matches!(len, 4 | 8 | 12..=16),
            (Mode::Acorn, _) => len == 16,
            _ => false,
        }
    }

    /// What [`AlgorithmInfo::accepts_tag_len`] accepts, in words for an error message.
    pub fn tag_rule(&self) -> &'static str {
        match self.mode {
            Mode::Gcm => "12 to 16 to seal, 4, 8 or 12 to 16 to open",
            Mode::Acorn => "16 bytes, no fewer",
            _ => "none, as the algorithm makes no tags",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Algorithm::all()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| Error::UnknownAlgorithm {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_the_order_of_the_enum_and_names_round_trip() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.algorithm as usize, index);
            assert_eq!(row.name.parse::<Algorithm>().unwrap(), row.algorithm);
        }
        assert!("aes-512-gcm".parse::<Algorithm>().is_err());
    }
}
