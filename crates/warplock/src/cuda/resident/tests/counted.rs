//! Counted nonces: their values and refusals need no GPU; batches are compared with the CPU's.

use std::collections::HashSet;

use cudarc::driver::sys;

use super::super::check::Checked;
use super::super::sheet::{PlanSheet, one_key};
use super::super::{
    Device, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceKey, DeviceTags, DeviceText,
    DeviceVerdicts, NonceCounter, Plan, Stream,
};
use super::on_gpu::{cpu, device, random, read, uploaded};
use super::{apart, even, region};
use crate::cuda::launch::policy::Policy;
use crate::{Algorithm, Batch, Ivs, Key, Keys, Spans, Tags, Text};

/// The nonces that the host writes for a batch of three messages.
fn written(ivs: DeviceIvs<'_>) -> Vec<[u8; 12]> {
    const SHEET: u64 = 0x70_0000;
    let key = Key::new(Algorithm::Aes128Gcm, &[1; 16]).unwrap();
    let tags = DeviceTags::Apart(region(0x100, 48));
    let batch = DeviceBatch::encrypt(&key, apart(3, 100))
        .ivs(ivs)
        .tags(tags);
    let batch = Checked::new(batch).unwrap();
    let sheet = PlanSheet::new(&batch, &Policy::DEFAULT, 132, None);
    let host = sheet.write(&batch, one_key(&batch).as_ref(), SHEET);
    let place = |number| (sheet.iv(&batch, number, SHEET).0 - SHEET) as usize;
    let nonce = |number| host[place(number)..][..12].try_into().unwrap();
    (0..3).map(nonce).collect()
}

#[test]
fn counted_nonces_have_the_values_of_the_formats() {
    let base: [u8; 12] = std::array::from_fn(|i| 0xF0 + i as u8);
    let ends = |ivs| -> Vec<[u8; 8]> {
        let nonces = written(ivs);
        assert!(nonces.iter().all(|nonce| nonce[..4] == base[..4]));
        nonces
            .iter()
            .map(|nonce| *nonce.last_chunk().unwrap())
            .collect()
    };
    let number = u64::from_be_bytes(*base.last_chunk().unwrap());
    let first = (1 << 40) - 1;
    let xor = |i: u64| (number ^ (first + i)).to_be_bytes();
    assert_eq!(
        ends(DeviceIvs::Xor { base: &base, first }),
        [xor(0), xor(1), xor(2)]
    );
    // Of the last four bytes alone, 0xF8F9FAFB.
    let add = |low: u32| (number >> 32 << 32 | u64::from(low)).to_be_bytes();
    let first = u32::MAX - 0xF8F9_FAFB - 1;
    let wrapping = DeviceIvs::Add32 { base: &base, first };
    assert_eq!(ends(wrapping), [add(u32::MAX - 1), add(u32::MAX), add(0)]);
}

#[test]
fn counted_nonces_that_would_repeat_or_do_not_fit_are_refused() {
    let refusal = |algorithm, ivs| {
        let key = Key::generate(algorithm).unwrap();
        let batch = DeviceBatch::encrypt(&key, apart(3, 96)).ivs(ivs);
        let batch = match algorithm.is_aead() {
            true => batch.tags(DeviceTags::Apart(region(0x100, 48))),
            false => batch,
        };
        Checked::new(batch).err().unwrap().to_string()
    };
    let (short, long) = ([0; 12], [0; 16]);
    for ivs in [
        DeviceIvs::Xor {
            base: &long,
            first: 0,
        },
        DeviceIvs::Add32 {
            base: &long,
            first: 0,
        },
    ] {
        // Neighbouring start counters of CTR would give one key stream twice.
        assert!(refusal(Algorithm::Aes128Ctr, ivs).contains("only authenticated"));
        assert!(refusal(Algorithm::Aes128Gcm, ivs).contains("16 bytes, not 12"));
    }
    let end = DeviceIvs::Xor {
        base: &short,
        first: u64::MAX - 2,
    };
    assert!(refusal(Algorithm::Aes128Gcm, end).contains("beyond 2^64"));
}

/// Texts in GPU memory, with buffers for the results.
struct There {
    plain: Vec<u8>,
    input: DeviceBuffer,
    output: DeviceBuffer,
    tags: DeviceBuffer,
    nonces: DeviceBuffer,
    spans: Spans<'static>,
    key: Key,
}

impl There {
    fn new(device: &Device, algorithm: Algorithm, count: usize, len: usize) -> Self {
        let plain = random(count * len);
        There {
            input: uploaded(device, &plain),
            output: device.alloc(count * len).unwrap(),
            tags: device.alloc(16 * count).unwrap(),
            // At an odd place.
            nonces: device.alloc(count * algorithm.info().iv_len() + 1).unwrap(),
            spans: even(count, len),
            key: Key::generate(algorithm).unwrap(),
            plain,
        }
    }

