//! A file on a RAM disk (tmpfs) that is filled in place, in huge pages.
//!
//! `pwrite` of new pages costs tmpfs more than the copy: it finds, charges and files each page of 4
//! KiB separately. A stretch of 2 MiB that is one huge page costs half, and since it is memory that
//! can be mapped, a worker seals or opens straight into it. `madvise(MADV_COLLAPSE)` (Linux 6.1)
//! makes such a page without any setting of the system.
//!
//! It is fast only while the kernel has huge pages at hand. In a virtual machine whose host takes
//! free memory back, one costs up to ten times as much; so each is timed, and after a slow one
//! the next stretches are left to `pwrite`, more of them each time; in the next files as well.
//!
//! The mapping is touched only where the kernel has just confirmed that pages are there: a full
//! disk stays an error of `pwrite` and never becomes a SIGBUS. The caller promises that the file is
//! not cut meanwhile ([`crate::Sink::exclusive_file`]); for a file with a name, that promise could
//! not be kept.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};

use crate::sink::is_on_tmpfs;

/// The crate libc lacks it for musl.
const MADV_COLLAPSE: libc::c_int = 25;

/// A huge page.
const STRETCH: usize = 2 << 20;
/// Stretches of the shortest file for which the mapping is made.
const LEAST: usize = 8;
/// The time for writing a stretch in small pages: a huge page that took longer was no gain.
/// Measured: 0.5 ms from free memory of the guest, 1.1 ms in small pages, 3.3 ms from the host.
const SLOW: Duration = Duration::from_micros(900);
/// Stretches that are left to `pwrite` after a slow one, and after many in a row.
const REST: usize = 4;
const LONGEST_REST: usize = 128;

/// See the module.
pub(crate) struct RamFile<'a> {
    file: &'a File,
    mapping: Mapping,
    /// The whole stretches that the file will have.
    stretches: Vec<Stretch>,
}

/// How many of the next stretches, of all files, no huge page is made for.
static LEFT_OUT: AtomicUsize = AtomicUsize::new(0);
/// How many it will be after the next slow one.
static NEXT_REST: AtomicUsize = AtomicUsize::new(REST);

#[derive(Default)]
struct Stretch {
    /// Whether it is a huge page; not set before the first use.
    is_huge: OnceLock<bool>,
    /// Whether a worker is making it in advance.
    claimed: AtomicBool,
    /// Bytes that are in the file.
    filled: AtomicUsize,
}

impl<'a> RamFile<'a> {
    /// For a file that will end at `end`, if it is suitable. Gives the file its final length.
    pub(crate) fn reserve(file: &'a File, end: u64) -> Option<Self> {
        let count = usize::try_from(end).ok()? / STRETCH;
        let metadata = file.metadata().ok()?;
        let unnamed = metadata.nlink() == 0;
        if count < LEAST || !unnamed || metadata.len() > end || !is_on_tmpfs(file) {
            return None;
        }
        let mapping = Mapping::new(file, count * STRETCH).ok()?;
        file.set_len(end).ok()?;
        Some(RamFile {
            file,
            mapping,
            stretches: (0..count).map(|_| Stretch::default()).collect(),
        })
    }

    /// The memory of `len` bytes of the file from `offset` on, to be filled there: valid for reads
    /// and writes while `self` lives. `None` where the file is to be written instead.
    pub(crate) fn memory(&self, offset: u64, len: usize) -> Option<NonNull<u8>> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(len)?;
        let last = end.div_ceil(STRETCH);
        let stretches = self.stretches.get(start / STRETCH..last)?;
        let make = |(index, stretch): (usize, &Stretch)| *stretch.get(|| self.make_huge(index));
        (start / STRETCH..).zip(stretches).all(make).then(|| {
            // SAFETY: the mapping is as long as all stretches, and `end` is within them.
            unsafe { self.mapping.start.add(start) }
        })
    }

    /// Called when the bytes from `offset` on are in the file, mapped or written. Unmaps full
    /// stretches, and makes the next one in advance, so that no worker waits for it.
    pub(crate) fn filled(&self, offset: u64, len: usize) {
        let start = offset as usize;
        let end = start + len;
        for index in start / STRETCH..end.div_ceil(STRETCH).min(self.stretches.len()) {
            let (from, to) = (index * STRETCH, (index + 1) * STRETCH);
            let part = end.min(to) - start.max(from);
            let filled = &self.stretches[index].filled;
            if filled.fetch_add(part, Ordering::AcqRel) + part == STRETCH {
                self.mapping.advise(from, libc::MADV_DONTNEED);
            }
        }
        let next = end.div_ceil(STRETCH);
        if let Some(stretch) = self.stretches.get(next)
            && !stretch.claimed.swap(true, Ordering::Relaxed)
        {
            stretch.get(|| self.make_huge(next));
        }
    }

    /// Makes a stretch one huge page, unless that was slow lately.
    fn make_huge(&self, index: usize) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        if LEFT_OUT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
        {
            return false;
        }
        let offset = index * STRETCH;
        let started = Instant::now();
        // The kernel collapses only what has a page. On a full disk there is none.
        let made = fallocate(self.file, FallocateFlags::KEEP_SIZE, offset as u64, 1).is_ok()
            && self.mapping.advise(offset, MADV_COLLAPSE);
        if made && started.elapsed() < SLOW {
            NEXT_REST.store(REST, Ordering::Relaxed);
        } else {
            let rest = NEXT_REST.load(Ordering::Relaxed);
            LEFT_OUT.store(rest, Ordering::Relaxed);
            NEXT_REST.store((2 * rest).min(LONGEST_REST), Ordering::Relaxed);
        }
        made
    }
}

