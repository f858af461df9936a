//! SSH private keys in PKCS#8 (`BEGIN PRIVATE KEY`), as OpenSSL writes them. age 0.12 reads them in
//! SSH's own formats only.

use curve25519_dalek::EdwardsPoint;
use pkcs8::{ObjectIdentifier, PrivateKeyInfo};
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A private key in another format.
pub(crate) enum Key<'a> {
    /// PKCS#1 (`BEGIN RSA PRIVATE KEY`).
    Rsa(&'a [u8]),
    /// OpenSSH's format.
    Ed25519(Zeroizing<Vec<u8>>),
}

/// The key in a PKCS#8 structure, or why it cannot be used.
pub(crate) fn key(der: &[u8]) -> Result<Key<'_>, String> {
    let invalid = || "this is not a valid private key".to_owned();
    let info = PrivateKeyInfo::try_from(der).map_err(|_| invalid())?;
    match info.algorithm.oid {
        RSA => Ok(Key::Rsa(info.private_key)),
        // The seed is a DER octet string of 32 bytes within the outer one (RFC 8410, section 7).
        ED25519 => match info.private_key.strip_prefix(&[4, 32]) {
            Some(seed) => seed
                .try_into()
                .map(|seed| Key::Ed25519(openssh_ed25519(seed)))
                .map_err(|_| invalid()),
            None => Err(invalid()),
        },
        _ => Err("keys of this type cannot decrypt; use ssh-ed25519 or ssh-rsa".into()),
    }
}

/// The key with this seed in OpenSSH's private key format (its PROTOCOL.key).
fn openssh_ed25519(seed: &[u8; 32]) -> Zeroizing<Vec<u8>> {
    const KIND: &[u8] = b"ssh-ed25519";
    const NONE: &[u8] = b"none";
    // RFC 8032, section 5.1.5: the public key is the base point times half of the seed's hash.
    let mut hash = Sha512::digest(seed);
    let mut scalar = Zeroizing::new([0; 32]);
    scalar.copy_from_slice(&hash[..32]);
    zeroize::Zeroize::zeroize(hash.as_mut_slice());
    let public = EdwardsPoint::mul_base_clamped(*scalar)
        .compress()
        .to_bytes();

    // Room for all of it, so that no copies are left behind by a growing buffer.
    let mut blob = Zeroizing::new(Vec::with_capacity(512));
    let string = |blob: &mut Vec<u8>, parts: &[&[u8]]| {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        blob.extend((len as u32).to_be_bytes());
        parts.iter().for_each(|part| blob.extend(*part));
    };
    let mut public_part = Vec::new();
    string(&mut public_part, &[KIND]);
    string(&mut public_part, &[&public]);
    let mut private_part = Zeroizing::new(Vec::with_capacity(256));
    // Two equal numbers, which tell whether an encrypted key was decrypted properly.
    private_part.extend([0; 8]);
    private_part.extend(&public_part);
    string(&mut private_part, &[seed, &public]);
    string(&mut private_part, &[]);
    // Padding to whole blocks of 8.
    let padding = 1..=(private_part.len().next_multiple_of(8) - private_part.len()) as u8;
    private_part.extend(padding);

    blob.extend(b"openssh-key-v1\0");
    string(&mut blob, &[NONE]);
    string(&mut blob, &[NONE]);
    string(&mut blob, &[]);
    blob.extend(1u32.to_be_bytes());
    string(&mut blob, &[&public_part]);
    string(&mut blob, &[&private_part]);
    blob
}
