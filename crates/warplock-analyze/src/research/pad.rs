//! The cipher, and the attack on it.

use super::generator::Generator;

/// Bytes of a key.
pub const KEY_LEN: usize = Generator::BLOCK;

/// The IV, and the text XOR the pad.
pub fn encrypt(generator: &Generator, key: &[u8; 16], iv: &[u8; 16], plain: &[u8]) -> Vec<u8> {
    let mut cipher = iv.to_vec();
    cipher.extend_from_slice(plain);
    generator.apply(key, iv, &mut cipher[Generator::BLOCK..]);
    cipher
}

/// The text; `None` if the ciphertext is shorter than an IV.
pub fn decrypt(generator: &Generator, key: &[u8; 16], cipher: &[u8]) -> Option<Vec<u8>> {
    let (iv, text) = cipher.split_first_chunk()?;
    let mut plain = text.to_vec();
    generator.apply(key, iv, &mut plain);
    Some(plain)
}

/// Known-plaintext attack: the key, from a ciphertext and the bytes of its plaintext from `offset`
/// on. It needs one whole block of 16 bytes, whose offset is a multiple of 16: a header of a file
/// format is enough. The key opens every other message, too.
///
/// A known block of plaintext gives the pad there, which is the whole state of the generator; its
/// steps are undone, back to the key. `None` if no whole block is known, or if the known bytes do
/// not fit the ciphertext; a single block always fits, and further bytes confirm the key.
pub fn recover_key(
    generator: &Generator,
    cipher: &[u8],
    known: &[u8],
    offset: usize,
) -> Option<[u8; 16]> {
    let (iv, text) = cipher.split_first_chunk::<16>()?;
    let end = offset.checked_add(known.len())?;
    let start = offset.checked_next_multiple_of(Generator::BLOCK)?;
    let block = known.get(start - offset..)?.first_chunk::<16>()?;
    let mut pad: [u8; 16] = *text.get(start..)?.first_chunk()?;
    pad.iter_mut()
        .zip(block)
        .for_each(|(byte, known)| *byte ^= known);
    let key = generator.key_of(&pad, (start / Generator::BLOCK) as u64, iv);
    // Each block gives a key: all known bytes must agree.
    let plain = decrypt(generator, &key, cipher)?;
    (plain.get(offset..end)? == known).then_some(key)
}
