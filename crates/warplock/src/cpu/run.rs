//! The CPU backend: cuts a job over threads and runs its messages.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rayon::prelude::*;
use subtle::ConstantTimeEq;

use super::InstructionSet;
use super::acorn;
use super::kernels::{Chain, Io, Kernels, SHORT, Short, ShortKey};
use super::message::Running;
use super::prepared::Prepared;
use crate::backend::{Backend, Ticket};
use crate::batch::Keys;
use crate::job::{Iv, Job, Message};
use crate::plan::{CpuModel, Shape};
use crate::{Algorithm, Direction, Error, Mode};

/// Text below this many bytes is not worth a second thread. Waking the others and waiting for them
/// costs 10 to 80 us, most on virtual machines with many cores; this is what one thread does in
/// about 60 us.
fn small(set: InstructionSet, algorithm: Algorithm, direction: Direction) -> u64 {
    let fast = match set {
        InstructionSet::Portable => 16 << 10,
        InstructionSet::AesNi | InstructionSet::Neon => 256 << 10,
        InstructionSet::Vaes256 | InstructionSet::Vaes512 => 512 << 10,
    };
    match (algorithm.info().mode, direction) {
        (Mode::Acorn, _) | (Mode::Cbc, Direction::Encrypt) => fast / 4,
        _ => fast,
    }
}

/// Whether so many bytes in so many messages are worth more than one thread.
pub(crate) fn spreads(
    set: InstructionSet,
    algorithm: Algorithm,
    direction: Direction,
    bytes: u64,
    count: usize,
) -> bool {
    // A message that is not cut would only move to another core.
    (count > 1 || bytes >= LONG as u64) && bytes >= small(set, algorithm, direction)
}

/// About how much text a thread takes at a time: large against the cost of taking it, small
/// against the second cache.
pub(crate) const PIECE: usize = 256 << 10;

/// From this length on, a message is cut over the threads.
const LONG: usize = 2 * PIECE;

/// CBC chains that are handed to a kernel together.
const CHAINS: usize = 64;

/// Short messages that are handed to a kernel together: enough to find some of about the same
/// length.
const SHORTS: usize = 256;

/// Runs batches on this machine's processor.
pub(crate) struct CpuBackend {
    pub(super) kernels: &'static dyn Kernels,
    /// None: everything runs on the thread that submits.
    pub(super) pool: Option<rayon::ThreadPool>,
}

/// A message's key, borrowed or made for it alone. With a byte that tells which: by a niche of 16
/// bytes, which are written as two halves, asking would wait for these.
#[repr(u8)]
#[allow(
    clippy::large_enum_variant,
    reason = "an allocation would take longer than the key of a short message"
)]
pub(super) enum MessageKey<'a> {
    Shared(&'a Prepared),
    Own(Prepared),
}

impl std::ops::Deref for MessageKey<'_> {
    type Target = Prepared;

    #[inline(always)]
    fn deref(&self) -> &Prepared {
        match self {
            MessageKey::Shared(prepared) => prepared,
            MessageKey::Own(prepared) => prepared,
        }
    }
}

impl CpuBackend {
    /// A backend on one instruction set.
    pub(crate) fn new(set: InstructionSet, threads: NonZeroUsize) -> Result<Self, Error> {
        let name = format!("cpu:{}", set.name());
        let kernels = set.kernels().ok_or_else(|| Error::NoBackend {
            name: name.clone(),
            reason: "this machine does not have the instructions; take cpu".to_owned(),
        })?;
        let pool = (threads.get() > 1)
            .then(|| {
                rayon::ThreadPoolBuilder::new()
                    .num_threads(threads.get())
                    .thread_name(|number| format!("warplock-cpu-{number}"))
                    .build()
            })
            .transpose()
            .map_err(|error| Error::NoBackend {
                name,
                reason: format!("cannot start {threads} threads ({error}); ask for fewer"),
            })?;
        Ok(CpuBackend { kernels, pool })
    }

