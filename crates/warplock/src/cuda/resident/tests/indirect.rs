//! Places that only the GPU knows, on a GPU.

use super::super::{Device, DeviceBuffer, DeviceKey, DevicePlaces, DeviceVerdicts, Region, Stream};
use super::on_gpu::{cpu, device, has_mask, random, read, uploaded};
use crate::{
    Aad, Algorithm, Batch, Direction, Error, Ivs, Key, Keys, Mode, Span, Spans, Tags, Text,
};

/// Frames as Parquet and others have them: a nonce, a text, a tag, at any byte. Associated data is elsewhere.
struct Frames {
    bytes: Vec<u8>,
    nonces: Vec<u8>,
    nonce_at: Vec<usize>,
    texts: Vec<Span>,
    aad: Vec<u8>,
    aad_spans: Vec<Span>,
}

impl Frames {
    fn new(algorithm: Algorithm, lens: &[usize]) -> Self {
        let (mut nonce_at, mut texts, mut aad_spans) = (Vec::new(), Vec::new(), Vec::new());
        let (mut end, mut aad_end) = (1, 0);
        let iv_len = algorithm.info().iv_len();
        for (number, &len) in lens.iter().enumerate() {
            nonce_at.push(end);
            texts.push(Span {
                offset: end + iv_len,
                len,
            });
            end += iv_len + len + 16;
            aad_spans.push(Span {
                offset: aad_end,
                len: number % 40,
            });
            aad_end += number % 40;
        }
        let bytes = random(end);
        let nonce = |&at: &usize| bytes[at..at + iv_len].to_vec();
        Frames {
            nonces: nonce_at.iter().flat_map(nonce).collect(),
            bytes,
            nonce_at,
            texts,
            aad: random(aad_end),
            aad_spans,
        }
    }

    /// What the CPU makes of them.
    fn sealed(&self, key: &Key) -> Vec<u8> {
        let mut sealed = self.bytes.clone();
        let spans = Spans::Ragged(&self.texts);
        let text = Text::InPlace {
            buffer: &mut sealed,
            spans,
        };
        let batch = Batch::encrypt(Keys::One(key), text).ivs(Ivs::Each(&self.nonces));
        let batch = match key.algorithm().is_aead() {
            false => batch,
            true => batch.tags(Tags::Appended).aad(Aad::Each {
                bytes: &self.aad,
                spans: Spans::Ragged(&self.aad_spans),
            }),
        };
        cpu().run(batch).unwrap();
        sealed
    }
}

/// The arrays of places in GPU memory.
struct Arrays {
    _arrays: Vec<DeviceBuffer>,
    places: DevicePlaces,
}

impl Arrays {
    fn new(device: &Device, frames: &Frames, data: Region, aad: Region, aead: bool) -> Self {
        let mut arrays = Vec::new();
        let mut array = |numbers: Vec<u64>| {
            let bytes: Vec<u8> = numbers
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect();
            arrays.push(uploaded(device, &bytes));
            arrays.last().unwrap().region()
        };
        let at = |base: Region, offset: usize| base.address() + offset as u64;
        let texts = || frames.texts.iter();
        let inputs = array(texts().map(|span| at(data, span.offset)).collect());
        let lens = array(texts().map(|span| span.len as u64).collect());
        let nonces = array(
            frames
                .nonce_at
                .iter()
                .map(|&offset| at(data, offset))
                .collect(),
        );
        let spans = || frames.aad_spans.iter();
        let addresses = array(spans().map(|span| at(aad, span.offset)).collect());
        let aad_lens = array(spans().map(|span| span.len as u64).collect());
        let tags = array(
            texts()
                .map(|span| at(data, span.offset + span.len))
                .collect(),
        );
        let total: usize = texts().map(|span| span.len).sum();
        let places = DevicePlaces {
            count: frames.texts.len(),
            total_len: total as u64,
            inputs,
            lens,
            outputs: None,
            nonces,
            aad: aead.then_some((addresses, aad_lens)),
            tags: aead.then_some(tags),
        };
        Arrays {
            _arrays: arrays,
            places,
        }
    }
}

fn run(
    key: &DeviceKey,
    host: &Key,
    frames: &Frames,
    direction: Direction,
    places: &DevicePlaces,
    verdicts: DeviceVerdicts,
    stream: &Stream,
) {
    let len = key.workspace_len_indirect(direction, places).unwrap();
    let workspace = key.device().alloc(len).unwrap();
    // SAFETY: all of it lives until the stream is synchronized, and nothing else uses it.
    unsafe { key.enqueue_indirect(direction, places, verdicts, workspace.region(), stream) }
        .unwrap();
    stream.synchronize().unwrap();
    let is_gcm = host.algorithm().info().mode == Mode::Gcm;
    let nonces = frames.nonces.chunks(12);
    assert!(!is_gcm || !has_mask(&read(&workspace), host, nonces));
}

