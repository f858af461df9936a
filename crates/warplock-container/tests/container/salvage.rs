//! What verifies of damaged streams, and outputs with holes.

use std::io;
use std::os::unix::fs::MetadataExt;

use crate::common::*;
use warplock_container::{Error, ReadAt, Salvaged, Sink, Source, SparseFile, open, salvage};

fn sealed_pattern(len: usize) -> (Vec<u8>, Vec<u8>) {
    let plain = pattern(len);
    (seal_all(&plain, &key()), plain)
}

const LEN: usize = 5 * CHUNK + 100;

/// The holes as starts and ends.
fn holes(found: &Salvaged) -> Vec<(u64, u64)> {
    let holes = found.holes.iter();
    holes.map(|hole| (hole.start, hole.end)).collect()
}

/// Salvages, and checks that what is given out is right.
fn salvaged(sealed: &[u8], plain: &[u8]) -> Salvaged {
    let mut verified = 0;
    let found = salvage(Source::bytes(sealed), &key(), &pipeline(), |at, bytes| {
        let at = at as usize;
        assert!(plain[at..at + bytes.len()] == *bytes, "at {at}");
        verified += bytes.len() as u64;
        Ok(())
    })
    .unwrap();
    assert_eq!(found.verified, verified);
    found
}

#[test]
fn all_that_verifies_is_given_out_and_the_rest_is_named() {
    let (sealed, plain) = sealed_pattern(LEN);
    let whole = salvaged(&sealed, &plain);
    assert!(whole.has_end && whole.fault.is_none() && whole.holes.is_empty());
    assert_eq!(whole.len, LEN as u64);

    let damaged = |chunks: &[usize]| {
        let mut sealed = sealed.clone();
        for chunk in chunks {
            sealed[56 + chunk * SEALED + 9] ^= 1;
        }
        salvaged(&sealed, &plain)
    };
    let chunk = CHUNK as u64;
    for (chunks, lost, len, has_end) in [
        (&[0][..], vec![(0, chunk)], LEN as u64, true),
        (
            &[1, 2, 4],
            vec![(chunk, 3 * chunk), (4 * chunk, 5 * chunk)],
            LEN as u64,
            true,
        ),
        (&[5], vec![(5 * chunk, LEN as u64)], 5 * chunk, false),
        (&[3, 4, 5], vec![(3 * chunk, LEN as u64)], 3 * chunk, false),
        (&[0, 1, 2, 3, 4, 5], vec![(0, LEN as u64)], 0, false),
    ] {
        let found = damaged(chunks);
        assert_eq!(holes(&found), lost, "{chunks:?}");
        assert_eq!((found.len, found.has_end), (len, has_end), "{chunks:?}");
        assert_eq!(found.fault.unwrap().chunk(), Some(chunks[0] as u64));
    }
}

#[test]
fn streams_that_were_cut_or_extended_give_what_is_there() {
    let (sealed, plain) = sealed_pattern(LEN);
    for (cut, len, lost) in [
        (56, 0, vec![]),
        (56 + 2 * SEALED, 2 * CHUNK as u64, vec![]),
        (56 + 2 * SEALED + 15, 2 * CHUNK as u64, vec![]),
        (
            56 + 2 * SEALED + 116,
            2 * CHUNK as u64,
            vec![(32768, 32868)],
        ),
    ] {
        let found = salvaged(&sealed[..cut], &plain);
        assert_eq!((found.len, holes(&found)), (len, lost), "{cut}");
        assert!(!found.has_end && found.fault.is_some(), "{cut}");
    }
    // A fault before the end, and data after it.
    let mut both = [&sealed[..], &[0; 2 * SEALED]].concat();
    both[56] ^= 1;
    let found = salvaged(&both, &plain);
    assert_eq!(
        (found.len, holes(&found)),
        (LEN as u64, vec![(0, CHUNK as u64)])
    );
    assert!(matches!(found.fault, Some(Error::Chunk { chunk: 0 })));
    for more in [1, 3 * SEALED + 77] {
        let found = salvaged(&[&sealed[..], &vec![0; more]].concat(), &plain);
        assert!(matches!(found.fault, Some(Error::TrailingData { .. })));
        assert_eq!((found.len, holes(&found)), (LEN as u64, vec![]));
        assert!(found.has_end);
    }
    let empty = salvage(Source::bytes(&sealed[..40]), &key(), &pipeline(), |_, _| {
        Ok(())
    });
    assert!(matches!(empty, Err(Error::HeaderCut { found: 40 })));
    let pipe = Source::sequential(&sealed[..]);
    let pipe = salvage(pipe, &key(), &pipeline(), |_, _| Ok(()));
    assert!(matches!(pipe, Err(Error::NotSeekable)));
}

