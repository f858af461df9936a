//! Plans whose places or counters need more than 32 bits, against the CPU, on a GPU.

use super::super::check::Checked;
use super::super::{Device, DeviceBatch, DeviceIvs, DeviceTags, DeviceText, Plan};
use super::on_gpu::{cpu, device, random, read, uploaded};
use crate::cuda::launch::policy::Policy;
use crate::{Algorithm, Batch, Direction, Ivs, Key, Keys, Mode, Span, Spans, Tags, Text};

#[test]
fn carries_into_every_part_of_a_counter_agree_with_the_cpu() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let cpu = cpu();
    // 786,433 blocks: the counter passes a multiple of 2^32 and several of 2^16.
    let text = random((12 << 20) + 9);
    for ones in [4, 5, 6, 8, 11, 12, 13, 16] {
        let mut iv = random(16);
        iv[16 - ones..].fill(0xFF);
        iv[13] = 0xF8;
        for algorithm in [Algorithm::Aes128Ctr, Algorithm::Aes256Ctr] {
            let key = Key::generate(algorithm).unwrap();
            let mut expected = text.clone();
            let batch = Batch::encrypt(Keys::One(&key), Text::in_place(&mut expected));
            cpu.run(batch.ivs(Ivs::Each(&iv))).unwrap();
            // The kernel for one long piece and the one for any pieces, at a multiple of 16 and elsewhere.
            for (ctr_long, by) in [(0, 0), (0, 5), (u64::MAX, 0), (u64::MAX, 5)] {
                let padded = [&vec![0; by], text.as_slice()].concat();
                let (data, there) = (uploaded(&device, &padded), uploaded(&device, &iv));
                let place = data.region().part(by, text.len());
                let batch = DeviceBatch::encrypt(&key, DeviceText::in_place(place))
                    .ivs(DeviceIvs::Each(there.region()));
                let batch = Checked::new(batch).unwrap();
                let policy = Policy {
                    ctr_long,
                    ..Policy::DEFAULT
                };
                let plan = |device: &Device| Plan::by_policy(device, &batch, &policy, None);
                launch(&device, &device.call(plan).unwrap());
                let found = read(&data).split_off(by);
                let wrong = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert_eq!(
                    wrong, None,
                    "{algorithm} from {iv:02x?}, {ctr_long}, at {by}"
                );
            }
        }
    }
}

fn launch(device: &Device, plan: &Plan) {
    let stream = device.stream().unwrap();
    // SAFETY: everything lives until `failed` has waited.
    unsafe { plan.launch(&stream).unwrap() };
    assert!(plan.failed(&stream).unwrap().is_empty());
}

/// Past 2^32 bytes by more than a gigabyte, and no multiple of anything.
const LEN: usize = (5 << 30) + (40 << 20) + 5;

/// Seals from one buffer into another, and opens in place.
fn compare(device: &Device, plain: &[u8], algorithm: Algorithm, spans: Spans<'_>) {
    let count = spans.count();
    let (aead, mode) = (algorithm.is_aead(), algorithm.info().mode);
    let key = Key::generate(algorithm).unwrap();
    let iv_len = if mode == Mode::Gcm { 12 } else { 16 };
    // The first sector passes 2^64.
    let (ivs, first) = (random(iv_len * count), u128::from(u64::MAX) - 77);
    let mut sealed = plain.to_vec();
    let mut tags = vec![0; if aead { 16 * count } else { 0 }];
    let text = Text::InPlace {
        buffer: &mut sealed,
        spans,
    };
    let mut batch = Batch::encrypt(Keys::One(&key), text).ivs(match mode {
        Mode::Xts => Ivs::Sectors { first },
        _ => Ivs::Each(&ivs),
    });
    if aead {
        batch = batch.tags(Tags::Apart(&mut tags));
    }
    cpu().run(batch).unwrap();

    let (input, output) = (uploaded(device, plain), device.alloc(LEN).unwrap());
    let (ivs, made) = (uploaded(device, &ivs), device.alloc(tags.len()).unwrap());
    let plan = |direction, text| {
        let mut batch = DeviceBatch::new(direction, &key, text).ivs(match mode {
            Mode::Xts => DeviceIvs::Sectors { first },
            _ => DeviceIvs::Each(ivs.region()),
        });
        if aead {
            batch = batch.tags(DeviceTags::Apart(made.region()));
        }
        Plan::new(device, batch).unwrap()
    };
    let apart = DeviceText::Apart {
        input: input.region(),
        input_spans: spans,
        output: output.region(),
        output_spans: spans,
    };
    let in_place = DeviceText::InPlace {
        buffer: output.region(),
        spans,
    };
    launch(device, &plan(Direction::Encrypt, apart));
    same(algorithm, spans, &read(&output), &sealed);
    assert!(read(&made) == tags, "{algorithm}, {count}: tags");
    drop(sealed);
    launch(device, &plan(Direction::Decrypt, in_place));
    same(algorithm, spans, &read(&output), plain);
}

fn same(algorithm: Algorithm, spans: Spans<'_>, found: &[u8], wanted: &[u8]) {
    for span in (0..spans.count()).map(|number| spans.get(number)) {
        let place = span.offset..span.offset + span.len;
        let (found, wanted) = (&found[place.clone()], &wanted[place]);
        if found != wanted {
            let wrong = found.iter().zip(wanted).position(|(a, b)| a != b);
            panic!("{algorithm}: wrong at {wrong:?} of {span:?}");
        }
    }
}

#[test]
#[ignore = "takes 16 GiB of memory and 11 of the GPU's"]
fn batches_beyond_4_gib_agree_with_the_cpu() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let mut plain = vec![0; LEN];
    let key = Key::generate(Algorithm::Aes128Ctr).unwrap();
    let noise = Batch::encrypt(Keys::One(&key), Text::in_place(&mut plain));
    cpu().run(noise.ivs(Ivs::Each(&[9; 16]))).unwrap();
    let even = |len: usize, stride: usize| Spans::Even {
        count: LEN / stride,
        len,
        stride,
    };
    // Lengths without a common factor, at odd places.
    let each = 1_000_003;
    let span = |number: usize| Span {
        offset: number * each,
        len: each - number % 4000,
    };
    let ragged: Vec<Span> = (0..LEN / each).map(span).collect();
    for (algorithm, spans) in [
        (Algorithm::Aes128Ctr, Spans::one(LEN)),
        (Algorithm::Aes256Ctr, Spans::Ragged(&ragged)),
        (Algorithm::Aes256Gcm, Spans::one(LEN)),
        (Algorithm::Aes128Gcm, Spans::Ragged(&ragged)),
        (Algorithm::Aes128Gcm, even(16 << 10, 16 << 10)),
        (Algorithm::Aes192Gcm, even(1000, 1024)),
        (Algorithm::Aes128Xts, even(4096, 4096)),
        (Algorithm::Aes128Cbc, even(16 << 10, 16 << 10)),
        (Algorithm::Aes256Cbc, even(5 << 20, 5 << 20)),
        (Algorithm::Acorn128, even(4000, 4096)),
    ] {
        compare(&device, &plain, algorithm, spans);
    }
}
