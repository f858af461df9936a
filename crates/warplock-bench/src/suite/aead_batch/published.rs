//! Published numbers of others, for the same shapes.

use warplock::Direction;

/// The publication.
pub(super) const SOURCE: &str = "quoted from the README of itzmeanjan/acorn (SYCL), whose GPU and \
                                 FPGA code is not ACORN-128 v3: text and associated data over the \
                                 kernel's time; not measured here";

/// Its unit of bytes.
const GIB: f64 = (1_u64 << 30) as f64;
const MIB: f64 = (1_u64 << 20) as f64;

/// Bytes of text, and GiB a second that a V100 encrypts and decrypts.
const V100: [(usize, f64, Option<f64>); 6] = [
    (64, 41.0, Some(43.0)),
    (128, 28.2, None),
    (256, 21.2, None),
    (512, 12.5, None),
    (1024, 4.5, None),
    (4096, 3.6, None),
];

/// Bytes of text, and MiB a second that an Arria 10 FPGA encrypts and decrypts: the best of their
/// three numbers of messages, which differ by a thousandth.
const FPGA: [(usize, f64, f64); 7] = [
    (64, 454.654_227, 454.630_939),
    (128, 757.771_228, 757.750_026),
    (256, 992.043_467, 992.039_257),
    (512, 951.447_202, 951.451_595),
    (1024, 930.683_376, 930.674_212),
    (2048, 920.166_806, 920.165_961),
    (4096, 914.881_1, 914.882_625),
];

/// Bytes a second of the V100.
pub(super) fn v100(direction: Direction, len: usize) -> Option<f64> {
    let &(_, seal, open) = V100.iter().find(|row| row.0 == len)?;
    match direction {
        Direction::Encrypt => Some(seal * GIB),
        Direction::Decrypt => open.map(|open| open * GIB),
    }
}

/// Bytes a second of the FPGA.
pub(super) fn fpga(direction: Direction, len: usize) -> Option<f64> {
    let &(_, seal, open) = FPGA.iter().find(|row| row.0 == len)?;
    Some(
        MIB * if direction == Direction::Encrypt {
            seal
        } else {
            open
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_numbers_stand_where_the_lengths_match() {
        assert_eq!(v100(Direction::Encrypt, 64), Some(41.0 * GIB));
        assert_eq!(v100(Direction::Decrypt, 128), None);
        assert_eq!(v100(Direction::Encrypt, 100), None);
        let rate = fpga(Direction::Decrypt, 256).unwrap();
        assert!((1.040e9..1.041e9).contains(&rate));
        assert_eq!(fpga(Direction::Encrypt, 100), None);
    }
}
