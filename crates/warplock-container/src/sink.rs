//! Destinations of output: anything that can be written at a position, or only front to back.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::ram_file::RamFile;
use crate::system;

/// Output that can be written at any position, by many threads at the same time.
pub trait WriteAt: Sync {
    /// Writes some of `bytes` from byte `offset` on, as `pwrite` does, and returns how many.
    ///
    /// # Errors
    /// What the system says; `Interrupted` is tried again.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` from byte `offset` on.
    ///
    /// # Errors
    /// What the system says.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let write = |rest: &[u8], done| self.write_at(rest, offset + done);
        write_full(write, bytes, || false)
    }

    /// Called once the length is known, before the first write: bytes up to `end` will come.
    ///
    /// # Errors
    /// If it is already clear that they cannot be kept, such as on a full disk.
    fn reserve(&self, end: u64) -> io::Result<()> {
        let _ = end;
        Ok(())
    }
}

/// On Windows, this also moves the file's own position.
impl WriteAt for &File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        system::write_at(self, bytes, offset)
    }

    /// Allocates the space on the disk, so that a full disk is noticed before any work and the file
    /// is contiguous. The file's length stays what was written.
    #[cfg(target_os = "linux")]
    fn reserve(&self, end: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;

        // On tmpfs this allocates every page on one core (0.2 s/GiB) and saves the writers
        // nothing: measured 1.0 s/GiB with it, 0.5 s/GiB without.
        if is_on_tmpfs(self) {
            return Ok(());
        }
        match fallocate(self, FallocateFlags::KEEP_SIZE, 0, end.max(1)) {
            Err(Errno::NOSPC | Errno::DQUOT) => Err(Errno::NOSPC.into()),
            // A file system that cannot do this can still be written to.
            _ => Ok(()),
        }
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn is_on_tmpfs(file: &File) -> bool {
    /// f_type of tmpfs (statfs(2)).
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|stat| stat.f_type == TMPFS)
}

/// A new file in which runs of zeros become holes: they are not written. The caller sets the file's
/// length at the end ([`File::set_len`]), which makes a hole of the zeros there.
#[derive(Clone, Copy, Debug)]
pub struct SparseFile<'a>(pub &'a File);

impl WriteAt for SparseFile<'_> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        /// The unit of holes in common file systems, counted from the start of the file.
        const BLOCK: usize = 4096;
        let is_zero = |block: &[u8]| block.iter().all(|&byte| byte == 0);
        let next = |from: usize| BLOCK - (offset + from as u64) as usize % BLOCK;
        // A run of blocks of one kind, zeros or others.
        let (mut end, mut zeros) = (0, None);
        while end < bytes.len() {
            let block = &bytes[end..bytes.len().min(end + next(end))];
            if *zeros.get_or_insert_with(|| is_zero(block)) != is_zero(block) {
                break;
            }
            end += block.len();
        }
        match zeros {
            Some(true) => Ok(end),
            _ => (&self.0).write_at(&bytes[..end], offset),
        }
    }
}

/// The destination of output. `Write` puts bytes before those of [`crate::seal`] or
/// [`crate::open`], an envelope for example.
pub struct Sink<'a>(pub(crate) Kind<'a>);

pub(crate) enum Kind<'a> {
    /// From `start` on.
    Positioned {
        data: Box<dyn WriteAt + 'a>,
        start: u64,
        memory: Memory<'a>,
    },
    Sequential(Box<dyn Write + Send + 'a>),
    Nowhere,
}

/// Whether a positioned output lies in memory that can be filled in place.
pub(crate) enum Memory<'a> {
    No,
    /// Known when its length is.
    Perhaps(&'a File),
    Yes(RamFile<'a>),
    /// The caller's own.
    Bytes(Bytes<'a>),
}

/// The caller's memory. The pipeline fills each byte once, on whatever thread.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    start: NonNull<u8>,
    len: usize,
    borrow: PhantomData<&'a mut [u8]>,
}

// SAFETY: it is a mutable borrow of bytes, which may go to another thread.
unsafe impl Send for Bytes<'_> {}
// SAFETY: threads that share it write to different places: segments do not overlap.
unsafe impl Sync for Bytes<'_> {}

impl Bytes<'_> {
    /// Where `len` bytes from `offset` on lie, if there are as many.
    pub(crate) fn memory(&self, offset: u64, len: usize) -> Option<NonNull<u8>> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(len)?;
        // SAFETY: the place lies in the borrowed bytes.
        (end <= self.len).then(|| unsafe { self.start.add(start) })
    }
}

