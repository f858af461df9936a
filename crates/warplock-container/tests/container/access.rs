//! Ranges, random access, and streams made in parts.

use std::io::{Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Bound;

use crate::common::*;
use warplock_container::{
    Error, PartSealer, Reader, Result, Sink, Source, chunk_count, open_bytes, open_range, seal,
};

fn range(sealed: &[u8], range: impl std::ops::RangeBounds<u64>) -> Result<Vec<u8>> {
    let (result, opened) = along(WAYS[0], sealed, |from, to| {
        open_range(
            from,
            to,
            &key(),
            (range.start_bound(), range.end_bound()),
            &pipeline(),
        )
    });
    let (_, in_order) = along(WAYS[1], sealed, |from, to| {
        open_range(
            from,
            to,
            &key(),
            (range.start_bound(), range.end_bound()),
            &pipeline(),
        )
    });
    let len = result?;
    assert!(opened == in_order && len == opened.len() as u64);
    Ok(opened)
}

#[test]
fn ranges_hold_what_the_whole_holds() {
    let mut random = Random(5);
    for len in [0, 1, CHUNK, CHUNK + 1, SEGMENT, 4 * SEGMENT + 100] {
        let plain = random.bytes(len);
        let sealed = seal_all(&plain, &key());
        let mut cuts = vec![
            0,
            len,
            len / 2,
            len.saturating_sub(1),
            len.min(CHUNK),
            len.min(CHUNK + 1),
        ];
        cuts.extend((0..6).map(|_| random.below(len + 1)));
        for &from in &cuts {
            assert!(
                range(&sealed, from as u64..).unwrap() == plain[from..],
                "{len}: {from}.."
            );
            for &to in cuts.iter().filter(|to| **to >= from) {
                let opened = range(&sealed, from as u64..to as u64).unwrap();
                assert!(opened == plain[from..to], "{len}: {from}..{to}");
            }
        }
        assert!(range(&sealed, ..).unwrap() == plain);
        if len > 2 {
            assert!(range(&sealed, 1..=2).unwrap() == plain[1..=2]);
            let excluded = (Bound::Excluded(0), Bound::Unbounded);
            assert!(range(&sealed, excluded).unwrap() == plain[1..]);
        }
    }
}

#[test]
fn a_range_reads_only_its_chunks_and_the_end_is_verified() {
    let plain = pattern(10 * CHUNK + 50);
    let mut sealed = seal_all(&plain, &key());
    sealed[56 + 5 * SEALED] ^= 1;
    assert!(range(&sealed, 0..5 * CHUNK as u64).unwrap() == plain[..5 * CHUNK]);
    assert!(range(&sealed, 6 * CHUNK as u64..).unwrap() == plain[6 * CHUNK..]);
    let error = range(&sealed, 5 * CHUNK as u64 - 1..5 * CHUNK as u64 + 1).unwrap_err();
    assert!(matches!(error, Error::Chunk { chunk: 5 }));

    // Cut after a chunk: what is there opens, but not as if it were all.
    let cut = &sealed[..56 + 9 * SEALED];
    assert!(range(cut, 8 * CHUNK as u64..9 * CHUNK as u64).unwrap() == plain[8 * CHUNK..9 * CHUNK]);
    for error in [
        range(cut, 8 * CHUNK as u64..),
        range(cut, 0..9 * CHUNK as u64 + 1),
    ] {
        assert!(matches!(error, Err(Error::LastChunkMissing { chunk: 9 })));
    }
    // Cut inside a chunk: a range up to the new end is refused.
    let cut = &sealed[..56 + 9 * SEALED + 100];
    let error = range(cut, 9 * CHUNK as u64 + 10..9 * CHUNK as u64 + 84);
    assert!(matches!(error, Err(Error::LastChunk { chunk: 9 })));
}

#[test]
fn ranges_outside_are_refused_with_the_true_length() {
    let sealed = seal_all(&pattern(CHUNK + 10), &key());
    for outside in [0..CHUNK as u64 + 11, 20_000..20_001, u64::MAX - 1..u64::MAX] {
        let error = range(&sealed, outside.clone()).unwrap_err();
        assert!(
            matches!(&error, Error::OutOfRange { range, len: 16394 } if *range == outside),
            "{error}"
        );
        assert!(error.to_string().contains("16394 bytes"));
        assert_eq!(error.kind(), warplock_container::ErrorKind::Usage);
    }
    assert!(matches!(
        range(&sealed, CHUNK as u64 + 11..),
        Err(Error::OutOfRange { .. })
    ));
    // The length of a file that was cut is not told as if it were true.
    let cut = &sealed[..sealed.len() - 3];
    assert!(matches!(
        range(cut, 0..20_000),
        Err(Error::LastChunk { chunk: 1 })
    ));

    let pipe = Source::sequential(Cursor::new(&sealed));
    let error = open_range(pipe, Sink::nowhere(), &key(), 0..1, &pipeline()).unwrap_err();
    assert!(matches!(error, Error::NotSeekable));
}

#[test]
fn a_reader_reads_and_seeks_like_a_file() {
    let mut random = Random(6);
    for len in [0, 1, CHUNK, 40 * CHUNK + 17] {
        let plain = random.bytes(len);
        // The stream does not start at the front of what it is in.
        let file = [b"some envelope", &seal_all(&plain, &key())[..]].concat();
        let mut file = Cursor::new(file);
        file.set_position(13);
        let mut reader = Reader::new(file, &key(), engine()).unwrap();
        assert_eq!((reader.len(), reader.is_empty()), (len as u64, len == 0));

        let mut expected = Cursor::new(&plain);
        for _ in 0..300 {
            let to = match random.below(4) {
                0 => SeekFrom::Start(random.below(len + 100) as u64),
                1 => SeekFrom::End(random.below(2 * CHUNK) as i64 - CHUNK as i64),
                2 => SeekFrom::Current(random.below(2 * CHUNK) as i64 - CHUNK as i64),
                _ => SeekFrom::Current(0),
            };
            let (ours, theirs) = (reader.seek(to), expected.seek(to));
            assert_eq!(ours.ok(), theirs.ok(), "{to:?}");
            let mut buffers = [vec![0; random.below(3 * CHUNK)], Vec::new()];
            buffers[1] = buffers[0].clone();
            let [ours, theirs] = &mut buffers;
            let result = (
                reader.read_exact(ours).is_ok(),
                expected.read_exact(theirs).is_ok(),
            );
            assert_eq!(result.0, result.1);
            assert!(!result.0 || ours == theirs);
            // Where a failed read_exact stops is not specified.
            if !result.0 {
                reader.rewind().unwrap();
                expected.rewind().unwrap();
            }
            let positions = (reader.stream_position(), expected.stream_position());
            assert_eq!(positions.0.unwrap(), positions.1.unwrap());
        }
        let mut all = Vec::new();
        reader.rewind().unwrap();
        reader.read_to_end(&mut all).unwrap();
        assert!(all == plain);
    }
}

#[test]
fn a_reader_gives_out_nothing_unverified() {
    let plain = pattern(40 * CHUNK + 100);
    let sealed = seal_all(&plain, &key());
    for cut in [1, 101, 116, 117] {
        assert!(Reader::new(Cursor::new(&sealed[..sealed.len() - cut]), &key(), engine()).is_err());
    }
    let mut altered = sealed.clone();
    altered[56 + 20 * SEALED + 3] ^= 1;
    let mut reader = Reader::new(Cursor::new(altered), &key(), engine()).unwrap();
    let mut all = Vec::new();
    let error = reader.read_to_end(&mut all).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().starts_with("chunk 20 "), "{error}");
    // Reading ahead does not keep the chunks before it from being read.
    assert!(all == plain[..20 * CHUNK], "{} bytes", all.len());
    // It goes on failing there, and other places go on being readable.
    assert!(
        reader.read(&mut [0; 10]).is_err()
            || reader.stream_position().unwrap() <= 20 * CHUNK as u64
    );
    reader.seek(SeekFrom::Start(30 * CHUNK as u64)).unwrap();
    let mut bytes = [0; 100];
    reader.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, plain[30 * CHUNK..][..100]);
}

