//! The work of stretching a passphrase, which the maker of a file chooses: how much of it is done
//! without a question, and whether there is memory for it.

use std::fmt;

use crate::error::{Error, Result};
use crate::passphrase::AskPassphrase;

/// The most work that is ever done, as base-2 logarithm of scrypt's N: 2^22 takes 4 GiB of memory
/// and half a minute. The age program has the same limit.
pub const MAX_WORK: u8 = 22;

/// The most work that is done without a question: 2^18 takes 256 MiB and about a second. It is
/// what the age program chooses for its files.
pub const UNASKED_WORK: u8 = 18;

/// The cost of opening something with a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Of an age file.
    Scrypt { log_n: u8 },
    /// Of an SSH private key.
    Bcrypt { rounds: u32 },
}

impl Work {
    /// The base-2 logarithm of the N with which scrypt takes about as long.
    pub(crate) fn log_n(self) -> u8 {
        match self {
            Self::Scrypt { log_n } => log_n,
            // 2^6 rounds of bcrypt_pbkdf take as long as 2^17.6 of scrypt. OpenSSH makes 16 or 24
            // rounds unless told otherwise.
            Self::Bcrypt { rounds } => 11 + u64::from(rounds).next_power_of_two().ilog2() as u8,
        }
    }

    fn memory(self) -> usize {
        match self {
            // 128 * r * N bytes; age fixes r to 8.
            Self::Scrypt { log_n } => 1024 << log_n.min(MAX_WORK),
            Self::Bcrypt { .. } => 0,
        }
    }

    /// Succeeds if the work may be done: if it is at most 2^`accepted`, or the person at `prompt`
    /// agrees; and if there is memory for it.
    pub(crate) fn permit(self, what: &str, accepted: u8, prompt: &dyn AskPassphrase) -> Result<()> {
        if self.log_n() > MAX_WORK {
            return Err(self.excessive(what, MAX_WORK));
        }
        if self.log_n() > accepted {
            let question = format!("{what} asks for {self}. Go on?");
            if prompt.confirm(&question, "go on", Some("stop")) != Some(true) {
                return Err(Error::UnconfirmedWork {
                    what: what.into(),
                    work: self.to_string(),
                    log_n: self.log_n(),
                });
            }
        }
        self.reserve(what)
    }

    /// The error for work that is more than 2^`max`.
    pub(crate) fn excessive(self, what: &str, max: u8) -> Error {
        Error::ExcessiveWork {
            what: what.into(),
            work: self.to_string(),
            max,
        }
    }

    /// Succeeds if there is memory for the work. age's allocation would end the process if there is
    /// not.
    pub(crate) fn reserve(self, what: &str) -> Result<()> {
        /// For age's other allocations.
        const REST: usize = 4 << 20;
        let bytes = self.memory() + REST;
        let mut probe = Vec::<u8>::new();
        let reserved = probe.try_reserve_exact(bytes);
        // An allocation that is not used may be optimized away.
        std::hint::black_box(&mut probe);
        reserved.map_err(|_| Error::NoMemory {
            what: what.into(),
            mib: bytes >> 20,
        })
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scrypt { log_n } => write!(f, "scrypt work of 2^{log_n}")?,
            Self::Bcrypt { rounds } => write!(f, "{rounds} rounds of bcrypt")?,
        }
        if !(UNASKED_WORK + 1..=MAX_WORK).contains(&self.log_n()) {
            return Ok(());
        }
        let seconds = (5 << (self.log_n() - UNASKED_WORK)) / 4;
        f.write_str(" (")?;
        match self.memory() >> 20 {
            0 => {}
            mib @ 1..1024 => write!(f, "{mib} MiB of memory, ")?,
            mib => write!(f, "{} GiB of memory, ", mib >> 10)?,
        }
        write!(f, "about {seconds} seconds)")
    }
}