impl WriteAt for Bytes<'_> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let place = self.memory(offset, bytes.len());
        let place = place.ok_or(io::ErrorKind::WriteZero)?;
        // SAFETY: there is room for them, no other thread writes there, and what is written comes
        // from a worker's own buffer.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(bytes.len())
    }
}

impl<'a> Sink<'a> {
    /// An open file, from its current position on: a regular file is written by many threads at the
    /// same time, anything else (a pipe, a terminal, a file opened to append) from front to back.
    /// Windows does not say which file was opened to append, so there it is this for all of them.
    ///
    /// While it is written, a regular file may have holes. If an error comes back, what it holds
    /// is to be thrown away.
    ///
    /// # Errors
    /// What the system says about the file.
    pub fn file(file: &'a File) -> io::Result<Self> {
        if !system::is_positioned(file)? {
            return Ok(Sink::sequential(file));
        }
        Sink::draft(file)
    }

    /// As [`Sink::file`], for a regular file that was not opened to append.
    pub(crate) fn draft(mut file: &'a File) -> io::Result<Self> {
        Ok(Sink::positioned(file, file.stream_position()?))
    }

    /// As [`Sink::file`]; one without a name on a RAM disk is filled in place, which is faster.
    ///
    /// # Safety
    /// While the sink lives, the file is not made shorter, be it by this descriptor or by another:
    /// accessing the mapping of a missing part would end the process.
    ///
    /// # Errors
    /// What the system says about the file.
    pub unsafe fn exclusive_file(file: &'a File) -> io::Result<Self> {
        let mut sink = Sink::file(file)?;
        if let Kind::Positioned { memory, .. } = &mut sink.0 {
            *memory = Memory::Perhaps(file);
        }
        Ok(sink)
    }

    /// Something that can be written at any position, from byte `start` on.
    pub fn positioned(data: impl WriteAt + 'a, start: u64) -> Self {
        Sink(Kind::Positioned {
            data: Box::new(data),
            start,
            memory: Memory::No,
        })
    }

    /// Memory, which may be longer than what comes; it is opened or sealed in place there. If an
    /// error comes back, what it holds is to be thrown away.
    pub fn bytes(bytes: &'a mut [u8]) -> Self {
        let bytes = Bytes {
            len: bytes.len(),
            start: NonNull::from(bytes).cast(),
            borrow: PhantomData,
        };
        Sink(Kind::Positioned {
            data: Box::new(bytes),
            start: 0,
            memory: Memory::Bytes(bytes),
        })
    }

    /// Anything that can only be written from front to back. Each segment is verified before it
    /// is written, so what comes out before an error is good but incomplete.
    pub fn sequential(writer: impl Write + Send + 'a) -> Self {
        Sink(Kind::Sequential(Box::new(writer)))
    }

    /// Nothing is kept: for verifying.
    pub fn nowhere() -> Self {
        Sink(Kind::Nowhere)
    }

    /// Whether output is given out front to back as it comes.
    pub(crate) fn is_sequential(&self) -> bool {
        matches!(self.0, Kind::Sequential(_))
    }

    /// Says that `len` bytes will come.
    pub(crate) fn reserve(&mut self, len: u64) -> io::Result<()> {
        match &mut self.0 {
            Kind::Positioned {
                data,
                start,
                memory,
            } => {
                let end = start.saturating_add(len);
                data.reserve(end)?;
                if let Memory::Perhaps(file) = *memory {
                    *memory = RamFile::reserve(file, end).map_or(Memory::No, Memory::Yes);
                }
                Ok(())
            }
            Kind::Sequential(_) | Kind::Nowhere => Ok(()),
        }
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Positioned { data, start, .. } => {
                let written = data.write_at(bytes, *start)?;
                *start += written as u64;
                Ok(written)
            }
            Kind::Sequential(writer) => writer.write(bytes),
            Kind::Nowhere => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Sequential(writer) => writer.flush(),
            Kind::Positioned { .. } | Kind::Nowhere => Ok(()),
        }
    }
}

/// Writes all of `bytes`. An interrupted write is tried again, unless `cancelled` says that it was
/// interrupted to stop.
pub(crate) fn write_full(
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
    bytes: &[u8],
    cancelled: impl Fn() -> bool,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match write(&bytes[done..], done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted && !cancelled() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
