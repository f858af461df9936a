//! The EVP interface, which OpenSSL and AWS-LC share; and OpenSSL, loaded where installed.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use libloading::Library;
use warplock::Mode;

use super::task::{Message, Task, Texts, Work};
use super::{Found, Peer};

/// `EVP_CTRL_AEAD_GET_TAG`, as `EVP_CTRL_GCM_GET_TAG`.
const GET_TAG: c_int = 0x10;

/// The functions in use. Contexts and ciphers are opaque.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub(super) new: unsafe extern "C" fn() -> *mut c_void,
    pub(super) free: unsafe extern "C" fn(*mut c_void),
    pub(super) init: Init,
    pub(super) set_padding: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    pub(super) update: Update,
    pub(super) end: unsafe extern "C" fn(*mut c_void, *mut u8, *mut c_int) -> c_int,
    pub(super) ctrl: unsafe extern "C" fn(*mut c_void, c_int, c_int, *mut c_void) -> c_int,
}

/// `EVP_CipherInit_ex`: context, cipher, engine, key, IV, 1 to encrypt or 0 to decrypt.
type Init = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    *mut c_void,
    *const u8,
    *const u8,
    c_int,
) -> c_int;

/// `EVP_CipherUpdate`: context, output, its length, input, its length.
type Update = unsafe extern "C" fn(*mut c_void, *mut u8, *mut c_int, *const u8, c_int) -> c_int;

/// An `EVP_CIPHER_CTX` with its cipher set, and its key if one serves all.
pub(super) struct Context {
    functions: Functions,
    context: *mut c_void,
    encrypt: c_int,
    own_keys: bool,
}

impl Context {
    /// None if the library refuses.
    ///
    /// # Safety
    /// `cipher` is one of the library that the functions belong to, and it fits the task.
    pub(super) unsafe fn new(
        functions: Functions,
        cipher: *const c_void,
        task: &Task,
        texts: &Texts,
    ) -> Option<Self> {
        let key = if task.own_keys {
            null()
        } else {
            texts.keys.as_ptr()
        };
        let encrypt = c_int::from(task.is_encrypting());
        // SAFETY: the cipher takes keys of the task's length; null leaves one out.
        unsafe {
            let context = Context {
                functions,
                context: (functions.new)(),
                encrypt,
                own_keys: task.own_keys,
            };
            let ready = !context.context.is_null()
                && (functions.init)(context.context, cipher, null_mut(), key, null(), encrypt) == 1
                && (functions.set_padding)(context.context, 0) == 1;
            ready.then_some(context)
        }
    }

    /// One message, in place.
    pub(super) fn run(&mut self, message: Message<'_>) {
        let Message { key, iv, text, tag } = message;
        let key = if self.own_keys { key.as_ptr() } else { null() };
        let iv = if iv.is_empty() { null() } else { iv.as_ptr() };
        let (mut len, mut rest) = (0, 0);
        let (context, functions) = (self.context, self.functions);
        // SAFETY: key, IV and tag have the lengths of the context's cipher; text may be worked on
        // in place, and without padding nothing is written after it.
        unsafe {
            (functions.init)(context, null(), null_mut(), key, iv, self.encrypt);
            let text_len = text.len() as c_int;
            let pointer = text.as_mut_ptr();
            (functions.update)(context, pointer, &mut len, pointer, text_len);
            (functions.end)(context, pointer.add(len as usize), &mut rest);
            if !tag.is_empty() {
                (functions.ctrl)(context, GET_TAG, 16, tag.as_mut_ptr().cast());
            }
        }
    }

    /// The task on all messages.
    pub(super) fn into_work(mut self) -> Work {
        Box::new(move |texts| texts.messages().for_each(|message| self.run(message)))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is this value's own; null is allowed.
        unsafe { (self.functions.free)(self.context) };
    }
}

/// OpenSSL 3's library.
struct OpenSsl {
    library: &'static Library,
    functions: Functions,
}

/// Loads OpenSSL.
pub(super) fn openssl() -> Found {
    let load = || -> Result<OpenSsl, libloading::Error> {
        // SAFETY: the library's initialisers do what every program that links it lets them do;
        // the types are those of OpenSSL 3's evp.h.
        unsafe {
            // Never unloaded: it leaves handlers for the process's end.
            let library: &Library = Box::leak(Box::new(Library::new("libcrypto.so.3")?));
            let functions = Functions {
                new: *library.get(c"EVP_CIPHER_CTX_new")?,
                free: *library.get(c"EVP_CIPHER_CTX_free")?,
                init: *library.get(c"EVP_CipherInit_ex")?,
                set_padding: *library.get(c"EVP_CIPHER_CTX_set_padding")?,
                update: *library.get(c"EVP_CipherUpdate")?,
                end: *library.get(c"EVP_CipherFinal_ex")?,
                ctrl: *library.get(c"EVP_CIPHER_CTX_ctrl")?,
            };
            Ok(OpenSsl { library, functions })
        }
    };
    match load() {
        Ok(library) => Ok(Box::new(library)),
        Err(error) => Err(format!("OpenSSL: left out, not installed ({error})")),
    }
}

impl Peer for OpenSsl {
    fn name(&self) -> &'static str {
        "OpenSSL"
    }

    fn version(&self) -> String {
        type Version = unsafe extern "C" fn(c_int) -> *const c_char;
        // SAFETY: 0 asks for the version, a string that lives as long as the library.
        unsafe {
            match self.library.get::<Version>(c"OpenSSL_version") {
                Ok(version) => CStr::from_ptr(version(0)).to_string_lossy().into_owned(),
                Err(_) => "unknown".to_owned(),
            }
        }
    }

    fn prepare(&self, task: &Task, texts: &Texts) -> Option<Work> {
        let mode = match task.mode() {
            Mode::Ecb => "ecb",
            Mode::Cbc => "cbc",
            Mode::Ctr => "ctr",
            Mode::Xts => "xts",
            Mode::Gcm => "gcm",
            Mode::Acorn => return None,
        };
        let name = format!("EVP_aes_{}_{mode}", task.bits());
        // SAFETY: these functions take nothing and give the cipher of that name.
        unsafe {
            let cipher: libloading::Symbol<'_, unsafe extern "C" fn() -> *const c_void> =
                self.library.get(name.as_str()).ok()?;
            Context::new(self.functions, cipher(), task, texts).map(Context::into_work)
        }
    }
}
