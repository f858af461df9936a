//! A stream that was damaged is refused, with the error that names the damage, whichever way it is read; what came out before is true.

use crate::common::*;
use warplock_container::{Error, ErrorKind, Sink, Source, open, open_bytes};

/// Opens `sealed` in memory, from both kinds of source and to both kinds of sink: each must fail,
/// with the same words, and must not have let out anything but a prefix of `plain`.
fn refused(sealed: &[u8], plain: &[u8]) -> Error {
    let (key, pipeline) = (key(), pipeline());
    let error = open_bytes(sealed, &key, &engine()).unwrap_err();
    for way in [WAYS[1], WAYS[2]] {
        let (result, written) = along(way, sealed, |from, to| open(from, to, &key, &pipeline));
        let other = result.expect_err("damage was not noticed");
        assert_eq!(other.to_string(), error.to_string(), "{way:?}");
        assert!(
            way.positioned_out || plain.starts_with(&written),
            "{way:?}: unverified bytes"
        );
    }
    error
}

fn sealed_pattern(len: usize) -> (Vec<u8>, Vec<u8>) {
    let plain = pattern(len);
    (seal_all(&plain, &key()), plain)
}

fn chunk(sealed: &[u8], index: usize) -> &[u8] {
    let start = 56 + index * SEALED;
    &sealed[start..(start + SEALED).min(sealed.len())]
}

#[test]
fn every_truncation_is_noticed_and_named() {
    let (sealed, plain) = sealed_pattern(2 * CHUNK + 300);
    // Lengths around the structure's edges, and a few between: each costs five diagnoses.
    let edges = [0, 56, 56 + SEALED, 56 + 2 * SEALED, sealed.len()];
    let near = |len: usize| {
        edges
            .iter()
            .any(|edge| len.abs_diff(*edge) <= 1 || len == edge + 15)
    };
    for len in (0..sealed.len()).filter(|len| near(*len) || len % 7919 == 0) {
        let error = refused(&sealed[..len], &plain);
        let (whole, rest) = (
            len.saturating_sub(56) / SEALED,
            len.saturating_sub(56) % SEALED,
        );
        match error {
            Error::Empty => assert_eq!(len, 0),
            Error::HeaderCut { found } => assert!(found == len as u64 && (1..56).contains(&len)),
            Error::LastChunkMissing { chunk } => assert!(chunk == whole as u64 && rest == 0),
            Error::LastChunk { chunk } => assert!(chunk == whole as u64 && rest > 0),
            other => panic!("{len}: {other}"),
        }
        assert_eq!(error.kind() == ErrorKind::Authentication, len > 0);
    }
}

#[test]
fn every_truncation_of_a_short_stream_is_noticed() {
    let (sealed, plain) = sealed_pattern(50);
    for len in 0..sealed.len() {
        refused(&sealed[..len], &plain);
    }
}

#[test]
fn a_flipped_bit_is_noticed_in_every_region() {
    let (sealed, plain) = sealed_pattern(5 * CHUNK + 300);
    let mut random = Random(3);
    for region in [0..24, 24..56] {
        for byte in region {
            let mut altered = sealed.clone();
            altered[byte] ^= 1 << random.below(8);
            assert!(matches!(refused(&altered, &plain), Error::WrongKey));
        }
    }
    for index in [0, 3, 5] {
        let len = chunk(&sealed, index).len();
        for byte in [
            0,
            1,
            len / 2,
            len - 17,
            len - 16,
            len - 1,
            random.below(len),
        ] {
            let mut altered = sealed.clone();
            altered[56 + index * SEALED + byte] ^= 1 << random.below(8);
            let error = refused(&altered, &plain);
            let named = match error {
                Error::Chunk { chunk } => index < 5 && chunk == index as u64,
                Error::LastChunk { chunk } => index == 5 && chunk == 5,
                _ => false,
            };
            assert!(named, "{index} {byte}: {error}");
        }
    }
}

#[test]
fn of_several_faults_the_first_is_told_every_time() {
    let (mut sealed, plain) = sealed_pattern(40 * CHUNK);
    for index in [39, 30, 17, 16, 12] {
        sealed[56 + index * SEALED + 9] ^= 1;
    }
    let error = refused(&sealed, &plain);
    assert!(matches!(error, Error::Chunk { chunk: 12 }), "{error}");
    assert!(error_text(&sealed).contains("chunk 12 (from byte 196608 of the content)"));
}

