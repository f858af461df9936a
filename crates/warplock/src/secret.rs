//! The places where control flow may depend on a secret, and the proof that there are no others.
//!
//! The tests mark keys and texts as undefined memory for valgrind's memcheck, which then reports
//! each branch and each address that depends on them (as Langley's ctgrind does, 2010). Outside
//! valgrind they run as any other test: see `scripts/sanitize valgrind`.

use subtle::Choice;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod valgrind;

/// A verdict that the caller is told, such as whether a tag is right: from here on it is public.
#[inline(always)]
pub(crate) fn declassify(verdict: Choice) -> bool {
    #[cfg(not(test))]
    let verdict = verdict.unwrap_u8();
    #[cfg(test)]
    let verdict = valgrind::defined(verdict.unwrap_u8());
    verdict != 0
}
