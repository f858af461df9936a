//! GCM with multiprocessors that only hash: which batches take it, and on a GPU against the CPU,
//! whichever of its blocks hash.

use super::super::check::Checked;
use super::super::sheet::{PlanSheet, one_key};
use super::super::split::{HashersAt, may_split};
use super::super::{
    Device, DeviceAad, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceTags, DeviceText, Plan,
};
use super::on_gpu::{cpu, device, random, read, uploaded};
use super::{HASHERS, apart, region};
use crate::cpu::portable::{GhashKey, gf_mul};
use crate::cuda::launch::abi::{MULTIPROCESSORS, split_bytes};
use crate::cuda::launch::keys::OneKey;
use crate::cuda::launch::policy::Policy;
use crate::cuda::launch::steps::Launcher;
use crate::{Aad, Algorithm, Batch, Direction, Ivs, Key, Keys, Span, Spans, Tags, Text};

const ALWAYS: Policy = Policy {
    gcm_split: Some(1),
    ..Policy::DEFAULT
};

/// With the switch off.
const NEVER: Policy = Policy {
    gcm_split: None,
    ..Policy::DEFAULT
};

fn sealing<'a>(key: &'a Key, text: DeviceText<'a>, count: usize) -> DeviceBatch<'a> {
    DeviceBatch::encrypt(key, text)
        .ivs(DeviceIvs::Each(region(0x100, 12 * count)))
        .tags(DeviceTags::Apart(region(0x8_0000, 16 * count)))
}

fn splits(key: &Key, text: DeviceText<'_>, count: usize, policy: &Policy) -> bool {
    may_split(&Checked::new(sealing(key, text, count)).unwrap(), policy)
}

#[test]
fn much_text_in_even_units_at_multiples_of_16_is_split() {
    let key = Key::new(Algorithm::Aes256Gcm, &[1; 32]).unwrap();
    assert!(splits(&key, apart(5, 16_384), 5, &ALWAYS));
    assert!(splits(&key, apart(1, 16_384), 1, &ALWAYS));
    assert!(!splits(&key, apart(1, 16_384), 1, &NEVER));
    assert!(splits(&key, apart(3, 49_008), 3, &ALWAYS));
    // Too little, nearly empty units.
    let from = |bytes| Policy {
        gcm_split: Some(bytes),
        ..Policy::DEFAULT
    };
    assert!(splits(&key, apart(5, 16_384), 5, &from(81_920)));
    assert!(!splits(&key, apart(5, 16_384), 5, &from(81_921)));
    assert!(!splits(&key, apart(5, 17_008), 5, &ALWAYS));
    // Unequal, or at odd places.
    let at = |spans: [(usize, usize); 2]| {
        let spans = spans.map(|(offset, len)| Span { offset, len });
        let text = DeviceText::InPlace {
            buffer: region(0x10_0000, 200_000),
            spans: Spans::Ragged(&spans),
        };
        splits(&key, text, 2, &ALWAYS)
    };
    assert!(at([(0, 16_384), (65_536, 16_000)]));
    assert!(!at([(0, 16_384), (65_536, 32_768)]));
    assert!(!at([(0, 16_384), (65_544, 16_384)]));
    // Other modes.
    let key = Key::new(Algorithm::Aes128Ctr, &[1; 16]).unwrap();
    let batch =
        DeviceBatch::encrypt(&key, apart(5, 16_384)).ivs(DeviceIvs::Each(region(0x100, 80)));
    assert!(!may_split(&Checked::new(batch).unwrap(), &ALWAYS));
}

