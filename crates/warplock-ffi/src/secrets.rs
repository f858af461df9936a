//! Recipients and identities: for whom files are encrypted, and what opens them.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warplock_keyring::{
    AskPassphrase, Error, Identities, NewIdentity, NoPrompt, Recipients, SecretString,
};

use crate::fault::{Fault, Result, run, run_void};
use crate::handle::{self, Opaque};
use crate::memory;
use crate::status::{WL_ERR_EXISTS, wl_status};

/// For whom a file is encrypted. Threads may share it.
pub struct wl_recipients {
    _opaque: [u8; 0],
}

impl Opaque for wl_recipients {
    // What age has in it cannot be shared by threads.
    type Value = Mutex<Recipients>;
    const MAGIC: [u8; 8] = *b"wl-recip";
    const NAME: &'static str = "recipients";
}

/// What opens encrypted files: secret identities and passphrases. Threads may share it while none of
/// them changes it. It is wiped when it is freed.
pub struct wl_identities {
    _opaque: [u8; 0],
}

impl Opaque for wl_identities {
    type Value = Offered;
    const MAGIC: [u8; 8] = *b"wl-ident";
    const NAME: &'static str = "identities";
}

/// Identities, and the passphrase that answers their questions.
pub(crate) struct Offered {
    pub(crate) identities: Identities,
    passphrase: Arc<Known>,
}

#[derive(Default)]
struct Known(Mutex<Option<SecretString>>);

impl AskPassphrase for Known {
    fn ask(&self, what: &str) -> warplock_keyring::Result<SecretString> {
        let known = lock(&self.0);
        known.clone().ok_or_else(|| Error::NoPassphrase {
            wanted: what.to_owned(),
            why: "none was given with wl_identities_add_passphrase".to_owned(),
        })
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// # Safety
/// As [`memory::bytes`].
unsafe fn passphrase(bytes: *const c_void, len: usize) -> Result<SecretString> {
    // SAFETY: by this function's contract.
    let bytes = unsafe { memory::bytes(bytes, len, "the passphrase")? };
    match std::str::from_utf8(bytes) {
        Ok("") => Err(Fault::argument("the passphrase is empty")),
        Ok(text) => Ok(SecretString::from(text.to_owned())),
        Err(_) => Err(Fault::argument("the passphrase is not UTF-8 text")),
    }
}

/// Makes an empty list of recipients.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_recipients_new(recipients: *mut *mut wl_recipients) -> wl_status {
    // SAFETY: by this function's documentation.
    run(|| unsafe { handle::make(recipients, Mutex::new(Recipients::new(Arc::new(NoPrompt)))) })
}

/// Adds a recipient: the text "age1..." or "ssh-ed25519 ...". After an error the list is as before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_recipients_add(
    recipients: *mut wl_recipients,
    recipient: *const c_char,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let mut recipients = lock(unsafe { handle::get(recipients)? });
        // SAFETY: as above.
        let text = unsafe { memory::text(recipient, "the recipient")? };
        Ok(recipients.add(text)?)
    })
}

/// Adds the recipients that a file lists, one per line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_recipients_add_file(
    recipients: *mut wl_recipients,
    path: *const c_char,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let mut recipients = lock(unsafe { handle::get(recipients)? });
        // SAFETY: as above.
        Ok(recipients.add_file(unsafe { memory::path(path, "the path")? })?)
    })
}

/// Encrypts for a passphrase: `len` bytes of UTF-8 text. It cannot be combined with other
/// recipients. They are copied: wipe yours. Stretching it takes about a second for each file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_recipients_add_passphrase(
    recipients: *mut wl_recipients,
    passphrase: *const c_void,
    len: usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let mut recipients = lock(unsafe { handle::get(recipients)? });
        // SAFETY: as above.
        Ok(recipients.add_passphrase(unsafe { self::passphrase(passphrase, len)? })?)
    })
}

/// Frees recipients that no other thread uses any more. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_recipients_free(recipients: *mut wl_recipients) {
    // SAFETY: by this function's documentation.
    run_void(|| unsafe { handle::free(recipients) });
}

/// Makes an empty list of identities.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_identities_new(identities: *mut *mut wl_identities) -> wl_status {
    run(|| {
        let passphrase = Arc::new(Known::default());
        let offered = Offered {
            identities: Identities::new(passphrase.clone()),
            passphrase,
        };
        // SAFETY: by this function's documentation.
        unsafe { handle::make(identities, offered) }
    })
}

/// Adds identities from memory: `len` bytes with the content of an identity file, such as a line
/// "AGE-SECRET-KEY-1...", or an SSH private key. They are copied: wipe yours.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_identities_add(
    identities: *mut wl_identities,
    content: *const c_void,
    len: usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let offered = unsafe { handle::get_mut(identities)? };
        // SAFETY: as above.
        let content = unsafe { memory::bytes(content, len, "the identity")? };
        Ok(offered.identities.add("the identity given", content)?)
    })
}

/// Adds the identities of a file: an age identity file or an SSH private key. For one that is
/// encrypted, add its passphrase first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_identities_add_file(
    identities: *mut wl_identities,
    path: *const c_char,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let offered = unsafe { handle::get_mut(identities)? };
        // SAFETY: as above.
        let path = unsafe { memory::path(path, "the path")? };
        Ok(offered.identities.add_file(path)?)
    })
}

/// Sets the passphrase, `len` bytes of UTF-8 text: for files that are encrypted for one, and for
/// encrypted identity files. A later call replaces it. It is copied: wipe yours.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_identities_add_passphrase(
    identities: *mut wl_identities,
    passphrase: *const c_void,
    len: usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let offered = unsafe { handle::get_mut(identities)? };
        // SAFETY: as above.
        let passphrase = unsafe { self::passphrase(passphrase, len)? };
        *lock(&offered.passphrase.0) = Some(passphrase);
        offered.identities.add_passphrase();
        Ok(())
    })
}

/// Frees identities that no other thread uses any more. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_identities_free(identities: *mut wl_identities) {
    // SAFETY: by this function's documentation.
    run_void(|| unsafe { handle::free(identities) });
}

/// Room for the recipient's text that wl_identity_create writes, with its zero byte.
pub const WL_RECIPIENT_SIZE: usize = 128;

/// Creates an identity file that only its owner may read, and writes the text of its recipient
/// ("age1...", with a zero byte) into `recipient`, which has room for `size` bytes: at least
/// WL_RECIPIENT_SIZE. `flags`: 0, or WL_REPLACE to replace an existing file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_identity_create(
    path: *const c_char,
    flags: u32,
    recipient: *mut c_char,
    size: usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let path = unsafe { memory::path(path, "the path")? };
        let replace = crate::files::replaces(flags)?;
        memory::refuse_short(size, WL_RECIPIENT_SIZE, "the place for the recipient")?;
        if recipient.is_null() {
            return Err(Fault::argument("the place for the recipient is NULL"));
        }
        let new = NewIdentity::generate();
        let exists = path.try_exists().unwrap_or(false);
        let written =
            warplock_keyring::write_secret_file(path, new.file_text().as_bytes(), replace);
        written.map_err(|error| match exists && !replace {
            true => Fault::new(WL_ERR_EXISTS, error.to_string()),
            false => error.into(),
        })?;
        // Only now, so that it is never one without a file.
        // SAFETY: as above.
        unsafe { memory::put_text(&new.recipient(), recipient, size) }
    })
}
