//! Pinned memory through which calls say where their messages lie.

use std::sync::Mutex;

use super::device::Device;
use super::stream::Stream;
use crate::cuda::driver::api::{Failure, RawEvent};
use crate::cuda::driver::memory::{HostBytes, PinnedMemory};
use crate::cuda::launch::link::Link;
use crate::lock::lock;

/// The most slots of a size.
const MOST_SLOTS: usize = 64;

/// Slots made with the first key, and the least bytes of one: a thousand messages.
pub(super) const FIRST_SLOTS: usize = 8;
pub(super) const SLOT: usize = 256 << 10;

/// Pinned memory for the addresses of a call's messages, so that the call need not wait for the
/// copy.
#[derive(Default)]
pub(super) struct Slots(Mutex<Vec<Slot>>);

/// `done` completes with the copy from `memory`.
pub(super) struct Slot {
    pub(super) memory: PinnedMemory,
    done: RawEvent,
}

impl Slots {
    /// Makes sure that there are `count` slots of at least `len` bytes. Pinning memory waits for the
    /// whole device, so it is done before calls need them. The context is bound.
    pub(super) fn reserve(&self, device: &Device, len: usize, count: usize) -> Result<(), Failure> {
        let mut slots = lock(&self.0);
        let fit = |slot: &&Slot| slot.memory.len() >= len;
        for _ in slots.iter().filter(fit).count()..count.min(MOST_SLOTS) {
            slots.push(Slot::new(device, len)?);
        }
        Ok(())
    }

    /// A slot that no copy reads any longer. The context is bound.
    pub(super) fn take(&self, device: &Device, len: usize) -> Result<Slot, Failure> {
        let mut slots = lock(&self.0);
        let mut fitting = 0;
        for number in 0..slots.len() {
            if slots[number].memory.len() < len {
                continue;
            }
            fitting += 1;
            if fitting >= MOST_SLOTS || slots[number].done.is_past("queueing a call")? {
                let slot = slots.remove(number);
                drop(slots);
                slot.done.wait("queueing a call")?;
                return Ok(slot);
            }
        }
        drop(slots);
        Slot::new(device, len)
    }

    /// The context is bound.
    pub(super) fn give_back(&self, slot: Slot, stream: &Stream) -> Result<(), Failure> {
        let recorded = slot.done.record(stream.inner());
        match recorded {
            Ok(()) => lock(&self.0).push(slot),
            // Whether a copy still reads it cannot be known.
            Err(_) => std::mem::forget(slot),
        }
        recorded
    }
}

impl Slot {
    /// The context is bound.
    fn new(device: &Device, len: usize) -> Result<Self, Failure> {
        Ok(Slot {
            memory: device.link().host(len.next_power_of_two().max(SLOT))?,
            done: RawEvent::new(&device.link().context)?,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // After an error there is nothing to wait for.
        let _ = self.done.wait("waiting for a copy to the GPU");
    }
}