#[test]
fn work_is_counted_in_units_and_blocks_have_room_for_their_state() {
    let key = Key::new(Algorithm::Aes192Gcm, &[1; 24]).unwrap();
    let batch = Checked::new(sealing(&key, apart(40, 50_000), 40)).unwrap();
    let plain = PlanSheet::new(&batch, &Policy::DEFAULT, 132, None);
    let sheet = PlanSheet::new(&batch, &Policy::DEFAULT, 132, Some(HASHERS));
    let located = sheet.located(&batch, 0x70_0000);
    let split = located.split.unwrap();
    // Four units of 16 KiB for 98 rows of 512 bytes.
    assert_eq!((located.work.each, located.work.units), (98, 40 * 98));
    assert_eq!((split.work.each, split.work.units), (4, 160));
    assert_eq!(split.work.pieces, located.work.pieces);
    assert_eq!((split.places, split.hashers), (0x77, 8));
    // The same number of units, but 32 and 30 rows.
    let spans = [(0, 16_384), (65_536, 15_000)].map(|(offset, len)| Span { offset, len });
    let text = DeviceText::InPlace {
        buffer: region(0x10_0000, 200_000),
        spans: Spans::Ragged(&spans),
    };
    let batch = Checked::new(sealing(&key, text, 2)).unwrap();
    assert!(may_split(&batch, &ALWAYS));
    let located = PlanSheet::new(&batch, &Policy::DEFAULT, 132, Some(HASHERS)).located(&batch, 0);
    assert_eq!((located.work.each, located.work.units), (0, 62));
    let uneven = located.split.unwrap().work;
    assert_eq!((uneven.each, uneven.units, uneven.count), (1, 2, 2));
    // Five tiles: 160 units.
    assert_eq!(split_bytes(&split.work), 512 + 5 * 2064);
    let end = (split.at - 0x70_0000) as usize + split_bytes(&split.work);
    assert!(split.at.is_multiple_of(16) && end <= sheet.device_len);
    assert!(plain.located(&batch, 0).split.is_none() && plain.device_len < sheet.device_len);
}

#[test]
fn tags_of_few_or_short_messages_need_no_extra_launch() {
    let key = Key::new(Algorithm::Aes128Gcm, &[1; 16]).unwrap();
    let names = |count: usize, len: usize| -> Vec<String> {
        let batch = Checked::new(sealing(&key, apart(count, len), count)).unwrap();
        let sheet = PlanSheet::new(&batch, &Policy::DEFAULT, 132, Some(HASHERS));
        let located = sheet.located(&batch, 0x70_0000);
        let launcher = Launcher::of(batch.info, batch.direction, batch.tag_len);
        let key = one_key(&batch).unwrap();
        let steps = launcher.gcm_after_powers(&located, &key);
        steps.into_iter().map(|step| step.name).collect()
    };
    assert_eq!(names(768, 32_000), ["gcm_split_encrypt_128"]);
    assert_eq!(names(769, 32_000), ["gcm_split_encrypt_128", "gcm_finish"]);
    assert_eq!(names(769, 16_384), ["gcm_split_encrypt_128"]);
}

/// Messages of about one length, sealed by the CPU.
struct Case {
    key: Key,
    spans: Vec<Span>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    ivs: Vec<u8>,
    aad: Vec<u8>,
    tags: Vec<u8>,
}

/// `count` adjacent IVs of equal length: those made to wrap have 16 bytes.
fn iv_spans<'a>(count: usize, bytes: usize) -> Spans<'a> {
    Spans::Even {
        count,
        len: bytes / count,
        stride: bytes / count,
    }
}

/// An IV of 16 bytes from which GCM's 32-bit counter wraps within this many blocks of text: from
/// J0 = (IV x H + its length) x H (SP 800-38D, 7.1).
fn wrapping_iv(key: &Key, blocks: u32) -> Vec<u8> {
    let key = OneKey::of(key);
    let mut start: [u8; 16] = random(16).try_into().unwrap();
    let before = u32::from_le_bytes(random(4).try_into().unwrap()) % blocks;
    start[12..].copy_from_slice(&(u32::MAX - before).to_be_bytes());
    let mut length = [0; 16];
    length[15] = 128;
    let sum = gf_mul(start, key.inverse);
    let iv = gf_mul(std::array::from_fn(|i| sum[i] ^ length[i]), key.inverse);
    let mut hash = [0; 16];
    GhashKey::new(key.hash).update(&mut hash, &[iv, length].concat());
    assert_eq!(hash, start);
    iv.to_vec()
}

