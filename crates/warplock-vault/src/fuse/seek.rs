//! Answers to the kernel's questions for data and holes.

use std::thread;

use fuser::{FileHandle, ReplyLseek};

use super::adapter::Adapter;
use super::convert::errno;
use crate::fs::{FileSystem, Node, Seek};

const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

impl<F: FileSystem> Adapter<F> {
    /// The next data or hole, once the kernel has written what it holds of the file.
    pub(super) fn seek(
        &self,
        node: Node,
        file: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let to = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return reply.error(fuser::Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else {
            return reply.error(fuser::Errno::ENXIO);
        };
        let file = match self.files.get(file.0) {
            Ok(file) => file,
            Err(error) => return reply.error(errno(error)),
        };
        let fs = self.fs.clone();
        let seek = move |reply: ReplyLseek| match fs.seek(&file, offset, to) {
            Ok(found) => reply.offset(found.cast_signed()),
            Err(error) => reply.error(errno(error)),
        };
        if !self.writers.has(node) {
            return seek(reply);
        }
        let writers = self.writers.clone();
        // If no thread can start, the reply is dropped, which answers EIO.
        let _ = thread::Builder::new()
            .name("seek".to_owned())
            .spawn(move || match writers.write_back(node) {
                Ok(()) => seek(reply),
                Err(_) => reply.error(fuser::Errno::EIO),
            });
    }
}
