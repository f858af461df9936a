//! Jobs in pinned memory, which the device reads and writes by itself: what lies together goes
//! as one copy, and so do rows at even distances.

use warplock::cuda::Device;
use warplock::{Algorithm, Direction, Span};

use crate::random::Random;
use crate::sample::{Sample, fitting};
use crate::{cpu, gpu};

/// Shapes of batches: messages, their length, and from one to the next.
const SHAPES: [(usize, usize, usize); 6] = [
    (1, 5 << 20, 5 << 20),
    (40, 100_003, 100_016),
    // Rows, and at their end a sentinel message.
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
