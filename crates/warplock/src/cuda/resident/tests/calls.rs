//! Calls, on a GPU: what random plans do not cover.

use super::super::call::Work;
use super::super::check::Checked;
use super::super::sheet::PlanSheet;
use super::super::{
    Device, DeviceBatch, DeviceIvs, DeviceKey, DeviceTags, DeviceText, DeviceVerdicts, Plan,
};
use super::on_gpu::{cpu, device, random, read, uploaded};
use super::{apart, region};
use crate::cuda::driver::api::RawEvent;
use crate::cuda::launch::keys::OneKey;
use crate::cuda::launch::policy::Policy;
use crate::{
    Algorithm, Batch, BatchProblem, Cipher, Direction, Error, Ivs, Key, Keys, Span, Spans, Tags,
    Text,
};

/// Each launch costs the host 2 to 3 us.
#[test]
fn a_call_takes_few_launches() {
    let key = Key::new(Algorithm::Aes256Gcm, &[1; 32]).unwrap();
    let one = OneKey::of(&key);
    let names = |direction, count, len| {
        let batch = DeviceBatch::new(direction, &key, apart(count, len))
            .ivs(DeviceIvs::Each(region(0x100, 12 * count)))
            .tags(DeviceTags::Apart(region(0x2000, 16 * count)));
        let batch = Checked::new(batch).unwrap();
        let layout = PlanSheet::spread(&batch, &Policy::DEFAULT, 132, None);
        let spread = layout.spread_of(&batch, 0x1000).unwrap();
        let work = Work {
            direction,
            tag_len: 16,
            count,
            layout: &layout,
            first: spread.steps(),
        };
        let mut located = layout.located_without_keys(Cipher::Aes256, 0x1000);
        located.table = Some(0x3000);
        let steps = work.steps(
            key.algorithm().info(),
            &mut located,
            Some(&one),
            DeviceVerdicts::default(),
        );
        let all = work.first.iter().chain(&steps);
        all.map(|step| step.name.clone()).collect::<Vec<_>>()
    };
    let (seal, open) = (Direction::Encrypt, Direction::Decrypt);
    let tables = "spread_messages";
    assert_eq!(
        names(seal, 1, 1 << 20),
        [tables, "gcm_long_encrypt_256", "gcm_finish"]
    );
    assert_eq!(
        names(open, 1, 1 << 20),
        [tables, "gcm_long_decrypt_256", "gcm_finish", "gcm_wipe"]
    );
    assert_eq!(names(seal, 64, 1024), [tables, "gcm_small_encrypt"]);
    assert_eq!(
        names(open, 64, 1024),
        [tables, "gcm_small_decrypt", "give_verdicts"]
    );
}

/// The host sends spans alone: sorting would take it longer than all else.
#[test]
fn the_device_sorts_messages_of_acorn_by_length() {
    let key = Key::new(Algorithm::Acorn128, &[1; 16]).unwrap();
    let count = 1000;
    let names = |text, sent| {
        let batch = DeviceBatch::encrypt(&key, text)
            .ivs(DeviceIvs::Each(region(0x100_0000, 16 * count)))
            .tags(DeviceTags::Apart(region(0x200_0000, 16 * count)));
        let batch = Checked::new(batch).unwrap();
        let layout = PlanSheet::spread(&batch, &Policy::DEFAULT, 132, None);
        assert_eq!(layout.len, sent);
        let spread = layout.spread_of(&batch, 0x1000).unwrap();
        let steps = spread.steps();
        steps.into_iter().map(|step| step.name).collect::<Vec<_>>()
    };
    let spans: Vec<Span> = (0..count)
        .map(|number| Span {
            offset: 100 * number,
            len: number % 90,
        })
        .collect();
    let ragged = DeviceText::InPlace {
        buffer: region(0x10_0000, 100 * count),
        spans: Spans::Ragged(&spans),
    };
    assert_eq!(
        names(ragged, size_of_val(&*spans)),
        ["count_classes", "sort_messages", "spread_messages"]
    );
    assert_eq!(names(apart(count, 90), 0), ["spread_messages"]);
}

