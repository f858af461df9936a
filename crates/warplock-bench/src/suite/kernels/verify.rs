//! Compares samples of a row with the CPU's results.

use warplock::cuda::{DeviceBatch, DeviceBuffer, DeviceIvs, DeviceTags, DeviceText, Plan};
use warplock::{
    Algorithm, Batch, Cipher, Direction, Engine, Ivs, Key, Keys, Mode, Spans, Tags, Text,
};

use super::case::Case;
use super::run::{Secrets, iv_len};
use crate::error::Result;
use crate::gpu::{Gpu, cpu_engine};
use crate::{Context, Error, random};

/// Bytes of a sample.
const SAMPLE: usize = 1 << 20;

/// A part of a row's text: whole messages, or a part of the only one.
struct Window {
    /// The first message, and how many.
    message: usize,
    count: usize,
    /// Where it begins in the text.
    offset: usize,
    len: usize,
}

/// The first, the middle and the last MiB.
fn windows(case: &Case) -> Vec<Window> {
    let all = case.bytes();
    if case.count == 1 {
        let len = SAMPLE.min(all);
        let starts = [0, (all - len) / 2 / 16 * 16, all - len];
        let window = |offset| Window {
            message: 0,
            count: 1,
            offset,
            len,
        };
        return starts.map(window).into();
    }
    let count = (SAMPLE / case.len).clamp(1, case.count);
    let starts = [0, (case.count - count) / 2, case.count - count];
    let window = |message| Window {
        message,
        count,
        offset: message * case.len,
        len: count * case.len,
    };
    starts.map(window).into()
}

/// Compares samples of a row's result, and of the tags that it made.
pub(super) fn samples(
    context: &Context<'_>,
    case: &Case,
    (secrets, block_keys): (&Secrets, Option<&DeviceBuffer>),
    (input, output): (&DeviceBuffer, &DeviceBuffer),
    made: Option<&DeviceBuffer>,
) -> Result<()> {
    let engine = cpu_engine(context.threads)?;
    for window in windows(case) {
        let mut text = vec![0; window.len];
        let mut found = vec![0; window.len];
        input.read(window.offset, &mut text)?;
        output.read(window.offset, &mut found)?;
        let tags = if case.count == 1 {
            part_of_one(&engine, case, secrets, input, &window, &mut text)?;
            Vec::new()
        } else {
            let mut keys = Vec::new();
            if let Some(block_keys) = block_keys {
                let each = case.algorithm.key_len();
                keys = vec![0; window.count * each];
                block_keys.read(window.message * each, &mut keys)?;
            }
            messages(&engine, case, secrets, &keys, &window, &mut text)?
        };
        let mut good = text == found;
        if let (Some(made), false) = (made, tags.is_empty()) {
            let mut found = vec![0; tags.len()];
            made.read(16 * window.message, &mut found)?;
            good &= found == tags;
        }
        if !good {
            return Err(wrong(&case.name(), window.offset));
        }
    }
    Ok(())
}

fn wrong(what: &str, offset: usize) -> Error {
    Error::Wrong(format!(
        "{what}: the GPU does not agree with the CPU about the sample at byte {offset}"
    ))
}

/// Whole messages, in place; returns the tags if they are sealed.
fn messages(
    engine: &Engine,
    case: &Case,
    secrets: &Secrets,
    block_keys: &[u8],
    window: &Window,
    text: &mut [u8],
) -> Result<Vec<u8>> {
    let part = |bytes: &'_ [u8], each: usize| -> Vec<u8> {
        let range = window.message * each..(window.message + window.count) * each;
        bytes.get(range).unwrap_or_default().to_vec()
    };
    let key;
    let own_keys;
    let keys = if case.key_each_block() {
        Keys::Each {
            algorithm: case.algorithm,
            bytes: block_keys,
        }
    } else if case.key_each {
        own_keys = part(&secrets.keys, case.algorithm.key_len());
        Keys::Each {
            algorithm: case.algorithm,
            bytes: &own_keys,
        }
    } else {
        key = Key::new(case.algorithm, &secrets.keys)?;
        Keys::One(&key)
    };
    let ivs = part(&secrets.ivs, iv_len(case.mode()));
    let given = part(&secrets.tags, 16);
    let mut tags = Vec::new();
    let spans = Spans::Even {
        count: window.count,
        len: case.len,
        stride: case.len,
    };
    let text = Text::InPlace {
        buffer: text,
        spans,
    };
    let mut batch = Batch::new(case.direction, keys, text);
    batch = match case.mode() {
        Mode::Ecb => batch,
        Mode::Xts => batch.ivs(Ivs::Sectors {
            first: window.message as u128,
        }),
        _ => batch.ivs(Ivs::Each(&ivs)),
    };
    if case.algorithm.is_aead() {
        batch = match case.direction {
            Direction::Encrypt => {
                tags = vec![0; 16 * window.count];
                batch.tags(Tags::Apart(&mut tags))
            }
            Direction::Decrypt => batch.tags(Tags::Given(&given)),
        };
    }
    engine.run(batch)?;
    Ok(tags)
}