#[test]
fn parts_in_any_order_make_the_one_stream() {
    let engine = engine();
    for len in [0, 5, CHUNK, 2 * CHUNK, 7 * CHUNK + 9] {
        let plain = Random(len as u64).bytes(len);
        let first = PartSealer::new(&key(), len as u64, engine.clone()).unwrap();
        let other = PartSealer::resume(&key(), first.header(), len as u64, engine.clone()).unwrap();
        let count = first.chunk_count();
        assert_eq!(count, chunk_count(len as u64));
        for part_chunks in 1..=count {
            let mut stream = vec![0xee; first.sealed_range(&(0..count)).end as usize];
            let mut starts: Vec<u64> = (0..count).step_by(part_chunks as usize).collect();
            starts.reverse();
            for (index, start) in starts.into_iter().enumerate() {
                let chunks = start..(start + part_chunks).min(count);
                let sealer = if index % 2 == 0 { &first } else { &other };
                let range = sealer.plain_range(&chunks);
                let part = sealer.seal(
                    chunks.clone(),
                    &plain[range.start as usize..range.end as usize],
                );
                let place = sealer.sealed_range(&chunks);
                stream[place.start as usize..place.end as usize].copy_from_slice(&part.unwrap());
            }
            assert!(open_bytes(&stream, &key(), &engine).unwrap() == plain);
        }
        let mut wrong = vec![0..count + 1, 0..0, count..count + 1];
        wrong.push(std::ops::Range { start: 1, end: 0 });
        for chunks in wrong {
            assert!(matches!(
                first.seal(chunks, b""),
                Err(Error::NoSuchChunks { .. })
            ));
        }
        let error = first.seal(0..count, &vec![0; len + 1]).unwrap_err();
        assert!(matches!(error, Error::PartLength { .. }));
        let stranger = key().with_context(b"other");
        let refused = PartSealer::resume(&stranger, first.header(), len as u64, engine.clone());
        assert!(matches!(refused, Err(Error::WrongKey)));
    }
    assert!(matches!(
        PartSealer::new(&key(), 1 << 52, engine),
        Err(Error::TooLong)
    ));
}