impl Case {
    /// With `wraps`, the only message's counter wraps within it; else IVs have 12 bytes. Of many
    /// messages some are shorter than `len`.
    fn new(algorithm: Algorithm, [count, len, aad]: [usize; 3], wraps: bool) -> Self {
        let key = Key::generate(algorithm).unwrap();
        let ivs = match wraps {
            true => wrapping_iv(&key, (len / 16) as u32),
            false => random(12 * count),
        };
        // After each message, bytes that must not be touched.
        let stride = (len + 16).next_multiple_of(16);
        let missing = |number: usize| match number % 3 {
            1 => [0, 0, 700, 700, 1400][number % 5],
            _ => 0,
        };
        let span = |number: usize| Span {
            offset: number * stride,
            len: len - missing(number),
        };
        let spans: Vec<Span> = (0..count).map(span).collect();
        let (plain, aad) = (random(count * stride), random(aad));
        let (mut sealed, mut tags) = (plain.clone(), vec![0; 16 * count]);
        let text = Text::InPlace {
            buffer: &mut sealed,
            spans: Spans::Ragged(&spans),
        };
        let batch = Batch::encrypt(Keys::One(&key), text)
            .ivs(Ivs::Ragged {
                bytes: &ivs,
                spans: iv_spans(count, ivs.len()),
            })
            .aad(Aad::Shared(&aad))
            .tags(Tags::Apart(&mut tags));
        cpu().run(batch).unwrap();
        Case {
            key,
            spans,
            plain,
            sealed,
            ivs,
            aad,
            tags,
        }
    }

    /// Launches a plan twice, on fresh text, in place or into a buffer that begins as `output`;
    /// returns text, tags and the refused messages. Without `hashers`, the switch is off.
    fn run(
        &self,
        device: &Device,
        hashers: Option<HashersAt>,
        direction: Direction,
        tags: &[u8],
        output: Option<&[u8]>,
    ) -> (Vec<u8>, Vec<u8>, Vec<usize>) {
        let text = match direction {
            Direction::Encrypt => &self.plain,
            Direction::Decrypt => &self.sealed,
        };
        let mut data = uploaded(device, text);
        let mut other = output.map(|bytes| uploaded(device, bytes));
        let tags = uploaded(device, tags);
        let (ivs, aad) = (uploaded(device, &self.ivs), uploaded(device, &self.aad));
        let spans = Spans::Ragged(&self.spans);
        let texts = match &other {
            None => DeviceText::InPlace {
                buffer: data.region(),
                spans,
            },
            Some(other) => DeviceText::Apart {
                input: data.region(),
                input_spans: spans,
                output: other.region(),
                output_spans: spans,
            },
        };
        let batch = DeviceBatch::new(direction, &self.key, texts)
            .ivs(DeviceIvs::Ragged {
                bytes: ivs.region(),
                spans: iv_spans(self.spans.len(), self.ivs.len()),
            })
            .aad(DeviceAad::Shared(aad.region()))
            .tags(DeviceTags::Apart(tags.region()));
        let batch = Checked::new(batch).unwrap();
        assert!(may_split(&batch, &ALWAYS));
        let policy = if hashers.is_some() { ALWAYS } else { NEVER };
        let plan = device
            .call(|device| Plan::by_policy(device, &batch, &policy, hashers))
            .unwrap();
        let stream = device.stream().unwrap();
        let mut refused = Vec::new();
        for _ in 0..2 {
            data.write(0, text).unwrap();
            if let Some((other, bytes)) = other.as_mut().zip(output) {
                other.write(0, bytes).unwrap();
            }
            // SAFETY: everything lives until `failed` has waited.
            unsafe { plan.launch(&stream).unwrap() };
            refused = plan.failed(&stream).unwrap();
        }
        let mut result = read(&data);
        if let Some(other) = &other {
            assert!(result == *text, "only read");
            result = read(other);
        }
        (result, read(&tags), refused)
    }

