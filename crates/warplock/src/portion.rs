//! Portions: parts of a job that run independently, so that several backends can share one job.

use std::ops::Range;
use std::time::Duration;

/// A part of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Portion {
    /// Whole messages.
    Messages(Range<usize>),
    /// A part of one long message.
    Part(LongPart),
}

/// A part of a message, in a mode whose parts can be worked on in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongPart {
    /// The message's index in the job.
    pub(crate) message: usize,
    /// The range of its bytes. It starts at a multiple of 512, and ends at one or with the message;
    /// the last 32 bytes of an XTS message are in one part.
    pub(crate) bytes: Range<usize>,
    /// CBC decryption: the preceding ciphertext block, unless the part is the first.
    pub(crate) previous: [u8; 16],
}

/// The result of a portion besides its text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Messages that did not verify.
    pub(crate) refused: Vec<usize>,
    /// GCM, for a part of a message: its contribution to the tag.
    pub(crate) sum: Option<Sum>,
}

/// The contribution of a part to its message's GCM tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    /// Its share alone.
    Share([u8; 16]),
    /// The tag as if the other parts contributed nothing.
    Tag([u8; 16]),
}

impl Sum {
    /// Adds it to the tag of the parts so far. `frame` is the tag as if no part contributed
    /// anything.
    pub(crate) fn add_to(self, tag: &mut [u8; 16], frame: &[u8; 16]) {
        let (sum, frame) = match self {
            Sum::Share(share) => (share, [0; 16]),
            Sum::Tag(sum) => (sum, *frame),
        };
        for (place, tag) in tag.iter_mut().enumerate() {
            *tag ^= sum[place] ^ frame[place];
        }
    }
}

/// The source of a job's portions for a backend.
pub(crate) trait Source {
    /// The next portion, if there is one for this backend.
    fn next(&mut self) -> Option<Portion>;

    /// Records that a portion is done: all its results are in the caller's memory.
    fn done(&mut self, portion: Portion, outcome: Outcome);

    /// Does something short on this thread while it waits for a portion of this `age`. Returns
    /// false if there is nothing to do, or if the portion may be done sooner.
    fn meanwhile(&mut self, _age: Duration) -> bool {
        false
    }
}

/// A source of one portion: the whole job.
pub(crate) struct All {
    portion: Option<Portion>,
    /// Messages that did not verify, in no order.
    pub(crate) refused: Vec<usize>,
}

impl All {
    /// A job of `count` messages.
    pub(crate) fn of(count: usize) -> Self {
        All {
            portion: (count > 0).then_some(Portion::Messages(0..count)),
            refused: Vec::new(),
        }
    }
}

impl Source for All {
    fn next(&mut self) -> Option<Portion> {
        self.portion.take()
    }

    fn done(&mut self, _: Portion, outcome: Outcome) {
        self.refused = outcome.refused;
    }
}
