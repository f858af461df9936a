//! The tasks and their results.

use std::cmp::Ordering;

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
    /// Other engines like `CpuAll` and `CpuAllPinned`, to show the effect of chance.
    CpuAgain,
    CpuAgainPinned,
}

impl Place {
    /// Those with a column.
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
            Place::Gpu => "gpu_pageable",
            Place::Auto => "auto",
            Place::GpuOneStream => "gpu_1_stream",
            Place::GpuStreams => "gpu_streams",
            Place::CpuAllPinned => "cpu_all_pinned",
            Place::PortablePinned => "portable_all_pinned",
            Place::Copies => "copies",
            Place::AutoPinned => "auto_pinned",
            Place::AutoPortable => "auto_portable",
            Place::Resident => "resident",
            Place::CpuAgain => "cpu_again",
            Place::CpuAgainPinned => "cpu_again_pinned",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Place::PortableOne => "portable\n1 thread",
            Place::PortableAll => "portable\nall threads",
            Place::CpuOne => "CPU\n1 thread",
            Place::CpuAll => "CPU\nall threads",
            Place::Gpu => "GPU\npageable memory",
            Place::Auto => "auto",
            Place::GpuOneStream => "GPU\npinned\n1 stream",
            Place::GpuStreams => "GPU\npinned\n4 streams",
            Place::CpuAllPinned => "CPU\npinned\nall threads",
            Place::PortablePinned => "portable\npinned\nall threads",
            Place::Copies => "no cipher\ncopies of\nthreads, link",
            Place::AutoPinned => "auto\npinned",
            Place::AutoPortable => "auto with\nportable CPU\npinned",
            Place::Resident => "GPU\nits own memory",
            Place::CpuAgain => "CPU\nonce more",
            Place::CpuAgainPinned => "CPU\npinned\nonce more",
        }
    }

    /// The place that this one is compared with, from the same memory and on the same CPU: the
    /// rivals of `auto`, and the control's equal.
    pub(super) fn rivals(self) -> &'static [Place] {
        match self {
            Place::Auto => &[Place::CpuOne, Place::CpuAll, Place::Gpu],
            Place::AutoPinned => &[Place::CpuAllPinned, Place::GpuStreams],
            Place::AutoPortable => &[Place::PortablePinned, Place::GpuStreams],
            Place::CpuAgain => &[Place::CpuAll],
            Place::CpuAgainPinned => &[Place::CpuAllPinned],
            _ => &[],
        }
    }

    /// Another engine like this one's.
    fn twin(self) -> Option<Place> {
        match self {
            Place::CpuAll => Some(Place::CpuAgain),
            Place::CpuAllPinned => Some(Place::CpuAgainPinned),
            _ => None,
        }
    }
}

