//! The exit codes.

use std::cmp::Ordering;

/// The result of a run, as the shell sees it. Ordered: of several inputs the worst one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything was verified, and everything was written.
    Done = 0,
    /// Something failed; the line on stderr says what, with which input, and what to do.
    Error = 1,
    /// The command line was wrong: nothing was read or written.
    Usage = 2,
    /// Authentication failed: the data was changed or cut.
    Authentication = 3,
    /// The key, identity or passphrase is another one's.
    WrongKey = 4,
    /// The reader of an output ended early. The process dies by SIGPIPE, for which shells show
    /// this number.
    Pipe = 141,
}

impl Exit {
    /// Its place in the order.
    fn rank(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::WrongKey => 3,
            // Of several inputs, one that was changed matters most.
            Exit::Authentication => 4,
            Exit::Pipe => 5,
        }
    }
}

impl Ord for Exit {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Exit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
