//! What the processor does of a job for one GPU. Of page-locked memory the device makes its copies
//! itself, so the threads that copy have nothing to do, and the link cannot be busy both ways from
//! the first byte to the last. Meanwhile one of them works on the end of the job.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::cut::ROW;
use crate::cpu::{Begun, CpuBackend};
use crate::job::Job;
use crate::portion::{LongPart, Outcome, Portion, Source};
use crate::{Algorithm, Mode};

/// Bytes that are taken at once: little enough that who comes last waits for next to nothing.
const STEP: usize = 128 << 10;

/// How much of a job is the processor's, for each algorithm, in thousandths: what each job tells,
/// for the next one.
pub(super) struct Shares([AtomicU32; Algorithm::COUNT]);

impl Default for Shares {
    fn default() -> Self {
        Shares::all(32)
    }
}

impl Shares {
    /// The same for all algorithms.
    pub(super) fn all(thousandths: u32) -> Self {
        Shares(std::array::from_fn(|_| AtomicU32::new(thousandths)))
    }

    fn of(&self, job: &Job<'_>) -> &AtomicU32 {
        &self.0[job.info().algorithm as usize]
    }

    /// Moves half of the way to what would have been right: one job may have been disturbed.
    fn learn(&self, job: &Job<'_>, right: f64) {
        let share = self.of(job);
        let right = (1000.0 * right) as u32;
        let next = (share.load(Ordering::Relaxed) + right.min(500)) / 2;
        share.store(next.max(1), Ordering::Relaxed);
    }
}

/// What nobody has taken yet.
enum Rest {
    /// Of a job's only message.
    Bytes {
        bytes: Range<usize>,
        /// CBC decryption: the ciphertext block before.
        previous: [u8; 16],
    },
    /// Messages that have so many bytes each.
    Messages { messages: Range<usize>, each: usize },
}

struct Inner {
    rest: Rest,
    /// Bytes that are done, and when the last of them were, since the beginning.
    done: usize,
    ended: Duration,
    /// GCM, of a message in parts: what its tag is so far.
    tag: Zeroizing<[u8; 16]>,
    refused: Vec<usize>,
}

/// A job's beginning, for a device, and its end, for the processor.
pub(super) struct OwnPart<'a, 'job> {
    cpu: &'a CpuBackend,
    job: &'a Job<'job>,
    shares: &'a Shares,
    theirs: Portion,
    own_len: usize,
    step: usize,
    /// The job's only message, if that is cut.
    begun: Option<Begun>,
    inner: Mutex<Inner>,
}

impl<'a, 'job> OwnPart<'a, 'job> {
    /// For a mode that allows that messages are worked on in parts. None where there are no threads
    /// for it, and for jobs whose end cannot be cut off.
    pub(super) fn new(cpu: &'a CpuBackend, job: &'a Job<'job>, shares: &'a Shares) -> Option<Self> {
        if !cpu.has_others() {
            return None;
        }
        let share = shares.of(job).load(Ordering::Relaxed) as usize;
        let (theirs, rest, own_len, begun) = match (job.count(), job.alike()) {
            (1, _) => {
                let len = job.text_len(0);
                let cut = (len - len / 1000 * share).next_multiple_of(ROW);
                if cut + ROW > len {
                    return None;
                }
                let rest = Rest::Bytes {
                    bytes: cut..len,
                    // SAFETY: `cut` is at least a block, and nothing is under way yet.
                    previous: unsafe { job.message(0).block_before(cut) },
                };
                let theirs = Portion::Part(LongPart {
                    message: 0,
                    bytes: 0..cut,
                    previous: [0; 16],
                });
                (theirs, rest, len - cut, Some(cpu.begin(job, 0)))
            }
            (count, Some((each, _))) if each <= STEP => {
                let messages = count - (count * share / 1000).max(1)..count;
                let theirs = Portion::Messages(0..messages.start);
                let own_len = each * messages.len();
                (theirs, Rest::Messages { messages, each }, own_len, None)
            }
            _ => return None,
        };
        let tag = Zeroizing::new(begun.as_ref().map_or([0; 16], |begun| begun.frame));
        Some(OwnPart {
            cpu,
            job,
            shares,
            theirs,
            own_len,
            step: STEP,
            begun,
            inner: Mutex::new(Inner {
                rest,
                done: 0,
                ended: Duration::ZERO,
                tag,
                refused: Vec::new(),
            }),
        })
    }

    /// The same in steps so short that small jobs have several.
    #[cfg(test)]
    pub(super) fn in_small_steps(mut self) -> Self {
        self.step = ROW;
        self
    }

    /// Whether the two share one message.
    pub(super) fn is_part(&self) -> bool {
        self.begun.is_some()
    }

