//! The same algorithms by another author: RustCrypto's crates; for ACORN a model of our own.

use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit};
use aes::cipher::{BlockModeEncrypt, InnerIvInit, StreamCipher, consts::U16};
use aes::{Aes128, Aes192, Aes256};
use ghash::{GHash, universal_hash::UniversalHash};
use warplock::{Algorithm, Cipher, Mode};

use super::acorn;

/// Everything that the modes ask of a cipher.
trait Block:
    BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Clone
{
}

impl<C> Block for C where
    C: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Clone
{
}

/// Ciphertext and, for authenticated algorithms, the 16-byte tag (otherwise none).
pub(crate) fn encrypt(
    algorithm: Algorithm,
    key: &[u8],
    iv: &[u8],
    aad: &[u8],
    plain: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let info = algorithm.info();
    let run = match info.cipher {
        Cipher::Aes128 => encrypt_with::<Aes128>,
        Cipher::Aes192 => encrypt_with::<Aes192>,
        Cipher::Aes256 => encrypt_with::<Aes256>,
        Cipher::Acorn128 => {
            let (text, tag) = acorn::seal(key, iv, aad, plain);
            return (text, tag.to_vec());
        }
    };
    run(info.mode, key, iv, aad, plain)
}

fn encrypt_with<C: Block>(
    mode: Mode,
    key: &[u8],
    iv: &[u8],
    aad: &[u8],
    plain: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let mut text = plain.to_vec();
    let (data_key, tweak_key) = key.split_at(C::key_size());
    let cipher = C::new_from_slice(data_key).unwrap();
    match mode {
        Mode::Ecb => {
            let (blocks, rest) = Array::slice_as_chunks_mut(&mut text);
            assert!(rest.is_empty());
            cipher.encrypt_blocks(blocks);
        }
        Mode::Cbc => {
            let (blocks, rest) = Array::slice_as_chunks_mut(&mut text);
            assert!(rest.is_empty());
            let iv = iv.try_into().unwrap();
            cbc::Encryptor::inner_iv_init(cipher, iv).encrypt_blocks(blocks);
        }
        Mode::Ctr => {
            let iv = iv.try_into().unwrap();
            ctr::Ctr128BE::from_core(ctr::CtrCore::inner_iv_init(cipher, iv))
                .apply_keystream(&mut text);
        }
        Mode::Xts => {
            let tweak = C::new_from_slice(tweak_key).unwrap();
            if !text.is_empty() {
                let iv: [u8; 16] = iv.try_into().unwrap();
                xts_mode::Xts128::new(cipher, tweak).encrypt_sector(&mut text, iv.into());
            }
        }
        Mode::Gcm => {
            let tag = gcm(&cipher, iv, aad, &mut text);
            return (text, tag.to_vec());
        }
        Mode::Acorn => unreachable!("no mode of a block cipher"),
    }
    (text, Vec::new())
}

/// SP 800-38D, 7.1, put together from `ctr` and `ghash`: `aes-gcm` takes few IV lengths.
fn gcm<C: Block>(cipher: &C, iv: &[u8], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
    let start = start_counter(hash_key_of(cipher), iv);
    let counter = &start.into();
    let mut stream = ctr::Ctr32BE::from_core(ctr::CtrCore::inner_iv_init(cipher.clone(), counter));
    let mut mask = [0; 16];
    stream.apply_keystream(&mut mask);
    stream.apply_keystream(text);
    let hash = ghash(
        hash_key_of(cipher),
        &[aad, text],
        [aad.len() as u64, text.len() as u64],
    );
    std::array::from_fn(|i| hash[i] ^ mask[i])
}

/// GHASH of some parts, each padded with zeros, and of the block with two lengths in bits.
fn ghash(h: [u8; 16], parts: &[&[u8]], lengths: [u64; 2]) -> [u8; 16] {
    let mut hash = GHash::new(&h.into());
    for part in parts {
        hash.update_padded(part);
    }
    let bits = lengths.map(|len| (len * 8).to_be_bytes());
    hash.update_padded(&bits.concat());
    hash.finalize().into()
}

/// GCM's first counter block, J0.
pub(crate) fn start_counter(h: [u8; 16], iv: &[u8]) -> [u8; 16] {
    if iv.len() == 12 {
        let mut counter = [0; 16];
        counter[..12].copy_from_slice(iv);
        counter[15] = 1;
        return counter;
    }
    ghash(h, &[iv], [0, iv.len() as u64])
}

fn hash_key_of<C: Block>(cipher: &C) -> [u8; 16] {
    let mut h = Array::default();
    cipher.encrypt_block(&mut h);
    h.into()
}

/// GHASH's key, H: the encrypted zero block.
pub(crate) fn hash_key(algorithm: Algorithm, key: &[u8]) -> [u8; 16] {
    match algorithm.info().cipher {
        Cipher::Aes128 => hash_key_of(&Aes128::new_from_slice(key).unwrap()),
        Cipher::Aes192 => hash_key_of(&Aes192::new_from_slice(key).unwrap()),
        Cipher::Aes256 => hash_key_of(&Aes256::new_from_slice(key).unwrap()),
        Cipher::Acorn128 => unreachable!("only GCM has a hash key"),
    }
}
