//! GCM with multiprocessors that only hash: which batches take it, and on a GPU against the CPU,
//! whichever of its blocks hash.

use super::super::check::Checked;
use super::super::sheet::{PlanSheet, one_key};
use super::super::split::{HashersAt, may_split};
use super::super::{
    Device, DeviceAad, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceTags, DeviceText, Plan,
};
use super::on_gpu::{cpu, device, random, read, uploaded};
use super::{HASHERS, apart, even, region};
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
fn much_text_in_even_units_is_split() {
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
    // At any byte, twice as much.
    let odd = || DeviceText::in_place(region(0x10_0003, 16_384));
    assert!(splits(&key, odd(), 1, &from(8192)));
    assert!(!splits(&key, odd(), 1, &from(8193)));
    // Unequal, and at odd places.
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
    assert!(at([(0, 16_384), (65_543, 16_384)]));
    // However much text is not aligned, it is known not to be.
    let len = 1 << 35;
    let text = DeviceText::InPlace {
        buffer: region(0x100_0000_0003, 4 * len),
        spans: even(4, len),
    };
    let batch = Checked::new(sealing(&key, text, 4)).unwrap();
    assert!(may_split(&batch, &ALWAYS));
    assert!(PlanSheet::new(&batch, &ALWAYS, 132, Some(HASHERS)).any_byte);
    // Where a result lies further into its line than its text.
    let moved = |from: u64, to: u64| {
        let text = DeviceText::apart(
            region(0x10_0000 + from, 16_384),
            region(0x20_0000 + to, 16_384),
        );
        splits(&key, text, 1, &ALWAYS)
    };
    assert!(moved(0, 0) && moved(3, 3));
    assert!(!moved(0, 3) && !moved(3, 0));
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
        let sheets = [PlanSheet::new, PlanSheet::spread]
            .map(|new| new(&batch, &Policy::DEFAULT, 132, Some(HASHERS)));
        let [names, called] = sheets.map(|sheet| {
            let located = sheet.located(&batch, 0x70_0000);
            let launcher = Launcher::of(batch.info, batch.direction, batch.tag_len);
            let key = one_key(&batch).unwrap();
            let steps = launcher.gcm_after_powers(&located, &key);
            steps.into_iter().map(|step| step.name).collect()
        });
        assert_eq!(names, called);
        names
    };
    assert_eq!(names(768, 32_000), ["gcm_split_encrypt_128"]);
    assert_eq!(names(768, 32_008), ["gcm_split_any_byte_encrypt_128"]);
    assert_eq!(names(769, 32_000), ["gcm_split_encrypt_128", "gcm_finish"]);
    assert_eq!(names(769, 16_384), ["gcm_split_encrypt_128"]);
}