/// From this many bytes on, a text is long.
const LONG: usize = 32 << 20;

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

    /// How many inputs and outputs its jobs take in turn. A job of batches or long texts finds each
    /// of them in memory; but the caches of a large CPU would hold one that is used again and
    /// again.
    pub(super) fn buffers(&self) -> usize {
        let always_the_same = self.count == 1 && (self.huge || self.bytes() < LONG);
        if always_the_same { 1 } else { 4 }
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

/// A value for each of some places.
pub(super) type Of<T> = Vec<(Place, T)>;

/// The results of one task.
pub(super) struct Row {
    pub(super) algorithm: Algorithm,
    pub(super) direction: Direction,
    pub(super) count: usize,
    pub(super) bytes: usize,
    /// What was measured by itself.
    pub(super) seconds: Of<Sample>,
    /// What was measured in turns, round by round.
    pub(super) runs: Of<Vec<f64>>,
    /// Which part of all text an engine of `auto` gave to GPUs.
    pub(super) on_gpus: Of<f64>,
}

impl Row {
    pub(super) fn way(&self) -> &'static str {
        self.direction.name()
    }

    pub(super) fn seconds(&self, place: Place) -> Option<Sample> {
        if let Some(runs) = self.runs(place) {
            return Some(Sample::of(runs.iter().copied()));
        }
        let own = self.seconds.iter().find(|(of, _)| *of == place);
        own.map(|(_, sample)| *sample)
    }

    /// Whether one place is faster (`Greater`) or slower than another, or neither beyond the
    /// variation of both; none if one was not measured.
    pub(super) fn rank(&self, own: Place, other: Place) -> Option<Ordering> {
        Some(self.seconds(own)?.rank(&self.seconds(other)?))
    }

    pub(super) fn on_gpus(&self, place: Place) -> Option<f64> {
        let own = self.on_gpus.iter().find(|(of, _)| *of == place);
        own.map(|(_, part)| *part)
    }

    fn runs(&self, place: Place) -> Option<&[f64]> {
        let own = self.runs.iter().find(|(of, _)| *of == place);
        own.map(|(_, runs)| &runs[..])
    }

    /// A rival's times, turn by turn: the (geometric) mean of two equal engines, if there are two
    /// and neither is the one that is compared.
    fn rival(&self, rival: Place, own: Place) -> Option<Vec<f64>> {
        let mut runs = self.runs(rival)?.to_vec();
        if let Some(twin) = rival.twin().filter(|&twin| twin != own)
            && let Some(again) = self.runs(twin)
            && again.len() == runs.len()
        {
            let turns = runs.iter_mut().zip(again);
            turns.for_each(|(run, again)| *run = (*run * again).sqrt());
        }
        Some(runs)
    }

    /// The speed of `auto` relative to the fastest of its rivals: the median of the ratios of each
    /// turn, because disturbances of the machine affect both. Slow places are left out of some
    /// turns; then it is the ratio of the medians.
    pub(super) fn against_best(&self, auto: Place) -> Option<f64> {
        let median = |runs: &[f64]| Sample::of(runs.iter().copied()).median;
        let rivals = auto.rivals().iter();
        let rivals = rivals.filter_map(|&rival| self.rival(rival, auto));
        let best = rivals.min_by(|a, b| median(a).total_cmp(&median(b)))?;
        let own = self.runs(auto)?;
        if own.len() != best.len() {
            return Some(median(&best) / median(own));
        }
        let turns = best.iter().zip(own).map(|(best, own)| best / own);
        Some(Sample::of(turns).median)
    }

    #[cfg(test)]
    pub(super) fn made_up(algorithm: Algorithm, bytes: usize, seconds: &[(Place, f64)]) -> Self {
        let runs = |&(place, seconds): &(Place, f64)| (place, vec![seconds]);
        Row {
            algorithm,
            direction: Direction::Encrypt,
            count: 1,
            bytes,
            seconds: Vec::new(),
            runs: seconds.iter().map(runs).collect(),
            on_gpus: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_taken_turn_by_turn() {
        let mut row = Row::made_up(Algorithm::Aes128Ctr, 1 << 20, &[]);
        let runs = |place, runs: &[f64]| (place, runs.to_vec());
        row.runs = vec![
            runs(Place::CpuAllPinned, &[1.0, 4.0, 3.0]),
            runs(Place::GpuStreams, &[5.0, 5.0, 5.0]),
            runs(Place::AutoPinned, &[1.0, 2.0, 4.0]),
        ];
        // 1, 2 and 0.75; the medians' ratio would be 1.5.
        assert_eq!(row.against_best(Place::AutoPinned), Some(1.0));
        // The GPU is the best rival, and ran less often.
        row.runs[0].1 = vec![9.0; 3];
        row.runs[1].1 = vec![3.0];
        assert_eq!(row.against_best(Place::AutoPinned), Some(1.5));
        assert_eq!(row.against_best(Place::Auto), None);
        // The CPU twice: 2, 4 and 2 in the mean.
        row.runs = vec![
            runs(Place::CpuAll, &[1.0, 4.0, 2.0]),
            runs(Place::CpuAgain, &[4.0, 4.0, 2.0]),
            runs(Place::Auto, &[1.0, 4.0, 4.0]),
        ];
        assert_eq!(row.against_best(Place::Auto), Some(1.0));
        assert_eq!(row.against_best(Place::CpuAgain), Some(1.0));
    }
}
