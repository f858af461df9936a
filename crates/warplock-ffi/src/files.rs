//! Whole files: encrypt, decrypt, verify.

use std::ffi::{c_char, c_void};
use std::fs::File;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use warplock_container::{
    Access, Envelope, Error, InputKey, Monitor, OutputFile, Sink, Source, attributes_of, open,
    rekey_file, rewrap_file, seal,
};
use warplock_keyring::{
    FileAttributes, Identities, MasterKey, Recipients, attributes, unwrap, wrap_with,
};

use crate::engine::wl_engine;
use crate::fault::{Fault, Result, run};
use crate::handle;
use crate::memory;
use crate::secrets::{lock, wl_identities, wl_recipients};
use crate::status::wl_status;

/// For `flags`: replace an existing output file.
pub const WL_REPLACE: u32 = 1;

/// For `flags` of wl_rewrap_file: encrypt the content again under a fresh key.
pub const WL_REKEY: u32 = 2;

/// For `flags` of wl_encrypt_file and wl_decrypt_file: the permissions and the time of modification of
/// the file go with it, encrypted, and come back.
pub const WL_ATTRIBUTES: u32 = 4;

/// Called with `context` and the bytes of input that are done, about 20 times a second, and once at
/// the end; always by the thread that called the library. Returns 0 to continue, anything else to
/// stop: the call then ends with WL_ERR_CANCELLED and leaves no output. It must return: no
/// longjmp, no C++ exception. It may call other functions of the library.
pub type wl_progress = Option<unsafe extern "C" fn(context: *mut c_void, done: u64) -> i32>;

/// A callback with its context.
pub(crate) struct Progress {
    function: wl_progress,
    context: *mut c_void,
}

impl Progress {
    /// Whether the work shall continue.
    fn tell(&self, done: u64) -> bool {
        match self.function {
            None => true,
            // SAFETY: by the documentation of `wl_progress`.
            Some(function) => unsafe { function(self.context, done) == 0 },
        }
    }

