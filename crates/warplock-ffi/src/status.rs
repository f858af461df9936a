//! Status codes, and which error has which.

use std::ffi::{CStr, c_char};

use warplock::{BatchProblem, Error};

use crate::fault::Fault;

/// What a function returns: WL_OK, or one of the WL_ERR codes. wl_last_error has the sentence.
pub type wl_status = i32;

/// Everything was done.
pub const WL_OK: wl_status = 0;
/// An argument cannot be used: a null pointer, an unknown number, parts that do not fit together.
pub const WL_ERR_ARGUMENT: wl_status = 1;
/// The key's length does not fit the algorithm, or the halves of an XTS key are equal.
pub const WL_ERR_KEY_LENGTH: wl_status = 2;
/// Two places in memory overlap, and one of them is written.
pub const WL_ERR_OVERLAP: wl_status = 3;
/// The algorithm or this version of the library does not have what is asked for.
pub const WL_ERR_UNSUPPORTED: wl_status = 4;
/// A buffer or workspace is too small; the sentence says how many bytes are needed.
pub const WL_ERR_TOO_SMALL: wl_status = 5;
/// The chosen backend or GPU cannot be used on this machine.
pub const WL_ERR_NO_BACKEND: wl_status = 6;
/// The machine failed while it worked. Discard the output.
pub const WL_ERR_BACKEND: wl_status = 7;
/// Two messages would be encrypted with the same nonce under the same key.
pub const WL_ERR_NONCE_REUSE: wl_status = 9;
/// At least one message did not verify. Its output is zeros; that of the others is valid.
pub const WL_ERR_AUTHENTICATION: wl_status = 20;
/// No identity, passphrase or key that was given opens the file.
pub const WL_ERR_WRONG_KEY: wl_status = 21;
/// The file was modified.
pub const WL_ERR_CORRUPTED: wl_status = 22;
/// The file ends too early.
pub const WL_ERR_TRUNCATED: wl_status = 23;
/// The file is not an encrypted Warplock file of a version that the library knows.
pub const WL_ERR_FORMAT: wl_status = 24;
/// A recipient, identity or wrapped key cannot be used.
pub const WL_ERR_KEYRING: wl_status = 25;
/// The operating system could not read or write.
pub const WL_ERR_IO: wl_status = 30;
/// The operating system gave no random bytes.
pub const WL_ERR_RANDOM: wl_status = 31;
/// The progress callback asked to stop.
pub const WL_ERR_CANCELLED: wl_status = 32;
/// The output file exists already.
pub const WL_ERR_EXISTS: wl_status = 33;
/// A fault in the library: please report the sentence.
pub const WL_ERR_INTERNAL: wl_status = 1000;

/// The name of a status, such as "WL_ERR_OVERLAP"; "unknown status" for any other number. The
/// string is constant.
#[unsafe(no_mangle)]
pub extern "C" fn wl_status_name(status: wl_status) -> *const c_char {
    name(status).as_ptr()
}

