//! Jobs in page-locked memory, which the device reads and writes by itself: what lies together goes
//! as one copy, and so do rows at even distances.

use warplock::cuda::Device;
use warplock::{
    Algorithm, Batch, Direction, Engine, Ivs, Key, Keys, Mode, Span, Spans, Tags, Text,
};

use crate::random::Random;
use crate::sample::{Sample, fitting};
use crate::{cpu, gpu};

/// Shapes of batches: messages, their length, and from one to the next.
const SHAPES: [(usize, usize, usize); 6] = [
    (1, 5 << 20, 5 << 20),
    (40, 100_003, 100_016),
    // Rows, and at their end a message that is none.
    (3000, 4096, 4160),
    (700, 5008, 8192),
    // Chains that are cut into parts, of which each is a row; messages too short for rows.
    (1500, 16 << 10, 16 << 10),
    (6000, 1008, 1040),
];

#[test]
fn even_and_uneven_places() {
    let (Some(gpu), cpu) = (gpu(), cpu()) else {
        return;
    };
    let device = Device::open(0).unwrap();
    let random = &mut Random::new(5);
    for algorithm in Algorithm::all() {
        for (shape, (count, len, stride)) in SHAPES.into_iter().enumerate() {
            let len = fitting(algorithm, len);
            let span = |number| Span {
                offset: 16 + stride * number,
                len,
            };
            let mut spans: Vec<Span> = (0..count).map(span).collect();
            if shape % 2 == 0 {
                spans[count - 1].len = fitting(algorithm, len - 17);
            }
            let size = 16 + stride * count;
            let sample = Sample::new(random, algorithm, spans, 1 + shape % 2);
            let mut input = device.pinned(size).unwrap();
            let mut output = device.pinned(size).unwrap();
            input.copy_from_slice(&random.bytes(size));
            let mut sealed = sample.tags();
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let context = format!("{algorithm}, {direction:?}, shape {shape}");
                // What lies between messages stays as it is.
                let poison = vec![0x5A; size];
                let expected = sample.run(
                    &cpu,
                    direction,
                    Some(&input),
                    poison.clone(),
                    sealed.clone(),
                );
                let mut tags = sealed.clone();
                output.copy_from_slice(&poison);
                let refused = sample.run_in(&gpu, direction, Some(&input), &mut output, &mut tags);
                assert!(
                    refused.is_empty() && expected.refused.is_empty(),
                    "{context}"
                );
                assert!(tags == expected.tags, "{context}: the tags differ");
                assert!(output[..] == expected.text, "{context}: the texts differ");
                // In place, too.
                let mut both = input.to_vec();
                let mut again = sealed.clone();
                sample.run_in(&cpu, direction, None, &mut both, &mut again);
                let mut again = sealed.clone();
                output.copy_from_slice(&input);
                sample.run_in(&gpu, direction, None, &mut output, &mut again);
                assert!(
                    output[..] == both && again == expected.tags,
                    "{context}, in place"
                );
                input.copy_from_slice(&both);
                sealed = tags;
            }
        }
    }
}

/// Runs messages under one key, in place, and gives those that were refused.
fn run_even(
    engine: &Engine,
    direction: Direction,
    key: &Key,
    text: (&mut [u8], Spans<'_>, &[u8]),
    tags: &mut [u8],
) -> Vec<usize> {
    let (buffer, spans, ivs) = text;
    let info = key.algorithm().info();
    let batch = Batch::new(direction, Keys::One(key), Text::InPlace { buffer, spans });
    let batch = match info.mode {
        Mode::Ecb => batch,
        Mode::Xts => batch.ivs(Ivs::Sectors { first: 7 }),
        _ => batch.ivs(Ivs::Each(ivs)),
    };
    let batch = match info.mode {
        Mode::Gcm => batch.tags(Tags::Apart(tags)),
        _ => batch,
    };
    match engine.run(batch) {
        Ok(()) => Vec::new(),
        Err(warplock::Error::Authentication { failed, .. }) => failed,
        Err(error) => panic!("{error}"),
    }
}

/// The end of large jobs is the processor's.
#[test]
fn the_processor_takes_part() {
    let (Some(gpu), cpu) = (gpu(), cpu()) else {
        return;
    };
    let device = Device::open(0).unwrap();
    let random = &mut Random::new(6);
    let bytes_by = |engine: &Engine| engine.shares()[0].bytes;
    for algorithm in [
        Algorithm::Aes128Ctr,
        Algorithm::Aes256Gcm,
        Algorithm::Aes128Cbc,
        Algorithm::Aes256Xts,
        Algorithm::Aes192Ecb,
    ] {
        for (count, len) in [(1, 40 << 20), (5000, 8 << 10)] {
            let key = Key::generate(algorithm).unwrap();
            let spans = Spans::Even {
                count,
                len,
                stride: len,
            };
            let iv_len = if algorithm.info().mode == Mode::Gcm {
                12
            } else {
                16
            };
            let ivs = random.bytes(iv_len * count);
            let mut expected = random.bytes(count * len);
            let mut text = device.pinned(count * len).unwrap();
            let (mut tags, mut expected_tags) = (vec![0; 16 * count], vec![0; 16 * count]);
            let context = format!("{algorithm}, {count} of {len}");
            text.copy_from_slice(&expected);
            let sealing = Direction::Encrypt;
            run_even(
                &cpu,
                sealing,
                &key,
                (&mut expected, spans, &ivs),
                &mut expected_tags,
            );
            run_even(&gpu, sealing, &key, (&mut text, spans, &ivs), &mut tags);
            assert!(text[..] == expected && tags == expected_tags, "{context}");
            // The last messages are the processor's: one of them is forged.
            let forged = (algorithm.info().mode == Mode::Gcm).then_some(count - 1);
            if let Some(forged) = forged {
                tags[16 * forged] ^= 1;
                expected_tags[16 * forged] ^= 1;
            }
            let before = bytes_by(&gpu);
            let opening = Direction::Decrypt;
            let wanted = run_even(
                &cpu,
                opening,
                &key,
                (&mut expected, spans, &ivs),
                &mut expected_tags,
            );
            let refused = run_even(&gpu, opening, &key, (&mut text, spans, &ivs), &mut tags);
            assert!(text[..] == expected, "{context}: opened");
            assert_eq!(
                (&refused, &wanted),
                (&Vec::from_iter(forged), &refused),
                "{context}"
            );
            let done = (bytes_by(&gpu) - before) as usize;
            assert!(
                done > 0 && done < count * len,
                "{context}: {done} bytes on the GPU"
            );
        }
    }
}
