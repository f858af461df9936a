//! Shared by several tests.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use warplock_keyring::{
    AskPassphrase, Identities, MasterKey, NoPrompt, Recipients, Result, SecretString,
};

/// The passphrase of all encrypted test data.
pub(crate) const PASSPHRASE: &str = "open sesame";

/// A scrypt work factor that takes no time.
pub(crate) const QUICK: u8 = 4;

pub(crate) fn data_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

pub(crate) fn data(name: &str) -> Vec<u8> {
    std::fs::read(data_path(name)).unwrap()
}

pub(crate) fn data_text(name: &str) -> String {
    String::from_utf8(data(name)).unwrap()
}

/// The key inside the `wrapped_by_age_*` files.
pub(crate) fn known_key() -> MasterKey {
    MasterKey::from_bytes(&std::array::from_fn(|i| (i * 7 + 3) as u8))
}

/// A prompt with one answer, which counts how often it is asked.
pub(crate) struct Answer {
    passphrase: &'static str,
    asked: AtomicUsize,
}

impl Answer {
    pub(crate) fn new(passphrase: &'static str) -> Arc<Self> {
        Arc::new(Self {
            passphrase,
            asked: AtomicUsize::new(0),
        })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl AskPassphrase for Answer {
    fn ask(&self, _: &str) -> Result<SecretString> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(self.passphrase.to_string().into())
    }
}

/// An SSH `string` (RFC 4251, section 5).
pub(crate) fn ssh_string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// An RSA key whose modulus is this long, and no product of primes.
pub(crate) fn rsa_recipient(bits: usize) -> String {
    let modulus = [&[0][..], &vec![0xff; bits / 8]].concat();
    let blob = [&b"ssh-rsa"[..], &[1, 0, 1], &modulus].map(ssh_string);
    format!("ssh-rsa {}", BASE64_STANDARD.encode(blob.concat()))
}

/// Recipients that need no prompt.
pub(crate) fn recipients(texts: &[&str]) -> Recipients {
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    for text in texts {
        recipients.add(text).unwrap();
    }
    recipients
}

/// A passphrase as recipient, with little work.
pub(crate) fn passphrase_recipient(passphrase: &str) -> Recipients {
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    recipients
        .add_passphrase(passphrase.to_string().into())
        .unwrap();
    recipients.set_work_factor(QUICK);
    recipients
}

/// The identities in one test file.
pub(crate) fn identity(name: &str, prompt: Arc<dyn AskPassphrase>) -> Identities {
    let mut identities = Identities::new(prompt);
    identities.add(name, &data(name)).unwrap();
    identities
}

/// A passphrase as identity.
pub(crate) fn passphrase_identity(passphrase: &'static str) -> Identities {
    let mut identities = Identities::new(Answer::new(passphrase));
    identities.add_passphrase();
    identities
}

/// Pseudo-random numbers, the same in each run (xorshift64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}
