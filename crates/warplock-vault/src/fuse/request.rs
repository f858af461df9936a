//! Parts of requests and answers that several kinds share.

use std::cell::RefCell;

use fuser::{ReplyEmpty, ReplyXattr, Request};
use rustix::fs::OFlags;
use zeroize::Zeroize;

use super::convert::errno;
use crate::fs::{Access, Caller, Result};

/// The largest read and write; the kernel's own limit for unprivileged file systems.
pub(super) const MAX_REQUEST: u32 = 1 << 20;

thread_local! {
    /// This loop thread's buffer for all its reads.
    static BUFFER: RefCell<ReadBuffer> = const { RefCell::new(ReadBuffer(Vec::new())) };
}

/// Holds plaintext, so it is wiped in the end.
struct ReadBuffer(Vec<u8>);

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Lends `work` this thread's buffer, `len` bytes of it.
pub(super) fn with_buffer(len: usize, work: impl FnOnce(&mut [u8])) {
    BUFFER.with_borrow_mut(|ReadBuffer(buffer)| {
        if buffer.len() < len {
            // A longer one of its own, not a copy of the old one with its plaintext.
            buffer.zeroize();
            *buffer = vec![0; len.max(MAX_REQUEST as usize)];
        }
        work(&mut buffer[..len]);
    });
}

pub(super) fn empty(outcome: Result<()>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn caller(request: &Request) -> Caller {
    Caller {
        uid: request.uid(),
        gid: request.gid(),
    }
}

pub(super) fn access(flags: i32) -> Access {
    let flags = OFlags::from_bits_retain(flags.cast_unsigned());
    Access {
        write: flags.intersects(OFlags::WRONLY | OFlags::RDWR),
        truncate: flags.contains(OFlags::TRUNC),
        sync: flags.intersects(OFlags::SYNC | OFlags::DSYNC),
    }
}

pub(super) fn xattr(outcome: Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match outcome {
        Err(error) => reply.error(errno(error)),
        Ok(value) => match u32::try_from(value.len()) {
            Err(_) => reply.error(fuser::Errno::E2BIG),
            Ok(len) if size == 0 => reply.size(len),
            Ok(len) if len > size => reply.error(fuser::Errno::ERANGE),
            Ok(_) => reply.data(&value),
        },
    }
}
