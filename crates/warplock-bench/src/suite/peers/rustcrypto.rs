//! RustCrypto, which finds VAES by itself; and xts-mode over its ciphers.

use aes::cipher::consts::U16;
use aes::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt,
    BlockSizeUser, InnerIvInit, KeyInit, StreamCipher,
};
use aes::{Aes128, Aes256};
use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use ctr::{Ctr128BE, CtrCore};
use warplock::{Algorithm, Direction};
use xts_mode::Xts128;

use super::Peer;
use super::task::{Message, Task, Texts, Work};

pub(super) struct RustCrypto;

impl Peer for RustCrypto {
    fn name(&self) -> &'static str {
        "RustCrypto"
    }

    fn version(&self) -> String {
        "aes 0.9, aes-gcm 0.11, ctr 0.10, cbc 0.2, xts-mode 0.6".to_owned()
    }

    fn prepare(&self, task: &Task, texts: &Texts) -> Option<Work> {
        use Algorithm::*;
        let key = &texts.keys;
        match task.algorithm {
            Aes128Ecb if task.own_keys => Some(single_blocks()),
            Aes128Gcm if task.own_keys => Some(gcm_each::<self::Aes128Gcm>()),
            Aes256Gcm if task.own_keys => Some(gcm_each::<self::Aes256Gcm>()),
            _ if task.own_keys => None,
            Aes128Gcm => gcm::<self::Aes128Gcm>(key),
            Aes256Gcm => gcm::<self::Aes256Gcm>(key),
            Aes128Ctr => ctr::<Aes128>(key),
            Aes256Ctr => ctr::<Aes256>(key),
            Aes128Xts => xts::<Aes128>(key),
            Aes256Xts => xts::<Aes256>(key),
            Aes128Cbc => cbc::<Aes128>(key, task.direction),
            Aes256Cbc => cbc::<Aes256>(key, task.direction),
            _ => None,
        }
    }
}

/// AES with either key.
trait Aes:
    BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Clone + 'static
{
}

impl Aes for Aes128 {}
impl Aes for Aes256 {}

fn block(bytes: &[u8]) -> &Array<u8, U16> {
    bytes.try_into().expect("IVs and blocks have 16 bytes")
}

fn single_blocks() -> Work {
    Box::new(|texts| {
        for Message { key, text, .. } in texts.messages() {
            if let (Ok(cipher), Ok(text)) = (Aes128::new_from_slice(key), text.try_into()) {
                cipher.encrypt_block(text);
            }
        }
    })
}

fn seal<A: AeadInOut>(aead: &A, message: Message<'_>) {
    let Message { iv, text, tag, .. } = message;
    if let Ok(nonce) = iv.try_into()
        && let Ok(made) = aead.encrypt_inout_detached(nonce, &[], text.into())
    {
        tag.copy_from_slice(&made);
    }
}

fn gcm<A: AeadInOut + KeyInit + 'static>(key: &[u8]) -> Option<Work> {
    let aead = A::new_from_slice(key).ok()?;
    Some(Box::new(move |texts| {
        texts.messages().for_each(|message| seal(&aead, message));
    }))
}

fn gcm_each<A: AeadInOut + KeyInit>() -> Work {
    Box::new(|texts| {
        for message in texts.messages() {
            if let Ok(aead) = A::new_from_slice(message.key) {
                seal(&aead, message);
            }
        }
    })
}

fn ctr<C: Aes>(key: &[u8]) -> Option<Work> {
    let cipher = C::new_from_slice(key).ok()?;
    Some(Box::new(move |texts| {
        for Message { iv, text, .. } in texts.messages() {
            let core = CtrCore::inner_iv_init(cipher.clone(), block(iv));
            Ctr128BE::from_core(core).apply_keystream(text);
        }
    }))
}

fn xts<C: Aes>(key: &[u8]) -> Option<Work> {
    let (data, tweak) = key.split_at(key.len() / 2);
    let xts = Xts128::new(
        C::new_from_slice(data).ok()?,
        C::new_from_slice(tweak).ok()?,
    );
    Some(Box::new(move |texts| {
        for Message { iv, text, .. } in texts.messages() {
            xts.encrypt_sector(text, *block(iv));
        }
    }))
}

fn cbc<C: Aes>(key: &[u8], direction: Direction) -> Option<Work> {
    let cipher = C::new_from_slice(key).ok()?;
    Some(Box::new(move |texts| {
        for Message { iv, text, .. } in texts.messages() {
            let (blocks, _) = Array::slice_as_chunks_mut(text);
            let cipher = cipher.clone();
            match direction {
                Direction::Encrypt => {
                    cbc::Encryptor::inner_iv_init(cipher, block(iv)).encrypt_blocks(blocks);
                }
                Direction::Decrypt => {
                    cbc::Decryptor::inner_iv_init(cipher, block(iv)).decrypt_blocks(blocks);
                }
            }
        }
    }))
}
