//! Files on a RAM disk, which are filled in place.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;

use crate::common::*;
use warplock_container::{Sink, Source, open, open_range, seal, sealed_len};

/// The page that such a file is made of.
const HUGE: usize = 2 << 20;

/// A file without a name, with something in front of the place where it stands.
fn unnamed(front: &[u8]) -> Option<File> {
    let Ok(mut file) = tempfile::tempfile_in("/dev/shm") else {
        eprintln!("skipped: there is no /dev/shm to write to");
        return None;
    };
    file.write_all(front).unwrap();
    Some(file)
}

fn content(file: &File) -> Vec<u8> {
    let mut content = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut content, 0).unwrap();
    content
}

/// Filled in place.
fn in_place(file: &File) -> Sink<'_> {
    // SAFETY: the tests make their files, and never shorter.
    unsafe { Sink::exclusive_file(file) }.unwrap()
}

#[test]
fn every_length_comes_back() {
    let chunks = 8 * HUGE / SEALED;
    let lengths = [
        // The longest that is not mapped and the shortest that is, sealed and opened.
        chunks * CHUNK,
        chunks * CHUNK + CHUNK,
        8 * HUGE - 1,
        8 * HUGE,
        // Ends in a huge page's middle, at its end, and with chunks that are whole, cut, empty.
        10 * HUGE - 1,
        10 * HUGE + CHUNK + 1,
        11 * SEGMENT * 40 + 17,
    ];
    let plain = pattern(lengths.iter().copied().max().unwrap());
    for (workers, len) in (1..=3).cycle().zip(lengths) {
        let plain = &plain[..len];
        let front = pattern(workers * 100);
        let Some(sealed) = unnamed(&front) else {
            return;
        };
        let written = seal(
            Source::bytes(plain),
            in_place(&sealed),
            &key(),
            &pipeline_of(workers),
        );
        assert_eq!(written.unwrap(), sealed_len(len as u64).unwrap());
        let bytes = content(&sealed);
        assert!(bytes.starts_with(&front));
        assert!(
            open_all(&bytes[front.len()..], &key()).unwrap() == plain,
            "{len}"
        );

        let Some(opened) = unnamed(&front) else {
            return;
        };
        (&sealed)
            .seek(std::io::SeekFrom::Start(front.len() as u64))
            .unwrap();
        open(
            Source::file(&sealed).unwrap(),
            in_place(&opened),
            &key(),
            &pipeline_of(workers),
        )
        .unwrap();
        assert!(content(&opened) == [&front, plain].concat(), "{len}");
    }
}

#[test]
fn ranges_begin_anywhere() {
    let plain = pattern(12 * HUGE);
    let sealed = seal_all(&plain, &key());
    for range in [
        0..9 * HUGE,
        1..9 * HUGE,
        CHUNK..12 * HUGE,
        CHUNK + 5..11 * HUGE + 3,
    ] {
        let Some(opened) = unnamed(b"front") else {
            return;
        };
        let span = range.start as u64..range.end as u64;
        let (source, sink) = (Source::bytes(&sealed), in_place(&opened));
        open_range(source, sink, &key(), span, &pipeline()).unwrap();
        assert!(
            content(&opened) == [b"front", &plain[range.clone()]].concat(),
            "{range:?}"
        );
    }
}

#[test]
fn damage_is_found_there_too() {
    let plain = pattern(10 * HUGE);
    let mut sealed = seal_all(&plain, &key());
    let middle = sealed.len() / 2;
    sealed[middle] ^= 1;
    let Some(opened) = unnamed(b"") else { return };
    let (source, sink) = (Source::bytes(&sealed), in_place(&opened));
    let error = open(source, sink, &key(), &pipeline()).unwrap_err();
    let expected = open_all(&sealed, &key()).unwrap_err();
    assert_eq!(error.to_string(), expected.to_string());
}
