//! The published numbers.

use warplock::Direction;

/// The source of the quoted columns.
pub(super) const SOURCE: &str = "quoted from Zhang and Chen, AES Encryption and Decryption on \
                                 Tesla C2075; not measured here";

/// Bytes of its messages.
pub(super) const RECORD: usize = 16 << 10;

/// Its headline.
pub(super) const MAXIMUM: &str =
    "Published: at most 19.7 Gbit/s to encrypt and 19.2 to decrypt, with four streams.";

/// Its microseconds and Mbit/s for 1, 2, 4, ... 4,096 messages.
type Published = [(u32, u32); 13];

const ENCRYPT_1: Published = [
    (7363, 17),
    (7677, 34),
    (8417, 62),
    (10406, 100),
    (13837, 151),
    (18363, 228),
    (19351, 433),
    (20453, 820),
    (24846, 1350),
    (26261, 2555),
    (28953, 4635),
    (34472, 7787),
    (63400, 8467),
];

const ENCRYPT_4: Published = [
    (2199, 59),
    (2256, 116),
    (2428, 215),
    (2913, 359),
    (3783, 554),
    (4882, 859),
    (5081, 1650),
    (5843, 2871),
    (6057, 5539),
    (6448, 10407),
    (9319, 14402),
    (14013, 19156),
    (27270, 19687),
];

const DECRYPT_4: Published = [
    (46, 2849),
    (47, 5577),
    (48, 10922),
    (57, 18396),
    (113, 18558),
    (221, 18978),
    (437, 19195),
    (880, 19065),
    (1754, 19130),
    (3503, 19157),
    (7089, 18933),
    (14180, 18930),
    (28366, 18926),
];

/// The published numbers for a row: seconds, and bits a second.
pub(super) fn published(direction: Direction, streams: usize, count: usize) -> Option<(f64, f64)> {
    let table = match (direction, streams) {
        (Direction::Encrypt, 1) => &ENCRYPT_1,
        (Direction::Encrypt, 4) => &ENCRYPT_4,
        (Direction::Decrypt, 4) => &DECRYPT_4,
        _ => return None,
    };
    let place = count.checked_ilog2()? as usize;
    let &(micros, mbit) = table.get(place).filter(|_| count.is_power_of_two())?;
    Some((f64::from(micros) * 1e-6, f64::from(mbit) * 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_numbers_stand_where_the_counts_match() {
        let (seconds, bits) = published(Direction::Encrypt, 4, 4096).unwrap();
        assert_eq!((seconds, bits), (0.02727, 19_687e6));
        assert_eq!(published(Direction::Decrypt, 4, 1).unwrap().1, 2_849e6);
        assert!(published(Direction::Decrypt, 1, 1).is_none());
        assert!(published(Direction::Encrypt, 1, 16384).is_none());
        assert!(published(Direction::Encrypt, 1, 3).is_none());
        // Their columns agree with each other: 16 KiB messages over latency, to their precision
        // for large batches.
        for table in [ENCRYPT_1, ENCRYPT_4, DECRYPT_4] {
            for (place, (micros, mbit)) in table.into_iter().enumerate().skip(6) {
                let derived = f64::from(131_072_u32 << place) / f64::from(micros);
                assert!((derived / f64::from(mbit) - 1.0).abs() < 0.03, "{place}");
            }
        }
    }
}
