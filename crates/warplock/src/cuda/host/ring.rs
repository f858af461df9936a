//! A ring of slots that moves the chunks of a job through a GPU: while one is filled, others are
//! uploaded, worked on and downloaded.

use std::mem::{forget, take};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::copy::{extent, inputs, outputs};
use super::slot::{Ending, Flight, RingGpu, Slot, State};
use crate::cuda::driver::api::Failure;
use crate::cuda::driver::memory::{DeviceBytes, HostBytes};
use crate::cuda::driver::rows::{Rows, Run, rows};
use crate::cuda::launch::cut::{Chunk, Cutter, Previous, has_table};
use crate::cuda::launch::keys::OneKey;
use crate::cuda::launch::link::Link;
use crate::cuda::launch::sheet::{Addresses, Located, Sheet};
use crate::cuda::launch::steps::{Launcher, Step};
use crate::job::Job;
use crate::portion::{All, Outcome, Portion, Source};
use crate::{Direction, Mode};

/// The ring. Only one job uses it at a time.
pub(crate) struct Ring<L: Link> {
    gpu: Arc<RingGpu<L>>,
    slots: Vec<Slot<L>>,
    states: Vec<State<L>>,
    /// The device did not answer: it may use its buffers for ever.
    hung: bool,
}

/// A chunk whose text is being uploaded.
struct Sent {
    chunk: Chunk,
    /// The portion that ends here.
    portion: Option<Portion>,
    /// Its slot.
    place: usize,
    /// Bytes of its text, including gaps between messages.
    len: usize,
    /// Whether the device reads and writes the caller's memory directly.
    direct_in: bool,
    direct_out: bool,
    /// The destination of its text: rows that the device writes, or runs that are copied from
    /// pinned memory.
    direct: Vec<Rows>,
    staged: Vec<Run>,
}

/// One job on its way through a ring.
pub(super) struct Passage<'r, 'job, L: Link> {
    pub(super) gpu: &'r RingGpu<L>,
    pub(super) slots: &'r mut Vec<Slot<L>>,
    pub(super) states: &'r mut Vec<State<L>>,
    pub(super) job: &'r Job<'job>,
    pub(super) launcher: Launcher,
    /// The job's key, if there is only one; or the key of the long message under way.
    pub(super) key: Option<(usize, OneKey)>,
    /// The caller's pinned memory.
    pub(super) pinned_input: Option<Range<usize>>,
    pub(super) pinned_output: Option<Range<usize>>,
    /// Chunks so far. The next one takes this slot, and the oldest is in the one after it.
    pub(super) number: usize,
    /// Long messages so far, or parts of them that were portions.
    pub(super) long: usize,
    /// If something fails, the input of everything taken and not done must be unchanged.
    keep: bool,
    /// The range of the message that the current portion is, if it is a part.
    pub(super) part: Option<Range<usize>>,
    /// Refused messages of the portions whose chunks are being drained.
    pub(super) failed: Vec<usize>,
}

impl<L: Link> Ring<L> {
    pub(crate) fn new(gpu: &Arc<RingGpu<L>>) -> Self {
        Ring {
            gpu: Arc::clone(gpu),
            slots: Vec::new(),
            states: Vec::new(),
            hung: false,
        }
    }

    /// Allocates all buffers that the longest jobs need.
    pub(crate) fn warm(&mut self) -> Result<(), Failure> {
        let gpu = Arc::clone(&self.gpu);
        let _bound = gpu.link.bind()?;
        while self.slots.len() < gpu.policy.slots {
            self.slots.push(Slot::new(&gpu.link)?);
        }
        let len = gpu.policy.largest;
        let mut texts = self.slots.iter_mut().map(|slot| &mut slot.text);
        texts.try_for_each(|text| text.grow(&gpu, len, len))
    }

    /// Runs a job in chunks of up to `room` bytes; returns the messages that did not verify,
    /// ascending. After an error, nothing is under way any more, unless the device hangs, and the
    /// ring must not be used again.
    ///
    /// # Safety
    /// Nothing else uses what the job borrows during the call.
    pub(crate) unsafe fn run(&mut self, job: &Job<'_>, room: usize) -> Result<Vec<usize>, Failure> {
        let mut all = All::of(job.count());
        // SAFETY: by this function's contract.
        unsafe { self.run_portions(job, &mut all, room, false)? };
        let mut failed = all.refused;
        failed.sort_unstable();
        Ok(failed)
    }

