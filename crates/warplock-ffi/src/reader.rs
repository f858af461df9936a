//! Random access to an encrypted file.

use std::ffi::{c_char, c_void};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use warplock_container::{Error, Reader};

use crate::engine::wl_engine;
use crate::fault::{Fault, run, run_void};
use crate::files::open_file;
use crate::handle::{self, Opaque};
use crate::memory;
use crate::part::input_key;
use crate::secrets::{lock, wl_identities};
use crate::status::wl_status;

/// An encrypted file, read at any offset. Threads may share it; they read one after the other.
pub struct wl_reader {
    _opaque: [u8; 0],
}

impl Opaque for wl_reader {
    type Value = Mutex<Reader<PositionedFile>>;
    const MAGIC: [u8; 8] = *b"wlreader";
    const NAME: &'static str = "reader";
}

/// A file with a position of its own: after a fork, both processes move that of the descriptor.
pub(crate) struct PositionedFile {
    file: File,
    at: u64,
}

impl PositionedFile {
    fn new(file: File) -> Self {
        PositionedFile { file, at: 0 }
    }
}

impl Read for PositionedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for PositionedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(_) => Some(self.file.seek(to)?),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// Opens a file to read it at any offset. Its length is verified now, its content as it is read.
/// Frees nothing of what it is given: engine and identities may be freed before the reader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_reader_open(
    engine: *const wl_engine,
    path: *const c_char,
    identities: *const wl_identities,
    reader: *mut *mut wl_reader,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let engine = unsafe { handle::get(engine)? }.engine().clone();
        // SAFETY: as above.
        let offered = unsafe { handle::get(identities)? };
        // SAFETY: as above.
        let file = open_file(unsafe { memory::path(path, "the path")? })?;
        let made = Reader::unlock(PositionedFile::new(file), &offered.identities, engine)?;
        // SAFETY: as above.
        unsafe { handle::make(reader, Mutex::new(made)) }
    })
}

/// The same for a bare stream, without an envelope, whose 32-byte key the program knows: what a
/// wl_part_sealer makes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_reader_open_with_key(
    engine: *const wl_engine,
    path: *const c_char,
    key: *const c_void,
    key_len: usize,
    reader: *mut *mut wl_reader,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let engine = unsafe { handle::get(engine)? }.engine().clone();
        // SAFETY: as above.
        let key = unsafe { input_key(key, key_len)? };
        // SAFETY: as above.
        let file = open_file(unsafe { memory::path(path, "the path")? })?;
        let made = Reader::new(PositionedFile::new(file), &key, engine)?;
        // SAFETY: as above.
        unsafe { handle::make(reader, Mutex::new(made)) }
    })
}

/// Writes the verified length of the plaintext in bytes to `len`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_reader_len(reader: *const wl_reader, len: *mut u64) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let reader = unsafe { handle::get(reader)? };
        let found = lock(reader).len();
        // SAFETY: as above.
        unsafe { memory::put(len, found, "the place for the length") }
    })
}

/// Reads verified plaintext from `offset` on into `buffer`, which has room for `size` bytes. Writes
/// to `read` how many bytes it got: fewer than `size` only at the end of the content, or before a
/// part that does not verify (the next read there fails). Waits for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_reader_read_at(
    reader: *const wl_reader,
    offset: u64,
    buffer: *mut c_void,
    size: usize,
    read: *mut usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let reader = unsafe { handle::get(reader)? };
        // SAFETY: as above.
        let buffer = unsafe { memory::bytes_mut(buffer, size, "the buffer")? };
        // SAFETY: as above.
        unsafe { memory::put(read, 0, "the place for the number of bytes read")? };
        let mut reader = lock(reader);
        let failed = |error| Fault::from(Error::Read(error));
        reader.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let mut done = 0;
        while done < size {
            match reader.read(&mut buffer[done..]) {
                Ok(0) => break,
                Ok(more) => done += more,
                Err(_) if done > 0 => break,
                Err(error) => return Err(failed(error)),
            }
        }
        // SAFETY: as above.
        unsafe { memory::put(read, done, "the place for the number of bytes read") }
    })
}

/// Frees a reader that no other thread uses any more, and closes its file. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_reader_free(reader: *mut wl_reader) {
    // SAFETY: by this function's documentation.
    run_void(|| unsafe { handle::free(reader) });
}
