//! The order in which ACORN's messages go to the lanes of a GPU.

pub(crate) use super::abi::AcornMessage as Message;

/// The messages' numbers in the order of the kernel's array, by the lengths of text and associated
/// data. Messages that share a warp wait for its longest, so they should have about the same length;
/// the longest come first, so that none starts last.
fn order(lens: impl Iterator<Item = (u64, u64)> + Clone) -> Vec<u32> {
    let texts: Vec<u16> = lens.clone().map(|(text, _)| class(text)).collect();
    let aads: Vec<u16> = lens.map(|(_, aad)| class(aad)).collect();
    let all = 0..texts.len() as u32;
    match aads.iter().all(|&aad| aad == aads[0]) {
        true => sort(all, &texts),
        false => sort(sort(all, &aads).into_iter(), &texts),
    }
}

/// The index of each message in that array.
pub(crate) fn places(lens: impl Iterator<Item = (u64, u64)> + Clone) -> Vec<u32> {
    let order = order(lens);
    let mut places = vec![0; order.len()];
    for (place, number) in (0..).zip(order) {
        places[number as usize] = place;
    }
    places
}

/// Longer ones have higher classes. Below 2,048 bytes each length has its own; above, lengths within
/// a thousandth share one, which is less than a tile up to 64 KiB.
fn class(len: u64) -> u16 {
    let shift = (u64::BITS - len.leading_zeros()).saturating_sub(11);
    ((shift << 10) + (len >> shift) as u32) as u16
}

/// Messages by falling class; those of a class keep their order. Counts instead of comparing, as a
/// call with many messages waits for it.
fn sort(order: impl Iterator<Item = u32>, classes: &[u16]) -> Vec<u32> {
    let (least, most) = (classes.iter()).fold((u16::MAX, 0), |(least, most), &class| {
        (class.min(least), class.max(most))
    });
    let rank = |class: u16| most.wrapping_sub(class) as usize;
    if least >= most {
        return order.collect();
    }
    // Where the next message of each rank goes; the last entry is not used.
    let mut next = vec![0_u32; rank(least) + 2];
    for &class in classes {
        next[rank(class) + 1] += 1;
    }
    let mut sum = 0;
    for count in &mut next {
        sum += *count;
        *count = sum;
    }
    let mut sorted = vec![0; classes.len()];
    for number in order {
        let place = &mut next[rank(classes[number as usize])];
        sorted[*place as usize] = number;
        *place += 1;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::{class, order, places};

    #[test]
    fn equal_lengths_keep_their_places_and_others_are_sorted() {
        assert_eq!(order([(7, 1); 5].into_iter()), [0, 1, 2, 3, 4]);
        assert!(order([].into_iter()).is_empty());
        let lens = [(3, 0), (9, 0), (3, 5), (9, 0), (0, 99)];
        assert_eq!(order(lens.into_iter()), [1, 3, 2, 0, 4]);
        assert_eq!(places(lens.into_iter()), [3, 0, 2, 1, 4]);
    }

    #[test]
    fn longer_messages_have_higher_classes() {
        for len in 0..2048 {
            assert_eq!(class(len), len as u16);
        }
        let lens: Vec<u64> = (11..64)
            .flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + (1 << (bits - 10))])
            .collect();
        assert!(lens.is_sorted_by(|a, b| class(*a) < class(*b)));
        // No more than a thousandth apart.
        assert!(class(115_000) < class(115_000 + 128));
        assert_eq!(class(115_000), class(115_000 - 115_000 % 64));
        assert!(class(u64::MAX) > class(u64::MAX / 2));
    }
}