/// Frames as Parquet and others have them: a length, the nonce, the text, the tag, at any byte.
#[test]
fn nonce_text_and_tag_may_lie_side_by_side() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let key = Key::generate(Algorithm::Aes256Gcm).unwrap();
    let on_gpu = DeviceKey::new(&device, &key).unwrap();
    let lens: Vec<usize> = (0..300).map(|i| i * i % 5000 + i % 3).collect();
    let (mut texts, mut nonces, mut end) = (Vec::new(), Vec::new(), 1);
    for &len in &lens {
        nonces.push(Span {
            offset: end + 4,
            len: 12,
        });
        texts.push(Span {
            offset: end + 16,
            len,
        });
        end += 4 + 12 + len + 16;
    }
    let plain = random(end);
    let mut sealed = plain.clone();
    let ivs: Vec<u8> = (nonces.iter())
        .flat_map(|span| plain[span.offset..][..12].to_vec())
        .collect();
    let text = Text::InPlace {
        buffer: &mut sealed,
        spans: Spans::Ragged(&texts),
    };
    let batch = Batch::encrypt(Keys::One(&key), text).ivs(Ivs::Each(&ivs));
    cpu().run(batch.tags(Tags::Appended)).unwrap();

    let there = uploaded(&device, &plain);
    let place = DeviceText::InPlace {
        buffer: there.region(),
        spans: Spans::Ragged(&texts),
    };
    let ivs = DeviceIvs::Ragged {
        bytes: there.region(),
        spans: Spans::Ragged(&nonces),
    };
    let seal = DeviceBatch::encrypt(&on_gpu, place).ivs(ivs);
    let open = DeviceBatch::decrypt(&on_gpu, place).ivs(ivs);
    let workspace = device.alloc(on_gpu.workspace_len(&seal).unwrap()).unwrap();
    let stream = device.stream().unwrap();
    let queue = |batch| {
        let none = DeviceVerdicts::default();
        // SAFETY: all of it lives until the stream is synchronized, and nothing else uses it.
        unsafe { on_gpu.enqueue(batch, none, workspace.region(), &stream) }.unwrap();
        stream.synchronize().unwrap();
    };
    queue(seal);
    assert!(read(&there) == sealed);
    queue(open);
    let opened = read(&there);
    for span in texts.iter().chain(&nonces) {
        let range = span.offset..span.offset + span.len;
        assert!(opened[range.clone()] == plain[range]);
    }
    // A nonce inside a text.
    nonces[7].offset = texts[9].offset + 1;
    let ivs = DeviceIvs::Ragged {
        bytes: there.region(),
        spans: Spans::Ragged(&nonces),
    };
    match on_gpu.workspace_len(&DeviceBatch::encrypt(&on_gpu, place).ivs(ivs)) {
        Err(Error::Batch {
            problem: BatchProblem::RegionsOverlap { .. },
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_waits_for_no_other_stream() {
    let ready = |device: &Device| {
        DeviceKey::new(device, &Key::generate(Algorithm::Aes128Ctr).unwrap()).unwrap()
    };
    // What an earlier device loaded and tested is not loaded for the next one.
    if let Some((device, _alone)) = device() {
        ready(&device);
    }
    let Some((device, _alone)) = device() else {
        return;
    };
    // One lane takes a second for it.
    let slow = Key::generate(Algorithm::Acorn128).unwrap();
    let len = 40 << 20;
    let (text, iv, tag) = (
        uploaded(&device, &vec![1; len]),
        uploaded(&device, &[2; 16]),
        device.alloc(16).unwrap(),
    );
    let batch = DeviceBatch::encrypt(&slow, DeviceText::in_place(text.region()))
        .ivs(DeviceIvs::Each(iv.region()))
        .tags(DeviceTags::Apart(tag.region()));
    let plan = Plan::new(&device, batch).unwrap();
    let key = ready(&device);
    let quick = uploaded(&device, &[0; 4096]);
    let batch = DeviceBatch::encrypt(&key, DeviceText::in_place(quick.region()))
        .ivs(DeviceIvs::Each(iv.region()));
    let workspace = device.alloc(key.workspace_len(&batch).unwrap()).unwrap();
    key.reserve(&batch, 64).unwrap();
    let (busy, other) = (device.stream().unwrap(), device.stream().unwrap());
    let done = device
        .call(|device| RawEvent::new(&device.link().context))
        .unwrap();
    // SAFETY: everything lives until both streams are synchronized, and nothing else uses it.
    unsafe { plan.launch(&busy) }.unwrap();
    device.call(|_| done.record(busy.inner())).unwrap();
    for _ in 0..100 {
        // SAFETY: as above; the calls go to one stream.
        unsafe { key.enqueue(batch, DeviceVerdicts::default(), workspace.region(), &other) }
            .unwrap();
    }
    other.synchronize().unwrap();
    let still_busy = !device
        .call(|_| done.is_past("looking at a stream"))
        .unwrap();
    assert!(still_busy, "100 calls were queued and done meanwhile");
    busy.synchronize().unwrap();
}

#[test]
fn a_call_needs_its_own_key_and_room() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let host = Key::generate(Algorithm::Aes128Ctr).unwrap();
    let key = DeviceKey::new(&device, &host).unwrap();
    let data = uploaded(&device, &[0; 4096]);
    let iv = uploaded(&device, &[0; 16]);
    let text = DeviceText::in_place(data.region());
    let other = DeviceBatch::encrypt(&host, text).ivs(DeviceIvs::Each(iv.region()));
    assert!(key.workspace_len(&other).is_err());
    let batch = DeviceBatch::encrypt(&key, text).ivs(DeviceIvs::Each(iv.region()));
    let len = key.workspace_len(&batch).unwrap();
    let room = device.alloc(len + 16).unwrap();
    let stream = device.stream().unwrap();
    let before = read(&data);
    for workspace in [
        room.region().part(0, len - 1),
        room.region().part(1, len),
        data.region(),
    ] {
        // SAFETY: everything lives until the stream is synchronized, and nothing else uses it.
        let refused = unsafe { key.enqueue(batch, DeviceVerdicts::default(), workspace, &stream) };
        assert!(matches!(refused, Err(Error::Batch { .. })), "{refused:?}");
    }
    stream.synchronize().unwrap();
    assert_eq!(read(&data), before);
}
