//! Plans against the CPU, on a GPU.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use cudarc::driver::sys;

use super::super::{
    Device, DeviceAad, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceKeys, DeviceTags, DeviceText,
    Plan,
};
use crate::lock::lock;
use crate::{
    Aad, Algorithm, BackendChoice, Batch, Direction, Engine, Error, Ivs, Key, Keys, Mode, Span,
    Spans, Tags, Text,
};

/// One test at a time: dropping a plan waits for the whole device, which must not happen while
/// another thread's stream captures a graph.
static ALONE: Mutex<()> = Mutex::new(());

pub(super) fn device() -> Option<(Device, MutexGuard<'static, ()>)> {
    let device = Device::open(0).ok();
    if device.is_none() {
        println!("skipped: no GPU");
    }
    Some((device?, lock(&ALONE)))
}

pub(super) fn random(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

pub(super) fn cpu() -> Engine {
    let cpu = Engine::builder().backend(BackendChoice::Cpu(None)).build();
    cpu.unwrap()
}

/// All of a buffer.
pub(super) fn read(buffer: &DeviceBuffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(0, &mut bytes).unwrap();
    bytes
}

pub(super) fn uploaded(device: &Device, bytes: &[u8]) -> DeviceBuffer {
    let mut buffer = device.alloc(bytes.len()).unwrap();
    buffer.write(0, bytes).unwrap();
    buffer
}

/// Whether memory has the mask of a GCM tag in it: the encryption of a nonce of 96 bits and a 1.
pub(super) fn has_mask<'a>(
    memory: &[u8],
    key: &Key,
    nonces: impl Iterator<Item = &'a [u8]>,
) -> bool {
    let ecb = match key.bytes().len() {
        16 => Algorithm::Aes128Ecb,
        24 => Algorithm::Aes192Ecb,
        _ => Algorithm::Aes256Ecb,
    };
    let nonces = nonces.filter(|nonce| nonce.len() == 12);
    let mut masks: Vec<u8> = nonces
        .flat_map(|nonce| [nonce, &[0, 0, 0, 1]].concat())
        .collect();
    let key = Key::new(ecb, key.bytes()).unwrap();
    let text = Text::in_place(&mut masks);
    cpu().run(Batch::encrypt(Keys::One(&key), text)).unwrap();
    let masks: HashSet<&[u8]> = masks.chunks(16).collect();
    memory.chunks(16).any(|block| masks.contains(block))
}

/// Whether a plan for these messages equals the CPU, with one key and with several, in place and
/// apart; and that nothing else is written. `aad_len`: bytes of associated data for all.
fn compare(
    device: &Device,
    algorithm: Algorithm,
    direction: Direction,
    lens: &[usize],
    aad_len: usize,
) {
    let cpu = cpu();
    let info = algorithm.info();
    let (mut spans, mut end) = (Vec::new(), 3);
    for &len in lens {
        spans.push(Span { offset: end, len });
        end += len + len % 7;
    }
    let spans = Spans::Ragged(&spans);
    let count = lens.len();
    let iv_len = match info.mode {
        Mode::Ecb => 0,
        Mode::Gcm => 12,
        _ => 16,
    };
    let (data, ivs, aad) = (random(end), random(count * iv_len), random(aad_len));
    let aead = algorithm.is_aead();
    let keys: Vec<Key> = (0..3).map(|_| Key::generate(algorithm).unwrap()).collect();
    let index: Vec<u32> = (0..count as u32).map(|i| i % 3).collect();
    let indexed = Keys::Indexed {
        keys: &keys,
        index: &index,
    };
    for keys in [Keys::One(&keys[0]), indexed] {
        for in_place in [true, false] {
            let mut expected = if in_place {
                data.clone()
            } else {
                vec![0xa5; end]
            };
            let mut tags = random(16 * count);
            let given = tags.clone();
            let text = match in_place {
                true => Text::InPlace {
                    buffer: &mut expected,
                    spans,
                },
                false => Text::Apart {
                    input: &data,
                    input_spans: spans,
                    output: &mut expected,
                    output_spans: spans,
                },
            };
            let mut batch = Batch::new(direction, keys, text);
            if iv_len > 0 {
                batch = batch.ivs(Ivs::Each(&ivs));
            }
            if aead {
                batch = batch.aad(Aad::Shared(&aad)).tags(Tags::Apart(&mut tags));
            }
            // Random tags are wrong: everything is refused, which is a result, too.
            let refused = match cpu.run(batch) {
                Ok(()) => Vec::new(),
                Err(Error::Authentication { failed, .. }) => failed,
                Err(error) => panic!("{error}"),
            };

            let input = uploaded(device, &data);
            let poison = uploaded(device, &vec![0xa5; end]);
            let (ivs, aad) = (uploaded(device, &ivs), uploaded(device, &aad));
            let tag_buffer = uploaded(device, &given);
            let text = match in_place {
                true => DeviceText::InPlace {
                    buffer: input.region(),
                    spans,
                },
                false => DeviceText::Apart {
                    input: input.region(),
                    input_spans: spans,
                    output: poison.region(),
                    output_spans: spans,
                },
            };
            let mut batch = DeviceBatch::new(direction, keys, text);
            if iv_len > 0 {
                batch = batch.ivs(DeviceIvs::Each(ivs.region()));
            }
            if aead {
                batch = batch
                    .aad(DeviceAad::Shared(aad.region()))
                    .tags(DeviceTags::Apart(tag_buffer.region()));
            }
            let plan = Plan::new(device, batch).unwrap();
            let stream = device.stream().unwrap();
            // SAFETY: everything lives until `failed` has waited.
            unsafe { plan.launch(&stream).unwrap() };
            assert_eq!(plan.failed(&stream).unwrap(), refused);
            let mut found = vec![0; end];
            let output = if in_place { &input } else { &poison };
            output.read(0, &mut found).unwrap();
            let what = format!("{algorithm} {direction:?} in place: {in_place}");
            assert!(found == expected, "{what}");
            if aead && direction == Direction::Encrypt {
                let mut made = vec![0; 16 * count];
                tag_buffer.read(0, &mut made).unwrap();
                assert!(made == tags, "{what}: tags");
            }
        }
    }
}

