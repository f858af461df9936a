//! The second half of a chunk's way through the ring: waiting for kernels, downloads, results.
//!
//! # Safety of all unsafe methods
//! As [`Passage::run`].

use std::mem::take;
use std::time::{Duration, Instant};

use zeroize::Zeroize;

use super::copy::extent;
use super::long_gcm::give_results;
use super::ring::Passage;
use crate::cuda::driver::api::Failure;
use crate::cuda::driver::memory::{DeviceBytes, HostBytes};
use crate::cuda::launch::cut::Chunk;
use crate::cuda::launch::link::Link;
use crate::portion::{Outcome, Source};
use crate::{Direction, Mode};

/// After this time, a wait yields the CPU between two checks.
const PATIENCE: Duration = Duration::from_micros(200);

impl<L: Link> Passage<'_, '_, L> {
    /// Waits until nothing writes to the caller's memory any more.
    pub(super) fn wait_for_direct(&self) {
        for slot in &*self.slots {
            let flight = slot.flight.as_ref();
            if flight.is_some_and(|flight| flight.returning && !flight.direct.is_empty()) {
                // Without a limit. An error says that the device is lost: it writes nothing.
                while matches!(self.gpu.link.is_past(&slot.arrived), Ok(false)) {
                    std::thread::sleep(PATIENCE / 4);
                }
            }
        }
    }

    /// Waits on the host for an event, but not for ever.
    fn wait(&self, event: &L::Event) -> Result<(), Failure> {
        let start = Instant::now();
        while !self.gpu.link.is_past(event)? {
            self.pause(start)?;
        }
        Ok(())
    }

    /// The time that one lane may take for what is never cut, associated data and ACORN's messages:
    /// gigabytes take minutes.
    fn longest_lane(&self) -> Duration {
        let aads = (0..self.job.count()).map(|index| self.job.aad_len(index));
        let mut longest = aads.max().unwrap_or(0);
        if self.job.info().mode == Mode::Acorn {
            let flights = self.slots.iter().filter_map(|slot| slot.flight.as_ref());
            longest += flights.map(|flight| flight.len).max().unwrap_or(0);
        }
        Duration::from_nanos(self.gpu.policy.lane_byte * longest as u64)
    }

    /// Called between two checks of a wait since `start`.
    fn pause(&self, start: Instant) -> Result<(), Failure> {
        let waited = start.elapsed();
        if waited >= self.gpu.policy.timeout {
            let timeout = self.gpu.policy.timeout + self.longest_lane();
            if waited >= timeout {
                return Err(Failure::hung(timeout));
            }
        }
        if waited < PATIENCE {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(PATIENCE / 4);
        }
        Ok(())
    }

    /// Waits for the chunk in a slot. Meanwhile it queues the download of each other chunk whose
    /// kernels are done.
    unsafe fn wait_for_slot(
        &mut self,
        place: usize,
        source: &mut dyn Source,
    ) -> Result<(), Failure> {
        let mut start = Instant::now();
        loop {
            let slot = &self.slots[place];
            let working = slot.flight.as_ref().filter(|flight| !flight.returning);
            let begun = working.map(|flight| flight.begun);
            if begun.is_none() && self.gpu.link.is_past(&slot.arrived)? {
                return Ok(());
            }
            // SAFETY: by this function's contract.
            match unsafe { self.bring_back_worked()? } {
                true => start = Instant::now(),
                false if begun.is_some_and(|begun| source.meanwhile(begun.elapsed())) => {}
                false => self.pause(start)?,
            }
        }
    }

    /// Queues the downloads of all chunks whose kernels are done, from the oldest up to the first
    /// whose kernels are not; returns whether there was one. The link is idle in this direction
    /// until this is called, so operations that take long call it in between.
    pub(super) unsafe fn bring_back_worked(&mut self) -> Result<bool, Failure> {
        let mut some = false;
        let slots = self.gpu.policy.slots;
        for place in (self.number..self.number + slots).map(|number| number % slots) {
            let Some(slot) = self.slots.get(place) else {
                continue;
            };
            if slot.flight.as_ref().is_none_or(|flight| flight.returning) {
                continue;
            }
            if !self.gpu.link.is_past(&slot.worked)? {
                break;
            }
            // SAFETY: by this function's contract.
            unsafe { self.bring_back(place)? };
            some = true;
        }
        Ok(some)
    }