fn error_text(sealed: &[u8]) -> String {
    open(Source::bytes(sealed), Sink::nowhere(), &key(), &pipeline())
        .unwrap_err()
        .to_string()
}

#[test]
fn moved_chunks_are_named_with_both_places() {
    let (sealed, plain) = sealed_pattern(9 * CHUNK + 20);
    let rebuild = |order: &[usize]| {
        let mut stream = sealed[..56].to_vec();
        order
            .iter()
            .for_each(|&index| stream.extend_from_slice(chunk(&sealed, index)));
        stream
    };
    let cases: [(&[usize], u64, u64); 5] = [
        (&[0, 1, 6, 3, 4, 5, 2, 7, 8, 9], 2, 6),    // swapped
        (&[0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9], 3, 2), // repeated
        (&[0, 1, 2, 3, 5, 6, 7, 8, 9], 4, 5),       // left out
        (&[0, 1, 2, 3, 4, 5, 6, 7, 9], 8, 9),       // left out before the last
        (&[1, 2, 3, 4, 5, 6, 7, 8, 9], 0, 1),       // the first left out
    ];
    for (order, at, belongs) in cases {
        let error = refused(&rebuild(order), &plain);
        let expected =
            matches!(error, Error::Misplaced { chunk, belongs: b } if chunk == at && b == belongs);
        assert!(expected, "{order:?}: {error}");
        assert_eq!(error.kind(), ErrorKind::Authentication);
    }
    // After the last chunk, a chunk of the stream itself is data after the end.
    let error = refused(&rebuild(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 3]), &plain);
    assert!(matches!(error, Error::TrailingData { .. }), "{error}");
    // The last chunk twice.
    let error = refused(&rebuild(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]), &plain);
    assert!(matches!(error, Error::TrailingData { .. }), "{error}");
}

#[test]
fn data_after_the_end_is_reported_whatever_its_length() {
    for len in [0, CHUNK - 1, 2 * CHUNK + 300] {
        let (sealed, plain) = sealed_pattern(len);
        let missing = SEALED - (sealed.len() - 56) % SEALED;
        for more in [1, 16, missing, missing + 5, 2 * SEALED + 100] {
            let longer = [&sealed[..], &Random(4).bytes(more)].concat();
            let error = refused(&longer, &plain);
            match error {
                Error::TrailingData { content, extra, .. } => {
                    assert_eq!(content, len as u64);
                    assert!((1..=more as u64).contains(&extra));
                }
                other => panic!("{len} + {more}: {other}"),
            }
        }
    }
}

#[test]
fn a_chunk_of_another_stream_is_altered() {
    let (sealed, plain) = sealed_pattern(3 * CHUNK);
    let (mut other, _) = sealed_pattern(3 * CHUNK);
    other[56 + SEALED..56 + 2 * SEALED].copy_from_slice(chunk(&sealed, 1));
    assert!(matches!(refused(&other, &plain), Error::Chunk { chunk: 1 }));
}

#[test]
fn another_key_or_context_is_told_before_any_chunk() {
    let plain = pattern(100);
    for other in [
        key().with_context(b"x"),
        warplock_container::InputKey::new(warplock_container::Suite::Cobblestone256, &[8; 32])
            .unwrap(),
        warplock_container::InputKey::new(warplock_container::Suite::Cobblestone128, &[7; 16])
            .unwrap(),
    ] {
        assert!(matches!(
            refused(&seal_all(&plain, &other), &plain),
            Error::WrongKey
        ));
    }
}

#[test]
fn other_formats_are_called_by_their_names() {
    for (start, name) in [
        (&b"warplock/1\n"[..], "carries its own wrapped key"),
        (b"age-encryption.org/v1\n", "age -d"),
        (b"Salted__", "openssl enc -d"),
        (b"\x1f\x8b\x08", "gzip"),
    ] {
        for len in [start.len(), 40, 56, 1000] {
            let mut bytes = start.to_vec();
            bytes.resize(len.max(start.len()), b'x');
            let error = refused(&bytes, b"");
            assert!(error.to_string().contains(name), "{error}");
            assert_eq!(error.kind(), ErrorKind::Failure);
        }
    }
}
