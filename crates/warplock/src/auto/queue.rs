//! The queue from which all CPU threads and all GPUs take the portions of one job. There is no
//! fixed ratio between them that could be wrong.

use std::collections::{HashMap, VecDeque};
use std::mem::take;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use zeroize::Zeroizing;

use super::worker::{Limits, Pace, Worker};
use crate::cpu::{CpuBackend, MessageStart};
use crate::job::Job;
use crate::lock::lock;
use crate::portion::{LongPart, Outcome, Portion};
use crate::{Algorithm, Direction, Keys, Mode};

/// The cost of a message besides its text, in bytes of text.
const MESSAGE_BYTES: usize = 256;

/// Messages of chained modes (CBC encryption, ACORN) that keep a CPU thread's pipelines full.
pub(crate) const LEAST_CHAINS: usize = 16;

/// Messages of this length and more are cut.
pub(crate) const CUT_FROM: usize = 1 << 20;

/// Messages that are not taken yet: whole ones, after the rest of a long one.
#[derive(Default)]
struct Remaining {
    part: Option<LongPart>,
    messages: Range<usize>,
}

impl From<Portion> for Remaining {
    fn from(portion: Portion) -> Self {
        let (part, messages) = match portion {
            Portion::Part(part) => (Some(part), 0..0),
            Portion::Messages(messages) => (None, messages),
        };
        Remaining { part, messages }
    }
}

/// A long message that is worked on in parts.
struct Open {
    begun: Arc<MessageStart>,
    tag: Box<Zeroizing<[u8; 16]>>,
    /// Bytes that are not done.
    left: usize,
}

struct Inner {
    fresh: Remaining,
    /// Portions that a worker failed to do, and messages that GPUs cannot take.
    for_cpu: VecDeque<Remaining>,
    /// Bytes that are not taken yet.
    left: u64,
    workers: Vec<Worker>,
    open: HashMap<usize, Open>,
    refused: Vec<usize>,
}

/// The queue of one job.
pub(crate) struct Queue<'q, 'job> {
    job: &'q Job<'job>,
    cpu: &'q CpuBackend,
    /// Messages of this length and more are cut.
    long: usize,
    /// Whether the mode allows cutting. Otherwise it is chained, and a thread needs several messages
    /// at the same time.
    cuts: bool,
    /// Mean bytes per message.
    mean: usize,
    inner: Mutex<Inner>,
}

/// Whether messages can be worked on in parts.
pub(crate) fn cuts(algorithm: Algorithm, direction: Direction) -> bool {
    match algorithm.info().mode {
        Mode::Acorn => false,
        Mode::Cbc => direction == Direction::Decrypt,
        Mode::Ecb | Mode::Ctr | Mode::Xts | Mode::Gcm => true,
    }
}

fn weight(bytes: usize, messages: usize) -> u64 {
    bytes as u64 + (messages * MESSAGE_BYTES) as u64
}