#[test]
fn plans_agree_with_the_cpu() {
    let Some((device, _alone)) = device() else {
        return;
    };
    for algorithm in Algorithm::all() {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let ragged: Vec<usize> = match algorithm.info().mode {
                Mode::Ecb | Mode::Cbc => (0..300).map(|i| 16 * (i * i % 97)).collect(),
                Mode::Xts => (0..300).map(|i| 16 + i * i % 997).collect(),
                Mode::Ctr | Mode::Gcm | Mode::Acorn => (0..300).map(|i| i * i % 997).collect(),
            };
            compare(&device, algorithm, direction, &ragged, 33);
            compare(&device, algorithm, direction, &[1 << 20, 0, 16, 99_984], 33);
            compare(&device, algorithm, direction, &[512; 7], 33);
            if algorithm.info().mode == Mode::Gcm {
                // Plain messages: several for each of some hundred teams of warps, and long ones.
                let ragged: Vec<usize> = (0..1500).map(|i| 1 + i * i % 20_011).collect();
                compare(&device, algorithm, direction, &ragged, 0);
                compare(&device, algorithm, direction, &[16 << 10; 1500], 0);
                compare(
                    &device,
                    algorithm,
                    direction,
                    &[3 << 20, 16, 8209, 1, 99_984],
                    0,
                );
                // So many that each lane takes one, but for the warps that meet a longer one.
                let long = |i: usize| if i % 1001 == 7 { 300 } else { 0 };
                let tiny: Vec<usize> = (0..20_003).map(|i| i * i % 97 + long(i)).collect();
                compare(&device, algorithm, direction, &tiny, 33);
            }
        }
    }
}

/// So long that warps start a second round: shares of several portions in GCM, rows beyond those
/// prepared in CTR; in XTS, several pieces of a message.
#[test]
fn very_long_messages_agree_with_the_cpu() {
    let Some((device, _alone)) = device() else {
        return;
    };
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        compare(
            &device,
            Algorithm::Aes128Ctr,
            direction,
            &[(80 << 20) + 5],
            0,
        );
        for algorithm in [Algorithm::Aes128Xts, Algorithm::Aes256Xts] {
            let lens = [(20 << 20) + 5, 100, (3 << 20) + 16, (1 << 20) + 31];
            compare(&device, algorithm, direction, &lens, 0);
        }
        for aad in [0, 33] {
            compare(
                &device,
                Algorithm::Aes128Gcm,
                direction,
                &[(80 << 20) + 5],
                aad,
            );
            compare(
                &device,
                Algorithm::Aes256Gcm,
                direction,
                &[70 << 20, 20 << 20],
                aad,
            );
        }
    }
}

