//! Text from outside: its encoding, and the forms in which a passphrase may have been typed.

use age::secrecy::{ExposeSecret, SecretString};
use unicode_normalization::UnicodeNormalization;
use zeroize::Zeroizing;

use crate::passphrase::secret;

/// The byte order mark that some editors write at the beginning of UTF-8 text.
const MARK: char = '\u{feff}';

/// The content of a text file, or what is wrong with its encoding.
pub(crate) fn utf8(content: &[u8]) -> std::result::Result<&str, &'static str> {
    match content {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err("it is UTF-16 text; save it as UTF-8"),
        _ => std::str::from_utf8(content).map_err(|_| "it is not UTF-8 text"),
    }
}

/// The content of a text file without its byte order mark.
pub(crate) fn without_mark(content: &[u8]) -> &[u8] {
    content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content)
}

/// The form in which a new passphrase is used: Unicode's NFC, without a byte order mark. Keyboards
/// and systems differ in how they write an accented letter.
pub(crate) fn normalized(passphrase: &SecretString) -> SecretString {
    let text = passphrase.expose_secret();
    match text.is_ascii() {
        true => passphrase.clone(),
        false => collected(unmarked(text).nfc(), text),
    }
}

/// The forms to try of a passphrase that was typed, the most likely first: NFC, as it is, and NFD,
/// in which other programs may have used it.
pub(crate) fn forms(passphrase: &SecretString) -> Vec<SecretString> {
    let text = passphrase.expose_secret();
    let mut forms = vec![normalized(passphrase)];
    if !text.is_ascii() {
        forms.extend([passphrase.clone(), collected(unmarked(text).nfd(), text)]);
        forms.dedup_by(|a, b| a.expose_secret() == b.expose_secret());
    }
    forms
}

/// Without a byte order mark, unless that is all.
fn unmarked(text: &str) -> &str {
    match text.strip_prefix(MARK) {
        Some(rest) if !rest.is_empty() => rest,
        _ => text,
    }
}

/// A secret of these characters, which another form of `text` has.
fn collected(characters: impl Iterator<Item = char>, text: &str) -> SecretString {
    /// No form of a text is longer (Unicode Standard Annex 15, section 10).
    const GROWTH: usize = 3;
    // Room for all of it, so that no copies are left behind by a growing buffer.
    let mut form = Zeroizing::new(String::with_capacity(GROWTH * text.len()));
    form.extend(characters);
    secret(&form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_passphrase() {
        let (nfc, nfd) = ("d\u{e9}j\u{e0}", "de\u{301}ja\u{300}");
        let mixed = "d\u{e9}ja\u{300}";
        for (typed, expected) in [
            ("plain", &["plain"][..]),
            (nfc, &[nfc, nfd]),
            (nfd, &[nfc, nfd]),
            (mixed, &[nfc, mixed, nfd]),
            ("\u{feff}plain", &["plain", "\u{feff}plain", "plain"]),
            ("\u{feff}", &["\u{feff}"]),
            ("\u{2126}", &["\u{3a9}", "\u{2126}", "\u{3a9}"]),
        ] {
            let typed = secret(typed);
            let found = forms(&typed);
            let found: Vec<_> = found.iter().map(|form| form.expose_secret()).collect();
            assert_eq!(found, expected);
            assert_eq!(normalized(&typed).expose_secret(), expected[0]);
        }
    }

    #[test]
    fn encodings_are_named() {
        assert_eq!(utf8(b"\xc3\xa9"), Ok("\u{e9}"));
        assert!(utf8(b"\xff\xfea\0").unwrap_err().contains("UTF-16"));
        assert!(utf8(b"\xe9").unwrap_err().contains("not UTF-8"));
        assert_eq!(without_mark(b"\xef\xbb\xbfage1"), b"age1");
    }
}