    fn text(&self) -> DeviceText<'static> {
        DeviceText::Apart {
            input: self.input.region(),
            input_spans: self.spans,
            output: self.output.region(),
            output_spans: self.spans,
        }
    }

    fn counted<'a>(&self, counter: &'a NonceCounter) -> DeviceIvs<'a> {
        let nonces = self.nonces.region().part(1, self.nonces.len() - 1);
        DeviceIvs::Counter { counter, nonces }
    }

    /// Whether the output is what the CPU makes with the nonces that were written, or with these.
    fn check(&self, given: Option<Vec<u8>>) -> Vec<Vec<u8>> {
        let nonces = given.unwrap_or_else(|| read(&self.nonces)[1..].to_vec());
        let (mut output, mut tags) = (vec![0; self.plain.len()], vec![0; self.tags.len()]);
        let text = Text::Apart {
            input: &self.plain,
            input_spans: self.spans,
            output: &mut output,
            output_spans: self.spans,
        };
        let batch = Batch::encrypt(Keys::One(&self.key), text).ivs(Ivs::Each(&nonces));
        cpu().run(batch.tags(Tags::Apart(&mut tags))).unwrap();
        assert!(read(&self.output) == output && read(&self.tags) == tags);
        let len = self.key.algorithm().info().iv_len();
        nonces.chunks(len).map(<[u8]>::to_vec).collect()
    }
}

/// Runs `work` `times` times as a graph, and `after` each time.
fn replay(device: &Device, stream: &Stream, times: usize, work: impl Fn(), after: impl FnMut()) {
    let raw: sys::CUstream = stream.raw().cast();
    let mut after = after;
    let good = |code| assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
    let (mut graph, mut launchable) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let called = device.call(|_| {
        // SAFETY: the context is bound, and the stream lives.
        unsafe {
            good(sys::cuStreamBeginCapture_v2(raw, mode));
            work();
            good(sys::cuStreamEndCapture(raw, &raw mut graph));
            good(sys::cuGraphInstantiateWithFlags(
                &raw mut launchable,
                graph,
                0,
            ));
        }
        Ok(())
    });
    called.unwrap();
    for _ in 0..times {
        // SAFETY: as above; what the work uses lives until the stream is synchronized.
        let launched = device.call(|_| unsafe {
            good(sys::cuGraphLaunch(launchable, raw));
            good(sys::cuStreamSynchronize(raw));
            Ok(())
        });
        launched.unwrap();
        after();
    }
    // SAFETY: as above; nothing runs any more.
    let destroyed = device.call(|_| unsafe {
        good(sys::cuGraphExecDestroy(launchable));
        good(sys::cuGraphDestroy(graph));
        Ok(())
    });
    destroyed.unwrap();
}

#[test]
fn calls_plans_and_graphs_take_new_nonces_from_one_counter() {
    let Some((device, _alone)) = device() else {
        return;
    };
    for (algorithm, count, len) in [
        (Algorithm::Aes256Gcm, 3000, 100),
        (Algorithm::Aes128Gcm, 70, 5000),
        (Algorithm::Acorn128, 300, 33),
    ] {
        let there = There::new(&device, algorithm, count, len);
        let counter = NonceCounter::new(&device, algorithm, None).unwrap();
        let key = DeviceKey::new(&device, &there.key).unwrap();
        let stream = device.stream().unwrap();
        let mut seen = HashSet::new();
        let mut add = |nonces: Vec<Vec<u8>>| {
            let new = nonces
                .into_iter()
                .filter(|nonce| seen.insert(nonce.clone()));
            assert_eq!(new.count(), count, "{algorithm}: new ones each time");
        };
        let batch = DeviceBatch::encrypt(&key, there.text())
            .ivs(there.counted(&counter))
            .tags(DeviceTags::Apart(there.tags.region()));
        let workspace = device.alloc(key.workspace_len(&batch).unwrap()).unwrap();
        for _ in 0..2 {
            let none = DeviceVerdicts::default();
            // SAFETY: all of it lives until the stream is synchronized, and nothing else uses it.
            unsafe { key.enqueue(batch, none, workspace.region(), &stream) }.unwrap();
            stream.synchronize().unwrap();
            add(there.check(None));
        }
        let batch = DeviceBatch::encrypt(&there.key, there.text())
            .ivs(there.counted(&counter))
            .tags(DeviceTags::Apart(there.tags.region()));
        let plan = Plan::new(&device, batch).unwrap();
        // SAFETY: as above.
        let launch = || unsafe { plan.launch(&stream) }.unwrap();
        launch();
        stream.synchronize().unwrap();
        add(there.check(None));
        replay(&device, &stream, 5, launch, || add(there.check(None)));
        let open = DeviceBatch::decrypt(&key, there.text()).ivs(there.counted(&counter));
        let open = open.tags(DeviceTags::Apart(there.tags.region()));
        let refused = key.workspace_len(&open).unwrap_err().to_string();
        assert!(refused.contains("makes new nonces"), "{refused}");
    }
    let one = NonceCounter::new(&device, Algorithm::Aes256Gcm, None);
    let other = Key::generate(Algorithm::Acorn128).unwrap();
    let there = There::new(&device, Algorithm::Acorn128, 1, 16);
    let batch = DeviceBatch::encrypt(&other, there.text())
        .ivs(there.counted(one.as_ref().unwrap()))
        .tags(DeviceTags::Apart(there.tags.region()));
    assert!(Plan::new(&device, batch).is_err());
    for (algorithm, prefix, right) in [
        (Algorithm::Aes256Gcm, 4, true),
        (Algorithm::Aes256Gcm, 8, false),
        (Algorithm::Acorn128, 8, true),
        (Algorithm::Aes256Ctr, 8, false),
    ] {
        let made = NonceCounter::new(&device, algorithm, Some(&vec![7; prefix]));
        assert_eq!(made.is_ok(), right, "{algorithm}, {prefix}");
    }
}

