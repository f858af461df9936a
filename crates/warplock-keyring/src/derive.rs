//! Sub-keys: one master key, a different key for each purpose.

use hkdf::Hkdf;
use sha2::Sha512;
use zeroize::Zeroizing;

use crate::key::MasterKey;

/// Derives `N` secret bytes for the purpose `label` from `master`.
///
/// This is HKDF-SHA512 (RFC 5869) with an empty salt, `master` as input key material and
/// `info = label || 0x00 || context`. Outputs for different labels or contexts are
/// independent: knowing one tells nothing about another or about the master key.
///
/// A label names protocol, version and purpose, for example `"warplock-vault/1 names"`, is
/// never reused for another purpose, and contains no zero byte, so that label and context
/// cannot run into each other. `context` distinguishes keys of one purpose, for example by
/// a file's id; leave it empty where there is only one.
///
/// # Panics
/// If `label` is empty or contains a zero byte: labels are constants of a program, not
/// input.
///
/// ```
/// use warplock_keyring::{MasterKey, derive};
///
/// # fn main() -> warplock_keyring::Result<()> {
/// let master = MasterKey::generate()?;
/// let names = derive::<64>(&master, "example/1 names", b"");
/// let file = derive::<32>(&master, "example/1 file", b"id of the file");
/// assert_ne!(names[..32], file[..]);
/// # Ok(())
/// # }
/// ```
pub fn derive<const N: usize>(
    master: &MasterKey,
    label: &str,
    context: &[u8],
) -> Zeroizing<[u8; N]> {
    const {
        assert!(N > 0 && N <= 255 * 64, "HKDF-SHA512 gives 1 to 16320 bytes");
    }
    assert!(
        !label.is_empty() && !label.contains('\0'),
        "a label is text without zero bytes"
    );
    let mut key = Zeroizing::new([0; N]);
    Hkdf::<Sha512>::new(None, master.as_bytes())
        .expand_multi_info(&[label.as_bytes(), &[0], context], &mut key[..])
        .expect("the length was checked at compile time");
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from RFC 5869 written out with Python's `hmac` module.
    #[test]
    fn known_answers() {
        let master = MasterKey::from_bytes(&std::array::from_fn(|i| i as u8));
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(
            hex(&derive::<32>(&master, "warplock-test/1 key", b"")[..]),
            "8eaa0b57fa8384d997bfb82b49bd56ce8f7650ec4196bcfafc778e73ad14452b"
        );
        // More than one block of SHA-512, and a context.
        assert_eq!(
            hex(&derive::<100>(&master, "warplock-test/1 key", b"file 7")[..]),
            "e8024c24f12a0e1faca55e0b4002ce8ed5d906876e260a6a22ba75238f741dbd41bff8\
             6bbfb8153a1a7200b990749cf7a5a2c5dd12659a718e80d24bf21a3f3adc2a666107e6\
             73697101a897c400da2aa04626995e9dbd751a3c55a809beaf821a65bef6"
        );
    }

    #[test]
    fn labels_and_contexts_separate() {
        let master = MasterKey::from_bytes(&[7; 32]);
        let outputs = [
            derive::<32>(&master, "a", b""),
            derive::<32>(&master, "b", b""),
            derive::<32>(&master, "a", b"b"),
            derive::<32>(&master, "ab", b""),
            derive::<32>(&MasterKey::from_bytes(&[8; 32]), "a", b""),
        ];
        for (i, a) in outputs.iter().enumerate() {
            for b in &outputs[..i] {
                assert_ne!(a[..], b[..]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "zero bytes")]
    fn a_label_with_a_zero_byte_is_refused() {
        derive::<32>(&MasterKey::from_bytes(&[7; 32]), "a\0b", b"");
    }
}
