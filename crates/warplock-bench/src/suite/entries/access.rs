//! Reading and writing files in pieces: through the page cache if they are in it, otherwise by
//! direct I/O, with many concurrent requests.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, openat};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::buffer::{Buffer, PAGE};

/// Bytes of each file that a worker takes at a time from memory: keys and texts together stay in
/// the L2 cache, and the three system calls cost under 1 % of the work on them, which is all that
/// `io_uring` could save.
///
/// Alternatives that were measured (16 M entries, ext4 and tmpfs, 2 AES-NI cores): mapped inputs took 12 %
/// less CPU time where the kernel has large folios, but no less wall time, and a file that shrinks
/// would kill the process; pieces of 4 MiB took twice the CPU time; more workers than cores gained
/// nothing. Preallocated outputs were a little faster to disk, and a full disk shows before any work.
pub(super) const CACHED_PIECE: u64 = 128 << 10;

/// The same from a disk, large enough that a disk over a network or a hypervisor reaches its full
/// rate. A disk that does 0.97 GB/s with this did 0.58 with pieces of 1 MiB, and 0.27 with threads
/// that read two files in turn through the page cache, because each of them disturbs the other's
/// read-ahead.
const DISK_PIECE: u64 = 4 << 20;

/// Concurrent requests to a disk, each by a worker with two buffers.
const DISK_WORKERS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// Places of a file that are probed to find out whether it is in memory.
const LOOKS: u64 = 64;

/// A file that is read and written at offsets: whole pages from a page boundary on, except at the
/// file's end.
pub(super) trait At: Sync {
    /// Fills a page-aligned buffer.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes a page-aligned buffer.
    fn write(&self, buffer: &[u8], offset: u64) -> io::Result<()>;
}

impl At for &File {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
    fn write(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(buffer, offset)
    }
}

/// Files, and how to go through them.
pub(super) struct Access<'a, const N: usize> {
    pub(super) files: [Box<dyn At + 'a>; N],
    /// How many work at the same time, each on its own pieces.
    pub(super) workers: NonZeroUsize,
    /// Bytes of a piece.
    pub(super) piece: u64,
}

impl<'a, const N: usize> Access<'a, N> {
    /// The best access for files of `len` bytes, the first `inputs` of which are read.
    pub(super) fn best(
        files: [&'a File; N],
        inputs: usize,
        len: u64,
        threads: NonZeroUsize,
    ) -> Self {
        match files[..inputs].iter().all(|file| is_in_memory(file, len)) {
            true => Access::cached(files, threads, CACHED_PIECE),
            false => Access::direct(files, threads)
                .unwrap_or_else(|| Access::cached(files, threads, CACHED_PIECE)),
        }
    }

    /// Through the page cache.
    pub(super) fn cached(files: [&'a File; N], workers: NonZeroUsize, piece: u64) -> Self {
        Access {
            files: files.map(|file| Box::new(file) as Box<dyn At>),
            workers,
            piece,
        }
    }

    /// By direct I/O; `None` if a file system does not support it.
    fn direct(files: [&'a File; N], threads: NonZeroUsize) -> Option<Self> {
        let direct = files.map(Direct::open);
        direct.iter().all(Option::is_some).then(|| Access {
            files: direct.map(|file| Box::new(file.expect("all are open")) as Box<dyn At>),
            workers: threads.max(DISK_WORKERS),
            piece: DISK_PIECE,
        })
    }
}

/// A file with a second descriptor for direct I/O.
struct Direct<'a> {
    plain: &'a File,
    direct: File,
}

impl<'a> Direct<'a> {
    /// None where the file system has no direct I/O.
    fn open(plain: &'a File) -> Option<Self> {
        let access = fcntl_getfl(plain).ok()? & OFlags::RWMODE;
        // A file without a name can be opened by its number.
        let path = format!("/proc/self/fd/{}", plain.as_raw_fd());
        let flags = access | OFlags::DIRECT | OFlags::CLOEXEC;
        let direct = File::from(openat(CWD, path, flags, Mode::empty()).ok()?);
        // Some file systems take the flag and then refuse the first read.
        let mut page = Buffer::new(PAGE);
        direct.read_at(&mut page, 0).ok()?;
        Some(Direct { plain, direct })
    }
}

impl At for Direct<'_> {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let (whole, rest) = buffer.split_at_mut(buffer.len() - buffer.len() % PAGE);
        self.direct.read_exact_at(whole, offset)?;
        self.plain.read_exact_at(rest, offset + whole.len() as u64)
    }

    fn write(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let (whole, rest) = buffer.split_at(buffer.len() - buffer.len() % PAGE);
        self.direct.write_all_at(whole, offset)?;
        self.plain.write_all_at(rest, offset + whole.len() as u64)
    }
}

/// Whether most of a file's first `len` bytes can be read without a disk: they are in the page
/// cache, or the file lives in memory.
fn is_in_memory(file: &File, len: u64) -> bool {
    let looks = LOOKS.min(len.div_ceil(PAGE as u64)).max(1);
    let there = (0..looks).filter(|look| {
        let mut byte = [0];
        let place = len / looks * look;
        let slices = &mut [IoSliceMut::new(&mut byte)];
        match preadv2(file, slices, place, ReadWriteFlags::NOWAIT) {
            Err(Errno::AGAIN) => false,
            // RAM disks do not know the flag.
            _ => true,
        }
    });
    there.count() as u64 > looks / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_lengths_come_through() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let options = &mut File::options();
        let file = options.read(true).write(true).create_new(true).open(path);
        let file = file.unwrap();
        let len = 3 * PAGE + 16;
        let mut written = Buffer::new(len);
        (0..len).for_each(|i| written[i] = i as u8);
        file.set_len(len as u64).unwrap();
        // On a RAM disk there may be no direct I/O.
        let direct = Access::direct([&file], NonZeroUsize::MIN);
        let access = direct.unwrap_or_else(|| Access::cached([&file], NonZeroUsize::MIN, 1));
        let [file] = access.files;
        file.write(&written[..2 * PAGE], 0).unwrap();
        let rest = 2 * PAGE..len;
        let mut last = Buffer::new(rest.len());
        last[..rest.len()].copy_from_slice(&written[rest.clone()]);
        file.write(&last[..rest.len()], rest.start as u64).unwrap();
        let mut read = Buffer::new(len);
        file.read(&mut read[..len], 0).unwrap();
        assert_eq!(read[..len], written[..len]);
        assert_eq!(
            std::fs::read(folder.path().join("file")).unwrap(),
            written[..len]
        );
    }

    #[test]
    fn what_was_just_written_is_in_memory() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &[1; 5 * PAGE]).unwrap();
        assert!(is_in_memory(&file, 5 * PAGE as u64));
    }
}