    fn check(&self, device: &Device, hashers: Option<HashersAt>, which: &str) {
        let (count, len) = (self.spans.len(), self.spans[0].len);
        let what = format!("{}, {count} of {len}, {which}", self.key.algorithm());
        let none = vec![0xa5; 16 * count];
        let mut forged = self.tags.clone();
        let wrong = count / 2;
        forged[16 * wrong + 3] ^= 1;
        let mut opened = self.plain.clone();
        opened[text_of(self.spans[wrong])].fill(0);
        // The bytes between messages are the same as in place.
        let mut outputs = [self.sealed.clone(), opened.clone()];
        for output in &mut outputs {
            (self.spans.iter()).for_each(|&span| output[text_of(span)].fill(0xa5));
        }
        for apart in [false, true] {
            let what = format!("{what}, {}", if apart { "apart" } else { "in place" });
            let [sealed, plain] = outputs
                .each_ref()
                .map(|output| apart.then_some(&output[..]));
            let (text, tags, _) = self.run(device, hashers, Direction::Encrypt, &none, sealed);
            assert!(text == self.sealed, "{what}: sealed");
            assert!(tags == self.tags, "{what}: tags");
            let (text, _, refused) =
                self.run(device, hashers, Direction::Decrypt, &self.tags, plain);
            assert_eq!(refused, [], "{what}");
            assert!(text == self.plain, "{what}: opened");
            let (text, _, refused) = self.run(device, hashers, Direction::Decrypt, &forged, plain);
            assert_eq!(refused, [wrong], "{what}");
            assert!(text == opened, "{what}: opened, one refused");
        }
    }
}

fn text_of(span: Span) -> std::ops::Range<usize> {
    span.offset..span.offset + span.len
}

/// Compares with the CPU, for messages given by number, bytes and associated data, and for a
/// counter that wraps or does not; with a GPC that hashes, with no multiprocessor that starts as a
/// hasher, with all of them, and with the switch off, so that every plan runs both ways.
fn compare(device: &Device, algorithm: Algorithm, cases: &[([usize; 3], bool)]) {
    let Some(gpcs) = device.call(|device| device.hashers()).unwrap() else {
        println!("skipped: only GPUs of compute capability 9.0 have these kernels");
        return;
    };
    assert!(gpcs.count >= 2, "a GPC has several");
    let table = |place: u8| uploaded(device, &[place; MULTIPROCESSORS]);
    let (none, all) = (table(0), table(1));
    let at = |table: &DeviceBuffer| HashersAt {
        places: table.region().address(),
        ..gpcs
    };
    let kinds = [
        ("a GPC", Some(gpcs)),
        ("none", Some(at(&none))),
        ("all", Some(at(&all))),
        ("the switch off", None),
    ];
    for &(messages, wraps) in cases {
        let case = Case::new(algorithm, messages, wraps);
        for (which, hashers) in kinds {
            case.check(device, hashers, which);
        }
    }
}

#[test]
fn whichever_blocks_hash_the_results_equal_the_cpus() {
    let Some((device, _alone)) = device() else {
        return;
    };
    for algorithm in [
        Algorithm::Aes128Gcm,
        Algorithm::Aes192Gcm,
        Algorithm::Aes256Gcm,
    ] {
        let cases = [
            ([1, 16_384, 0], false),
            ([1, 15_001, 7], false),
            ([700, 16_384, 33], false),
            ([800, 15_001, 0], false),
            ([770, 15_000, 21], false),
            ([780, 30_000, 0], false),
            ([40, 32_767, 0], false),
            ([1, (9 << 20) + 16_000, 13], true),
            ([5, (3 << 20) + 4077, 20], false),
            ([1, (40 << 20) + 5, 0], false),
            // Sealed with tiles of two kinds, the last of which are hashed by blocks that
            // encrypted. And if all hash, a block takes tiles that are more than 32 apart.
            ([1, (100 << 20) + 77, 5], false),
            ([1, 96 << 20, 0], false),
            ([1, (24 << 20) + 16_368, 0], true),
        ];
        compare(&device, algorithm, &cases);
    }
}

/// Little enough for sanitizers.
#[test]
fn a_few_tiles_equal_the_cpus() {
    let Some((device, _alone)) = device() else {
        return;
    };
    compare(
        &device,
        Algorithm::Aes256Gcm,
        &[([70, 16_001, 5], false), ([1, 3_000_007, 0], true)],
    );
}
