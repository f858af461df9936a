//! Messages on one thread, in each mode.

use std::ops::Range;

use zeroize::Zeroize;

use super::CpuBackend;
use super::acorn;
use super::finish::write_or_verify_tag;
use super::kernels::{
    Chain, Io, Kernels, LINE, MessageKey, SHORT, SHORT_PREPARED, Short, store_fence,
};
use super::message::{Running, Tweak, make_tweaks, stolen, whole_xts};
use super::prepared::{AesKey, Prepared};
use crate::batch::Keys;
use crate::job::{Iv, Job, Message};
use crate::single::Single;
use crate::{Algorithm, AlgorithmInfo, Direction, Mode};

/// CBC chains that a kernel takes together.
pub(super) const CHAINS: usize = 64;

/// Short messages that a kernel takes together: enough to find some of about the same length.
const SHORTS: usize = 256;

/// XTS tweaks that are made together.
const TWEAKS: usize = 32;

/// The shortest messages, or parts of one, that are written with non-temporal stores: those that begin
/// with a cache line, and others, whose blocks before the first line take a step of their own.
const LEAST_NON_TEMPORAL: [usize; 2] = [16 << 10, 64 << 10];

/// The shortest chain of CBC encryption for the same: its steps are cache lines in any case.
const LEAST_NON_TEMPORAL_CHAIN: usize = 4 << 10;

/// Jobs with at least this much text are not in the caches of one thread.
const COLD_FROM: u64 = 8 << 20;

impl CpuBackend {
    /// Input and output of a message or a part of one, in a job with `bytes` of text.
    pub(super) fn io(&self, bytes: u64, src: *const u8, dst: *mut u8, len: usize) -> Io {
        let in_line = (dst as usize).is_multiple_of(LINE);
        let least = LEAST_NON_TEMPORAL[usize::from(!in_line)];
        let non_temporal =
            bytes >= self.non_temporal_from && src != dst.cast_const() && len >= least;
        Io::new(src, dst, len)
            .with_non_temporal(non_temporal)
            .with_cold(bytes >= COLD_FROM)
    }

    /// Runs a job; returns the messages that did not verify, ascending.
    ///
    /// # Safety
    /// Nothing else uses what the job borrows during the call.
    pub(crate) unsafe fn run(&self, job: &Job<'_>) -> Vec<usize> {
        let (what, count) = ((job.info().algorithm, job.direction()), job.count());
        // A single message asks by itself.
        if count > 1
            && let Some((others, threads)) = self.worth(what, job.text_bytes(), count)
        {
            return self.run_parallel(job, others, threads);
        }
        self.run_messages(job, 0..count)
    }