#[test]
fn places_that_only_the_gpu_knows_agree_with_the_cpu() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let short: Vec<usize> = (0..1000).map(|i| i * 7 % 60).collect();
    let middle: Vec<usize> = (0..700).map(|i| i * i % 9000 + i % 3).collect();
    let long: Vec<usize> = (0..9).map(|i| i * 300_001 % 1_000_000).collect();
    let one = vec![100_003];
    let stream = device.stream().unwrap();
    for algorithm in Algorithm::all() {
        if !matches!(algorithm.info().mode, Mode::Gcm | Mode::Ctr | Mode::Acorn) {
            continue;
        }
        let aead = algorithm.is_aead();
        for lens in [&short, &middle, &long, &one] {
            let frames = Frames::new(algorithm, lens);
            let host = Key::generate(algorithm).unwrap();
            let mut sealed = frames.sealed(&host);
            let (data, aad) = (
                uploaded(&device, &frames.bytes),
                uploaded(&device, &frames.aad),
            );
            let arrays = Arrays::new(&device, &frames, data.region(), aad.region(), aead);
            let key = DeviceKey::new(&device, &host).unwrap();
            let run = |direction, places: &_, verdicts| {
                run(&key, &host, &frames, direction, places, verdicts, &stream);
            };
            let mut places = arrays.places;
            let none = DeviceVerdicts::default();
            run(Direction::Encrypt, &places, none);
            assert!(read(&data) == sealed, "{algorithm}: sealed");
            // Tags directly after their texts, a bound that is far too large, one forgery.
            places.tags = None;
            places.total_len = 3 * places.total_len + 5000;
            let mut right = frames.bytes.clone();
            let refused = device
                .alloc(4)
                .map(|mut word| (word.fill(0), word).1)
                .unwrap();
            let forged = frames.texts.len() / 2;
            let Span { offset, len } = frames.texts[forged];
            if aead {
                sealed[offset + len] ^= 1;
                right[offset..][..len].fill(0);
            }
            for span in frames.texts.iter().filter(|_| aead) {
                let tag = span.offset + span.len;
                right[tag..][..16].copy_from_slice(&sealed[tag..][..16]);
            }
            let again = uploaded(&device, &sealed);
            let arrays = Arrays::new(&device, &frames, again.region(), aad.region(), aead);
            let places = DevicePlaces {
                tags: None,
                total_len: places.total_len,
                ..arrays.places
            };
            let verdicts = DeviceVerdicts {
                each: None,
                refused: Some(refused.region()),
            };
            run(Direction::Decrypt, &places, verdicts);
            assert!(read(&again) == right, "{algorithm}: opened");
            assert_eq!(read(&refused), u32::from(aead).to_le_bytes());
        }
    }
}

#[test]
fn arrays_of_places_are_checked() {
    let Some((device, _alone)) = device() else {
        return;
    };
    let frames = Frames::new(Algorithm::Aes128Gcm, &[5, 6]);
    let data = uploaded(&device, &frames.bytes);
    let arrays = Arrays::new(&device, &frames, data.region(), data.region(), true);
    let key = |algorithm| DeviceKey::new(&device, &Key::generate(algorithm).unwrap()).unwrap();
    let gcm = key(Algorithm::Aes128Gcm);
    let refusal = |key: &DeviceKey, places: DevicePlaces| match key
        .workspace_len_indirect(Direction::Encrypt, &places)
    {
        Err(Error::Batch { problem, .. }) => problem.to_string(),
        other => panic!("{other:?}"),
    };
    let right = arrays.places;
    assert!(
        gcm.workspace_len_indirect(Direction::Encrypt, &right)
            .is_ok()
    );
    assert!(refusal(&key(Algorithm::Aes128Xts), right).contains("GCM, CTR and ACORN-128 do"));
    let lens = right.lens.part(0, 8);
    assert!(refusal(&gcm, DevicePlaces { lens, ..right }).contains("the lengths of texts"));
    let nonces = data.region().part(1, 16);
    let odd = refusal(&gcm, DevicePlaces { nonces, ..right });
    assert!(
        odd.contains("addresses of nonces must begin at a multiple of 8"),
        "{odd}"
    );
}