#[test]
fn memory_is_filled_in_place_and_never_beyond() {
    let plain = pattern(40 * CHUNK + 100);
    let sealed = seal_all(&plain, &key());
    for (from, to) in [
        (0, plain.len()),
        (5, plain.len() - 7),
        (CHUNK, 33 * CHUNK),
        (100, 101),
    ] {
        for room in [to - from, to - from + 50] {
            let mut memory = vec![0xaa; room];
            let range = from as u64..to as u64;
            let sink = Sink::bytes(&mut memory);
            let read = open_range(Source::bytes(&sealed), sink, &key(), range, &pipeline());
            assert_eq!(read.unwrap(), (to - from) as u64);
            assert!(memory[..to - from] == plain[from..to]);
            assert!(memory[to - from..].iter().all(|&byte| byte == 0xaa));
        }
        let mut memory = vec![0xaa; to - from - 1];
        let range = from as u64..to as u64;
        let sink = Sink::bytes(&mut memory);
        let refused = open_range(Source::bytes(&sealed), sink, &key(), range, &pipeline());
        assert!(matches!(refused, Err(Error::Write(_))), "{refused:?}");
    }
    let mut memory = vec![0; sealed.len()];
    let sink = Sink::bytes(&mut memory);
    let written = seal(Source::bytes(&plain), sink, &key(), &pipeline()).unwrap();
    assert_eq!(
        open_all(&memory[..written as usize], &key()).unwrap(),
        plain
    );
}
