//! The order in which ACORN's messages go to the lanes of a GPU.

use std::cmp::Reverse;

pub(crate) use super::abi::AcornMessage as Message;

/// The index of each message in the kernel's array, by the lengths of text and associated data;
/// empty if the order need not change. Messages that share a warp wait for its longest, so they
/// should have about the same length; the longest come first, so that none starts last.
pub(crate) fn places(lens: impl Iterator<Item = (u64, u64)> + Clone) -> Vec<u32> {
    let mut rest = lens.clone();
    let first = rest.next();
    if rest.all(|len| Some(len) == first) {
        return Vec::new();
    }
    let mut order: Vec<_> = lens.zip(0_u32..).collect();
    order.sort_unstable_by_key(|&(len, number)| (Reverse(len), number));
    let mut places = vec![0; order.len()];
    for ((_, number), place) in order.into_iter().zip(0..) {
        places[number as usize] = place;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn equal_lengths_keep_their_places_and_others_are_sorted() {
        assert!(places([(7, 1); 5].into_iter()).is_empty());
        assert!(places([].into_iter()).is_empty());
        let lens = [(3, 0), (9, 0), (3, 5), (9, 0), (0, 99)];
        assert_eq!(places(lens.into_iter()), [3, 0, 2, 1, 4]);
    }
}