fn name(status: wl_status) -> &'static CStr {
    match status {
        WL_OK => c"WL_OK",
        WL_ERR_ARGUMENT => c"WL_ERR_ARGUMENT",
        WL_ERR_KEY_LENGTH => c"WL_ERR_KEY_LENGTH",
        WL_ERR_OVERLAP => c"WL_ERR_OVERLAP",
        WL_ERR_UNSUPPORTED => c"WL_ERR_UNSUPPORTED",
        WL_ERR_TOO_SMALL => c"WL_ERR_TOO_SMALL",
        WL_ERR_NO_BACKEND => c"WL_ERR_NO_BACKEND",
        WL_ERR_BACKEND => c"WL_ERR_BACKEND",
        WL_ERR_NONCE_REUSE => c"WL_ERR_NONCE_REUSE",
        WL_ERR_AUTHENTICATION => c"WL_ERR_AUTHENTICATION",
        WL_ERR_WRONG_KEY => c"WL_ERR_WRONG_KEY",
        WL_ERR_CORRUPTED => c"WL_ERR_CORRUPTED",
        WL_ERR_TRUNCATED => c"WL_ERR_TRUNCATED",
        WL_ERR_FORMAT => c"WL_ERR_FORMAT",
        WL_ERR_KEYRING => c"WL_ERR_KEYRING",
        WL_ERR_IO => c"WL_ERR_IO",
        WL_ERR_RANDOM => c"WL_ERR_RANDOM",
        WL_ERR_CANCELLED => c"WL_ERR_CANCELLED",
        WL_ERR_EXISTS => c"WL_ERR_EXISTS",
        WL_ERR_INTERNAL => c"WL_ERR_INTERNAL",
        _ => c"unknown status",
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        use BatchProblem::{
            EqualHalves, OutOfBounds, RegionsOverlap, ResultsOverlap, Unsupported, Workspace,
        };
        let status = match &error {
            Error::UnknownAlgorithm { .. } => WL_ERR_ARGUMENT,
            Error::KeyLength { .. } | Error::EqualHalves { .. } => WL_ERR_KEY_LENGTH,
            Error::NonceReuse { .. } => WL_ERR_NONCE_REUSE,
            Error::Randomness => WL_ERR_RANDOM,
            Error::Authentication { .. } => WL_ERR_AUTHENTICATION,
            Error::NoBackend { .. } => WL_ERR_NO_BACKEND,
            Error::Backend { .. } => WL_ERR_BACKEND,
            Error::Batch { problem, .. } => match problem {
                EqualHalves { .. } => WL_ERR_KEY_LENGTH,
                ResultsOverlap | RegionsOverlap { .. } => WL_ERR_OVERLAP,
                Unsupported { .. } => WL_ERR_UNSUPPORTED,
                OutOfBounds { .. } | Workspace { .. } => WL_ERR_TOO_SMALL,
                _ => WL_ERR_ARGUMENT,
            },
            _ => WL_ERR_ARGUMENT,
        };
        Fault::new(status, error.to_string())
    }
}

impl From<warplock_keyring::Error> for Fault {
    fn from(error: warplock_keyring::Error) -> Self {
        use warplock_keyring::{Error, ErrorKind};
        let status = match (&error, error.kind()) {
            (Error::Io { .. }, _) => WL_ERR_IO,
            (Error::Random(_), _) => WL_ERR_RANDOM,
            (_, ErrorKind::Authentication) => WL_ERR_WRONG_KEY,
            _ => WL_ERR_KEYRING,
        };
        Fault::new(status, error.to_string())
    }
}

impl From<warplock_container::Error> for Fault {
    fn from(error: warplock_container::Error) -> Self {
        use warplock_container::{Error, ErrorKind};
        let status = match error {
            Error::Keyring(inner) => return inner.into(),
            Error::Engine(inner) => return inner.into(),
            Error::Read(source) | Error::Write(source) | Error::Create(source) => {
                return match source.downcast::<Error>() {
                    Ok(inner) => inner.into(),
                    Err(source) => Fault::new(WL_ERR_IO, source.to_string()),
                };
            }
            Error::NoThread(_) => WL_ERR_IO,
            Error::KeyLength { .. } => WL_ERR_KEY_LENGTH,
            Error::WrongKey => WL_ERR_WRONG_KEY,
            Error::Chunk { .. }
            | Error::LastChunk { .. }
            | Error::Misplaced { .. }
            | Error::TrailingData { .. } => WL_ERR_CORRUPTED,
            Error::LastChunkMissing { .. }
            | Error::EnvelopeCut
            | Error::HeaderCut { .. }
            | Error::Empty => WL_ERR_TRUNCATED,
            Error::NotWarplock { .. } | Error::NewerVersion { .. } | Error::BadEnvelope(_) => {
                WL_ERR_FORMAT
            }
            Error::OutputExists => WL_ERR_EXISTS,
            Error::OutputUnusable(_) | Error::InputShrank { .. } => WL_ERR_IO,
            Error::Randomness => WL_ERR_RANDOM,
            Error::Cancelled => WL_ERR_CANCELLED,
            ref other if other.kind() == ErrorKind::Usage => WL_ERR_ARGUMENT,
            _ => WL_ERR_ARGUMENT,
        };
        Fault::new(status, error.to_string())
    }
}