    pub(crate) fn kernels(&self) -> &'static dyn Kernels {
        self.kernels
    }

    #[inline(always)]
    pub(super) fn prepare<'a>(
        &self,
        job: &Job<'a>,
        index: usize,
        message: &Message<'_>,
    ) -> MessageKey<'a> {
        let key = match *job.keys() {
            Keys::One(key) => key,
            Keys::Indexed {
                keys,
                index: numbers,
            } => &keys[numbers[index] as usize],
            Keys::Each { algorithm, bytes } => {
                let bytes = &bytes[index * algorithm.key_len()..][..algorithm.key_len()];
                let longest = message
                    .len
                    .max(message.aad.len())
                    .max(message.iv.bytes().len());
                let own = Prepared::for_length(self.kernels, algorithm, bytes, longest.max(16));
                return MessageKey::Own(own);
            }
        };
        MessageKey::Shared(key.prepared(self.kernels))
    }

    /// Runs some messages on this thread; gives back those that did not verify.
    pub(super) fn run_messages(&self, job: &Job<'_>, messages: Range<usize>) -> Vec<usize> {
        if job.info().mode == Mode::Cbc && job.direction() == Direction::Encrypt {
            self.run_chains(job, messages);
            return Vec::new();
        }
        if job.info().mode == Mode::Acorn {
            return acorn::run_messages(self.kernels.set(), job, messages);
        }
        if job.info().algorithm == Algorithm::Aes128Ecb
            && job.direction() == Direction::Encrypt
            && let Some((keys, src, dst)) = job.single_blocks(messages.clone())
        {
            let len = 16 * messages.len();
            // SAFETY: by the job's checks the pointers are valid and no outputs overlap.
            unsafe { self.kernels.ecb_each(keys, Io { src, dst, len }) };
            return Vec::new();
        }
        if messages.len() == 1 {
            return match self.run_message(job, messages.start) {
                true => Vec::new(),
                false => vec![messages.start],
            };
        }
        if job.info().mode == Mode::Gcm {
            return self.run_gcm(job, messages);
        }
        messages
            .filter(|&index| !self.run_message(job, index))
            .collect()
    }

    /// GCM: short messages in step, the others one after the other.
    fn run_gcm(&self, job: &Job<'_>, messages: Range<usize>) -> Vec<usize> {
        let mut failed = Vec::new();
        let mut shorts = Vec::with_capacity(messages.len().min(SHORTS));
        for start in messages.clone().step_by(SHORTS) {
            for index in start..messages.end.min(start + SHORTS) {
                match self.short(job, index) {
                    Some(short) => shorts.push(short),
                    None if self.run_message(job, index) => {}
                    None => failed.push(index),
                }
            }
            // SAFETY: by the job's checks the pointers are valid and no outputs overlap.
            let done = unsafe { self.kernels.gcm_short(job.direction(), &mut shorts) };
            for (place, short) in shorts.drain(..).enumerate() {
                let good = if place < done {
                    // SAFETY: by the job's checks; this message is done.
                    unsafe { conclude(job, &short.message, &short.tag) }
                } else {
                    self.run_message(job, short.index)
                };
                if !good {
                    failed.push(short.index);
                }
            }
        }
        failed.sort_unstable();
        failed
    }

    /// A message as one to be done in step with others, if it is short.
    #[inline]
    fn short<'a>(&self, job: &Job<'a>, index: usize) -> Option<Short<'a>> {
        let message = job.message(index);
        let Iv::Bytes(iv) = message.iv else {
            return None;
        };
        if message.len.max(message.aad.len()) > SHORT {
            return None;
        }
        let key = match *job.keys() {
            Keys::One(key) => ShortKey::Prepared(key.prepared(self.kernels)),
            Keys::Indexed {
                keys,
                index: numbers,
            } => ShortKey::Prepared(keys[numbers[index] as usize].prepared(self.kernels)),
            Keys::Each { algorithm, bytes } => {
                ShortKey::Bytes(&bytes[index * algorithm.key_len()..][..algorithm.key_len()])
            }
        };
        Some(Short {
            index,
            key,
            message,
            iv: iv.try_into().ok()?,
            tag: [0; 16],
        })
    }

    /// Runs one message; false if it did not verify.
    fn run_message(&self, job: &Job<'_>, index: usize) -> bool {
        let message = job.message(index);
        let prepared = self.prepare(job, index, &message);
        let direction = job.direction();
        let Message {
            input, output, len, ..
        } = message;
        let io = Io {
            src: input,
            dst: output,
            len,
        };
        let mut state = Running::start(
            self.kernels,
            &prepared,
            job.info(),
            message.iv.bytes(),
            message.aad,
        );

        // SAFETY: by the job's checks all pointers are valid for their lengths, no other message's
        // output overlaps this one, and an appended tag lies behind the text.
        unsafe {
            // What is left for the end: a partial block, with a whole one for XTS to steal from.
            let rest = if len.is_multiple_of(16) {
                0
            } else {
                len.min(len % 16 + 16)
            };
            self.advance(&mut state, &prepared, direction, io.part(0, len - rest));
            if rest > 0 {
                let end = io.part(len - rest, rest);
                state.finish(self.kernels, &prepared, direction, end);
            }
            match state.tag(self.kernels, &prepared) {
                Some(tag) => conclude(job, &message, &tag),
                None => true,
            }
        }
    }

    /// Works on whole blocks of one message; long runs are cut over the threads of the pool.
    ///
    /// # Safety
    /// As [`Running::update`].
    pub(crate) unsafe fn advance(
        &self,
        state: &mut Running,
        prepared: &Prepared,
        direction: Direction,
        io: Io,
    ) {
        let serial = match state {
            Running::Cbc { .. } => direction == Direction::Encrypt,
            Running::Acorn(_) => true,
            _ => false,
        };
        // SAFETY: by this function's contract.
        unsafe {
            match &self.pool {
                Some(pool) if !serial && io.len >= LONG => {
                    pool.install(move || self.advance_cut(state, prepared, direction, io));
                }
                _ => state.update(self.kernels, prepared, direction, io),
            }
        }
    }

    /// [`CpuBackend::advance`] in pieces, on the pool that this is called on.
    ///
    /// # Safety
    /// As [`Running::update`].
    unsafe fn advance_cut(
        &self,
        state: &mut Running,
        prepared: &Prepared,
        direction: Direction,
        io: Io,
    ) {
        let pieces: Vec<(Running, Io)> = (0..io.len)
            .step_by(PIECE)
            .map(|offset| {
                let mut before = [0; 16];
                // SAFETY: inside `io`. Read before any piece is written, for work in place.
                let part = unsafe {
                    if offset > 0 {
                        let src = io.src.add(offset - 16);
                        src.copy_to_nonoverlapping(before.as_mut_ptr(), 16);
                    }
                    io.part(offset, PIECE.min(io.len - offset))
                };
                let piece = if offset == 0 {
                    state.clone()
                } else {
                    state.skip(offset as u64 / 16, before)
                };
                (piece, part)
            })
            .collect();
        let work = |(mut piece, io): (Running, Io)| {
            // SAFETY: pieces do not overlap; the rest by this function's contract.
            unsafe { piece.update(self.kernels, prepared, direction, io) };
            piece
        };
        let mut done = pieces
            .into_par_iter()
            .map(work)
            .collect::<Vec<_>>()
            .into_iter();
        if let Some(first) = done.next() {
            *state = first;
        }
        for later in done {
            state.join(prepared, later);
        }
    }

    /// CBC encryption: many chains at once.
    fn run_chains(&self, job: &Job<'_>, messages: Range<usize>) {
        for start in messages.clone().step_by(CHAINS) {
            let messages: Vec<_> = (start..messages.end.min(start + CHAINS))
                .map(|index| {
                    let message = job.message(index);
                    let key = self.prepare(job, index, &message);
                    (message, key)
                })
                .collect();
            let mut chains: Vec<_> = messages
                .iter()
                .map(|(message, key)| {
                    let Message {
                        input,
                        output,
                        len,
                        iv,
                        ..
                    } = *message;
                    let prev = *iv
                        .bytes()
                        .first_chunk()
                        .expect("the job was checked: IVs are blocks");
                    Chain {
                        key: &key.aes,
                        prev,
                        io: Io {
                            src: input,
                            dst: output,
                            len,
                        },
                    }
                })
                .collect();
            // SAFETY: by the job's checks, the pointers are valid and no outputs overlap.
            unsafe { self.kernels.cbc_encrypt(&mut chains) };
        }
    }

    /// Cuts a job over the pool: long messages by themselves, short ones in groups.
    fn run_parallel(&self, job: &Job<'_>) -> Vec<usize> {
        let chained = job.info().mode == Mode::Cbc && job.direction() == Direction::Encrypt;
        let threads = rayon::current_num_threads();
        let total = usize::try_from(job.text_bytes()).unwrap_or(usize::MAX);
        let fair = PIECE.min(total / (4 * threads)).max(1);
        let chains = CHAINS.min(job.count().div_ceil(threads));
        // Messages that would keep one thread busy while the others have nothing to do.
        let acorn = job.info().mode == Mode::Acorn;
        let is_long = |len: usize| !chained && !acorn && len >= LONG;
        let together = acorn::TOGETHER.min(job.count().div_ceil(threads));
        let mut long = Vec::new();
        let mut groups = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for index in 0..job.count() {
            let len = job.text_len(index);
            if is_long(len) {
                if start < index {
                    groups.push(start..index);
                }
                long.push(index);
                (start, bytes) = (index + 1, 0);
                continue;
            }
            // A message costs something even when it is empty.
            bytes += len + 256;
            let full = if chained {
                index + 1 - start >= chains
            } else {
                bytes >= fair && (!acorn || index + 1 - start >= together)
            };
            if full {
                groups.push(start..index + 1);
                (start, bytes) = (index + 1, 0);
            }
        }
        if start < job.count() {
            groups.push(start..job.count());
        }
        let failed = Mutex::new(Vec::new());
        let note = |refused: Vec<usize>| {
            if !refused.is_empty() {
                failed
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend(refused);
            }
        };
        groups
            .into_par_iter()
            .for_each(|group| note(self.run_messages(job, group)));
        for index in long {
            if !self.run_message(job, index) {
                note(vec![index]);
            }
        }
        let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.sort_unstable();
        failed
    }
}

