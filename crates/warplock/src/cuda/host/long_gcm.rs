//! Long GCM messages in the ring, and results for the caller.

use zeroize::Zeroize;

use super::ring::Passage;
use super::slot::{Ending, State};
use crate::Direction;
use crate::cuda::driver::api::Failure;
use crate::cuda::driver::memory::{DeviceBytes, HostBytes};
use crate::cuda::launch::cut::Part;
use crate::cuda::launch::link::Link;
use crate::cuda::launch::parts::was_refused;
use crate::cuda::launch::sheet::{Addresses, Located, Sheet, TAG};
use crate::job::Job;
use crate::portion::Sum;

impl<L: Link> Passage<'_, '_, L> {
    /// GCM for a part of a long message.
    ///
    /// # Safety
    /// As [`Passage::work`].
    pub(super) unsafe fn work_long(
        &mut self,
        place: usize,
        part: Part,
        located: &Located,
    ) -> Result<Option<Ending>, Failure> {
        let gpu = self.gpu;
        let link = &gpu.link;
        let number = self.long % gpu.policy.slots;
        let (begins, ends) = (self.begins(&part), self.ends(&part));
        if begins {
            self.begin_long(place, number, part.message)?;
        }
        let (_, key) = self.key.as_ref().expect("a long message has one key");
        let slot = &self.slots[place];
        let stream = &slot.stream;
        let state = &self.states[number];
        let (_, sheet, kept) = state.current.as_ref().expect("begun with the first part");
        // SAFETY: by this function's contract; the state lives until the last part was drained,
        // and its upload is waited for.
        unsafe {
            if begins {
                let (aside, host) = (&state.stream, state.mirror.host.start());
                link.upload(aside, state.mirror.device.address(), host, sheet.len)?;
                for step in self.launcher.gcm_begin(kept, key) {
                    link.launch(aside, &step)?;
                }
                link.record(&state.ready, aside)?;
            }
            link.wait_for(stream, &state.ready)?;
            if let Some(step) = self.launcher.gcm_text(located.work, kept, key, false) {
                link.launch(stream, &step)?;
            }
            link.record(&slot.worked, stream)?;
        }
        match ends {
            // SAFETY: by this function's contract.
            true => Ok(Some(unsafe { self.finish_long(place, number)? })),
            false => Ok(None),
        }
    }

    /// Queues the tag of a long message, or the contribution of the portion that ends in this slot.
    ///
    /// # Safety
    /// As [`Passage::work`].
    unsafe fn finish_long(&mut self, place: usize, number: usize) -> Result<Ending, Failure> {
        // SAFETY: by this function's contract.
        unsafe { self.bring_back_worked()? };
        let link = &self.gpu.link;
        let slot = &self.slots[place];
        let stream = &slot.stream;
        let state = &self.states[number];
        let (_, sheet, kept) = state.current.as_ref().expect("begun with the first part");
        // SAFETY: as for the previous part.
        unsafe {
            for (other, slot) in self.slots.iter().enumerate() {
                if other != place {
                    link.wait_for(stream, &slot.worked)?;
                }
            }
            // For a part, the tag is needed even for decryption: the contributions are added up.
            let (step, (results, len)) = match self.part {
                Some(_) => (self.launcher.gcm_sum(kept), sheet.tags()),
                None => (self.launcher.gcm_end(kept), sheet.results()),
            };
            link.launch(stream, &step)?;
            // The last kernel counts, too: results go to the caller only after it. They are
            // downloaded in parallel with the last text, and `bring_back` lets that end after them.
            link.record(&slot.worked, stream)?;
            let aside = &state.stream;
            link.wait_for(aside, &slot.worked)?;
            let device = state.mirror.device.address();
            let host = state.mirror.host.start().add(results);
            link.download(aside, host, device + results as u64, len)?;
            link.record(&state.ready, aside)?;
            link.wipe(aside, device, sheet.device_len)?;
        }
        self.long += 1;
        Ok(Ending {
            state: number,
            part: self.part.is_some(),
        })
    }

    /// Prepares the state of a long message. Its last user was drained: since then, more chunks
    /// were filled than there are slots.
    fn begin_long(&mut self, place: usize, number: usize, message: usize) -> Result<(), Failure> {
        let gpu = self.gpu;
        let (sheet, part) = Sheet::of_long_message(self.job, message);
        if number == self.states.len() {
            self.states.push(State::new(&gpu.link)?);
        }
        if !self.states[number].mirror.fits(sheet.device_len) {
            self.wait_for_all(place)?;
        }
        let state = &mut self.states[number];
        state.mirror.grow(gpu, sheet.len, sheet.device_len)?;
        let at = Addresses {
            sheet: state.mirror.device.address(),
            // Its piece is never launched.
            text: self.slots[place].text.device.address(),
            previous: 0,
        };
        sheet.write(self.job, &[part], None, state.mirror.host.bytes(), &at);
        let located = sheet.located(at.sheet);
        state.current = Some((message, sheet, located));
        Ok(())
    }

    /// The results of a long message whose chunks have all been drained; for a part of one, its
    /// contribution to the tag.
    ///
    /// # Safety
    /// As [`Passage::run`].
    pub(super) unsafe fn end_long(&mut self, ending: Ending) -> Option<Sum> {
        let state = &mut self.states[ending.state];
        let (message, sheet, _) = state.current.take()?;
        let results = state.mirror.host.bytes();
        let mut sum = None;
        if ending.part {
            let at = sheet.tags().0;
            sum = results[at..].first_chunk().copied().map(Sum::Tag);
        } else {
            let refused = self.failed.len();
            // SAFETY: by this function's contract; all parts of the message were drained.
            unsafe {
                let message = std::iter::once(message);
                give_results(self.job, &sheet, results, message, &mut self.failed);
                for &message in &self.failed[refused..] {
                    // Its parts had left the device before the tag was known.
                    let message = self.job.message(message);
                    message.output.write_bytes(0, message.len);
                }
            }
        }
        results[..sheet.len].zeroize();
        sum
    }

    /// Whether this part is the first of a long message, or of the portion.
    fn begins(&self, part: &Part) -> bool {
        part.before == self.part.as_ref().map_or(0, |bytes| bytes.start)
    }

    /// Whether it is the last.
    fn ends(&self, part: &Part) -> bool {
        match &self.part {
            Some(bytes) => part.before + part.len == bytes.end,
            None => part.after == 0,
        }
    }
}

/// Copies tags to the caller, or records the messages that were refused.
///
/// # Safety
/// Nothing else uses the messages' tags during the call.
pub(super) unsafe fn give_results(
    job: &Job<'_>,
    sheet: &Sheet,
    host: &[u8],
    messages: impl Iterator<Item = usize>,
    failed: &mut Vec<usize>,
) {
    let (at, len) = sheet.results();
    let results = &host[at..at + len];
    for (number, message) in messages.enumerate() {
        match job.direction() {
            Direction::Encrypt => {
                let tag = &results[number * TAG..][..job.tag_len()];
                // SAFETY: by the job's checks there is room for a tag.
                unsafe {
                    let place = job.message(message).tag;
                    place.copy_from_nonoverlapping(tag.as_ptr(), tag.len());
                }
            }
            Direction::Decrypt if was_refused(job.info().mode, results, number) => {
                failed.push(message);
            }
            Direction::Decrypt => {}
        }
    }
}