impl Stretch {
    fn get(&self, make: impl FnOnce() -> bool) -> &bool {
        self.is_huge.get_or_init(make)
    }
}

/// A shared mapping of a file's beginning, at an address where huge pages fit.
struct Mapping {
    /// What is unmapped at the end.
    reserved: *mut c_void,
    reserved_len: usize,
    start: NonNull<u8>,
}

// SAFETY: an address range that belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; its bytes are only reached through raw pointers.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File, len: usize) -> io::Result<Self> {
        let reserved_len = len + STRETCH;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new addresses, chosen by the kernel.
        let reserved =
            unsafe { libc::mmap(null_mut(), reserved_len, libc::PROT_NONE, flags, -1, 0) };
        if reserved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let aligned = reserved.map_addr(|address| address.next_multiple_of(STRETCH));
        let mapping = Mapping {
            reserved,
            reserved_len,
            start: NonNull::new(aligned.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: replaces a part of what was just reserved, which nothing else uses.
        let mapped = unsafe { libc::mmap(aligned, len, access, flags, file.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(mapping)
    }

    /// Advises about the stretch at `offset`; returns whether the kernel accepted it.
    fn advise(&self, offset: usize, advice: i32) -> bool {
        // SAFETY: within the mapping, and neither of the two kinds of advice given here changes
        // what is read from a shared mapping of a file.
        unsafe { libc::madvise(self.start.as_ptr().add(offset).cast(), STRETCH, advice) == 0 }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: reserved by `new`, and every user of the memory borrows `self`.
        unsafe { libc::munmap(self.reserved, self.reserved_len) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const END: u64 = (9 * STRETCH + 5) as u64;

    /// An unnamed file on the RAM disk that every Linux has.
    fn unnamed() -> Option<File> {
        let file = tempfile::tempfile_in("/dev/shm").ok();
        let file = file.filter(is_on_tmpfs);
        if file.is_none() {
            eprintln!("skipped: /dev/shm is no RAM disk to write to");
        }
        file
    }

    #[test]
    fn what_is_filled_in_memory_is_in_the_file() {
        let Some(file) = unnamed() else { return };
        file.write_all_at(b"before", 0).unwrap();
        let ram = RamFile::reserve(&file, END).unwrap();
        let (offset, len) = (3 * STRETCH - 7, STRETCH + 20);
        match ram.memory(offset as u64, len) {
            // SAFETY: no other code has it.
            Some(memory) => unsafe { memory.write_bytes(0xA5, len) },
            // An old kernel, or no huge page is available.
            None => file.write_all_at(&vec![0xA5; len], offset as u64).unwrap(),
        }
        ram.filled(offset as u64, len);
        // The stretch in the middle is full now, and out of the mapping.
        let mut found = vec![0; len + 2];
        file.read_exact_at(&mut found, offset as u64 - 1).unwrap();
        assert_eq!((found[0], found[len + 1]), (0, 0));
        assert!(found[1..=len].iter().all(|&byte| byte == 0xA5));
        let mut start = [0; 6];
        file.read_exact_at(&mut start, 0).unwrap();
        assert_eq!(&start, b"before");
        assert_eq!(file.metadata().unwrap().len(), END);
    }

    #[test]
    fn what_is_left_out_after_a_slow_page_goes_on_in_the_next_file() {
        let Some(file) = unnamed() else { return };
        // Other tests write whatever they get.
        LEFT_OUT.store(1000, Ordering::Relaxed);
        let ram = RamFile::reserve(&file, END).unwrap();
        assert!(ram.memory(0, STRETCH).is_none());
        assert!(LEFT_OUT.swap(0, Ordering::Relaxed) < 1000);
    }

    #[test]
    fn memory_ends_with_the_last_whole_stretch() {
        let Some(file) = unnamed() else { return };
        let ram = RamFile::reserve(&file, END).unwrap();
        for (offset, len) in [
            (9 * STRETCH as u64, 5),
            (9 * STRETCH as u64 - 1, 2),
            (END, 1),
            (u64::MAX, 1),
            (0, usize::MAX),
        ] {
            assert!(ram.memory(offset, len).is_none(), "{offset} {len}");
        }
        ram.filled(9 * STRETCH as u64 - 1, 6);
    }

    #[test]
    fn only_long_unnamed_files_are_taken() {
        let Some(file) = unnamed() else { return };
        assert!(RamFile::reserve(&file, (LEAST * STRETCH) as u64 - 1).is_none());
        file.set_len(END + 1).unwrap();
        assert!(RamFile::reserve(&file, END).is_none());
        assert_eq!(file.metadata().unwrap().len(), END + 1);
        let named = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        assert!(RamFile::reserve(named.as_file(), END).is_none());
        assert_eq!(named.as_file().metadata().unwrap().len(), 0);
    }
}
