//! Blocks that are known to be holes because the file grew over them and nobody wrote them since.
//!
//! The kernel's requests come from several threads, so a file that is written from start to end
//! grows by a megabyte too far and is filled in afterwards, again and again. Such blocks have no
//! old tags to look at, and a file that had no holes before has none once they are filled.

use std::collections::BTreeMap;

/// More ranges than this are not worth knowing.
const MOST: usize = 1024;

/// Ranges of such blocks: from their first to behind their last.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    ranges: BTreeMap<u64, u64>,
    /// Whether the file has no other holes.
    all: bool,
}

impl Gaps {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The file grew over these blocks. `holes`: whether it may have had holes before.
    pub(crate) fn add(&mut self, first: u64, end: u64, holes: bool) {
        if self.ranges.len() == MOST {
            return self.forget();
        }
        if self.ranges.is_empty() {
            self.all = !holes;
        }
        self.ranges.insert(first, end);
    }

    /// Whether `first` is such a hole, and up to where that holds for all blocks before `end`.
    pub(crate) fn alike(&self, first: u64, end: u64) -> (bool, u64) {
        let before = self.ranges.range(..=first).next_back();
        if let Some((_, &until)) = before.filter(|(_, until)| **until > first) {
            return (true, until.min(end));
        }
        let next = self.ranges.range(first..end).next();
        (false, next.map_or(end, |(from, _)| *from))
    }

    /// These blocks were written. True if the file has no holes any more.
    pub(crate) fn fill(&mut self, first: u64, end: u64) -> bool {
        if self.ranges.is_empty() {
            return false;
        }
        let touched = self.ranges.range(..end);
        let touched: Vec<_> = touched
            .rev()
            .take_while(|(_, until)| **until > first)
            .map(|(from, until)| (*from, *until))
            .collect();
        for (from, until) in touched {
            self.ranges.remove(&from);
            if from < first {
                self.ranges.insert(from, first);
            }
            if until > end {
                self.ranges.insert(end, until);
            }
        }
        self.ranges.is_empty() && self.all
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&mut self) {
        self.ranges.clear();
        self.all = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_in_any_order() {
        let mut gaps = Gaps::default();
        gaps.add(10, 20, false);
        gaps.add(30, 40, true);
        assert_eq!(gaps.alike(10, 20), (true, 20));
        assert_eq!(gaps.alike(35, 36), (true, 36));
        assert_eq!(gaps.alike(19, 21), (true, 20));
        assert_eq!(gaps.alike(9, 11), (false, 10));
        assert_eq!(gaps.alike(20, 30), (false, 30));
        assert_eq!(gaps.alike(40, 50), (false, 50));
        assert!(!gaps.fill(14, 16));
        assert_eq!(gaps.alike(13, 20), (true, 14));
        assert_eq!(gaps.alike(14, 20), (false, 16));
        assert_eq!(gaps.alike(16, 25), (true, 20));
        assert!(!gaps.fill(0, 18));
        assert!(!gaps.fill(20, 25));
        assert!(!gaps.fill(19, 39));
        assert_eq!(gaps.alike(18, 20), (true, 19));
        assert_eq!(gaps.alike(39, 40), (true, 40));
        assert!(!gaps.fill(39, 100));
        assert!(gaps.fill(18, 19), "that was the last");
        assert!(!gaps.fill(18, 19), "and no other was");
    }

    #[test]
    fn other_holes_stay() {
        let mut gaps = Gaps::default();
        gaps.add(1, 2, true);
        assert!(!gaps.fill(0, 9));
        gaps.add(1, 2, false);
        gaps.forget();
        assert!(!gaps.alike(1, 2).0 && !gaps.fill(1, 2));
        for number in 0..=MOST as u64 {
            gaps.add(2 * number, 2 * number + 1, false);
        }
        assert!(gaps.is_empty(), "too many");
    }
}
