//! ACORN at any byte, on a GPU: texts and results at each of 16 places in a line, in warps whose
//! messages lie alike and in warps where each lies otherwise.

use super::super::{
    Device, DeviceAad, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceKey, DeviceTags, DeviceText,
    DeviceVerdicts, Plan, Region,
};
use super::on_gpu::{cpu, device, random, read, uploaded};
use crate::{Aad, Algorithm, Batch, Direction, Error, Ivs, Key, Keys, Span, Spans, Tags, Text};

/// A message: its length, and how far into a line its text and its result begin.
type Shape = (usize, usize, usize);

/// Bytes on the device, `by` further than a line begins.
struct Odd {
    buffer: DeviceBuffer,
    by: usize,
}

impl Odd {
    fn new(device: &Device, by: usize, bytes: &[u8]) -> Self {
        let padded = [&vec![0; by], bytes].concat();
        Odd {
            buffer: uploaded(device, &padded),
            by,
        }
    }

    fn region(&self) -> Region {
        self.buffer
            .region()
            .part(self.by, self.buffer.len() - self.by)
    }

    fn read(&self) -> Vec<u8> {
        read(&self.buffer).split_off(self.by)
    }
}

/// Places for messages, some of them with bytes of two in one line.
fn places(lens: impl Iterator<Item = (usize, usize)>) -> (Vec<Span>, usize) {
    let mut end: usize = 0;
    let spans = lens
        .map(|(len, shift)| {
            let line = match (end % 16, shift) {
                (used @ 1.., shift) if used <= shift => end - used,
                _ => end.next_multiple_of(16),
            };
            let offset = line + shift;
            end = offset + len;
            Span { offset, len }
        })
        .collect();
    (spans, end + 7)
}

/// Seals and opens on the CPU and on the GPU, there with a plan and with a call; every third tag is
/// forged. In place if all shapes allow it.
fn check(device: &Device, shapes: &[Shape]) {
    let in_place = shapes.iter().all(|(_, from, to)| from == to);
    let count = shapes.len();
    let key = Key::generate(Algorithm::Acorn128).unwrap();
    let on_gpu = DeviceKey::new(device, &key).unwrap();
    let (from, from_size) = places(shapes.iter().map(|&(len, from, _)| (len, from)));
    let (to, to_size) = places(shapes.iter().map(|&(len, _, to)| (len, to)));
    let (aad_spans, aad_size) = places((0..count).map(|i| (i * 7 % 45, i % 16)));
    let (ivs, aad) = (random(16 * count), random(aad_size));
    let mut given = random(from_size);
    let mut tags = vec![0; 16 * count];
    let there = [(3, &ivs), (9, &aad)].map(|(by, bytes)| Odd::new(device, by, bytes));
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let seals = direction == Direction::Encrypt;
        let mut wanted = if in_place {
            given.clone()
        } else {
            vec![0xA5; to_size]
        };
        let mut wanted_tags = tags.clone();
        let text = match in_place {
            true => Text::InPlace {
                buffer: &mut wanted,
                spans: Spans::Ragged(&to),
            },
            false => Text::Apart {
                input: &given,
                input_spans: Spans::Ragged(&from),
                output: &mut wanted,
                output_spans: Spans::Ragged(&to),
            },
        };
        let batch = Batch::new(direction, Keys::One(&key), text)
            .ivs(Ivs::Each(&ivs))
            .aad(Aad::Each {
                bytes: &aad,
                spans: Spans::Ragged(&aad_spans),
            })
            .tags(Tags::Apart(&mut wanted_tags));
        let refused = match cpu().run(batch) {
            Ok(()) => Vec::new(),
            Err(Error::Authentication { failed, .. }) => failed,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(refused.len(), if seals { 0 } else { count.div_ceil(3) });

        for called in [false, true] {
            let input = uploaded(device, &given);
            let output = uploaded(device, &vec![0xA5; to_size]);
            let made = Odd::new(device, 5, &tags);
            let text = match in_place {
                true => DeviceText::InPlace {
                    buffer: input.region(),
                    spans: Spans::Ragged(&to),
                },
                false => DeviceText::Apart {
                    input: input.region(),
                    input_spans: Spans::Ragged(&from),
                    output: output.region(),
                    output_spans: Spans::Ragged(&to),
                },
            };
            let batch = DeviceBatch::new(direction, &on_gpu, text)
                .ivs(DeviceIvs::Each(there[0].region()))
                .aad(DeviceAad::Each {
                    bytes: there[1].region(),
                    spans: Spans::Ragged(&aad_spans),
                })
                .tags(DeviceTags::Apart(made.region()));
            let found_refused = launch(device, &on_gpu, batch, (count, called));
            let what = format!("{direction:?}, called: {called}, in place: {in_place}");
            assert_eq!(found_refused, refused, "{what}");
            let found = read(if in_place { &input } else { &output });
            let wrong = found.iter().zip(&wanted).position(|(a, b)| a != b);
            let message = wrong.map(|at| to.iter().position(|span| at < span.offset + span.len));
            assert_eq!(wrong, None, "{what}, message {message:?} of {count}");
            assert!(made.read() == wanted_tags, "{what}: tags");
        }
        // Only when texts and results lie alike can the results be opened where they are.
        if seals {
            tags = wanted_tags;
            tags.chunks_mut(48).for_each(|three| three[0] ^= 1);
            for (from, to) in from.iter().zip(&to) {
                given[from.offset..][..from.len].copy_from_slice(&wanted[to.offset..][..to.len]);
            }
        }
    }
}

