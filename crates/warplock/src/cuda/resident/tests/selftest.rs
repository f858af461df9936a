//! The known-answer tests of plans: they cover every kernel that plans take.

use std::collections::BTreeSet;

use super::super::check::Checked;
use super::super::plan::{before, steps};
use super::super::selftest::{cases, run};
use super::super::sheet::{PlanSheet, one_key};
use super::super::split::may_split;
use super::super::{DeviceAad, DeviceBatch, DeviceIvs, DeviceTags, DeviceText};
use super::on_gpu::device;
use super::{HASHERS, even, region};
use crate::cuda::launch::policy::{FEW_CHAINS, Policy};
use crate::cuda::launch::selftest::{Case, Shape, side_by_side};
use crate::cuda::launch::steps::Launcher;
use crate::{Algorithm, Direction, Key, Keys, Mode, Span, Spans};

/// A batch of messages of one length, at made-up places: the first text lies `by` bytes after a
/// multiple of 16.
fn batch<'a>(
    keys: Keys<'a>,
    direction: Direction,
    (count, len, by): (usize, usize, u64),
    aad: bool,
) -> DeviceBatch<'a> {
    let info = keys.algorithm().unwrap().info();
    let iv = if info.mode == Mode::Gcm { 12 } else { 16 };
    let text = DeviceText::Apart {
        input: region(0x10_0000_0000 + by, count * len),
        input_spans: even(count, len),
        output: region(0x20_0000_0000 + by, count * len),
        output_spans: even(count, len),
    };
    let mut batch = DeviceBatch::new(direction, keys, text);
    if info.mode != Mode::Ecb {
        batch = batch.ivs(DeviceIvs::Each(region(0x9000_0000, iv * count)));
    }
    if info.algorithm.is_aead() {
        batch = batch.tags(DeviceTags::Apart(region(0xA000_0000, 16 * count)));
    }
    if aad && info.algorithm.is_aead() {
        batch = batch.aad(DeviceAad::Shared(region(0xB000_0000, 20)));
    }
    batch
}

#[test]
fn every_kernel_of_a_plan_is_tested() {
    let mut seen = BTreeSet::new();
    let texts = [
        (3, 16, 0),
        (3, 4096, 0),
        (3, 40_000, 0),
        (1, 48 << 20, 0),
        (20, 16 << 20, 0),
        (1000, 300 << 10, 0),
        (2000, 300 << 10, 3),
        (20_000, 16 << 10, 0),
        (40_000, 16 << 10, 3),
        (FEW_CHAINS as usize + 1, 16, 0),
    ];
    for algorithm in Algorithm::all() {
        let raw = |number: u8| vec![number; algorithm.key_len()];
        let pair: Vec<Key> = (1..3)
            .map(|number| {
                let mut raw = raw(number);
                raw[0] = 99;
                Key::new(algorithm, &raw).unwrap()
            })
            .collect();
        for (count, len, by) in texts {
            let index: Vec<u32> = (0..count as u32).map(|message| message % 2).collect();
            let bytes: Vec<u8> = (0..count * algorithm.key_len())
                .map(|at| at as u8)
                .collect();
            let kinds = [
                Keys::One(&pair[0]),
                Keys::Indexed {
                    keys: &pair,
                    index: &index,
                },
                Keys::Each {
                    algorithm,
                    bytes: &bytes,
                },
            ];
            for (keys, aad, direction) in kinds.into_iter().flat_map(|keys| {
                let ways = [Direction::Encrypt, Direction::Decrypt];
                [false, true]
                    .into_iter()
                    .flat_map(move |aad| ways.map(|way| (keys, aad, way)))
            }) {
                let batch = Checked::new(batch(keys, direction, (count, len, by), aad)).unwrap();
                let hashers = may_split(&batch, &Policy::DEFAULT).then_some(HASHERS);
                let layout = PlanSheet::new(&batch, &Policy::DEFAULT, 132, hashers);
                let located = layout.located(&batch, 0x70_0000);
                let launcher = Launcher::of(batch.info, batch.direction, batch.tag_len);
                let key = one_key(&batch);
                let mut names = before(&batch, &layout, &launcher, &located, key.as_ref());
                names.extend(steps(&batch, &layout, &launcher, &located, key.as_ref()));
                let tested: BTreeSet<String> = cases(&batch, &layout)
                    .into_iter()
                    .flat_map(Case::kernels)
                    .collect();
                for step in names {
                    assert!(tested.contains(&step.name), "{algorithm}: {}", step.name);
                    seen.insert(step.name);
                }
            }
        }
    }
    for name in [
        "ctr_long_128",
        "gcm_split_decrypt_256",
        "gcm_split_any_byte_encrypt_128",
        "gcm_long_encrypt_192",
        "ecb_each_128",
    ] {
        assert!(seen.contains(name), "{name} was not asked for");
    }
}

