//! Portions of a job that is shared with other backends, each on one thread.

use zeroize::Zeroize;

use super::CpuBackend;
use super::kernels::Io;
use super::message::Running;
use super::run::conclude;
use crate::Mode;
use crate::job::{Job, Message};
use crate::portion::{LongPart, Outcome, Portion, Sum};

/// What is known of a long message before any part of it.
pub(crate) struct Begun {
    /// Its state.
    start: Running,
    /// GCM: what its tag would be if the text added nothing; zeros for other modes.
    pub(crate) frame: [u8; 16],
}

impl Drop for Begun {
    fn drop(&mut self) {
        // With a tag, it tells the hash, and with it the hash key.
        self.frame.zeroize();
    }
}

impl CpuBackend {
    /// How many threads it has.
    pub(crate) fn threads(&self) -> usize {
        let pool = self.pool.as_ref();
        pool.map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Whether other threads than the caller's do its work.
    pub(crate) fn has_pool(&self) -> bool {
        self.pool.is_some()
    }

    /// Runs `work` on so many threads of the pool, with numbers from 0 on, and `meanwhile` on this
    /// one, and waits. Without a pool, all but one of the threads are missing, and that is this
    /// one.
    pub(crate) fn on_threads(
        &self,
        count: usize,
        work: impl Fn(usize) + Sync,
        meanwhile: impl FnOnce(),
    ) {
        match &self.pool {
            Some(pool) if count > 0 => pool.in_place_scope(|scope| {
                let work = &work;
                for number in 0..count {
                    scope.spawn(move |_| work(number));
                }
                meanwhile();
            }),
            _ => {
                if count > 0 {
                    work(0);
                }
                meanwhile();
            }
        }
    }

    /// Begins a long message that is worked on in parts.
    pub(crate) fn begin(&self, job: &Job<'_>, index: usize) -> Begun {
        let message = job.message(index);
        let prepared = self.prepare(job, index, &message);
        let iv = message.iv.bytes();
        let start = Running::start(self.kernels, &prepared, job.info(), iv, message.aad);
        let frame = start.frame(self.kernels, &prepared, message.len);
        Begun { start, frame }
    }

    /// Runs a portion on this thread; `begun` belongs to the message that it is a part of.
    ///
    /// # Safety
    /// Nobody else uses the portion's bytes during the call.
    pub(crate) unsafe fn run_portion(
        &self,
        job: &Job<'_>,
        portion: &Portion,
        begun: Option<&Begun>,
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

    /// Runs a part of a message; gives what it adds to the tag.
    ///
    /// # Safety
    /// Nobody else uses the part's bytes during the call.
    unsafe fn run_part(&self, job: &Job<'_>, part: &LongPart, begun: &Begun) -> Option<[u8; 16]> {
        let message = job.message(part.message);
        let prepared = self.prepare(job, part.message, &message);
        let Message { input, output, .. } = message;
        let (before, len) = (part.bytes.start, part.bytes.len());
        let mut state = begun.start.part(before as u64 / 16, part.previous);
        // What is left for the end: a partial block, with a whole one for XTS to steal from.
        let rest = match len % 16 {
            0 => 0,
            partial if job.info().mode == Mode::Xts => partial + 16,
            partial => partial,
        };
        // SAFETY: the part lies in the message, whose pointers the job has checked; the rest by
        // this function's contract.
        unsafe {
            let io = Io {
                src: input.add(before),
                dst: output.add(before),
                len,
            };
            let direction = job.direction();
            state.update(self.kernels, &prepared, direction, io.part(0, len - rest));
            let end = io.part(len - rest, rest);
            state.finish(self.kernels, &prepared, direction, end);
        }
        state.share(&prepared, message.len - part.bytes.end)
    }

    /// Ends a message of GCM all of whose parts are done: writes its tag, or compares it and wipes
    /// the text of a forgery. False if it did not verify.
    ///
    /// # Safety
    /// Nobody else works on the message.
    pub(crate) unsafe fn end(&self, job: &Job<'_>, index: usize, tag: &[u8; 16]) -> bool {
        // SAFETY: the message is the job's; the rest by this function's contract.
        unsafe { conclude(job, &job.message(index), tag) }
    }
}
