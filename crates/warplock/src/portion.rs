//! Parts of a job that run by themselves, so that several backends can share one job.

use std::ops::Range;
use std::time::Duration;

/// A part of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Portion {
    /// Messages from their start to their end.
    Messages(Range<usize>),
    /// A part of one long message.
    Part(LongPart),
}

/// A part of a message whose mode allows that parts are worked on in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongPart {
    /// The message's place in the job.
    pub(crate) message: usize,
    /// Which of its bytes. They start at a multiple of 512, and end at one or with the message;
    /// the last 32 of an XTS message are in one part.
    pub(crate) bytes: Range<usize>,
    /// CBC decryption: the ciphertext block before, if the part is not the first.
    pub(crate) previous: [u8; 16],
}

/// What came of a portion besides its text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Messages that did not verify.
    pub(crate) refused: Vec<usize>,
    /// GCM, for a part of a message: what it adds to the tag.
    pub(crate) sum: Option<Sum>,
}

/// What a part adds to its message's tag of GCM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    /// Its share alone.
    Share([u8; 16]),
    /// What the tag would be if the other parts added nothing.
    Tag([u8; 16]),
}

impl Sum {
    /// Adds it to what a message's tag is so far; `frame` is what the tag would be if no part added
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

/// Where a backend takes the portions of a job from.
pub(crate) trait Source {
    /// The next portion, if there is one for this backend.
    fn next(&mut self) -> Option<Portion>;

    /// Takes note that a portion is done: everything of it is in the caller's memory.
    fn done(&mut self, portion: Portion, outcome: Outcome);

    /// Does something short on this thread, for one that has nothing to do but wait for a portion
    /// begun so long ago; false: there is nothing, or the portion may be done sooner.
    fn meanwhile(&mut self, _age: Duration) -> bool {
        false
    }
}

/// A source that gives all of a job at once.
pub(crate) struct All {
    portion: Option<Portion>,
    /// Messages that did not verify, in no order.
    pub(crate) refused: Vec<usize>,
}

impl All {
    /// The messages of a job with `count` of them.
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