/// A disk that has bad sectors.
#[test]
fn what_cannot_be_read_is_lost_and_the_rest_is_not() {
    struct BadSector<'a>(&'a [u8]);

    impl ReadAt for BadSector<'_> {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let bad = 56 + 2 * SEALED as u64 + 4096;
            if (offset..offset + buffer.len() as u64).contains(&bad) {
                return Err(io::Error::from_raw_os_error(5));
            }
            ReadAt::read_at(&self.0, buffer, offset)
        }
    }

    let (sealed, plain) = sealed_pattern(LEN);
    let source = Source::positioned(BadSector(&sealed), 0..sealed.len() as u64);
    let mut output = vec![0; LEN];
    let found = salvage(source, &key(), &pipeline(), |at, bytes| {
        output[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    let (start, end) = (2 * CHUNK, 3 * CHUNK);
    assert_eq!(holes(&found), [(start as u64, end as u64)]);
    assert!(found.has_end && matches!(found.fault, Some(Error::Read(_))));
    let mut expected = plain;
    expected[start..end].fill(0);
    assert!(output == expected);
}

/// What comes before a fault is given out front to back, whole segments or not.
#[test]
fn a_pipe_gets_all_chunks_before_a_fault() {
    let (sealed, plain) = sealed_pattern(7 * CHUNK + 100);
    let given_out = |sealed: &[u8]| {
        let (mut positioned, mut sequential) = (Vec::new(), Vec::new());
        let sources = [
            (Source::bytes(sealed), &mut positioned),
            (Source::sequential(sealed), &mut sequential),
        ];
        for (source, output) in sources {
            open(source, Sink::sequential(output), &key(), &pipeline()).unwrap_err();
        }
        assert!(positioned == sequential);
        assert!(plain.starts_with(&positioned));
        positioned.len()
    };
    for chunk in 0..8 {
        let mut altered = sealed.clone();
        altered[56 + chunk * SEALED] ^= 1;
        assert_eq!(given_out(&altered), chunk * CHUNK);
    }
    for cut in [2 * SEALED, 4 * SEALED + 15, 4 * SEALED + 116] {
        assert_eq!(given_out(&sealed[..56 + cut]), cut / SEALED * CHUNK);
    }
    // A device is longer than what was written to it.
    for more in [1, SEALED - 116, SEALED, 20 * SEALED] {
        let padded = [&sealed[..], &vec![0; more]].concat();
        assert_eq!(given_out(&padded), plain.len(), "{more}");
    }
    // Anything else may be meant to look like a part of it.
    let extended = [&sealed[..], &[0, 1]].concat();
    assert_eq!(given_out(&extended), 7 * CHUNK);
}

#[test]
fn zeros_are_holes_of_a_sparse_file() {
    let mut plain = vec![0; 40 * CHUNK + 5];
    for at in [0, 4095, 3 * CHUNK + 4096, 39 * CHUNK] {
        plain[at] = 1;
    }
    let sealed = seal_all(&plain, &key());
    let folder = tempfile::tempdir().unwrap();
    let blocks = |sparse: bool| {
        let path = folder.path().join(format!("{sparse}"));
        let file = std::fs::File::create(&path).unwrap();
        let sink = match sparse {
            true => Sink::positioned(SparseFile(&file), 0),
            false => Sink::file(&file).unwrap(),
        };
        let len = open(Source::bytes(&sealed), sink, &key(), &pipeline()).unwrap();
        file.set_len(len).unwrap();
        assert!(std::fs::read(&path).unwrap() == plain);
        file.sync_all().unwrap();
        file.metadata().unwrap().blocks()
    };
    let (full, sparse) = (blocks(false), blocks(true));
    assert!(sparse <= full.min(8 * 8), "{sparse} of {full} blocks");
}
