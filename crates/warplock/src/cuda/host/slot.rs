//! The parts of a ring: buffers, streams and events for the chunks under way.

use std::ops::Range;
use std::time::Instant;

use super::copy::Copier;
use crate::cuda::driver::api::Failure;
use crate::cuda::driver::memory::{DeviceBytes, HostBytes};
use crate::cuda::driver::rows::{Rows, Run};
use crate::cuda::launch::cut::Chunk;
use crate::cuda::launch::link::Link;
use crate::cuda::launch::policy::Policy;
use crate::cuda::launch::sheet::{Located, Sheet};
use crate::portion::Portion;

/// The device, with what all its rings share.
pub(crate) struct RingGpu<L> {
    pub(crate) link: L,
    pub(crate) policy: Policy,
    pub(crate) copier: Copier,
}

/// A buffer on the host and its copy on the device.
pub(crate) struct Mirror<L: Link> {
    pub(crate) host: L::Host,
    pub(crate) device: L::Device,
}

impl<L: Link> Mirror<L> {
    pub(crate) fn empty(link: &L) -> Result<Self, Failure> {
        Ok(Mirror {
            host: link.host(0)?,
            device: link.device(0)?,
        })
    }

    /// Makes room; the old content is lost. Neither side may be in use.
    pub(crate) fn grow(
        &mut self,
        gpu: &RingGpu<L>,
        host: usize,
        device: usize,
    ) -> Result<(), Failure> {
        let size = |len: usize| len.next_power_of_two().max(gpu.policy.smallest_buffer);
        if host > self.host.len() {
            self.host = gpu.link.host(0)?;
            self.host = gpu.link.host(size(host))?;
        }
        if device > self.device.len() {
            self.device = gpu.link.device(0)?;
            self.device = gpu.link.device(size(device))?;
        }
        Ok(())
    }

    /// Whether [`Mirror::grow`] would keep the device's buffer.
    pub(crate) fn fits(&self, device: usize) -> bool {
        device <= self.device.len()
    }
}

/// Room for one chunk under way.
pub(crate) struct Slot<L: Link> {
    pub(crate) stream: L::Stream,
    /// Completes when the kernels are done.
    pub(crate) worked: L::Event,
    /// Completes when everything is back on the host.
    pub(crate) arrived: L::Event,
    pub(crate) text: Mirror<L>,
    pub(crate) sheet: Mirror<L>,
    pub(crate) flight: Option<Flight>,
}

/// A chunk under way.
pub(crate) struct Flight {
    pub(crate) chunk: Chunk,
    pub(crate) sheet: Sheet,
    /// Bytes of its text, including gaps between messages.
    pub(crate) len: usize,
    /// Runs to be copied from pinned memory to the caller.
    pub(crate) staged: Vec<Run>,
    /// Rows that the device writes to the caller's memory directly.
    pub(crate) direct: Vec<Rows>,
    /// When its work was queued.
    pub(crate) begun: Instant,
    /// Whether its download is queued.
    pub(crate) returning: bool,
    /// Bytes of pinned text that must be wiped.
    pub(crate) secret: Range<usize>,
    /// The long message that ends here, or the part of it that is a portion.
    pub(crate) ends: Option<Ending>,
    /// The portion that ends here.
    pub(crate) portion: Option<Portion>,
}

/// The end of a long message or portion, which shares a state.
#[derive(Clone, Copy)]
pub(crate) struct Ending {
    /// The state's index.
    pub(crate) state: usize,
    /// Whether it is only a part of a message.
    pub(crate) part: bool,
}

/// GCM's state on the device from a long message's first part to its last.
pub(crate) struct State<L: Link> {
    /// A separate stream: the steps that precede the text run during its upload, and results are
    /// downloaded in parallel with the last text.
    pub(crate) stream: L::Stream,
    pub(crate) mirror: Mirror<L>,
    /// Completes when the text's kernels can start; recorded again for the results' return.
    pub(crate) ready: L::Event,
    /// The message, and the addresses of its data.
    pub(crate) current: Option<(usize, Sheet, Located)>,
}

impl<L: Link> Slot<L> {
    /// An empty slot. The context is bound.
    pub(crate) fn new(link: &L) -> Result<Self, Failure> {
        Ok(Slot {
            stream: link.stream()?,
            worked: link.event()?,
            arrived: link.event()?,
            text: Mirror::empty(link)?,
            sheet: Mirror::empty(link)?,
            flight: None,
        })
    }
}

impl<L: Link> State<L> {
    /// A state without a message. The context is bound.
    pub(crate) fn new(link: &L) -> Result<Self, Failure> {
        Ok(State {
            stream: link.stream()?,
            mirror: Mirror::empty(link)?,
            ready: link.event()?,
            current: None,
        })
    }
}