    /// Runs portions of a job, cut into chunks of up to `room` bytes, until the source returns
    /// none. After an error, as for [`Ring::run`], the portions that were taken and are not done
    /// are lost; with `keep`, their input is unchanged if each fits into one chunk, even for work
    /// in place.
    ///
    /// Why: the device never writes into memory that is also the input (this thread copies its
    /// results when the whole chunk has arrived), and into other memory only once the chunk's
    /// kernels are known to be done, so that kernels that hang write nothing later. Copies that are
    /// under way into the caller's memory are waited for without a limit.
    ///
    /// # Safety
    /// Nothing else uses the portions' messages during the call.
    pub(crate) unsafe fn run_portions(
        &mut self,
        job: &Job<'_>,
        source: &mut dyn Source,
        room: usize,
        keep: bool,
    ) -> Result<(), Failure> {
        let gpu = Arc::clone(&self.gpu);
        let _bound = gpu.link.bind()?;
        if job.count() == 0 {
            return Ok(());
        }
        let first = job.message(0);
        let direct = !(keep && job.is_in_place());
        let mut passage = Passage {
            gpu: &gpu,
            slots: &mut self.slots,
            states: &mut self.states,
            job,
            launcher: Launcher::new(job),
            key: None,
            pinned_input: gpu.link.pinned_around(first.input),
            pinned_output: direct
                .then(|| gpu.link.pinned_around(first.output))
                .flatten(),
            number: 0,
            long: 0,
            keep,
            part: None,
            failed: Vec::new(),
        };
        // SAFETY: by this function's contract.
        let ran = unsafe { passage.run(source, room) };
        match &ran {
            Ok(()) => {}
            Err(failure) if failure.is_hung() => {
                passage.wait_for_direct();
                self.hung = true;
            }
            Err(_) => self.stop(),
        }
        ran
    }

    /// Whether the device did not answer.
    pub(crate) fn is_hung(&self) -> bool {
        self.hung
    }

    fn wait_for_streams(&self) {
        let slots = self.slots.iter().map(|slot| &slot.stream);
        for stream in slots.chain(self.states.iter().map(|state| &state.stream)) {
            // If this fails, the device is lost, and runs nothing.
            let _ = self.gpu.link.wait_stream(stream);
        }
    }

    /// Waits until nothing is under way; the context is bound.
    fn stop(&mut self) {
        self.wait_for_streams();
        self.slots.iter_mut().for_each(|slot| slot.flight = None);
    }
}

impl<L: Link> Drop for Ring<L> {
    fn drop(&mut self) {
        if self.hung {
            // Freeing anything would wait for the device.
            forget((take(&mut self.slots), take(&mut self.states)));
            forget(Arc::clone(&self.gpu));
            return;
        }
        if let Ok(_bound) = self.gpu.link.bind() {
            // Queued operations may still wipe memory.
            self.wait_for_streams();
        }
    }
}

impl<L: Link> Passage<'_, '_, L> {
    /// # Safety
    /// Nothing else uses what the job borrows until this has returned, and if that is an error,
    /// until all streams are synchronized.
    unsafe fn run(&mut self, source: &mut dyn Source, room: usize) -> Result<(), Failure> {
        let gpu = self.gpu;
        let slots = gpu.policy.slots;
        while let Some(portion) = source.next() {
            self.part = match &portion {
                Portion::Messages(_) => None,
                Portion::Part(part) => Some(part.bytes.clone()),
            };
            let mut cutter = Cutter::new(self.job, &gpu.policy, &portion, room);
            let mut next = cutter.next();
            let mut portion = Some(portion);
            let mut first = None;
            while let Some(chunk) = next {
                next = cutter.next();
                assert!(!self.keep || next.is_none(), "it must fit into one chunk");
                let place = self.number % slots;
                if place == self.slots.len() {
                    self.slots.push(Slot::new(&gpu.link)?);
                }
                let ends = portion.take_if(|_| next.is_none());
                // SAFETY: by this function's contract.
                unsafe {
                    self.drain(place, source)?;
                    self.bring_back_worked()?;
                    let sent = self.send(chunk, ends)?;
                    self.number += 1;
                    // The driver's first calls take as long as the upload of a text: meanwhile, the
                    // next upload starts.
                    if self.number == 1 && next.is_some() && sent.direct_in {
                        first = Some(sent);
                        continue;
                    }
                    if let Some(first) = first.take() {
                        self.start(first)?;
                    }
                    self.start(sent)?;
                    self.bring_back_worked()?;
                }
            }
            if let Some(empty) = portion {
                source.done(empty, Outcome::default());
            }
        }
        for later in self.number..self.number + self.slots.len() {
            // SAFETY: by this function's contract.
            unsafe { self.drain(later % self.slots.len(), source)? };
        }
        Ok(())
    }

