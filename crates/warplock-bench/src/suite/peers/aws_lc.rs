//! AWS-LC: its one-shot AEAD interface for GCM, its AES functions for single blocks, EVP for the
//! rest.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use aws_lc_sys as lc;
use warplock::Mode;

use super::Peer;
use super::evp::{Context, Functions};
use super::task::{Message, Task, Texts, Work};

pub(super) struct AwsLc {
    functions: Functions,
}

/// Casts a function on AWS-LC's own types to one on opaque pointers.
///
/// # Safety
/// `function` is a C function that differs from `F` only in what its pointers point to.
unsafe fn opaque<F: Copy>(function: *const ()) -> F {
    const { assert!(size_of::<F>() == size_of::<*const ()>()) };
    // SAFETY: by this function's contract.
    unsafe { std::mem::transmute_copy(&function) }
}

impl AwsLc {
    pub(super) fn new() -> Self {
        // SAFETY: these are the functions that `Functions` describes; AWS-LC kept their types.
        let functions = unsafe {
            Functions {
                new: opaque(lc::EVP_CIPHER_CTX_new as *const ()),
                free: opaque(lc::EVP_CIPHER_CTX_free as *const ()),
                init: opaque(lc::EVP_CipherInit_ex as *const ()),
                set_padding: opaque(lc::EVP_CIPHER_CTX_set_padding as *const ()),
                update: opaque(lc::EVP_CipherUpdate as *const ()),
                end: opaque(lc::EVP_CipherFinal_ex as *const ()),
                ctrl: opaque(lc::EVP_CIPHER_CTX_ctrl as *const ()),
            }
        };
        AwsLc { functions }
    }
}

impl Peer for AwsLc {
    fn name(&self) -> &'static str {
        "AWS-LC"
    }

    fn version(&self) -> String {
        let version = lc::AWSLC_VERSION_NUMBER_STRING;
        String::from_utf8_lossy(version)
            .trim_end_matches('\0')
            .to_owned()
    }

    fn prepare(&self, task: &Task, texts: &Texts) -> Option<Work> {
        // SAFETY: these functions take nothing and return a cipher.
        let cipher = unsafe {
            match (task.mode(), task.bits()) {
                (Mode::Gcm, bits) => return Some(gcm(bits, task, texts)),
                (Mode::Ecb, 128) => return Some(single_blocks()),
                (Mode::Ctr, 128) => lc::EVP_aes_128_ctr(),
                (Mode::Ctr, 256) => lc::EVP_aes_256_ctr(),
                (Mode::Cbc, 128) => lc::EVP_aes_128_cbc(),
                (Mode::Cbc, 256) => lc::EVP_aes_256_cbc(),
                (Mode::Xts, 256) => lc::EVP_aes_256_xts(),
                // There is no AES-128-XTS.
                _ => return None,
            }
        };
        // SAFETY: the cipher is AWS-LC's, and is the task's.
        let context = unsafe { Context::new(self.functions, cipher.cast::<c_void>(), task, texts) };
        context.map(Context::into_work)
    }
}

/// An AEAD context. It is never moved: data inside is aligned by the address.
struct Aead {
    context: Box<MaybeUninit<lc::EVP_AEAD_CTX>>,
    bits: usize,
    has_key: bool,
}

impl Aead {
    fn new(bits: usize) -> Self {
        Aead {
            context: Box::new(MaybeUninit::uninit()),
            bits,
            has_key: false,
        }
    }

    fn set_key(&mut self, key: &[u8]) {
        self.clear();
        // SAFETY: the key has the algorithm's length, and there is no older key to clean up.
        let done = unsafe {
            let aead = match self.bits {
                128 => lc::EVP_aead_aes_128_gcm(),
                _ => lc::EVP_aead_aes_256_gcm(),
            };
            let context = self.context.as_mut_ptr();
            lc::EVP_AEAD_CTX_init(context, aead, key.as_ptr(), key.len(), 16, null_mut())
        };
        self.has_key = done == 1;
    }

    fn seal(&self, message: Message<'_>) {
        if !self.has_key {
            return;
        }
        let Message { iv, text, tag, .. } = message;
        let mut tag_len = 0;
        // SAFETY: the context has its key; text may be worked on in place; the tag has the bytes
        // that are told.
        unsafe {
            lc::EVP_AEAD_CTX_seal_scatter(
                self.context.as_ptr(),
                text.as_mut_ptr(),
                tag.as_mut_ptr(),
                &mut tag_len,
                tag.len(),
                iv.as_ptr(),
                iv.len(),
                text.as_ptr(),
                text.len(),
                null(),
                0,
                null(),
                0,
            );
        }
    }

    fn clear(&mut self) {
        if self.has_key {
            // SAFETY: with a key, the context is initialised.
            unsafe { lc::EVP_AEAD_CTX_cleanup(self.context.as_mut_ptr()) };
            self.has_key = false;
        }
    }
}

impl Drop for Aead {
    fn drop(&mut self) {
        self.clear();
    }
}

fn gcm(bits: usize, task: &Task, texts: &Texts) -> Work {
    let own_keys = task.own_keys;
    let mut aead = Aead::new(bits);
    aead.set_key(&texts.keys[..bits / 8]);
    Box::new(move |texts| {
        for message in texts.messages() {
            if own_keys {
                aead.set_key(message.key);
            }
            aead.seal(message);
        }
    })
}

fn single_blocks() -> Work {
    Box::new(|texts| {
        for Message { key, text, .. } in texts.messages() {
            let mut schedule = MaybeUninit::uninit();
            // SAFETY: the key has 128 bits, the text is one block; the schedule is set before it
            // is used.
            unsafe {
                lc::AES_set_encrypt_key(key.as_ptr(), 128, schedule.as_mut_ptr());
                lc::AES_encrypt(text.as_ptr(), text.as_mut_ptr(), schedule.as_ptr());
            }
        }
    })
}
