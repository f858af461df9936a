//! Portions of a job that is shared with other backends, each on one thread.

use std::sync::atomic::{AtomicUsize, Ordering};

use zeroize::Zeroize;

use super::CpuBackend;
use super::finish::write_or_verify_tag;
use super::message::Running;
use crate::job::{Job, Message};
use crate::pool::Pool;
use crate::portion::{LongPart, Outcome, Portion, Sum};

/// The state of a long message before its text.
pub(crate) struct MessageStart {
    start: Running,
    /// GCM: the tag as if the text contributed nothing; zeros for other modes.
    pub(crate) frame: [u8; 16],
}

impl Drop for MessageStart {
    fn drop(&mut self) {
        // Together with a tag, it reveals the hash, and with it the hash key.
        self.frame.zeroize();
    }
}

impl CpuBackend {
    /// The number of threads, counting the caller.
    pub(crate) fn threads(&self) -> usize {
        1 + self.others.as_ref().map_or(0, Pool::count)
    }

    /// Runs `work` on up to `count` threads, with numbers from 0 on, and `meanwhile` on this one;
    /// if fewer have come by then, this thread also does `work`. Waits for those that came, and
    /// returns their number. If there are no other threads, this one starts with `work`.
    pub(crate) fn on_threads(
        &self,
        count: usize,
        work: impl Fn(usize) + Sync,
        meanwhile: impl FnOnce(),
    ) -> usize {
        let next = AtomicUsize::new(0);
        let come = || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number < count {
                work(number);
            }
        };
        match &self.others {
            Some(others) => others.run(count, &|_| come(), || {
                meanwhile();
                come();
            }),
            None => {
                come();
                meanwhile();
            }
        }
        next.into_inner().min(count)
    }

    /// Starts a long message that is worked on in parts.
    pub(crate) fn begin(&self, job: &Job<'_>, index: usize) -> MessageStart {
        let message = job.message(index);
        let own = &mut None;
        let prepared = self.prepare(job, index, &message, own);
        let iv = message.iv.bytes();
        let start = Running::start(self.kernels, prepared, job.info(), iv, message.aad);
        let frame = start.frame(self.kernels, prepared, message.len);
        MessageStart { start, frame }
    }

    /// Runs a portion on this thread; `begun` is the start of its message if it is a part of one.
    ///
    /// # Safety
    /// Nothing else uses the portion's bytes during the call.
    pub(crate) unsafe fn run_portion(
        &self,
        job: &Job<'_>,
        portion: &Portion,
        begun: Option<&MessageStart>,
    ) -> Outcome {
        match (portion, begun) {
            (Portion::Messages(messages), _) => Outcome {
                refused: self.run_messages(job, messages.clone()),
                sum: None,
            },
            (Portion::Part(part), Some(begun)) => Outcome {
                refused: Vec::new(),
                // SAFETY: by this function's contract.
                sum: unsafe { self.run_part(job, part, begun) }.map(Sum::Share),
            },
            (Portion::Part(_), None) => unreachable!("a message is begun before it is cut"),
        }
    }

    /// Runs a part of a message; returns its contribution to the tag.
    ///
    /// # Safety
    /// Nothing else uses the part's bytes during the call.
    unsafe fn run_part(
        &self,
        job: &Job<'_>,
        part: &LongPart,
        begun: &MessageStart,
    ) -> Option<[u8; 16]> {
        let message = job.message(part.message);
        let own = &mut None;
        let prepared = self.prepare(job, part.message, &message, own);
        let Message { input, output, .. } = message;
        let (before, len) = (part.bytes.start, part.bytes.len());
        let mut state = begun.start.part(before as u64 / 16, part.previous);
        // SAFETY: the part lies in the message, whose pointers the job has checked; the rest by
        // this function's contract.
        unsafe {
            let io = self.io(job.text_bytes(), input.add(before), output.add(before), len);
            state.finish(self.kernels, prepared, job.direction(), io);
        }
        state.tag_share(prepared, message.len - part.bytes.end)
    }

    /// Ends a GCM message all of whose parts are done: writes its tag, or compares it and wipes the
    /// text of a forgery. Returns false if it did not verify.
    ///
    /// # Safety
    /// Nothing else works on the message.
    pub(crate) unsafe fn end(&self, job: &Job<'_>, index: usize, tag: &[u8; 16]) -> bool {
        // SAFETY: the message is the job's; the rest by this function's contract.
        unsafe { write_or_verify_tag(job.direction(), &job.message(index), &tag[..job.tag_len()]) }
    }
}