    /// Finds the key, if a chunk needs only one.
    fn find_key(&mut self, chunk: &Chunk) {
        if self.job.info().mode == Mode::Acorn {
            // Its kernels take raw bytes.
            return;
        }
        let message = match (chunk, has_table(self.job)) {
            (Chunk::Blocks(_), _) => return,
            (_, false) => 0,
            (Chunk::Long(part), true) => part.message,
            (_, true) => {
                self.key = None;
                return;
            }
        };
        if self.key.as_ref().is_none_or(|(of, _)| *of != message) {
            self.key = Some((message, OneKey::new(self.job, message)));
        }
    }

    /// Queues the upload of a chunk's text into its slot, which is empty. This comes first: what
    /// follows takes a while, and the link need not wait for it.
    ///
    /// # Safety
    /// As [`Passage::run`].
    unsafe fn send(&mut self, chunk: Chunk, portion: Option<Portion>) -> Result<Sent, Failure> {
        let (gpu, job) = (self.gpu, self.job);
        let link = &gpu.link;
        let place = self.number % gpu.policy.slots;
        let (from, to) = (inputs(job, &chunk), outputs(job, &chunk));
        let len = extent(&from);
        let direct = |runs: &[Run], pinned: &Option<Range<usize>>| {
            let range = pinned.as_ref()?;
            let inside = runs.iter().all(|run| run.inside(range));
            inside
                .then(|| rows(runs))
                .filter(|rows| rows.len() <= gpu.policy.direct_copies)
        };
        let rows_in = direct(&from, &self.pinned_input);
        let rows_out = direct(&to, &self.pinned_output);
        let (direct_in, direct_out) = (rows_in.is_some(), rows_out.is_some());

        if !self.slots[place].text.fits(len) {
            // A chain may still read the old text.
            self.wait_for_all(place)?;
        }
        let staged = if direct_in && direct_out { 0 } else { len };
        self.slots[place].text.grow(gpu, staged, len)?;
        let slot = &self.slots[place];
        let (stream, text) = (&slot.stream, slot.text.device.address());
        if let Some(next) = self.slots.get((place + 1) % gpu.policy.slots)
            && let Some(flight) = &next.flight
            && matches!(flight.chunk, Chunk::Chains(_))
        {
            // That chunk continues from the text that is now overwritten.
            link.wait_for(stream, &next.worked)?;
        }
        // SAFETY: the slot's buffers are large enough, and in use by this chunk alone until
        // `drain` has waited for it; the caller's memory by this function's contract.
        unsafe {
            if let Some(rows) = &rows_in {
                for rows in rows {
                    link.copy_rows(stream, rows, text, true)?;
                }
            } else if len > 0 {
                gpu.copier.gather(&from, slot.text.host.start());
                link.upload(stream, text, slot.text.host.start(), len)?;
            }
        }
        let (direct, staged) = match rows_out {
            Some(rows) => (rows, Vec::new()),
            None => (Vec::new(), to),
        };
        Ok(Sent {
            chunk,
            portion,
            place,
            len,
            direct_in,
            direct_out,
            direct,
            staged,
        })
    }