    /// Does `work` on another thread while this one calls the callback.
    fn watch<T: Send>(
        &self,
        monitor: &Monitor,
        work: impl FnOnce() -> warplock_container::Result<T> + Send,
    ) -> warplock_container::Result<T> {
        const BEAT: Duration = Duration::from_millis(50);
        if self.function.is_none() {
            return work();
        }
        thread::scope(|scope| {
            let (done, end) = channel::<()>();
            let started = thread::Builder::new().spawn_scoped(scope, move || {
                // Dropped at the end, even by a panic.
                let _done = done;
                work()
            });
            // A limit on threads is the machine's, no fault of the library.
            let thread = started.map_err(Error::NoThread)?;
            while end.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                if !monitor.is_cancelled() && !self.tell(monitor.done()) {
                    monitor.cancel();
                }
            }
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

/// Whether an existing file is replaced.
pub(crate) fn replaces(flags: u32) -> Result<bool> {
    match flags {
        0 => Ok(false),
        WL_REPLACE => Ok(true),
        other => Err(Fault::argument(format!(
            "the flags are {other}: take 0 or WL_REPLACE"
        ))),
    }
}

pub(crate) fn open_file(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Fault::from(Error::Read(error)).about(path))
}

/// Whether an existing file is replaced, and whether attributes are kept.
fn file_flags(flags: u32) -> Result<(bool, bool)> {
    match flags & !(WL_REPLACE | WL_ATTRIBUTES) {
        0 => Ok((flags & WL_REPLACE != 0, flags & WL_ATTRIBUTES != 0)),
        other => Err(Fault::argument(format!(
            "the flags have {other}: take 0, WL_REPLACE, WL_ATTRIBUTES or both"
        ))),
    }
}

/// The output, unless the callback asked to stop.
fn publish(output: OutputFile, monitor: &Monitor) -> warplock_container::Result<()> {
    match monitor.is_cancelled() {
        true => Err(Error::Cancelled),
        false => output.publish(),
    }
}

/// An error with the file that it is about.
fn about_either(error: Error, input: &Path, output: &Path) -> Fault {
    let path = match error {
        Error::Write(_) | Error::Create(_) => output,
        _ => input,
    };
    Fault::from(error).about(path)
}

/// A fresh key, and the envelope with it for recipients.
pub(crate) fn enveloped(
    recipients: &Mutex<Recipients>,
    attributes: Option<&FileAttributes>,
) -> warplock_container::Result<(MasterKey, Envelope)> {
    let key = MasterKey::generate()?;
    let envelope = Envelope::new(wrap_with(&key, &lock(recipients), attributes)?)?;
    Ok((key, envelope))
}

/// Encrypts the file `input` to the file `output`, under a fresh key that is wrapped for
/// `recipients`. The output appears under its name only when it is complete and on the disk; an
/// existing file is refused with WL_ERR_EXISTS unless `flags` has WL_REPLACE. With WL_ATTRIBUTES, the
/// input's permissions and time of modification go with it, encrypted (next to a passphrase there is
/// no room for them). `progress` and `plain_len` (gets the bytes of plaintext) may be NULL. Waits for
/// the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_encrypt_file(
    engine: *const wl_engine,
    input: *const c_char,
    output: *const c_char,
    recipients: *const wl_recipients,
    flags: u32,
    progress: wl_progress,
    context: *mut c_void,
    plain_len: *mut u64,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let pipeline = unsafe { handle::get(engine)? }.pipeline()?;
        // SAFETY: as above.
        let recipients = unsafe { handle::get(recipients)? };
        // SAFETY: as above.
        let input = unsafe { memory::path(input, "the input's path")? };
        // SAFETY: as above.
        let to = unsafe { memory::path(output, "the output's path")? };
        let progress = Progress {
            function: progress,
            context,
        };
        let (replace, keeps) = file_flags(flags)?;
        let file = open_file(input)?;
        let attributes = attributes_of(&file).filter(|_| keeps);
        let draft = OutputFile::create(to, replace, Access::Usual);
        let draft = draft.map_err(|error| Fault::from(error).about(to))?;
        let monitor = pipeline.monitor();
        let sealed = progress.watch(monitor, || {
            let (key, envelope) = enveloped(recipients, attributes.as_ref())?;
            let mut sink = draft.sink()?;
            envelope.write(&mut sink)?;
            let source = Source::file(&file).map_err(Error::Read)?;
            seal(source, sink, &InputKey::from(&key), &pipeline)
        });
        let sealed = sealed.map_err(|error| about_either(error, input, to))?;
        if !progress.tell(monitor.done()) {
            monitor.cancel();
        }
        publish(draft, monitor).map_err(|error| Fault::from(error).about(to))?;
        let len = warplock_container::opened_len(sealed).unwrap_or(0);
        // SAFETY: as above.
        unsafe { memory::put_if_wanted(plain_len, len, "plain_len") }
    })
}

/// Decrypts the file `input` to the file `output`, with the first of `identities` that opens it. The
/// output appears under its name only when every byte of it was verified and it is on the disk; an
/// existing file is refused with WL_ERR_EXISTS unless `flags` has WL_REPLACE. With WL_ATTRIBUTES, it
/// gets the permissions and the time of modification that came with the file, but no permission that
/// the umask, or a file that is replaced, does not give. `progress` and `plain_len` (gets the bytes of
/// plaintext) may be NULL. Waits for the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_decrypt_file(
    engine: *const wl_engine,
    input: *const c_char,
    output: *const c_char,
    identities: *const wl_identities,
    flags: u32,
    progress: wl_progress,
    context: *mut c_void,
    plain_len: *mut u64,
) -> wl_status {
    run(|| {
        let (replace, keeps) = file_flags(flags)?;
        // SAFETY: by this function's documentation.
        let to = unsafe { memory::path(output, "the output's path")? };
        // SAFETY: as above.
        let reading = unsafe { Reading::new(engine, input, identities)? };
        let progress = Progress {
            function: progress,
            context,
        };
        let draft = OutputFile::create(to, replace, Access::Usual);
        let mut draft = draft.map_err(|error| Fault::from(error).about(to))?;
        let (len, found) = reading.run(to, &progress, || draft.sink())?;
        if let Some(found) = found.filter(|_| keeps) {
            draft.restore(&found);
        }
        let published = publish(draft, reading.pipeline.monitor());
        published.map_err(|error| Fault::from(error).about(to))?;
        // SAFETY: as above.
        unsafe { memory::put_if_wanted(plain_len, len, "plain_len") }
    })
}