/// Messages of about one length, sealed by the CPU.
struct Case {
    key: Key,
    spans: Vec<Span>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    /// What is around the results, if they are apart: as far into their lines as the texts.
    around: Vec<u8>,
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
    /// messages some are shorter than `len`. `shift`: from a multiple of 16 to the first text; further
    /// ones lie otherwise. Without it, all are at multiples.
    fn new(
        algorithm: Algorithm,
        [count, len, aad]: [usize; 3],
        wraps: bool,
        shift: Option<usize>,
    ) -> Self {
        let key = Key::generate(algorithm).unwrap();
        let ivs = match wraps {
            true => wrapping_iv(&key, (len / 16) as u32),
            false => random(12 * count),
        };
        let missing = |number: usize| match number % 3 {
            1 => [0, 0, 700, 700, 1400][number % 5],
            _ => 0,
        };
        // After each message, bytes that must not be touched; but at odd places, some messages share a
        // line of 16 bytes.
        let mut end = shift.unwrap_or(0);
        let span = |number: usize| {
            let (offset, len) = (end, len - missing(number));
            end = match shift {
                None => (offset + len + 16).next_multiple_of(16),
                Some(shift) => offset + len + [0, 1, 0, 7, 30][(number + shift) % 5],
            };
            Span { offset, len }
        };
        let spans: Vec<Span> = (0..count).map(span).collect();
        let (plain, aad) = (random(end + 5), random(aad));
        let around = random(plain.len() + APART);
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
            around,
            ivs,
            aad,
            tags,
        }
    }

    /// The buffer of results with these texts, whose places they have in their own.
    fn moved(&self, text: &[u8]) -> Vec<u8> {
        let mut moved = self.around.clone();
        for (&from, to) in self.spans.iter().zip(self.apart()) {
            moved[text_of(to)].copy_from_slice(&text[text_of(from)]);
        }
        moved
    }

    /// Where the results are, unless they replace the texts.
    fn apart(&self) -> Vec<Span> {
        let apart = |&Span { offset, len }| Span {
            offset: offset + APART,
            len,
        };
        self.spans.iter().map(apart).collect()
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
        let apart = self.apart();
        let texts = match &other {
            None => DeviceText::InPlace {
                buffer: data.region(),
                spans,
            },
            Some(other) => DeviceText::Apart {
                input: data.region(),
                input_spans: spans,
                output: other.region(),
                output_spans: Spans::Ragged(&apart),
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
        let any_byte = self.spans.iter().any(|span| span.offset % 16 > 0);
        let takes = plan.kernels().any(|name| name.contains("any_byte"));
        assert_eq!(takes, any_byte && hashers.is_some());
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
        let from = self.spans[0].offset;
        let algorithm = self.key.algorithm();
        let what = format!("{algorithm}, {count} of {len} from {from}, {which}");
        let none = vec![0xa5; 16 * count];
        let mut forged = self.tags.clone();
        let wrong = count / 2;
        forged[16 * wrong + 3] ^= 1;
        let mut opened = self.plain.clone();
        opened[text_of(self.spans[wrong])].fill(0);
        let blank = self.moved(&vec![0xa5; self.plain.len()]);
        for apart in [false, true] {
            let what = format!("{what}, {}", if apart { "apart" } else { "in place" });
            let output = apart.then_some(&blank[..]);
            let [sealed, plain, opened] =
                [&self.sealed, &self.plain, &opened].map(|text| match apart {
                    true => self.moved(text),
                    false => text.clone(),
                });
            let run = |direction, tags: &[u8]| self.run(device, hashers, direction, tags, output);
            let (text, tags, _) = run(Direction::Encrypt, &none);
            assert_same(&text, &sealed, &format!("{what}: sealed"));
            assert!(tags == self.tags, "{what}: tags");
            let (text, _, refused) = run(Direction::Decrypt, &self.tags);
            assert_eq!(refused, [], "{what}");
            assert_same(&text, &plain, &format!("{what}: opened"));
            let (text, _, refused) = run(Direction::Decrypt, &forged);
            assert_eq!(refused, [wrong], "{what}");
            assert_same(&text, &opened, &format!("{what}: opened, one refused"));
        }
    }
}

fn assert_same(found: &[u8], wanted: &[u8], what: &str) {
    if found != wanted {
        let wrong = found.iter().zip(wanted).position(|(a, b)| a != b);
        panic!("{what}, first at {wrong:?}");
    }
}

fn text_of(span: Span) -> std::ops::Range<usize> {
    span.offset..span.offset + span.len
}

const ALIGNED: Option<usize> = None;

/// How much further results lie in their buffer than texts in theirs.
const APART: usize = 48;

/// Messages given by number, bytes and associated data, whether a counter wraps, and the shift.
type Messages = ([usize; 3], bool, Option<usize>);

/// Compares with the CPU; with a GPC that hashes, with no multiprocessor that starts as a
/// hasher, with all of them, and with the switch off, so that every plan runs both ways.
fn compare(device: &Device, algorithm: Algorithm, cases: &[Messages]) {
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
    for &(messages, wraps, shift) in cases {
        let case = Case::new(algorithm, messages, wraps, shift);
        for (which, hashers) in kinds {
            case.check(device, hashers, which);
        }
    }
}

/// The same with keys of each length.
fn compare_all(device: &Device, cases: &[Messages]) {
    for algorithm in [
        Algorithm::Aes128Gcm,
        Algorithm::Aes192Gcm,
        Algorithm::Aes256Gcm,
    ] {
        compare(device, algorithm, cases);
    }
}

#[test]
fn whichever_blocks_hash_the_results_equal_the_cpus() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let cases = [
        ([1, 16_384, 0], false, ALIGNED),
        ([1, 15_001, 7], false, ALIGNED),
        ([700, 16_384, 33], false, ALIGNED),
        ([800, 15_001, 0], false, ALIGNED),
        ([770, 15_000, 21], false, ALIGNED),
        ([780, 30_000, 0], false, ALIGNED),
        ([40, 32_767, 0], false, ALIGNED),
        ([1, (9 << 20) + 16_000, 13], true, ALIGNED),
        ([5, (3 << 20) + 4077, 20], false, ALIGNED),
        ([1, (40 << 20) + 5, 0], false, ALIGNED),
        // Sealed with tiles of two kinds, the last of which are hashed by blocks that
        // encrypted. And if all hash, a block takes tiles that are more than 32 apart.
        ([1, (100 << 20) + 77, 5], false, ALIGNED),
        ([1, 96 << 20, 0], false, ALIGNED),
        ([1, (24 << 20) + 16_368, 0], true, ALIGNED),
    ];
    compare_all(&device, &cases);
}

#[test]
fn at_any_byte_the_results_equal_the_cpus() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let cases = [
        ([700, 16_384, 33], false, Some(1)),
        ([770, 15_000, 21], false, Some(3)),
        ([780, 30_000, 0], false, Some(4)),
        ([40, 32_767, 0], false, Some(15)),
        ([40, 16_384, 0], false, Some(0)),
        ([5, (3 << 20) + 4077, 20], false, Some(9)),
        ([1, (9 << 20) + 16_000, 13], true, Some(13)),
        ([1, (40 << 20) + 5, 0], false, Some(6)),
        ([1, (100 << 20) + 77, 5], false, Some(11)),
    ];
    compare_all(&device, &cases);
    // At each place, with ends and beginnings of stretches at each place.
    for shift in 0..16 {
        let more = shift * 263;
        let cases = [
            ([1, 16_384, 0], false, Some(shift)),
            ([1, 61_440 + more, 0], false, Some(shift)),
            ([1, 61_441 + more, 0], false, Some(shift)),
            ([6, 45_824 + more / 4, 0], false, Some(shift)),
        ];
        compare(&device, Algorithm::Aes128Gcm, &cases);
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
        &[
            ([70, 16_001, 5], false, ALIGNED),
            ([70, 16_001, 5], false, Some(5)),
            ([1, 3_000_007, 0], true, ALIGNED),
        ],
    );
}
