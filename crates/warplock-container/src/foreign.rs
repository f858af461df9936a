//! Recognising other formats by their first bytes, so that a mistaken file gets a useful answer.

use std::fmt;

/// What the first bytes of an input look like. `Display` names it and says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Foreign {
    /// A Warplock envelope, where a bare stream was expected.
    Envelope,
    /// An age file.
    Age,
    /// An age file in ASCII armor.
    AgeArmor,
    /// A Warplock envelope in Base64.
    Base64,
    /// A web page.
    Html,
    /// Output of `openssl enc` with a password.
    OpenSsl,
    /// An OpenPGP message in ASCII armor.
    Pgp,
    /// A LUKS volume.
    Luks,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
    /// xz.
    Xz,
    /// bzip2.
    Bzip2,
    /// ZIP.
    Zip,
    /// A PDF document.
    Pdf,
    /// A Linux program.
    Elf,
}

/// The longest first bytes that [`Foreign::of`] looks at.
pub(crate) const LONGEST_MAGIC: usize = 34;

const MAGICS: [(&[u8], Foreign); 16] = [
    (b"warplock/", Foreign::Envelope),
    (b"age-encryption.org/", Foreign::Age),
    (b"-----BEGIN AGE ENCRYPTED FILE-----", Foreign::AgeArmor),
    (b"d2FycGxvY2sv", Foreign::Base64),
    (b"<!DOCTYPE html", Foreign::Html),
    (b"<html", Foreign::Html),
    (b"Salted__", Foreign::OpenSsl),
    (b"-----BEGIN PGP MESSAGE-----", Foreign::Pgp),
    (b"LUKS\xba\xbe", Foreign::Luks),
    (b"\x1f\x8b\x08", Foreign::Gzip),
    (b"\x28\xb5\x2f\xfd", Foreign::Zstd),
    (b"\xfd7zXZ\0", Foreign::Xz),
    (b"BZh", Foreign::Bzip2),
    (b"PK\x03\x04", Foreign::Zip),
    (b"%PDF-", Foreign::Pdf),
    (b"\x7fELF", Foreign::Elf),
];

impl Foreign {
    /// What these first bytes look like.
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
        MAGICS
            .iter()
            .find(|(magic, _)| start.starts_with(magic))
            .map(|(_, foreign)| *foreign)
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Foreign::Envelope => "a Warplock envelope, which carries its own wrapped key",
            Foreign::Age => "an age file: open it with age -d",
            Foreign::AgeArmor => "an age file in armor: open it with age -d",
            Foreign::Base64 => "a Warplock envelope in Base64: decode it first (base64 -d)",
            Foreign::Html => "a web page, not the file that was to be fetched",
            Foreign::OpenSsl => "output of openssl enc: open it with openssl enc -d",
            Foreign::Pgp => "an OpenPGP message: open it with gpg -d",
            Foreign::Luks => "a LUKS volume: open it with cryptsetup",
            Foreign::Gzip => "plain gzip data",
            Foreign::Zstd => "plain Zstandard data",
            Foreign::Xz => "plain xz data",
            Foreign::Bzip2 => "plain bzip2 data",
            Foreign::Zip => "a plain ZIP archive",
            Foreign::Pdf => "a plain PDF document",
            Foreign::Elf => "a plain Linux program",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_magic_is_found_and_none_is_longer_than_what_is_read() {
        for (magic, foreign) in MAGICS {
            assert_eq!(Foreign::of(magic), Some(foreign));
            assert_eq!(Foreign::of(&magic[..magic.len() - 1]), None);
            assert!(magic.len() <= LONGEST_MAGIC);
        }
    }
}