    /// Queues the download of the chunk in a slot, unless it is queued already. If it writes to the
    /// caller's memory, the kernels must be done.
    pub(super) unsafe fn bring_back(&mut self, place: usize) -> Result<(), Failure> {
        let (link, slot) = (&self.gpu.link, &self.slots[place]);
        let Some(flight) = slot.flight.as_ref().filter(|flight| !flight.returning) else {
            return Ok(());
        };
        let (at, text) = (slot.sheet.device.address(), slot.text.device.address());
        let (results, results_len) = flight.sheet.results();
        let decrypts = self.job.direction() == Direction::Decrypt;
        // SAFETY: the slot's buffers are large enough, and in use by this chunk alone until
        // `drain` has waited for it; the caller's memory by this function's contract.
        unsafe {
            if results_len > 0 {
                let host = slot.sheet.host.start().add(results);
                link.download(&slot.stream, host, at + results as u64, results_len)?;
            }
            for rows in &flight.direct {
                link.copy_rows(&slot.stream, rows, text, false)?;
            }
            let back = extent(&flight.staged);
            if back > 0 {
                link.download(&slot.stream, slot.text.host.start(), text, back)?;
            }
            if let Some(ending) = flight.ends {
                link.wait_for(&slot.stream, &self.states[ending.state].ready)?;
            }
            link.record(&slot.arrived, &slot.stream)?;
            if flight.sheet.is_secret() {
                link.wipe(&slot.stream, at, flight.sheet.device_len)?;
            }
            if flight.len > 0 && (decrypts || matches!(flight.chunk, Chunk::Blocks(_))) {
                link.wipe(&slot.stream, text, flight.len)?;
            }
        }
        if let Some(flight) = &mut self.slots[place].flight {
            flight.returning = true;
        }
        Ok(())
    }

    /// Waits for every slot's kernels, and for everything queued in one slot, whose chunk has none.
    pub(super) fn wait_for_all(&self, place: usize) -> Result<(), Failure> {
        let mut slots = self.slots.iter();
        slots.try_for_each(|slot| self.wait(&slot.worked))?;
        self.gpu.link.wait_stream(&self.slots[place].stream)
    }

    /// Waits for the chunk in a slot, and passes its results to the caller.
    pub(super) unsafe fn drain(
        &mut self,
        place: usize,
        source: &mut dyn Source,
    ) -> Result<(), Failure> {
        if self.slots[place].flight.is_none() {
            return Ok(());
        }
        // SAFETY: by this function's contract.
        unsafe { self.wait_for_slot(place, source)? };
        let slot = &mut self.slots[place];
        let flight = slot.flight.take().expect("looked for above");
        let decrypts = self.job.direction() == Direction::Decrypt;
        // SAFETY: the device is done with these buffers; the rest by this function's contract.
        unsafe {
            let host = slot.text.host.start();
            self.gpu.copier.scatter(&flight.staged, host, decrypts);
        }
        if !flight.secret.is_empty() {
            slot.text.host.bytes()[flight.secret].zeroize();
        }
        let results = slot.sheet.host.bytes();
        let messages = flight.chunk.parts().iter().map(|part| part.message);
        if flight.sheet.messages.count > 0 {
            // SAFETY: by this function's contract.
            unsafe { give_results(self.job, &flight.sheet, results, messages, &mut self.failed) };
        }
        results[..flight.sheet.len].zeroize();
        // SAFETY: by this function's contract.
        let sum = flight
            .ends
            .and_then(|ending| unsafe { self.end_long(ending) });
        if let Some(portion) = flight.portion {
            let refused = take(&mut self.failed);
            source.done(portion, Outcome { refused, sum });
        }
        Ok(())
    }
}