fn launch(
    device: &Device,
    key: &DeviceKey,
    batch: DeviceBatch<'_>,
    (count, called): (usize, bool),
) -> Vec<usize> {
    let stream = device.stream().unwrap();
    if !called {
        let plan = Plan::new(device, batch).unwrap();
        assert!(plan.kernels().all(|name| name.contains("any_byte")));
        // SAFETY: everything lives until `failed` has waited.
        unsafe { plan.launch(&stream) }.unwrap();
        return plan.failed(&stream).unwrap();
    }
    let workspace = device.alloc(key.workspace_len(&batch).unwrap()).unwrap();
    let each = uploaded(device, &vec![0; 4 * count]);
    let verdicts = DeviceVerdicts {
        each: Some(each.region()),
        refused: None,
    };
    // SAFETY: everything lives until the stream is synchronized.
    unsafe { key.enqueue(batch, verdicts, workspace.region(), &stream) }.unwrap();
    stream.synchronize().unwrap();
    let words = read(&each);
    let wrong = |number: &usize| words[4 * number..][..4] != [0; 4];
    (0..count).filter(wrong).collect()
}

#[test]
fn acorn_at_any_byte_agrees_with_the_cpu() {
    let Some((device, _alone)) = device() else {
        return;
    };
    // Warps whose 32 messages lie alike, in place and apart: longer ones come first.
    let alike = |shifts: &dyn Fn(usize) -> (usize, usize), groups: usize| -> Vec<Shape> {
        let shape = |number: usize| {
            let (from, to) = shifts(number / 32);
            (900 - 3 * (number / 32), from, to)
        };
        (0..32 * groups).map(shape).collect()
    };
    check(&device, &alike(&|group| (group, group), 16));
    check(&device, &alike(&|group| (group % 16, group / 16), 256));
    // Each message otherwise, of all lengths around lines and tiles; empty ones, too.
    let mixed = |lens: &dyn Fn(usize) -> usize, moved: usize| -> Vec<Shape> {
        let shape = |number: usize| {
            let from = number * 7 / 3 % 16;
            (lens(number), from, (from + moved * (number / 5)) % 16)
        };
        (0..1500).map(shape).collect()
    };
    for moved in [0, 1, 3] {
        check(&device, &mixed(&|number| number % 300, moved));
        check(&device, &mixed(&|number| number * number % 3001, moved));
        check(&device, &mixed(&|number| 2000 + number % 32, moved));
    }
    check(&device, &[(1, 15, 15), (0, 3, 3)]);
    check(&device, &[((1 << 20) + 3, 5, 14)]);
}