impl<'q, 'job> Queue<'q, 'job> {
    /// All of a job. Workers are added next.
    pub(crate) fn new(job: &'q Job<'job>, cpu: &'q CpuBackend, long: usize) -> Self {
        Queue {
            job,
            cpu,
            long,
            cuts: cuts(job.info().algorithm, job.direction()),
            mean: (job.text_bytes() / job.count().max(1) as u64) as usize,
            inner: Mutex::new(Inner {
                fresh: Portion::Messages(0..job.count()).into(),
                for_cpu: VecDeque::new(),
                left: job.text_bytes() + (job.count() * MESSAGE_BYTES) as u64,
                workers: Vec::new(),
                open: HashMap::new(),
                refused: Vec::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Adds a worker with an expected pace; returns its number.
    pub(crate) fn add(&self, limits: Limits, pace: Pace) -> usize {
        let mut inner = self.lock();
        inner.workers.push(Worker::new(limits, pace));
        inner.workers.len() - 1
    }

    /// The next portion for a worker, with the start of its message if it is a part. None if there
    /// is nothing left that this worker should do; it must not ask again.
    pub(crate) fn take(&self, worker: usize) -> Option<(Portion, Option<Arc<MessageStart>>)> {
        let mut inner = self.lock();
        let now = Instant::now();
        let taken = self.take_from(&mut inner, worker, now);
        match &taken {
            None => inner.workers[worker].active = false,
            Some((portion, _)) => {
                let weight = self.weight(portion);
                inner.left = inner.left.saturating_sub(weight);
                inner.workers[worker].take(weight, now);
            }
        }
        taken
    }

    fn weight(&self, portion: &Portion) -> u64 {
        match portion {
            // The message's own cost was counted with its first part.
            Portion::Part(part) => weight(part.bytes.len(), usize::from(part.bytes.start == 0)),
            Portion::Messages(messages) => {
                let bytes = match self.job.alike() {
                    Some((len, _)) => len * messages.len(),
                    None => {
                        let lens = messages.clone().map(|index| self.job.text_len(index));
                        lens.sum()
                    }
                };
                weight(bytes, messages.len())
            }
        }
    }

    fn take_from(
        &self,
        inner: &mut Inner,
        worker: usize,
        now: Instant,
    ) -> Option<(Portion, Option<Arc<MessageStart>>)> {
        let limits = inner.workers[worker].limits;
        let want = inner.fair_share(worker, now) as usize;
        let want = want.clamp(limits.least.min(limits.usual), limits.usual);
        if !limits.fits {
            while let Some(mut region) = inner.for_cpu.pop_front() {
                let portion = self.cut(inner, &mut region, limits, want);
                if portion.is_some() {
                    inner.for_cpu.push_front(region);
                    return portion;
                }
            }
        }
        let least = want.max(self.least_of(&limits));
        if inner.others_are_done_before(worker, least, now) {
            return None;
        }
        let mut fresh = take(&mut inner.fresh);
        let portion = self.cut(inner, &mut fresh, limits, want);
        inner.fresh = fresh;
        portion
    }

    /// The fewest bytes that are worth a portion.
    pub(super) fn least_of(&self, limits: &Limits) -> usize {
        let least = limits.least.min(limits.usual);
        match !self.cuts && !limits.fits {
            true => least.max(LEAST_CHAINS * self.mean),
            false => least,
        }
    }

    /// Cuts a portion of about `want` bytes off the remaining work.
    fn cut(
        &self,
        inner: &mut Inner,
        region: &mut Remaining,
        limits: Limits,
        want: usize,
    ) -> Option<(Portion, Option<Arc<MessageStart>>)> {
        loop {
            if let Some(part) = region.part.take() {
                let begun = inner.open.get(&part.message).map(|open| &open.begun);
                let begun = begun.map(Arc::clone);
                let (now, later) = self.split(part, limits, want);
                region.part = later;
                return Some((Portion::Part(now), begun));
            }
            let first = region.messages.start;
            if region.messages.is_empty() {
                return None;
            }
            let len = self.job.text_len(first);
            if self.cuts && len >= self.long {
                region.messages.start += 1;
                let begun = Arc::new(self.cpu.begin(self.job, first));
                // In a box of its own: a growing map would leave copies in freed memory.
                let tag = Box::new(Zeroizing::new(begun.frame));
                let open = Open {
                    begun,
                    tag,
                    left: len,
                };
                inner.open.insert(first, open);
                region.part = Some(LongPart {
                    message: first,
                    bytes: 0..len,
                    previous: [0; 16],
                });
                continue;
            }
            let end = self.group(&region.messages, limits, want);
            if end > first {
                region.messages.start = end;
                return Some((Portion::Messages(first..end), None));
            }
            // A message too long for a GPU's buffers, in a mode that cannot be cut: the CPU is
            // faster anyway.
            region.messages.start += 1;
            let message = Portion::Messages(first..first + 1);
            inner.for_cpu.push_back(message.into());
        }
    }

    /// Splits a part into what is taken now and what is left.
    fn split(&self, part: LongPart, limits: Limits, want: usize) -> (LongPart, Option<LongPart>) {
        let len = part.bytes.len();
        let mut now = want.min(limits.most).next_multiple_of(512);
        // A small rest joins this portion if there is room for it.
        if len <= now || len < now + now / 4 && len <= limits.most {
            return (part, None);
        }
        // XTS steals from the last whole block: the two stay together.
        if len - now < 32 {
            now -= 32;
        }
        let middle = part.bytes.start + now;
        // SAFETY: `now` is at least a block and inside the message, and nothing after
        // `part.bytes.start` is under way yet.
        let previous = unsafe { self.job.message(part.message).block_before(middle) };
        let later = LongPart {
            message: part.message,
            bytes: middle..part.bytes.end,
            previous,
        };
        let now = LongPart {
            bytes: part.bytes.start..middle,
            ..part
        };
        (now, Some(later))
    }

    /// The bytes that a message may need in a GPU's buffer, with all padding.
    fn room(&self, len: usize) -> usize {
        let key = match self.job.keys() {
            // The keys of single blocks follow their text.
            Keys::Each { algorithm, .. } => algorithm.key_len(),
            _ => 0,
        };
        len.next_multiple_of(16) + if len >= 4096 { 512 } else { 16 } + key
    }

    /// The end of a group of whole messages.
    fn group(&self, messages: &Range<usize>, limits: Limits, want: usize) -> usize {
        if let Some((len, aad)) = self.job.alike() {
            return self.group_alike(messages, limits, want, len, aad);
        }
        let (mut room, mut aad, mut bytes) = (0, 0, 0);
        for index in messages.clone() {
            let len = self.job.text_len(index);
            let count = index - messages.start;
            if self.cuts && len >= self.long {
                return index;
            }
            room += self.room(len);
            aad += self.job.aad_len(index);
            let fits = room.max(aad) <= limits.most && count < limits.messages;
            if limits.fits && !fits {
                return index;
            }
            bytes += len + MESSAGE_BYTES;
            let full = match !self.cuts && !limits.fits {
                true => bytes >= want && count + 1 >= LEAST_CHAINS || bytes >= 16 * want,
                false => bytes >= want,
            };
            if full {
                return index + 1;
            }
        }
        messages.end
    }

    /// [`Queue::group`] without looking at each message: there may be millions.
    fn group_alike(
        &self,
        messages: &Range<usize>,
        limits: Limits,
        want: usize,
        len: usize,
        aad: usize,
    ) -> usize {
        let each = len + MESSAGE_BYTES;
        let mut count = want.div_ceil(each);
        if limits.fits {
            let fit = limits.most / self.room(len).max(aad);
            count = count.min(fit).min(limits.messages);
        } else if !self.cuts {
            count = count.max(LEAST_CHAINS).min((16 * want).div_ceil(each));
        }
        messages.end.min(messages.start + count)
    }

    /// Records that a portion is done.
    pub(crate) fn done(&self, worker: usize, portion: &Portion, outcome: Outcome) {
        let mut inner = self.lock();
        let weight = self.weight(portion);
        let this = &mut inner.workers[worker];
        this.put(weight);
        this.text += match portion {
            Portion::Part(part) => part.bytes.len() as u64,
            Portion::Messages(messages) => weight - (messages.len() * MESSAGE_BYTES) as u64,
        };
        this.learn(weight, Instant::now());
        inner.refused.extend(outcome.refused);
        let Portion::Part(part) = portion else {
            return;
        };
        let Some(open) = inner.open.get_mut(&part.message) else {
            return;
        };
        if let Some(sum) = outcome.sum {
            sum.add_to(&mut open.tag, &open.begun.frame);
        }
        open.left -= part.bytes.len();
        if open.left > 0 {
            return;
        }
        let open = inner.open.remove(&part.message);
        let Some(Open { tag, .. }) = open.filter(|_| self.job.info().mode == Mode::Gcm) else {
            return;
        };
        // SAFETY: all parts of the message are done.
        if !unsafe { self.cpu.end(self.job, part.message, &tag) } {
            inner.refused.push(part.message);
        }
    }

    /// A worker takes no more portions and has none under way.
    pub(crate) fn leave(&self, worker: usize) {
        self.lock().workers[worker].active = false;
    }

    /// Returns portions that were not done. Only CPU threads take them again.
    pub(super) fn give_back(&self, portions: impl IntoIterator<Item = Portion>) {
        let mut inner = self.lock();
        for portion in portions {
            inner.left += self.weight(&portion);
            inner.for_cpu.push_back(portion.into());
        }
    }

    /// Whether everything was taken. Portions are done once their workers have returned.
    pub(crate) fn is_empty(&self) -> bool {
        let inner = self.lock();
        let none = |region: &Remaining| region.part.is_none() && region.messages.is_empty();
        none(&inner.fresh) && inner.for_cpu.iter().all(none)
    }

    /// Bytes of text that a worker has done.
    pub(crate) fn text_of(&self, worker: usize) -> u64 {
        self.lock().workers[worker].text
    }

    /// The messages that did not verify, ascending.
    pub(crate) fn refused(self) -> Vec<usize> {
        let inner = self.inner.into_inner();
        let mut refused = inner.unwrap_or_else(PoisonError::into_inner).refused;
        refused.sort_unstable();
        refused
    }
}

impl Inner {
    /// Estimates when the `chosen` workers would finish all remaining work on their own. Returns
    /// `(nanoseconds from now × rate, rate)` rather than the time itself, because the rate may be
    /// near zero.
    fn end(&self, now: Instant, chosen: impl Fn(usize) -> bool) -> (f64, f64) {
        let all = self.workers.iter().enumerate();
        let chosen = all.filter(|(number, worker)| worker.active && chosen(*number));
        let (mut bytes, mut rates) = (self.left as f64, 0.0);
        for (_, worker) in chosen {
            bytes += worker.backlog(now) + worker.rate * worker.latency;
            rates += worker.rate;
        }
        (bytes, rates)
    }

    /// The bytes that a worker should take so that all finish together: what it can do until then,
    /// divided by its number of portions under way.
    fn fair_share(&self, worker: usize, now: Instant) -> f64 {
        let (bytes, rates) = self.end(now, |_| true);
        let this = &self.workers[worker];
        let time = bytes / rates.max(f64::MIN_POSITIVE) - this.latency;
        this.rate * time.max(0.0) / this.limits.depth as f64
    }

    /// Whether the others would finish without this worker sooner than it would finish `bytes`
    /// more.
    fn others_are_done_before(&self, worker: usize, bytes: usize, now: Instant) -> bool {
        let (others, rates) = self.end(now, |number| number != worker);
        let this = &self.workers[worker];
        let bytes = (bytes as u64).min(self.left) as f64;
        let own = this.backlog(now) + this.alone(bytes);
        // Both sides are multiplied with both rates.
        others * this.rate < own * rates
    }
}
