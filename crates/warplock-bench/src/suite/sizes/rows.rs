//! What is measured, and what came of it.

use warplock::{Algorithm, Direction};

use crate::Sample;
use crate::table::grouped;

/// Where a size is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    PortableOne,
    PortableAll,
    CpuOne,
    CpuAll,
    Gpu,
    Auto,
    GpuOneStream,
    GpuStreams,
    CpuAllPinned,
    PortablePinned,
    AutoPinned,
    AutoPortable,
    Resident,
    Copies,
}

impl Place {
    pub(super) const ALL: [Place; 14] = [
        Place::PortableOne,
        Place::PortableAll,
        Place::CpuOne,
        Place::CpuAll,
        Place::Gpu,
        Place::Auto,
        Place::GpuOneStream,
        Place::GpuStreams,
        Place::CpuAllPinned,
        Place::PortablePinned,
        Place::AutoPinned,
        Place::AutoPortable,
        Place::Resident,
        Place::Copies,
    ];

    pub(super) fn key(self) -> &'static str {
        match self {
            Place::PortableOne => "portable_1",
            Place::PortableAll => "portable_all",
            Place::CpuOne => "cpu_1",
            Place::CpuAll => "cpu_all",
            Place::Gpu => "gpu_ordinary",
            Place::Auto => "auto",
            Place::GpuOneStream => "gpu_1_stream",
            Place::GpuStreams => "gpu_streams",
            Place::CpuAllPinned => "cpu_all_pinned",
            Place::PortablePinned => "portable_all_pinned",
            Place::Copies => "copies",
            Place::AutoPinned => "auto_pinned",
            Place::AutoPortable => "auto_portable",
            Place::Resident => "resident",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Place::PortableOne => "portable\n1 thread",
            Place::PortableAll => "portable\nall threads",
            Place::CpuOne => "CPU\n1 thread",
            Place::CpuAll => "CPU\nall threads",
            Place::Gpu => "GPU\nordinary memory",
            Place::Auto => "auto",
            Place::GpuOneStream => "GPU\npage-locked\n1 stream",
            Place::GpuStreams => "GPU\npage-locked\n4 streams",
            Place::CpuAllPinned => "CPU\npage-locked\nall threads",
            Place::PortablePinned => "portable\npage-locked\nall threads",
            Place::Copies => "no cipher\ncopies of\nthreads, link",
            Place::AutoPinned => "auto\npage-locked",
            Place::AutoPortable => "auto with\nportable CPU\npage-locked",
            Place::Resident => "GPU\nits own memory",
        }
    }

    /// What a place of `auto` must not lose against: the same memory, the same processor.
    pub(super) fn rivals(self) -> &'static [Place] {
        match self {
            Place::Auto => &[Place::CpuOne, Place::CpuAll, Place::Gpu],
            Place::AutoPinned => &[Place::CpuAllPinned, Place::GpuStreams],
            Place::AutoPortable => &[Place::PortablePinned, Place::GpuStreams],
            _ => &[],
        }
    }
}

/// What a row measures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) algorithm: Algorithm,
    pub(super) direction: Direction,
    /// How many messages, and bytes of each.
    pub(super) count: usize,
    pub(super) len: usize,
    /// Without portable code and single threads, which would take minutes.
    pub(super) huge: bool,
}

impl Task {
    pub(super) fn bytes(&self) -> usize {
        self.count.saturating_mul(self.len)
    }
}

impl std::fmt::Display for Task {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = match self.count {
            1 => String::new(),
            count => format!("{} x ", grouped(count as u64)),
        };
        let (algorithm, len) = (self.algorithm, grouped(self.len as u64));
        let way = self.direction.name();
        write!(formatter, "{algorithm} {way}, {count}{len} bytes")
    }
}

/// What came of one task.
pub(super) struct Row {
    pub(super) algorithm: Algorithm,
    pub(super) direction: Direction,
    pub(super) count: usize,
    pub(super) bytes: usize,
    pub(super) seconds: Vec<(Place, Sample)>,
}

impl Row {
    pub(super) fn way(&self) -> &'static str {
        self.direction.name()
    }

    pub(super) fn seconds(&self, place: Place) -> Option<Sample> {
        let own = self.seconds.iter().find(|(of, _)| *of == place);
        own.map(|(_, sample)| *sample)
    }

    /// The speed of `auto` over that of the fastest of its rivals.
    pub(super) fn against_best(&self, auto: Place) -> Option<f64> {
        let rivals = auto.rivals().iter();
        let best = rivals.filter_map(|&rival| self.seconds(rival));
        let best = best.map(|sample| sample.median).reduce(f64::min)?;
        Some(best / self.seconds(auto)?.median)
    }

    #[cfg(test)]
    pub(super) fn made_up(algorithm: Algorithm, bytes: usize, seconds: &[(Place, f64)]) -> Self {
        let sample = |&(place, seconds): &(Place, f64)| (place, Sample::of([seconds]));
        Row {
            algorithm,
            direction: Direction::Encrypt,
            count: 1,
            bytes,
            seconds: seconds.iter().map(sample).collect(),
        }
    }
}
