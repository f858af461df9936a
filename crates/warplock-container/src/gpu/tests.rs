use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;

use super::host::{Host, region};
use super::*;
use crate::key::Suite;
use crate::layout::chunk_offset;
use crate::{open_bytes, seal_bytes};

const CHUNK: u64 = CHUNK_LEN as u64;

pub(super) fn key() -> InputKey {
    InputKey::new(Suite::Cobblestone256, &[7; 32]).unwrap()
}

fn lanes(workers: usize, chunks: usize) -> Lanes<Host> {
    let concurrency = Concurrency {
        workers: NonZeroUsize::new(workers).unwrap(),
        segment_chunks: NonZeroUsize::new(chunks).unwrap(),
    };
    Lanes::new(Host::new(), concurrency)
}

fn engine() -> warplock::Engine {
    warplock::Engine::builder()
        .backend("cpu".parse().unwrap())
        .build()
        .unwrap()
}

fn text(len: usize) -> Vec<u8> {
    let mut text = vec![0; len];
    warplock::fill_random(&mut text).unwrap();
    text
}

/// What is opened into a place full of other bytes; the place comes back with an error, too.
fn open(
    lanes: &mut Lanes<Host>,
    source: Source<'_>,
    range: impl RangeBounds<u64>,
    len: usize,
) -> (Result<u64>, Vec<u8>) {
    let mut place = vec![0xcc; len];
    let to = region(&mut place);
    // SAFETY: the place is this function's.
    let opened = unsafe { lanes.open(source, &key(), range, to, &Monitor::default()) };
    (opened, place)
}

#[test]
fn any_range_of_any_length_is_opened_into_its_place() {
    let mut lanes = lanes(2, 2);
    for len in [0, 1, 16383, 16384, 16385, 3 * CHUNK, 9 * CHUNK + 77] {
        let plain = text(len as usize);
        let sealed = seal_bytes(&plain, &key(), &engine()).unwrap();
        let (opened, found) = open(&mut lanes, Source::bytes(&sealed), .., plain.len());
        assert_eq!(opened.unwrap(), len);
        assert!(found == plain);
        let (opened, found) = open(&mut lanes, Source::sequential(&sealed[..]), .., plain.len());
        assert_eq!(opened.unwrap(), len);
        assert!(found == plain);
        for from in [0, 1, 16384, 16390, 3 * CHUNK + 5, len] {
            for to in [from, from + 1, 2 * CHUNK, 2 * CHUNK + 9, len] {
                if from > to || to > len {
                    continue;
                }
                let count = (to - from) as usize;
                let (opened, found) = open(&mut lanes, Source::bytes(&sealed), from..to, count);
                assert_eq!(opened.unwrap(), to - from);
                assert!(
                    found == plain[from as usize..to as usize],
                    "{from}..{to} of {len}"
                );
            }
        }
    }
}

#[test]
fn a_flipped_bit_is_refused_with_its_chunk_and_the_place_is_zeroed() {
    let len = 9 * CHUNK + 77;
    let plain = text(len as usize);
    let sealed = seal_bytes(&plain, &key(), &engine()).unwrap();
    let mut lanes = lanes(2, 2);
    for chunk in 0..10 {
        for sequential in [false, true] {
            let mut sealed = sealed.clone();
            sealed[chunk_offset(chunk) as usize + 40] ^= 4;
            let source = match sequential {
                true => Source::sequential(&sealed[..]),
                false => Source::bytes(&sealed),
            };
            let (opened, place) = open(&mut lanes, source, .., plain.len());
            match opened.unwrap_err() {
                Error::Chunk { chunk: found } => assert!(found == chunk && chunk < 9),
                Error::LastChunk { chunk: found } => assert!(found == chunk && chunk == 9),
                other => panic!("{other}"),
            }
            assert!(place.iter().all(|byte| *byte == 0));
        }
        // Only the chunks of a range count; at the end, the last one does.
        let mut damaged = sealed.clone();
        damaged[chunk_offset(chunk) as usize + 40] ^= 4;
        let (opened, _) = open(
            &mut lanes,
            Source::bytes(&damaged),
            CHUNK..2 * CHUNK,
            CHUNK_LEN,
        );
        assert_eq!(opened.is_err(), chunk == 1);
        let (opened, _) = open(&mut lanes, Source::bytes(&damaged), len.., 0);
        assert_eq!(opened.is_err(), chunk == 9);
    }
}

