//! Groups by what a GPU makes of them, without one.

use std::fs::File;

use warplock::cuda::Region;
use warplock::{Aad, Algorithm, Batch, Direction, Engine, Ivs, Key, Keys, Span, Spans, Text};

use super::group::{Group, Groups};
use super::queue::{Next, Queue};
use crate::decrypt::convert;
use crate::files::Mapped;
use crate::module::NONCE;
use crate::pages::GROUP;
use crate::vectors::{files, keys};
use crate::{Encryption, GivenKeys, Options, WriteKey, decrypt_slice, encrypt_slice};

/// Where tests have the ring and the plain file.
const RING: u64 = 1 << 20;
const PLAIN: u64 = 1 << 40;

/// What a GPU does with a group, whose bytes are there.
fn open(group: &Group, bytes: &[u8], plain: &mut [u8], transport: &Key, engine: &Engine) {
    for (from, to) in &group.copies {
        plain[*to..][..from.len].copy_from_slice(&bytes[from.offset..][..from.len]);
    }
    let base = RING + group.place.start % RING;
    for call in &group.calls {
        let key = call.key.as_ref();
        let key = key.map_or(transport, |key| key.ctr.as_ref().unwrap_or(&key.gcm));
        let count = call.texts.len();
        let column = |number: usize, base: u64| -> Vec<usize> {
            let place = &bytes[call.tables + 8 * count * number..][..8 * count];
            let numbers = place.as_chunks::<8>().0.iter();
            let inside = |bytes: &[u8; 8]| (u64::from_le_bytes(*bytes) - base) as usize;
            numbers.map(inside).collect()
        };
        let spans = |offsets: Vec<usize>, lens: &[usize]| -> Vec<Span> {
            let both = offsets.into_iter().zip(lens);
            both.map(|(offset, &len)| Span { offset, len }).collect()
        };
        let lens = column(1, 0);
        let (input, output) = (
            spans(column(0, base), &lens),
            spans(column(2, PLAIN), &lens),
        );
        let text = Text::Apart {
            input: bytes,
            input_spans: Spans::Ragged(&input),
            output: plain,
            output_spans: Spans::Ragged(&output),
        };
        let nonce_len = if call.is_ctr() { 16 } else { NONCE };
        let nonces = column(3, base).into_iter();
        let nonces: Vec<u8> = nonces
            .flat_map(|at| &bytes[at..][..nonce_len])
            .copied()
            .collect();
        let batch = Batch::new(Direction::Decrypt, Keys::One(key), text);
        let batch = batch.ivs(Ivs::Each(&nonces));
        let aad = match call.is_ctr() {
            true => Vec::new(),
            false => spans(column(4, base), &column(5, 0)),
        };
        let aad = Aad::Each {
            bytes,
            spans: Spans::Ragged(&aad),
        };
        let batch = if call.is_ctr() { batch } else { batch.aad(aad) };
        engine.run(batch).unwrap();
    }
}

/// The plain file, made of groups of about `group_len` bytes, and the number of groups.
fn by_groups(
    source: &[u8],
    file: Option<&File>,
    keys: &mut GivenKeys,
    options: &Options,
    engine: &Engine,
    group_len: usize,
) -> (Vec<u8>, usize) {
    // SAFETY: nothing is read or written there.
    let ring = unsafe { Region::new(RING, RING as usize) };
    // SAFETY: as above.
    let place = unsafe { Region::new(PLAIN, source.len()) };
    let queue = Queue::new(ring);
    let transport = Key::generate(Algorithm::Aes128Ctr).unwrap();
    let alloc = |_| panic!("no group is longer than the ring");
    let mut groups = Groups::new(place, &alloc, &queue, source, &transport, engine);
    groups.group_len = group_len;
    // Near the ring's end, so that a group begins at its start.
    groups.at = RING - 512;
    queue.free(groups.at);
    let mut mapped = Mapped {
        bytes: source,
        file,
    };
    let len = convert(&mut mapped, &mut groups, keys, options, engine).unwrap();
    groups.end();
    let (mut plain, mut count) = (vec![0xcc; len as usize], 0);
    while let Some((group, part)) = queue.claim() {
        let mut bytes = vec![0xcc; group.len()];
        let place = group.part(part);
        assert_eq!(place, 0..group.len());
        group.read(place, source, file, &mut bytes).unwrap();
        for start in (0..group.len()).step_by(7) {
            let part = start..group.len().min(start + 7);
            let mut some = vec![0xcc; part.len()];
            group.read(part.clone(), source, file, &mut some).unwrap();
            assert_eq!(some, bytes[part]);
        }
        queue.queued(&group);
        let Ok(Next::Group(group)) = queue.next(false) else {
            panic!("it was copied");
        };
        open(&group, &bytes, &mut plain, &transport, engine);
        queue.free(group.place.end);
        count += 1;
    }
    assert!(matches!(queue.next(true), Ok(Next::End)));
    (plain, count)
}

#[test]
fn groups_have_every_byte_of_the_plain_file() {
    let engine = Engine::builder().backend("cpu".parse().unwrap());
    let engine = engine.build().unwrap();
    let mut most = 0;
    for (path, options) in files() {
        let (source, mut keys) = (std::fs::read(&path).unwrap(), keys());
        let mut wanted = Vec::new();
        decrypt_slice(&source, &mut wanted, &mut keys, &options, &engine).unwrap();
        for group_len in [1, 1000, GROUP] {
            for file in [None, File::open(&path).ok()] {
                let file = file.as_ref();
                let (found, count) =
                    by_groups(&source, file, &mut keys, &options, &engine, group_len);
                assert!(found == wanted, "{}", path.display());
                most = most.max(count);
            }
        }
        let how = Encryption {
            footer: WriteKey {
                bytes: keys.footer.clone().unwrap(),
                metadata: None,
            },
            ctr: true,
            ..Encryption::default()
        };
        let (mut sealed, options) = (Vec::new(), Options::default());
        encrypt_slice(&wanted, &mut sealed, &how, &engine).unwrap();
        wanted.clear();
        decrypt_slice(&sealed, &mut wanted, &mut keys, &options, &engine).unwrap();
        let (found, _) = by_groups(&sealed, None, &mut keys, &options, &engine, 1);
        assert!(found == wanted, "{} in CTR mode", path.display());
    }
    assert!(most > 3, "{most}");
}