/// Messages at these places, from one made-up buffer to another.
fn ragged(spans: &[Span], size: usize) -> DeviceText<'_> {
    DeviceText::Apart {
        input: region(0x10_0000_0000, size),
        input_spans: Spans::Ragged(spans),
        output: region(0x20_0000_0000, size),
        output_spans: Spans::Ragged(spans),
    }
}

#[test]
fn empty_messages_need_no_chain() {
    let count = FEW_CHAINS as usize + 1;
    let lens = (0..count).map(|number| if number == 5 { 0 } else { 16 });
    let (spans, size) = side_by_side(lens, 1);
    let key = Key::new(Algorithm::Aes128Cbc, &[1; 16]).unwrap();
    let batch = DeviceBatch::encrypt(&key, ragged(&spans, size))
        .ivs(DeviceIvs::Each(region(0x9000_0000, 16 * count)));
    let batch = Checked::new(batch).unwrap();
    let layout = PlanSheet::new(&batch, &Policy::DEFAULT, 132, None);
    let shapes: Vec<Shape> = (cases(&batch, &layout).iter())
        .map(|case| case.shape)
        .collect();
    assert_eq!(shapes, [Shape::One]);
}

#[test]
fn each_split_case_takes_the_kernels_it_names() {
    for shape in Shape::SPLIT {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let case = Case {
                algorithm: Algorithm::Aes192Gcm,
                direction,
                shape,
            };
            let key = Key::new(case.algorithm, &[1; 24]).unwrap();
            let to = if shape.is_at_any_byte() { 1 } else { 16 };
            let (spans, size) = side_by_side(case.lens().into_iter(), to);
            let mut batch = DeviceBatch::new(direction, &key, ragged(&spans, size))
                .ivs(DeviceIvs::Each(region(0x9000_0000, 12 * spans.len())))
                .tags(DeviceTags::Apart(region(0xA000_0000, 16 * spans.len())));
            if matches!(shape, Shape::Split { .. }) {
                batch = batch.aad(DeviceAad::Shared(region(0xB000_0000, 20)));
            }
            let batch = Checked::new(batch).unwrap();
            let layout = PlanSheet::new(&batch, &Policy::DEFAULT, 132, Some(HASHERS));
            let located = layout.located(&batch, 0x70_0000);
            let units = located.split.unwrap().work.each;
            assert_eq!(units == 1, matches!(shape, Shape::SplitUnits { .. }));
            let launcher = Launcher::of(batch.info, direction, batch.tag_len);
            let key = one_key(&batch);
            let mut taken = before(&batch, &layout, &launcher, &located, key.as_ref());
            taken.extend(steps(&batch, &layout, &launcher, &located, key.as_ref()));
            let taken: BTreeSet<String> = taken.into_iter().map(|step| step.name).collect();
            assert_eq!(taken, case.kernels().into_iter().collect(), "{case:?}");
        }
    }
}

#[test]
fn all_cases_pass_on_a_gpu() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let splits = device.call(|device| device.hashers()).unwrap().is_some();
    for algorithm in Algorithm::all() {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let encrypts = direction == Direction::Encrypt;
            let mode = algorithm.info().mode;
            let shapes: &[Shape] = match mode {
                Mode::Ecb if encrypts => &[Shape::One, Shape::Table, Shape::Blocks],
                Mode::Ecb | Mode::Xts => &[Shape::One, Shape::Table],
                Mode::Cbc if encrypts => &[Shape::One, Shape::Table, Shape::Many, Shape::ManyTable],
                Mode::Cbc => &[Shape::One, Shape::Table],
                Mode::Ctr => &[Shape::One, Shape::Table, Shape::Long],
                Mode::Gcm => &[
                    Shape::One,
                    Shape::Long,
                    Shape::Plain,
                    Shape::Table,
                    Shape::Small,
                ],
                Mode::Acorn => &[Shape::One, Shape::AnyByte],
            };
            let split = Shape::SPLIT.iter().filter(|_| mode == Mode::Gcm && splits);
            for &shape in shapes.iter().chain(split) {
                let case = Case {
                    algorithm,
                    direction,
                    shape,
                };
                let passes = case.passes(|job| run(&device, case, job)).unwrap();
                assert!(passes, "{case:?}");
            }
        }
    }
}
