//! ring: GCM alone.

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use warplock::Mode;

use super::Peer;
use super::task::{Message, Task, Texts, Work};

pub(super) struct Ring;

impl Peer for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn version(&self) -> String {
        "0.17".to_owned()
    }

    fn prepare(&self, task: &Task, texts: &Texts) -> Option<Work> {
        let algorithm = match (task.mode(), task.bits()) {
            (Mode::Gcm, 128) => &AES_128_GCM,
            (Mode::Gcm, 256) => &AES_256_GCM,
            _ => return None,
        };
        let new = |key: &[u8]| Some(LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?));
        if task.own_keys {
            return Some(Box::new(move |texts| {
                for message in texts.messages() {
                    if let Some(key) = new(message.key) {
                        seal(&key, message);
                    }
                }
            }));
        }
        let key = new(&texts.keys)?;
        Some(Box::new(move |texts| {
            texts.messages().for_each(|message| seal(&key, message));
        }))
    }
}

fn seal(key: &LessSafeKey, message: Message<'_>) {
    let Message { iv, text, tag, .. } = message;
    if let Ok(nonce) = Nonce::try_assume_unique_for_key(iv)
        && let Ok(made) = key.seal_in_place_separate_tag(nonce, Aad::empty(), text)
    {
        tag.copy_from_slice(made.as_ref());
    }
}