#[test]
fn a_plan_opens_what_a_plan_sealed_again_and_again() {
    let Some((device, _alone)) = device() else {
        return;
    };
    for (algorithm, iv_len, len) in [
        (Algorithm::Aes128Gcm, 12, 100),
        (Algorithm::Aes128Gcm, 12, 5000),
        (Algorithm::Aes256Gcm, 12, 20_000),
        (Algorithm::Acorn128, 16, 100),
        (Algorithm::Acorn128, 16, 5000),
    ] {
        let key = Key::generate(algorithm).unwrap();
        let spans = Spans::Even {
            count: 40,
            len,
            stride: len + 16,
        };
        let plain = random(40 * (len + 16));
        let mut data = uploaded(&device, &plain);
        let nonces = uploaded(&device, &random(40 * iv_len));
        let text = DeviceText::InPlace {
            buffer: data.region(),
            spans,
        };
        let ivs = DeviceIvs::Each(nonces.region());
        let seal = Plan::new(&device, DeviceBatch::encrypt(&key, text).ivs(ivs)).unwrap();
        let open = Plan::new(&device, DeviceBatch::decrypt(&key, text).ivs(ivs)).unwrap();
        assert!(seal.statuses().is_none());
        assert_ne!(seal.kernels().len(), 0);
        assert_eq!(open.statuses().unwrap().count, 40);
        let stream = device.stream().unwrap();
        for changed in [None, Some(7), None] {
            // SAFETY: everything lives until `failed` has waited.
            unsafe { seal.launch(&stream).unwrap() };
            stream.synchronize().unwrap();
            if let Some(message) = changed {
                let mut byte = [0];
                let at = message * (len + 16) + 50;
                data.read(at, &mut byte).unwrap();
                data.write(at, &[byte[0] ^ 1]).unwrap();
            }
            // SAFETY: as above.
            unsafe { open.launch(&stream).unwrap() };
            let failed: Vec<usize> = changed.into_iter().collect();
            assert_eq!(open.failed(&stream).unwrap(), failed);
            let mut found = vec![0; plain.len()];
            data.read(0, &mut found).unwrap();
            for number in 0..40 {
                let text = number * (len + 16)..number * (len + 16) + len;
                match changed {
                    Some(message) if message == number => {
                        assert!(found[text.clone()].iter().all(|&byte| byte == 0));
                        // For the next round.
                        data.write(text.start, &plain[text]).unwrap();
                    }
                    _ => assert!(found[text.clone()] == plain[text], "message {number}"),
                }
            }
        }
    }
}

#[test]
fn keys_in_gpu_memory_are_read_at_every_launch() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let cpu = cpu();
    let count = 1000;
    // Single blocks take one path, longer messages another.
    for (algorithm, len) in [
        (Algorithm::Aes128Ecb, 16),
        (Algorithm::Aes192Ecb, 16),
        (Algorithm::Aes256Ecb, 16),
        (Algorithm::Aes192Ecb, 48),
    ] {
        let spans = Spans::Even {
            count,
            len,
            stride: len,
        };
        let plain = random(count * len);
        let input = uploaded(&device, &plain);
        let output = device.alloc(plain.len()).unwrap();
        let mut keys = device.alloc(count * algorithm.key_len()).unwrap();
        let text = DeviceText::Apart {
            input: input.region(),
            input_spans: spans,
            output: output.region(),
            output_spans: spans,
        };
        let each = DeviceKeys::Each {
            algorithm,
            bytes: keys.region(),
        };
        let plan = Plan::new(&device, DeviceBatch::encrypt(each, text)).unwrap();
        let stream = device.stream().unwrap();
        for _ in 0..2 {
            let bytes = random(keys.len());
            keys.write(0, &bytes).unwrap();
            // SAFETY: everything lives until the stream is synchronized.
            unsafe { plan.launch(&stream).unwrap() };
            stream.synchronize().unwrap();
            let (mut expected, mut found) = (plain.clone(), vec![0; plain.len()]);
            let text = Text::InPlace {
                buffer: &mut expected,
                spans,
            };
            let keys = Keys::Each {
                algorithm,
                bytes: &bytes,
            };
            cpu.run(Batch::encrypt(keys, text)).unwrap();
            output.read(0, &mut found).unwrap();
            assert!(found == expected, "{algorithm}, {len} bytes");
        }
    }
}

#[test]
fn launches_can_be_captured_into_a_graph() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let key = Key::generate(Algorithm::Aes256Gcm).unwrap();
    let plain = random(100_000);
    let data = uploaded(&device, &plain);
    let nonce = uploaded(&device, &random(12));
    let tag = device.alloc(16).unwrap();
    let plan = |direction| {
        let batch = DeviceBatch::new(direction, &key, DeviceText::in_place(data.region()))
            .ivs(DeviceIvs::Each(nonce.region()))
            .tags(DeviceTags::Apart(tag.region()));
        Plan::new(&device, batch).unwrap()
    };
    let (seal, open) = (plan(Direction::Encrypt), plan(Direction::Decrypt));
    let stream = device.stream().unwrap();
    let raw: sys::CUstream = stream.raw().cast();
    let good = |code| assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
    device
        .call(|_| {
            let (mut graph, mut launchable) = (std::ptr::null_mut(), std::ptr::null_mut());
            let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            // SAFETY: the context is bound; everything lives until the stream is synchronized.
            unsafe {
                good(sys::cuStreamBeginCapture_v2(raw, mode));
                seal.launch(&stream).unwrap();
                open.launch(&stream).unwrap();
                good(sys::cuStreamEndCapture(raw, &raw mut graph));
                good(sys::cuGraphInstantiateWithFlags(
                    &raw mut launchable,
                    graph,
                    0,
                ));
                good(sys::cuGraphLaunch(launchable, raw));
                good(sys::cuGraphLaunch(launchable, raw));
                good(sys::cuStreamSynchronize(raw));
                good(sys::cuGraphExecDestroy(launchable));
                good(sys::cuGraphDestroy(graph));
            }
            Ok(())
        })
        .unwrap();
    assert!(open.failed(&stream).unwrap().is_empty());
    let mut found = vec![0; plain.len()];
    data.read(0, &mut found).unwrap();
    assert!(found == plain);
}
