//! ACORN-128 v3 on the CPU: messages side by side where there are vector instructions, and single
//! ones on integers.
//!
//! The vectors of a machine are independent of its AES instructions: every instruction set but
//! `cpu:portable` uses the widest vectors that the machine has.

mod block;
#[cfg_attr(
    not(vectors = "x86"),
    allow(dead_code, reason = "no other family has lanes")
)]
mod lanes;
mod one;
#[cfg(test)]
mod tests;

use std::ops::Range;

#[cfg(vectors = "x86")]
pub(crate) use block::Words;
#[cfg(vectors = "x86")]
pub(crate) use lanes::{From, To, Wide, run};
pub(crate) use lanes::{LONGEST, MOST, Work};
pub(crate) use one::Acorn;

use super::InstructionSet;
use super::finish::write_or_verify_tag;
use super::kernels::Io;
use crate::Direction;
use crate::job::Job;

/// Messages that are ordered by length together: enough to find some of about the same length,
/// few enough to keep to a part of the memory.
const WINDOW: usize = 1024;

/// Bytes of work of a message in addition to associated data and text: the initialization.
const START: usize = 224;

/// Messages side by side with one vector extension.
pub(crate) struct LaneKernels {
    lanes: usize,
    /// From this many messages of one length on, lanes are faster than one message after the other.
    worth: usize,
    seal: unsafe fn(&mut [Work<'_>]),
    open: unsafe fn(&mut [Work<'_>]),
}

impl LaneKernels {
    /// # Safety
    /// Both functions may be called as [`run`] where this value is available, with up to `lanes`
    /// messages.
    #[cfg(vectors = "x86")]
    pub(crate) const unsafe fn new(
        lanes: usize,
        worth: usize,
        seal: unsafe fn(&mut [Work<'_>]),
        open: unsafe fn(&mut [Work<'_>]),
    ) -> Self {
        LaneKernels {
            lanes,
            worth,
            seal,
            open,
        }
    }

    /// Every kind that this machine has, the best one first.
    fn all() -> impl Iterator<Item = &'static LaneKernels> {
        #[cfg(vectors = "x86")]
        let kinds = super::x86::acorn();
        #[cfg(not(vectors = "x86"))]
        let kinds: [Option<&LaneKernels>; 0] = [];
        kinds.into_iter().flatten()
    }

    /// The lanes that an instruction set uses.
    pub(crate) fn of(set: InstructionSet) -> Option<&'static LaneKernels> {
        match set {
            InstructionSet::Portable => None,
            _ => LaneKernels::all().next(),
        }
    }
}

/// How many messages of a job one thread should get at least, where there are enough.
pub(crate) const TOGETHER: usize = 4 * MOST;

/// Runs some messages of a job on this thread; returns those that did not verify.
pub(crate) fn run_messages(
    kernels: Option<&LaneKernels>,
    job: &Job<'_>,
    messages: Range<usize>,
) -> Vec<usize> {
    let mut failed = Vec::new();
    let Some(kernels) = kernels else {
        failed.extend(messages.filter(|&index| !run_one(job, index)));
        return failed;
    };
    let mut order = Vec::with_capacity(messages.len().min(WINDOW));
    let mut group = Vec::with_capacity(kernels.lanes);
    for start in messages.clone().step_by(WINDOW) {
        order.clear();
        let window = start..messages.end.min(start + WINDOW);
        order.extend(window.map(|index| {
            let bytes = job.aad_len(index).saturating_add(job.text_len(index));
            (bytes.saturating_add(START), index)
        }));
        if order.iter().any(|(bytes, _)| *bytes != order[0].0) {
            // Lanes that end together do not wait for each other.
            order.sort_unstable_by_key(|&(bytes, index)| (std::cmp::Reverse(bytes), index));
        }
        let mut rest = &order[..];
        while let Some(&(longest, first)) = rest.first() {
            let together = &rest[..rest.len().min(kernels.lanes)];
            let sum: u128 = together.iter().map(|&(bytes, _)| bytes as u128).sum();
            if longest > LONGEST / 2 || sum < (kernels.worth * longest) as u128 {
                if !run_one(job, first) {
                    failed.push(first);
                }
                rest = &rest[1..];
                continue;
            }
            group.clear();
            group.extend(together.iter().map(|&(_, index)| Work {
                key: key(job, index),
                message: job.message(index),
                tag: [0; 16],
            }));
            // SAFETY: by the job's checks the pointers are valid and no outputs overlap; the
            // kernels were found on this machine.
            unsafe {
                match job.direction() {
                    Direction::Encrypt => (kernels.seal)(&mut group),
                    Direction::Decrypt => (kernels.open)(&mut group),
                }
            }
            for (work, &(_, index)) in group.iter().zip(together) {
                // SAFETY: by the job's checks; this message is done.
                if !unsafe { write_or_verify_tag(job.direction(), &work.message, &work.tag) } {
                    failed.push(index);
                }
            }
            rest = &rest[together.len()..];
        }
    }
    failed.sort_unstable();
    failed
}

fn key<'a>(job: &Job<'a>, index: usize) -> &'a [u8; 16] {
    job.key_bytes(index)
        .try_into()
        .expect("the job was checked: the key has 16 bytes")
}

/// Runs one message on integers; false if it did not verify.
fn run_one(job: &Job<'_>, index: usize) -> bool {
    let message = job.message(index);
    let nonce = message.iv.bytes().try_into();
    let nonce = nonce.expect("the job was checked: a nonce of 16 bytes");
    let mut state = Acorn::start(key(job, index), nonce, message.aad);
    let io = Io::new(message.input, message.output, message.len);
    // SAFETY: by the job's checks the pointers are valid and no other message's output overlaps.
    unsafe {
        state.update(job.direction(), io);
        write_or_verify_tag(job.direction(), &message, &state.tag())
    }
}