    /// Queues the kernels for a chunk whose text is being uploaded.
    ///
    /// # Safety
    /// As [`Passage::run`].
    unsafe fn start(&mut self, sent: Sent) -> Result<(), Failure> {
        let (gpu, job) = (self.gpu, self.job);
        let link = &gpu.link;
        let Sent {
            chunk,
            portion,
            place,
            len,
            direct_in,
            direct_out,
            direct,
            staged,
        } = sent;
        let text = self.slots[place].text.device.address();
        let before = (place + gpu.policy.slots - 1) % gpu.policy.slots;
        self.find_key(&chunk);
        let sheet = Sheet::new(job, &chunk, &gpu.policy, gpu.link.multiprocessors());
        if !self.slots[place].sheet.fits(sheet.device_len) {
            self.wait_for_all(place)?;
        }
        let slot = &mut self.slots[place];
        slot.sheet.grow(gpu, sheet.len, sheet.device_len)?;
        let at = Addresses {
            sheet: slot.sheet.device.address(),
            text,
            previous: (self.slots.get(before)).map_or(0, |before| before.text.device.address()),
        };
        let parts = chunk.parts();
        let key = self.key.as_ref().map(|(_, key)| key);
        let host = self.slots[place].sheet.host.bytes();
        sheet.write(job, parts, key, host, &at);
        let located = sheet.located(at.sheet);
        let slot = &self.slots[place];
        let stream = &slot.stream;
        if sheet.len > 0 {
            // SAFETY: the slot's buffers are large enough, and in use by this chunk alone until
            // `drain` has waited for it.
            unsafe { link.upload(stream, at.sheet, slot.sheet.host.start(), sheet.len)? };
        }
        let chained = parts
            .iter()
            .any(|part| matches!(part.previous, Previous::Chained(_)));
        if chained {
            link.wait_for(stream, &self.slots[before].worked)?;
        }
        // SAFETY: by this function's contract.
        unsafe { self.bring_back_worked()? };
        // SAFETY: what the kernels read is uploaded before them in their stream, or waited for.
        let ends = unsafe { self.work(place, &chunk, &located, text)? };

        let decrypts = job.direction() == Direction::Decrypt;
        let secret = match &chunk {
            _ if direct_in => 0..0,
            // No result was written over the plaintext.
            _ if direct_out && !decrypts => 0..len,
            // Their keys.
            Chunk::Blocks(messages) => 16 * messages.len()..len,
            _ => 0..0,
        };
        let waits = !direct.is_empty();
        self.slots[place].flight = Some(Flight {
            chunk,
            sheet,
            len,
            staged,
            direct,
            begun: Instant::now(),
            returning: false,
            secret,
            ends,
            portion,
        });
        if waits {
            return Ok(());
        }
        // SAFETY: by this function's contract.
        unsafe { self.bring_back(place) }
    }

    /// Queues the kernels for a chunk; returns the state of a long message that ends here.
    ///
    /// # Safety
    /// Everything that `located` names is valid until the slot's stream has passed this point.
    unsafe fn work(
        &mut self,
        place: usize,
        chunk: &Chunk,
        located: &Located,
        text: u64,
    ) -> Result<Option<Ending>, Failure> {
        if let (Chunk::Long(part), Mode::Gcm) = (chunk, self.job.info().mode) {
            let part = *part;
            // SAFETY: by this function's contract.
            return unsafe { self.work_long(place, part, located) };
        }
        let key = self.key.as_ref().map(|(_, key)| key);
        let steps: Vec<Step<'_>> = match (chunk, self.job.info().mode) {
            (Chunk::Blocks(messages), _) => {
                let count = messages.len() as u64;
                vec![self.launcher.blocks(text + 16 * count, text, text, count)]
            }
            (_, Mode::Gcm) if located.small => self.launcher.gcm_small(located),
            (_, Mode::Gcm) => {
                let key = key.expect("many keys take the kernels for short messages");
                self.launcher.gcm_whole(located, key)
            }
            (_, Mode::Acorn) => vec![self.launcher.acorn(located)],
            _ => self.launcher.pieces(located, key),
        };
        let slot = &self.slots[place];
        for step in &steps {
            // SAFETY: by this function's contract.
            unsafe { self.gpu.link.launch(&slot.stream, step)? };
        }
        self.gpu.link.record(&slot.worked, &slot.stream)?;
        Ok(None)
    }
}