    pub(crate) fn kernels(&self) -> &'static dyn Kernels {
        self.kernels
    }

    #[inline(always)]
    fn key<'a>(&self, job: &Job<'a>, index: usize) -> MessageKey<'a> {
        match *job.keys() {
            Keys::One(key) => MessageKey::Prepared(key.prepared(self.kernels)),
            Keys::Indexed {
                keys,
                index: numbers,
            } => MessageKey::Prepared(keys[numbers[index] as usize].prepared(self.kernels)),
            Keys::Each { algorithm, bytes } => {
                MessageKey::Bytes(&bytes[index * algorithm.key_len()..][..algorithm.key_len()])
            }
        }
    }

    /// A message's key; if only this message has it, it is expanded in `own`.
    #[inline(always)]
    pub(super) fn prepare<'a>(
        &self,
        job: &Job<'a>,
        index: usize,
        message: &Message<'_>,
        own: &'a mut Option<Prepared>,
    ) -> &'a Prepared {
        match self.key(job, index) {
            MessageKey::Prepared(prepared) => prepared,
            MessageKey::Bytes(bytes) => {
                let lens = [message.len, message.aad.len(), message.iv.bytes().len(), 16];
                let longest = lens.into_iter().max().expect("there are some");
                let own = own.get_or_insert_with(Prepared::empty);
                let decrypts = job.direction() == Direction::Decrypt;
                let algorithm = job.info().algorithm;
                own.set(self.kernels, algorithm, bytes, longest, decrypts);
                own
            }
        }
    }

    /// Runs some messages on this thread; returns those that did not verify.
    pub(super) fn run_messages(&self, job: &Job<'_>, messages: Range<usize>) -> Vec<usize> {
        if job.info().mode == Mode::Cbc && job.direction() == Direction::Encrypt {
            self.run_chains(job, messages);
            return Vec::new();
        }
        if job.info().mode == Mode::Acorn {
            let kernels = acorn::LaneKernels::of(self.kernels.set());
            return acorn::run_messages(kernels, job, messages);
        }
        if job.info().algorithm == Algorithm::Aes128Ecb
            && job.direction() == Direction::Encrypt
            && let Some((keys, src, dst)) = job.single_blocks(messages.clone())
        {
            let io = self.io(job.text_bytes(), src, dst, 16 * messages.len());
            let (cached, streamed) = io.non_temporal_part();
            let (cached_keys, streamed_keys) = keys.split_at(cached.len);
            // SAFETY: by the job's checks the pointers are valid and no outputs overlap.
            unsafe {
                self.kernels.ecb_each(cached_keys, cached);
                if streamed.len > 0 {
                    self.kernels.ecb_each(streamed_keys, streamed);
                    store_fence();
                }
            }
            return Vec::new();
        }
        if messages.len() == 1 {
            return match self.run_message(job, messages.start) {
                true => Vec::new(),
                false => vec![messages.start],
            };
        }
        // Each mode by itself: a state that could be of any mode would live in memory, which shows
        // in a short message's time.
        match (job.info().mode, job.keys()) {
            (Mode::Gcm, _) => return self.run_gcm(job, messages),
            (Mode::Xts, Keys::One(key)) => {
                self.run_xts(job, key.prepared(self.kernels), messages);
            }
            (Mode::Ecb, _) => self.run_tagless(job, messages, |_, _| Running::Ecb),
            (Mode::Cbc, _) => self.run_tagless(job, messages, |_, iv| Running::cbc(iv)),
            (Mode::Ctr, _) => self.run_tagless(job, messages, |_, iv| Running::ctr(iv)),
            (Mode::Xts, _) => self.run_tagless(job, messages, |prepared, iv| {
                Running::xts(self.kernels, prepared, iv)
            }),
            (Mode::Acorn, _) => unreachable!("it has lanes of its own"),
        }
        Vec::new()
    }

    /// Messages in modes without tags, one after the other. `start` makes the state of a message
    /// from its IV.
    #[inline(always)]
    fn run_tagless(
        &self,
        job: &Job<'_>,
        messages: Range<usize>,
        start: impl Fn(&Prepared, &[u8]) -> Running,
    ) {
        let run = |prepared: &Prepared, message: &Message<'_>| {
            let mut state = start(prepared, message.iv.bytes());
            // SAFETY: by the job's checks the pointers are valid, and no outputs overlap.
            unsafe {
                let bytes = job.text_bytes();
                let io = self.io(bytes, message.input, message.output, message.len);
                state.finish(self.kernels, prepared, job.direction(), io);
            }
        };
        let own = &mut None;
        match job.keys() {
            Keys::One(key) => {
                let prepared = key.prepared(self.kernels);
                messages.for_each(|index| run(prepared, &job.message(index)));
            }
            _ => messages.for_each(|index| {
                let message = job.message(index);
                run(self.prepare(job, index, &message, own), &message);
            }),
        }
    }

    /// XTS with one key: no message waits for its own tweak.
    fn run_xts(&self, job: &Job<'_>, prepared: &Prepared, messages: Range<usize>) {
        let mut tweaks = [[0; 16]; TWEAKS];
        let used = messages.len().min(TWEAKS);
        let mut together = Vec::with_capacity(used);
        for start in messages.clone().step_by(TWEAKS) {
            together.extend((start..messages.end.min(start + TWEAKS)).map(|i| job.message(i)));
            let tweaks = &mut tweaks[..together.len()];
            for (tweak, message) in tweaks.iter_mut().zip(&together) {
                tweak.copy_from_slice(message.iv.bytes());
            }
            make_tweaks(self.kernels, prepared, tweaks);
            for (message, &mut tweak) in together.drain(..).zip(tweaks) {
                let mut state = Running::Xts {
                    tweak: Tweak(tweak),
                };
                // SAFETY: by the job's checks the pointers are valid, and no outputs overlap.
                unsafe {
                    let bytes = job.text_bytes();
                    let io = self.io(bytes, message.input, message.output, message.len);
                    state.finish(self.kernels, prepared, job.direction(), io);
                }
            }
        }
        tweaks[..used].as_flattened_mut().zeroize();
    }

    /// GCM: short messages together, the others one after the other.
    fn run_gcm(&self, job: &Job<'_>, messages: Range<usize>) -> Vec<usize> {
        let (mut failed, own) = (Vec::new(), &mut None);
        let mut shorts = Vec::with_capacity(messages.len().min(SHORTS));
        let (shared, longest) = match job.keys() {
            Keys::One(key) => (
                Some(MessageKey::Prepared(key.prepared(self.kernels))),
                match self.kernels.gcm_rows() {
                    true => SHORT,
                    false => SHORT_PREPARED,
                },
            ),
            Keys::Indexed { .. } => (None, SHORT_PREPARED),
            Keys::Each { .. } => (None, SHORT),
        };
        for start in messages.clone().step_by(SHORTS) {
            for index in start..messages.end.min(start + SHORTS) {
                match self.short(job, index, shared, longest) {
                    Some(short) => shorts.push(short),
                    None if self.run_gcm_message(job, index, own) => {}
                    None => failed.push(index),
                }
            }
            // SAFETY: by the job's checks the pointers are valid and no outputs overlap.
            let done = unsafe { self.kernels.gcm_short(job.direction(), &mut shorts) };
            for (place, short) in shorts.drain(..).enumerate() {
                let good = if place < done {
                    // SAFETY: by the job's checks; this message is done.
                    unsafe {
                        write_or_verify_tag(
                            job.direction(),
                            &short.message,
                            &short.tag[..job.tag_len()],
                        )
                    }
                } else {
                    self.run_gcm_message(job, short.index, own)
                };
                if !good {
                    failed.push(short.index);
                }
            }
        }
        failed.sort_unstable();
        failed
    }

    /// A message for a kernel that takes several, if it is no longer than `longest`. `shared`: the
    /// only key, if there is one.
    #[inline(always)]
    fn short<'a>(
        &self,
        job: &Job<'a>,
        index: usize,
        shared: Option<MessageKey<'a>>,
        longest: usize,
    ) -> Option<Short<'a>> {
        let message = job.message(index);
        let Iv::Bytes(iv) = message.iv else {
            return None;
        };
        if message.len > longest || message.aad.len() > SHORT {
            return None;
        }
        Some(Short {
            index,
            key: shared.unwrap_or_else(|| self.key(job, index)),
            message,
            iv: iv.try_into().ok()?,
            tag: [0; 16],
        })
    }

    /// Runs one GCM message of several; returns false if it did not verify. `own` is room for its
    /// key.
    #[inline(always)]
    fn run_gcm_message(&self, job: &Job<'_>, index: usize, own: &mut Option<Prepared>) -> bool {
        let message = job.message(index);
        let prepared = self.prepare(job, index, &message, own);
        let (iv, aad) = (message.iv.bytes(), message.aad);
        let mut state = Running::gcm(self.kernels, prepared, iv, aad);
        let (direction, tag_len) = (job.direction(), job.tag_len());
        // SAFETY: by the job's checks all pointers are valid for their lengths, no other message's
        // output overlaps this one, and an appended tag follows the text.
        unsafe {
            let io = self.io(job.text_bytes(), message.input, message.output, message.len);
            self.run_here(&mut state, prepared, direction, &message, io, tag_len)
        }
    }

    /// Runs one message, on several threads if it is long; returns false if it did not verify.
    pub(super) fn run_message(&self, job: &Job<'_>, index: usize) -> bool {
        let message = job.message(index);
        let own = &mut None;
        let prepared = self.prepare(job, index, &message, own);
        let (info, direction, tag_len) = (job.info(), job.direction(), job.tag_len());
        // SAFETY: by the job's checks all pointers are valid for their lengths, no other message's
        // output overlaps this one, and an appended tag follows the text.
        unsafe {
            let io = self.io(job.text_bytes(), message.input, message.output, message.len);
            self.run_prepared(prepared, info, direction, &message, io, tag_len)
        }
    }

    /// Runs a batch of one message; returns false if it did not verify.
    ///
    /// # Safety
    /// Nothing else uses what the batch borrows during the call.
    #[inline(never)]
    pub(crate) unsafe fn run_single(&self, single: &Single<'_>) -> bool {
        let Single {
            info,
            direction,
            key,
            message,
            tag_len,
        } = single;
        let prepared = key.prepared(self.kernels);
        // SAFETY: by the batch's checks and this function's contract.
        unsafe {
            let len = message.len;
            let io = self.io(len as u64, message.input, message.output, len);
            self.run_prepared(prepared, info, *direction, message, io, *tag_len)
        }
    }

    /// Runs a message, whose text is in `io`, under a key; returns false if it did not verify.
    ///
    /// # Safety
    /// The message's pointers are valid for its text and a tag of `tag_len` bytes, all its parts
    /// fit the algorithm, and nothing else uses them during the call.
    #[inline(always)]
    unsafe fn run_prepared(
        &self,
        prepared: &Prepared,
        info: &'static AlgorithmInfo,
        direction: Direction,
        message: &Message<'_>,
        io: Io,
        tag_len: usize,
    ) -> bool {
        let (kernels, len, what) = (self.kernels, io.len, (info.algorithm, direction));
        let (iv, aad) = (message.iv.bytes(), message.aad);
        // SAFETY: by this function's contract.
        unsafe {
            if let Some(others) = self.worth(what, len as u64, 1) {
                let mut state = Running::start(kernels, prepared, info, iv, aad);
                let rest = match info.mode {
                    Mode::Xts => stolen(len),
                    _ => 0,
                };
                let whole = io.part(0, len - rest);
                self.advance_cut(&mut state, prepared, direction, whole, others);
                let end = io.part(len - rest, rest);
                return self.run_here(&mut state, prepared, direction, message, end, tag_len);
            }
            macro_rules! run_with {
                ($state:expr) => {
                    self.run_here(&mut $state, prepared, direction, message, io, tag_len)
                };
            }
            match info.mode {
                Mode::Ecb => run_with!(Running::Ecb),
                Mode::Cbc => run_with!(Running::cbc(iv)),
                Mode::Ctr => run_with!(Running::ctr(iv)),
                Mode::Xts if stolen(len) == 0 && !io.non_temporal => {
                    whole_xts(kernels, prepared, direction, iv, io);
                    true
                }
                Mode::Xts => run_with!(Running::xts(kernels, prepared, iv)),
                Mode::Gcm => run_with!(Running::gcm(kernels, prepared, iv, aad)),
                Mode::Acorn => run_with!(Running::start(kernels, prepared, info, iv, aad)),
            }
        }
    }

    /// Works on the rest of a message, and ends it; returns false if it did not verify. Inlined
    /// where the state's mode is known: with a state of any mode, a short message would take
    /// longer.
    ///
    /// # Safety
    /// As [`CpuBackend::run_prepared`].
    #[inline(always)]
    unsafe fn run_here(
        &self,
        state: &mut Running,
        prepared: &Prepared,
        direction: Direction,
        message: &Message<'_>,
        io: Io,
        tag_len: usize,
    ) -> bool {
        // SAFETY: by this function's contract.
        unsafe {
            state.finish(self.kernels, prepared, direction, io);
            match state.tag(self.kernels, prepared) {
                Some(tag) => write_or_verify_tag(direction, message, &tag[..tag_len]),
                None => true,
            }
        }
    }

    /// CBC encryption: many chains at the same time.
    fn run_chains(&self, job: &Job<'_>, messages: Range<usize>) {
        let non_temporal = job.text_bytes() >= self.non_temporal_from && !job.is_in_place();
        let mut own = Vec::new();
        for start in messages.clone().step_by(CHAINS) {
            let messages = start..messages.end.min(start + CHAINS);
            if let Keys::Each { .. } = job.keys() {
                own.resize_with(messages.len(), AesKey::empty);
            }
            for (room, index) in own.iter_mut().zip(messages.clone()) {
                if let MessageKey::Bytes(bytes) = self.key(job, index) {
                    self.kernels.expand(bytes, false, room);
                }
            }
            let mut chains: Vec<_> = messages
                .enumerate()
                .map(|(place, index)| {
                    let message = job.message(index);
                    let non_temporal = non_temporal && message.len >= LEAST_NON_TEMPORAL_CHAIN;
                    let iv = message.iv.bytes().first_chunk();
                    Chain {
                        key: match self.key(job, index) {
                            MessageKey::Prepared(prepared) => &prepared.aes,
                            MessageKey::Bytes(_) => &own[place],
                        },
                        prev: *iv.expect("the job was checked: IVs are blocks"),
                        io: Io::new(message.input, message.output, message.len)
                            .with_non_temporal(non_temporal),
                    }
                })
                .collect();
            // SAFETY: by the job's checks, the pointers are valid and no outputs overlap.
            unsafe { self.kernels.cbc_encrypt(&mut chains) };
            if non_temporal {
                store_fence();
            }
        }
    }
}
