//! libgcrypt, loaded where installed.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use libloading::Library;
use warplock::Mode;

use super::task::{Message, Task, Texts, Work};
use super::{Found, Held, Peer};

/// `gcry_cipher_hd_t`.
type Handle = *mut c_void;
/// Sets a key, an IV or a counter, or returns a tag.
type Bytes<P> = unsafe extern "C" fn(Handle, P, usize) -> c_uint;
/// Encrypts or decrypts: output, its capacity, input, its length; without input in place.
type Crypt = unsafe extern "C" fn(Handle, *mut u8, usize, *const u8, usize) -> c_uint;

/// The functions in use, from gcrypt.h.
#[derive(Clone, Copy)]
struct Functions {
    open: unsafe extern "C" fn(*mut Handle, c_int, c_int, c_uint) -> c_uint,
    close: unsafe extern "C" fn(Handle),
    set_key: Bytes<*const u8>,
    set_iv: Bytes<*const u8>,
    set_counter: Bytes<*const u8>,
    tag: Bytes<*mut u8>,
    encrypt: Crypt,
    decrypt: Crypt,
}

struct Gcrypt {
    functions: Functions,
    version: String,
}

/// `GCRYCTL_DISABLE_HWF`, with the name of the feature to disable, and null.
const DISABLE: c_int = 63;
type Control = unsafe extern "C" fn(c_int, ...) -> c_uint;

pub(super) fn load(held: Held) -> Found {
    let load = || -> Result<Gcrypt, libloading::Error> {
        // SAFETY: the types are those of gcrypt.h, whose ABI is fixed by the library's name; the
        // version check initialises the library, and never unloaded, it stays so.
        unsafe {
            let library: &Library = Box::leak(Box::new(Library::new("libgcrypt.so.20")?));
            if held.is_held() {
                let control: libloading::Symbol<'_, Control> = library.get(c"gcry_control")?;
                // An unknown name does no harm: then this version has no such code.
                control(DISABLE, c"intel-vaes-vpclmul".as_ptr(), null::<c_void>());
            }
            let check: libloading::Symbol<
                '_,
                unsafe extern "C" fn(*const c_char) -> *const c_char,
            > = library.get(c"gcry_check_version")?;
            let functions = Functions {
                open: *library.get(c"gcry_cipher_open")?,
                close: *library.get(c"gcry_cipher_close")?,
                set_key: *library.get(c"gcry_cipher_setkey")?,
                set_iv: *library.get(c"gcry_cipher_setiv")?,
                set_counter: *library.get(c"gcry_cipher_setctr")?,
                tag: *library.get(c"gcry_cipher_gettag")?,
                encrypt: *library.get(c"gcry_cipher_encrypt")?,
                decrypt: *library.get(c"gcry_cipher_decrypt")?,
            };
            let version = CStr::from_ptr(check(null())).to_string_lossy().into_owned();
            Ok(Gcrypt { functions, version })
        }
    };
    match load() {
        Ok(library) => Ok(Box::new(library)),
        Err(error) => Err(format!("libgcrypt: left out, not installed ({error})")),
    }
}

impl Peer for Gcrypt {
    fn name(&self) -> &'static str {
        "libgcrypt"
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn prepare(&self, task: &Task, texts: &Texts) -> Option<Work> {
        let mut cipher = Cipher::new(self.functions, task)?;
        if !task.own_keys {
            cipher.set_key(&texts.keys);
        }
        let own_keys = task.own_keys;
        Some(Box::new(move |texts| {
            for message in texts.messages() {
                if own_keys {
                    cipher.set_key(message.key);
                }
                cipher.run(message);
            }
        }))
    }
}

/// An open cipher.
struct Cipher {
    functions: Functions,
    handle: Handle,
    mode: Mode,
    is_encrypting: bool,
}

impl Cipher {
    fn new(functions: Functions, task: &Task) -> Option<Self> {
        // GCRY_CIPHER_AES, _AES256; GCRY_CIPHER_MODE_*.
        let cipher = if task.bits() == 128 { 7 } else { 9 };
        let mode = match task.mode() {
            Mode::Ecb => 1,
            Mode::Cbc => 3,
            Mode::Ctr => 6,
            Mode::Gcm => 9,
            Mode::Xts => 13,
            Mode::Acorn => return None,
        };
        let mut handle = null_mut();
        // SAFETY: the handle is set on success.
        let error = unsafe { (functions.open)(&mut handle, cipher, mode, 0) };
        (error == 0).then_some(Cipher {
            functions,
            handle,
            mode: task.mode(),
            is_encrypting: task.is_encrypting(),
        })
    }

    fn set_key(&mut self, key: &[u8]) {
        // SAFETY: the handle is open.
        unsafe { (self.functions.set_key)(self.handle, key.as_ptr(), key.len()) };
    }

    fn run(&mut self, message: Message<'_>) {
        let Message { iv, text, tag, .. } = message;
        let functions = &self.functions;
        // SAFETY: the handle is open; without input, the text is worked on in place.
        unsafe {
            match self.mode {
                Mode::Ecb => 0,
                Mode::Ctr => (functions.set_counter)(self.handle, iv.as_ptr(), iv.len()),
                _ => (functions.set_iv)(self.handle, iv.as_ptr(), iv.len()),
            };
            let crypt = match self.is_encrypting {
                true => functions.encrypt,
                false => functions.decrypt,
            };
            crypt(self.handle, text.as_mut_ptr(), text.len(), null(), 0);
            if !tag.is_empty() {
                (functions.tag)(self.handle, tag.as_mut_ptr(), tag.len());
            }
        }
    }
}

impl Drop for Cipher {
    fn drop(&mut self) {
        // SAFETY: the handle is open and this value's own.
        unsafe { (self.functions.close)(self.handle) };
    }
}