#[test]
fn cuts_additions_and_wrong_places_are_refused() {
    let plain = text(5 * CHUNK_LEN + 9);
    let sealed = seal_bytes(&plain, &key(), &engine()).unwrap();
    let mut lanes = lanes(2, 2);
    let boundary = chunk_offset(5) as usize;
    for cut in [boundary - 1, boundary, boundary + 3, boundary + 20, 60, 30] {
        for sequential in [false, true] {
            let source = match sequential {
                true => Source::sequential(&sealed[..cut]),
                false => Source::bytes(&sealed[..cut]),
            };
            let (opened, place) = open(&mut lanes, source, .., plain.len());
            let error = opened.unwrap_err();
            // A positioned input's length alone may tell, before anything is written.
            assert!(sequential || !matches!(error, Error::Chunk { .. }));
            let is_untouched = place.iter().all(|byte| *byte == 0xcc);
            assert!(is_untouched || place.iter().all(|byte| *byte == 0));
        }
    }
    let longer = [&sealed[..], b"more"].concat();
    let (opened, _) = open(&mut lanes, Source::bytes(&longer), .., plain.len() + 4);
    assert!(matches!(opened, Err(Error::LastChunk { chunk: 5 })));
    for source in [Source::bytes(&sealed), Source::sequential(&sealed[..])] {
        for len in [0, 1, plain.len() - 1, plain.len() + 1, plain.len() + 40_000] {
            let source = match &source.0 {
                Kind::Positioned { .. } => Source::bytes(&sealed),
                Kind::Sequential(_) => Source::sequential(&sealed[..]),
            };
            let (opened, _) = open(&mut lanes, source, .., len);
            assert!(
                matches!(opened, Err(Error::RegionLength { .. })),
                "{len}: {opened:?}"
            );
        }
    }
    let (opened, _) = open(
        &mut lanes,
        Source::bytes(&sealed),
        ..plain.len() as u64 + 1,
        0,
    );
    assert!(matches!(opened, Err(Error::OutOfRange { .. })));
    let (opened, _) = open(&mut lanes, Source::sequential(&sealed[..]), 1.., 0);
    assert!(matches!(opened, Err(Error::NotSeekable)));
}

#[test]
fn a_gpu_that_fails_leaves_zeros_and_its_error() {
    let plain = text(20 * CHUNK_LEN);
    let sealed = seal_bytes(&plain, &key(), &engine()).unwrap();
    for calls in 0..8 {
        let mut lanes = lanes(2, 2);
        lanes.gpu.calls_left.store(calls, Ordering::Relaxed);
        let (opened, place) = open(&mut lanes, Source::bytes(&sealed), .., plain.len());
        assert!(matches!(
            opened,
            Err(Error::Engine(warplock::Error::Backend { .. }))
        ));
        assert!(place.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn parts_are_sealed_as_one_stream() {
    for len in [0, 1, 16384, 9 * CHUNK_LEN + 77, 40 * CHUNK_LEN] {
        let mut plain = text(len);
        for (workers, positioned) in [(1, true), (3, true), (3, false)] {
            let expected = plain.clone();
            let (head, rest) = plain.split_at_mut(len / 3);
            let (middle, tail) = rest.split_at_mut(rest.len() / 2);
            let parts = [
                Part::Host(head),
                Part::Gpu(region(&mut [])),
                Part::Gpu(region(middle)),
                Part::Gpu(region(tail)),
            ];
            let mut sealed = vec![0; sealed_len(len as u64).unwrap() as usize];
            let mut lanes = lanes(workers, 2);
            let (positioned_sealed, mut sequential_sealed) = (&mut sealed[..], Vec::new());
            let sink = match positioned {
                true => Sink::bytes(positioned_sealed),
                false => Sink::sequential(&mut sequential_sealed),
            };
            // SAFETY: the parts are this function's.
            let written = unsafe { lanes.seal(&parts, sink, &key(), &Monitor::default()) };
            if !positioned {
                sealed = sequential_sealed;
            }
            assert_eq!(written.unwrap(), sealed.len() as u64);
            assert!(open_bytes(&sealed, &key(), &engine()).unwrap() == expected);
        }
    }
}

#[test]
fn a_file_on_a_ram_disk_or_a_disk_is_filled_by_all_workers() {
    let mut plain = text((40 << 20) + 5);
    let here = std::env::temp_dir();
    for folder in [std::path::Path::new("/dev/shm"), &here] {
        let Ok(folder) = tempfile::tempdir_in(folder) else {
            continue;
        };
        let path = folder.path().join("sealed");
        let output = crate::OutputFile::create(&path, false, crate::Access::Usual).unwrap();
        let mut sink = output.sink().unwrap();
        std::io::Write::write_all(&mut sink, b"before").unwrap();
        let parts = [Part::Gpu(region(&mut plain))];
        // SAFETY: the parts are this function's.
        let written = unsafe { lanes(3, 100).seal(&parts, sink, &key(), &Monitor::default()) };
        output.publish().unwrap();
        let sealed = std::fs::read(path).unwrap();
        assert_eq!(written.unwrap() + 6, sealed.len() as u64);
        assert!(open_bytes(&sealed[6..], &key(), &engine()).unwrap() == plain);
    }
}

#[test]
fn saving_stops_with_the_error_of_the_gpu_or_of_the_sink() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut plain = text(40 * CHUNK_LEN);
    let parts = [Part::Gpu(region(&mut plain))];
    for calls in 0..8 {
        let mut lanes = lanes(3, 2);
        lanes.gpu.calls_left.store(calls, Ordering::Relaxed);
        let sink = Sink::sequential(std::io::sink());
        // SAFETY: the parts are this function's.
        let sealed = unsafe { lanes.seal(&parts, sink, &key(), &Monitor::default()) };
        assert!(matches!(sealed, Err(Error::Engine(_))));
    }
    for room in [0, 60, 100_000] {
        let sink = Sink::sequential(Full(room));
        // SAFETY: as above.
        let sealed = unsafe { lanes(3, 2).seal(&parts, sink, &key(), &Monitor::default()) };
        assert!(matches!(sealed, Err(Error::Write(_))));
    }
    let monitor = Monitor::default();
    monitor.cancel();
    let sink = Sink::sequential(std::io::sink());
    // SAFETY: as above.
    let sealed = unsafe { lanes(3, 2).seal(&parts, sink, &key(), &monitor) };
    assert!(matches!(sealed, Err(Error::Cancelled)));
}