/// A part of the row's only message, in place. GCM's text is that of CTR, from counter 2 on
/// (SP 800-38D, 7.1).
fn part_of_one(
    engine: &Engine,
    case: &Case,
    secrets: &Secrets,
    input: &DeviceBuffer,
    window: &Window,
    text: &mut [u8],
) -> Result<()> {
    let blocks = (window.offset / 16) as u128;
    let mut iv = secrets.ivs.clone();
    let mut algorithm = case.algorithm;
    match case.mode() {
        Mode::Ecb => {}
        Mode::Ctr => iv = counter(&iv, blocks).to_vec(),
        Mode::Gcm => {
            algorithm = match case.algorithm.info().cipher {
                Cipher::Aes128 => Algorithm::Aes128Ctr,
                Cipher::Aes192 => Algorithm::Aes192Ctr,
                Cipher::Aes256 => Algorithm::Aes256Ctr,
                Cipher::Acorn128 => unreachable!("GCM is a mode of AES"),
            };
            iv.extend([0, 0, 0, 2]);
            iv = counter(&iv, blocks).to_vec();
        }
        Mode::Cbc if window.offset > 0 => input.read(window.offset - 16, &mut iv)?,
        Mode::Cbc => {}
        Mode::Xts => unreachable!("XTS has sectors"),
        Mode::Acorn => unreachable!("no row of this suite"),
    }
    let key = Key::new(algorithm, &secrets.keys)?;
    let mut batch = Batch::new(case.direction, Keys::One(&key), Text::in_place(text));
    if !iv.is_empty() {
        batch = batch.ivs(Ivs::Each(&iv));
    }
    Ok(engine.run(batch)?)
}

fn counter(start: &[u8], blocks: u128) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(start);
    u128::from_be_bytes(bytes)
        .wrapping_add(blocks)
        .to_be_bytes()
}

/// A whole message of GCM that is small enough for the CPU, with associated data: its text and tag,
/// and that the GPU opens it again.
pub(super) fn whole_message(gpu: &Gpu, context: &Context<'_>, key: &Key) -> Result<()> {
    let plain = random::bytes(SAMPLE + 5)?;
    let (nonce, mut expected, mut tag) = (random::bytes(12)?, plain.clone(), [0; 16]);
    let batch = Batch::seal(Keys::One(key), Text::in_place(&mut expected));
    let batch = batch.ivs(Ivs::Each(&nonce)).tags(Tags::Apart(&mut tag));
    cpu_engine(context.threads)?.run(batch)?;

    let mut data = gpu.device.alloc(plain.len())?;
    data.write(0, &plain)?;
    let mut nonces = gpu.device.alloc(nonce.len())?;
    nonces.write(0, &nonce)?;
    let tags = gpu.device.alloc(16)?;
    for (direction, expected) in [
        (Direction::Encrypt, &expected),
        (Direction::Decrypt, &plain),
    ] {
        let batch = DeviceBatch::new(direction, key, DeviceText::in_place(data.region()))
            .ivs(DeviceIvs::Each(nonces.region()))
            .tags(DeviceTags::Apart(tags.region()));
        let plan = Plan::new(&gpu.device, batch)?;
        // SAFETY: everything lives until `failed` has waited.
        unsafe { plan.launch(&gpu.stream)? };
        let refused = plan.failed(&gpu.stream)?;
        let (mut found, mut found_tag) = (vec![0; plain.len()], [0; 16]);
        data.read(0, &mut found)?;
        tags.read(0, &mut found_tag)?;
        if !refused.is_empty() || found != *expected || found_tag != tag {
            return Err(wrong(&format!("{} of 1 MiB", key.algorithm()), 0));
        }
    }
    Ok(())
}
