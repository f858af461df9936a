//! Changes to something valid, as the fuzzer's bytes describe them.

/// Does up to `most` changes: five bytes say where, what, and with what.
pub(crate) fn change(bytes: &mut Vec<u8>, changes: &[u8], most: usize) {
    for change in changes.as_chunks::<5>().0.iter().take(most) {
        let &[low, high, kind, value, count] = change;
        let place = usize::from(u16::from_le_bytes([low, high])) % (bytes.len() + 1);
        let end = bytes.len().min(place + usize::from(count));
        match (kind % 8, bytes.get_mut(place)) {
            (0, Some(byte)) => *byte ^= value,
            (1, Some(byte)) => *byte = value,
            (2, _) => bytes.truncate(place),
            (3, Some(_)) => drop(bytes.drain(place..end)),
            (4, Some(_)) => bytes[place..end].fill(value),
            // A piece once more, at another place.
            (5, Some(_)) => {
                let piece = bytes[place..end].to_vec();
                let to = usize::from(value) * bytes.len() / 255;
                bytes.splice(to..to, piece);
            }
            (6, _) => drop(bytes.splice(place..place, std::iter::repeat_n(value, count.into()))),
            _ => bytes.insert(place, value),
        }
    }
}