    /// Bytes of the device's part.
    pub(super) fn others_len(&self) -> u64 {
        self.job.text_bytes() - self.own_len as u64
    }

    /// Has a device do its part, and does the other one; gives the messages that did not verify,
    /// ascending. After an error, nothing is under way here.
    ///
    /// # Safety
    /// `device` does no more than the portions that it is given, and has done them when it returns.
    /// Nobody else uses what the job borrows.
    pub(super) unsafe fn run<E>(
        mut self,
        device: impl FnOnce(&mut dyn Source) -> Result<(), E>,
    ) -> Result<Vec<usize>, E> {
        let begin = Instant::now();
        let mut ran = Ok(());
        let this = &self;
        this.cpu.on_threads(
            1,
            |_| this.work(begin),
            || {
                ran = device(&mut Theirs(this, Some(this.theirs.clone())));
                match ran {
                    Ok(()) => {
                        this.learn(begin.elapsed());
                        this.work(begin);
                    }
                    Err(_) => this.lock().rest.drop_all(),
                }
            },
        );
        ran?;
        let cuts = self.is_part();
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        if cuts && self.job.info().mode == Mode::Gcm {
            // SAFETY: all parts of the message are done.
            if !unsafe { self.cpu.end(self.job, 0, &inner.tag) } {
                inner.refused.push(0);
            }
        }
        let mut refused = std::mem::take(&mut inner.refused);
        refused.sort_unstable();
        Ok(refused)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does steps until there are none.
    fn work(&self, begin: Instant) {
        loop {
            let taken = self.lock().rest.take(self.job, self.step);
            let Some((portion, bytes)) = taken else {
                return;
            };
            // SAFETY: each portion is given to one thread, and none to the device.
            let outcome = unsafe {
                self.cpu
                    .run_portion(self.job, &portion, self.begun.as_ref())
            };
            self.note(outcome);
            let mut inner = self.lock();
            inner.done += bytes;
            inner.ended = begin.elapsed();
        }
    }

    fn note(&self, outcome: Outcome) {
        let mut inner = self.lock();
        inner.refused.extend(outcome.refused);
        if let (Some(sum), Some(begun)) = (outcome.sum, &self.begun) {
            sum.add_to(&mut inner.tag, &begun.frame);
        }
    }

    /// Learns from how much was done when the device had done its part, after so long.
    fn learn(&self, theirs: Duration) {
        let inner = self.lock();
        let late = inner.done < self.own_len;
        let own = if late { theirs } else { inner.ended };
        let rate = |len: f64, time: Duration| len / time.as_secs_f64().max(1e-9);
        let own = rate(inner.done as f64, own);
        let theirs = rate(self.others_len() as f64, theirs);
        // Who ends late makes the other wait; who ends early has only done less than it could.
        self.shares.learn(self.job, 0.95 * own / (own + theirs));
    }
}

/// The device's part.
struct Theirs<'a, 'b, 'job>(&'b OwnPart<'a, 'job>, Option<Portion>);

impl Source for Theirs<'_, '_, '_> {
    fn next(&mut self) -> Option<Portion> {
        self.1.take()
    }

    fn done(&mut self, _: Portion, outcome: Outcome) {
        self.0.note(outcome);
    }
}

impl Rest {
    /// The next step, of about so many bytes, and how many it has.
    fn take(&mut self, job: &Job<'_>, step: usize) -> Option<(Portion, usize)> {
        match self {
            Rest::Bytes { bytes, previous } => {
                // A small rest goes with what is before: XTS needs the last 32 bytes together.
                let end = match bytes.len() < 2 * step {
                    true => bytes.end,
                    false => bytes.start + step,
                };
                let part = LongPart {
                    message: 0,
                    bytes: bytes.start..end,
                    previous: *previous,
                };
                if end < bytes.end {
                    // SAFETY: `end` is at least a block and inside the message; this step is not
                    // under way yet.
                    *previous = unsafe { job.message(0).block_before(end) };
                }
                bytes.start = end;
                let len = part.bytes.len();
                (len > 0).then_some((Portion::Part(part), len))
            }
            Rest::Messages { messages, each } => {
                let count = (step / (*each).max(1)).max(1);
                let now = messages.start..messages.end.min(messages.start + count);
                messages.start = now.end;
                let len = *each * now.len();
                (!now.is_empty()).then_some((Portion::Messages(now), len))
            }
        }
    }

    /// There is nothing left to take.
    fn drop_all(&mut self) {
        match self {
            Rest::Bytes { bytes, .. } => bytes.start = bytes.end,
            Rest::Messages { messages, .. } => messages.start = messages.end,
        }
    }
}