/// Ends a message whose tag is computed: writes the tag, or compares it and wipes the text of a
/// forgery. False if it did not verify.
///
/// # Safety
/// `message` is the job's, and nobody else works on it.
pub(super) unsafe fn conclude(job: &Job<'_>, message: &Message<'_>, tag: &[u8; 16]) -> bool {
    let len = job.tag_len();
    // SAFETY: by the job's checks the pointers are valid for the text and the tag.
    unsafe {
        match job.direction() {
            Direction::Encrypt => {
                message.tag.copy_from_nonoverlapping(tag.as_ptr(), len);
                true
            }
            Direction::Decrypt => {
                let mut given = [0; 16];
                let from = message.tag.cast_const();
                from.copy_to_nonoverlapping(given.as_mut_ptr(), len);
                // As one number: byte by byte, the comparison of a short message's tag shows.
                let cut = u128::from_le_bytes(*tag) & (u128::MAX >> (128 - 8 * len));
                let good = bool::from(cut.ct_eq(&u128::from_le_bytes(given)));
                if !good {
                    message.output.write_bytes(0, message.len);
                }
                good
            }
        }
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> String {
        format!("cpu:{}", self.kernels.set().name())
    }

    fn supports(&self, _job: &Job<'_>) -> bool {
        true
    }

    fn estimate(&self, job: &Job<'_>) -> Duration {
        let threads = self.threads();
        let model = CpuModel::guess(self.kernels.set(), threads);
        Duration::from_nanos(model.time(&Shape::of(job), threads) as u64)
    }

    unsafe fn submit(&self, job: &Job<'_>) -> Result<Ticket, Error> {
        let (algorithm, direction) = (job.info().algorithm, job.direction());
        let (bytes, count) = (job.text_bytes(), job.count());
        let worth = spreads(self.kernels.set(), algorithm, direction, bytes, count);
        let failed = match &self.pool {
            Some(pool) if worth => pool.install(|| self.run_parallel(job)),
            _ => self.run_messages(job, 0..job.count()),
        };
        Ok(Ticket::done(failed))
    }
}
