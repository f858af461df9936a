//! A row's inputs and outputs.

use std::ops::DerefMut;

use crate::error::Result;

/// A row's inputs and outputs; if there are several, jobs take them in turn.
pub(super) struct Buffers<B> {
    all: Vec<(B, B)>,
    now: usize,
}

impl<B: DerefMut<Target = [u8]>> Buffers<B> {
    /// `count` pairs, each made by `make`, with this input.
    pub(super) fn new(count: usize, input: &[u8], make: impl Fn() -> Result<B>) -> Result<Self> {
        let pair = |_| {
            let (mut own, output) = (make()?, make()?);
            own.copy_from_slice(input);
            Ok((own, output))
        };
        Ok(Buffers {
            all: (0..count).map(pair).collect::<Result<_>>()?,
            now: 0,
        })
    }

    pub(super) fn turn(&mut self) {
        self.now = (self.now + 1) % self.all.len();
    }

    /// Makes missing output show.
    pub(super) fn spoil(&mut self, expected: &[u8]) {
        let outputs = self.all.iter_mut().map(|pair| &mut pair.1);
        outputs.for_each(|output| spoil(output, expected));
    }

    pub(super) fn output(&self) -> &[u8] {
        &self.all[self.now].1
    }

    pub(super) fn both(&mut self) -> (&B, &mut B) {
        let (input, output) = &mut self.all[self.now];
        (input, output)
    }
}

/// Writes wrong bytes at both ends and at some places between, so that a missing write is noticed,
/// whatever the output held before.
fn spoil(bytes: &mut [u8], expected: &[u8]) {
    for place in (0..bytes.len()).step_by(4093) {
        bytes[place] = !expected[place];
    }
    if let (Some(last), Some(expected)) = (bytes.last_mut(), expected.last()) {
        *last = !expected;
    }
}