/// Verifies every byte of the file `input` and keeps nothing. `progress` and `plain_len` (gets the
/// bytes of plaintext) may be NULL. Waits for the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_verify_file(
    engine: *const wl_engine,
    input: *const c_char,
    identities: *const wl_identities,
    progress: wl_progress,
    context: *mut c_void,
    plain_len: *mut u64,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let reading = unsafe { Reading::new(engine, input, identities)? };
        let progress = Progress {
            function: progress,
            context,
        };
        let (len, _) = reading.run(reading.path, &progress, || Ok(Sink::nowhere()))?;
        // SAFETY: as above.
        unsafe { memory::put_if_wanted(plain_len, len, "plain_len") }
    })
}

/// Gives the encrypted file `path` the recipients `recipients` instead of its present ones, of which
/// `identities` must include one. With `flags` 0 only the envelope is written again, so the size does
/// not matter; the key of the content stays the same: a former recipient that kept it, or an older
/// copy of the file, can still decrypt the content. With WL_REKEY the content is encrypted again under
/// a fresh key, and `progress` is called, at the beginning too; the new file replaces the old one when
/// all of that was verified.
/// A crash leaves a file that the old or the new identities open; if `.NAME.rewrap` is left next to
/// it, call this again with the old ones. `progress` may be NULL. Waits for the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_rewrap_file(
    engine: *const wl_engine,
    path: *const c_char,
    identities: *const wl_identities,
    recipients: *const wl_recipients,
    flags: u32,
    progress: wl_progress,
    context: *mut c_void,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let pipeline = unsafe { handle::get(engine)? }.pipeline()?;
        // SAFETY: as above.
        let path = unsafe { memory::path(path, "the path")? };
        // SAFETY: as above.
        let identities = &unsafe { handle::get(identities)? }.identities;
        // SAFETY: as above.
        let recipients = unsafe { handle::get(recipients)? };
        let progress = Progress {
            function: progress,
            context,
        };
        let work = || match flags {
            WL_REKEY => rekey_file(path, identities, &lock(recipients), &pipeline).map(drop),
            _ => rewrap_file(path, identities, &lock(recipients)).map(drop),
        };
        match flags {
            0 => work(),
            WL_REKEY if !progress.tell(0) => Err(Error::Cancelled),
            WL_REKEY => progress.watch(pipeline.monitor(), work),
            other => {
                return Err(Fault::argument(format!(
                    "the flags are {other}: take 0 or WL_REKEY"
                )));
            }
        }
        .map_err(|error| Fault::from(error).about(path))
    })
}

/// A file that is decrypted from front to back.
struct Reading<'a> {
    pipeline: warplock_container::Pipeline,
    file: File,
    path: &'a Path,
    identities: &'a Identities,
}

impl<'a> Reading<'a> {
    /// # Safety
    /// The handles and the path are valid for `'a`.
    unsafe fn new(
        engine: *const wl_engine,
        input: *const c_char,
        identities: *const wl_identities,
    ) -> Result<Self> {
        // SAFETY: by this function's contract.
        let pipeline = unsafe { handle::get(engine)? }.pipeline()?;
        // SAFETY: as above.
        let offered = unsafe { handle::get(identities)? };
        // SAFETY: as above.
        let path = unsafe { memory::path(input, "the input's path")? };
        Ok(Reading {
            pipeline,
            file: open_file(path)?,
            path,
            identities: &offered.identities,
        })
    }

    /// Bytes of plaintext, all of which went to the sink, and what was kept of the file. `output`:
    /// where the sink is, for errors.
    fn run<'s>(
        &self,
        output: &Path,
        progress: &Progress,
        sink: impl FnOnce() -> warplock_container::Result<Sink<'s>> + Send,
    ) -> Result<(u64, Option<FileAttributes>)> {
        let monitor = self.pipeline.monitor();
        let done = progress.watch(monitor, || {
            let mut source = Source::file(&self.file).map_err(Error::Read)?;
            let envelope = Envelope::read(&mut source)?;
            let key = unwrap(envelope.wrapped(), self.identities)?;
            let found = attributes(envelope.wrapped(), &key)?;
            let len = open(source, sink()?, &InputKey::from(&key), &self.pipeline)?;
            Ok((len, found))
        });
        let done = done.map_err(|error| about_either(error, self.path, output))?;
        if !progress.tell(monitor.done()) {
            monitor.cancel();
            return Err(Error::Cancelled.into());
        }
        Ok(done)
    }
}