/// A prefix is followed by numbers from 0 on, also beyond one launch.
#[test]
fn a_counter_with_a_prefix_counts_from_0() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let there = There::new(&device, Algorithm::Aes128Gcm, 300, 64);
    let counter = NonceCounter::new(&device, Algorithm::Aes128Gcm, Some(b"left")).unwrap();
    let batch = DeviceBatch::encrypt(&there.key, there.text())
        .ivs(there.counted(&counter))
        .tags(DeviceTags::Apart(there.tags.region()));
    let plan = Plan::new(&device, batch).unwrap();
    let stream = device.stream().unwrap();
    for launch in 0..3_u64 {
        // SAFETY: everything lives until the stream is synchronized, and nothing else uses it.
        unsafe { plan.launch(&stream) }.unwrap();
        stream.synchronize().unwrap();
        for (number, nonce) in (300 * launch..).zip(there.check(None)) {
            assert_eq!(nonce, [&b"left"[..], &number.to_be_bytes()].concat());
        }
    }
}

#[test]
fn nonces_counted_from_a_base_agree_with_the_cpu() {
    let Some((device, _alone)) = device() else {
        return;
    };
    for (count, len) in [(300, 100), (40, 3000), (3, 100_000)] {
        let there = There::new(&device, Algorithm::Aes256Gcm, count, len);
        let key = DeviceKey::new(&device, &there.key).unwrap();
        let stream = device.stream().unwrap();
        let base = random(12);
        let xor = |number: u64| {
            let mut nonce = base.clone();
            let end: &mut [u8; 8] = nonce.last_chunk_mut().unwrap();
            *end = (u64::from_be_bytes(*end) ^ number).to_be_bytes();
            nonce
        };
        let add = |number: u32| {
            let mut nonce = base.clone();
            let end: &mut [u8; 4] = nonce.last_chunk_mut().unwrap();
            *end = u32::from_be_bytes(*end).wrapping_add(number).to_be_bytes();
            nonce
        };
        let first = u64::from(u32::MAX);
        let xored = (0..count as u64).flat_map(|i| xor(first + i)).collect();
        let added = (0..count as u32).flat_map(|i| add(77 + i)).collect();
        let given: [(DeviceIvs<'_>, Vec<u8>); 2] = [
            (DeviceIvs::Xor { base: &base, first }, xored),
            (
                DeviceIvs::Add32 {
                    base: &base,
                    first: 77,
                },
                added,
            ),
        ];
        for (ivs, nonces) in given {
            let batch = DeviceBatch::encrypt(&key, there.text())
                .ivs(ivs)
                .tags(DeviceTags::Apart(there.tags.region()));
            let workspace = device.alloc(key.workspace_len(&batch).unwrap()).unwrap();
            let none = DeviceVerdicts::default();
            // SAFETY: all of it lives until the stream is synchronized, and nothing else uses it.
            unsafe { key.enqueue(batch, none, workspace.region(), &stream) }.unwrap();
            stream.synchronize().unwrap();
            there.check(Some(nonces.clone()));
            // A plan may open with them, but not seal.
            let seal = DeviceBatch {
                keys: (&there.key).into(),
                ..batch
            };
            let refused = Plan::new(&device, seal).unwrap_err().to_string();
            assert!(
                refused.contains("the same nonces at each launch"),
                "{refused}"
            );
            let text = DeviceText::InPlace {
                buffer: there.output.region(),
                spans: there.spans,
            };
            let open = DeviceBatch::decrypt(&there.key, text)
                .ivs(ivs)
                .tags(DeviceTags::Apart(there.tags.region()));
            let plan = Plan::new(&device, open).unwrap();
            // SAFETY: as above.
            unsafe { plan.launch(&stream) }.unwrap();
            assert!(plan.failed(&stream).unwrap().is_empty());
            assert!(read(&there.output) == there.plain);
        }
    }
}
