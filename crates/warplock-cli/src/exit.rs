//! The exit codes.

/// The result of a run, as the shell sees it. Ordered: of several inputs the worst one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything was verified, and everything was written.
    Done = 0,
    /// Something failed; the line on stderr says what, with which input, and what to do.
    Error = 1,
    /// The command line was wrong: nothing was read or written.
    Usage = 2,
    /// Authentication failed: wrong key or passphrase, or the data was changed or cut.
    Authentication = 3,
    /// The reader of an output ended early. The process dies by SIGPIPE, for which shells show
    /// this number.
    Pipe = 141,
}
