//! Runs a row: random data, plan, launches, verification.

use warplock::cuda::{
    DeviceBatch, DeviceBuffer, DeviceIvs, DeviceKeys, DeviceTags, DeviceText, Plan, Region,
};
use warplock::{Algorithm, Direction, Key, Mode, Spans};

use super::case::Case;
use super::verify;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::{Context, Error, Sample, random};

/// The data that all rows of a size share.
pub(super) struct Buffers {
    /// Random.
    pub(super) input: DeviceBuffer,
    pub(super) output: DeviceBuffer,
    /// Ciphertexts to open.
    third: DeviceBuffer,
}

impl Buffers {
    pub(super) fn new(gpu: &Gpu, size: usize) -> Result<Self> {
        let mut input = gpu.device.alloc(size)?;
        randomize(gpu, &mut input)?;
        let mut output = gpu.device.alloc(size)?;
        output.fill(0)?;
        Ok(Buffers {
            input,
            output,
            third: gpu.device.alloc(size)?,
        })
    }
}

/// Fills a buffer with a key stream under a fresh key.
fn randomize(gpu: &Gpu, buffer: &mut DeviceBuffer) -> Result<()> {
    buffer.fill(0)?;
    let key = Key::generate(Algorithm::Aes128Ctr)?;
    let mut counter = gpu.device.alloc(16)?;
    counter.fill(0)?;
    let batch = DeviceBatch::encrypt(&key, DeviceText::in_place(buffer.region()));
    let plan = Plan::new(&gpu.device, batch.ivs(DeviceIvs::Each(counter.region())))?;
    // SAFETY: everything lives until the stream is synchronized.
    unsafe { plan.launch(&gpu.stream)? };
    Ok(gpu.stream.synchronize()?)
}

/// What a row's messages have in addition to their texts; on the host, too, for verification.
pub(super) struct Secrets {
    /// All keys, one after the other; of single blocks none, those are only on the device.
    pub(super) keys: Vec<u8>,
    pub(super) ivs: Vec<u8>,
    /// Tags to open with.
    pub(super) tags: Vec<u8>,
}

/// The length of a message's IV; sectors have numbers instead.
pub(super) fn iv_len(mode: Mode) -> usize {
    match mode {
        Mode::Ecb | Mode::Xts => 0,
        Mode::Gcm => 12,
        Mode::Cbc | Mode::Ctr | Mode::Acorn => 16,
    }
}

/// Seconds of a row.
pub(super) struct Times {
    pub(super) own: Sample,
    /// Of CTR on as much text, see [`Case::cipher_alone`].
    pub(super) cipher_alone: Option<Sample>,
}

/// CTR on all of a text.
struct CipherAlone {
    plan: Plan,
    _counter: DeviceBuffer,
}

impl CipherAlone {
    fn new(gpu: &Gpu, algorithm: Algorithm, input: Region, output: Region) -> Result<Self> {
        let key = Key::generate(algorithm)?;
        let mut counter = gpu.device.alloc(16)?;
        counter.write(0, &random::bytes(16)?)?;
        let batch = DeviceBatch::encrypt(&key, DeviceText::apart(input, output))
            .ivs(DeviceIvs::Each(counter.region()));
        Ok(CipherAlone {
            plan: Plan::new(&gpu.device, batch)?,
            _counter: counter,
        })
    }
}

/// Measures and verifies a row.
pub(super) fn run(
    gpu: &Gpu,
    context: &Context<'_>,
    buffers: &mut Buffers,
    case: &Case,
) -> Result<Times> {
    let (mode, count) = (case.mode(), case.count);
    let key_len = case.algorithm.key_len();
    let key_count = if case.key_each { count } else { 1 };
    let mut secrets = Secrets {
        keys: match case.key_each_block() {
            true => Vec::new(),
            false => random::bytes(key_count * key_len)?,
        },
        ivs: random::bytes(count * iv_len(mode))?,
        tags: Vec::new(),
    };
    let key = match case.key_each {
        true => None,
        false => Some(Key::new(case.algorithm, &secrets.keys)?),
    };
    let mut ivs = gpu.device.alloc(secrets.ivs.len())?;
    ivs.write(0, &secrets.ivs)?;
    let tags = gpu.device.alloc(if case.algorithm.is_aead() {
        16 * count
    } else {
        0
    })?;
    // Keys of single blocks are made on the device, those of messages are uploaded.
    let own_keys = if key.is_none() { count * key_len } else { 0 };
    let mut message_keys = gpu.device.alloc(own_keys)?;
    if case.key_each_block() {
        randomize(gpu, &mut message_keys)?;
    } else if key.is_none() {
        message_keys.write(0, &secrets.keys)?;
    }
    let keys = match &key {
        Some(key) => DeviceKeys::from(key),
        None => DeviceKeys::Each {
            algorithm: case.algorithm,
            bytes: message_keys.region(),
        },
    };
    let aead = case.algorithm.is_aead();
    let bytes = case.bytes();
    let part = |buffer: &DeviceBuffer| buffer.region().part(0, bytes);
    let plan = |direction, from: Region, to: Region| {
        let spans = Spans::Even {
            count,
            len: case.len,
            stride: case.len,
        };
        let text = DeviceText::Apart {
            input: from,
            input_spans: spans,
            output: to,
            output_spans: spans,
        };
        let mut batch = DeviceBatch::new(direction, keys, text);
        batch = match mode {
            Mode::Ecb => batch,
            Mode::Xts => batch.ivs(DeviceIvs::Sectors { first: 0 }),
            _ => batch.ivs(DeviceIvs::Each(ivs.region())),
        };
        if aead {
            batch = batch.tags(DeviceTags::Apart(tags.region()));
        }
        Plan::new(&gpu.device, batch)
    };
    let mut input = &buffers.input;
    if aead && case.direction == Direction::Decrypt {
        // Only what was sealed can be opened.
        let seal = plan(
            Direction::Encrypt,
            part(&buffers.input),
            part(&buffers.third),
        )?;
        // SAFETY: everything lives until the stream is synchronized.
        unsafe { seal.launch(&gpu.stream)? };
        gpu.stream.synchronize()?;
        input = &buffers.third;
        secrets.tags = vec![0; 16 * count];
        tags.read(0, &mut secrets.tags)?;
    }
    // So that missing output shows.
    buffers.output.fill(0xa5)?;
    let plan = plan(case.direction, part(input), part(&buffers.output))?;
    let cipher_alone = match case.cipher_alone() {
        Some(algorithm) => {
            let (from, to) = (part(&buffers.input), part(&buffers.output));
            Some(CipherAlone::new(gpu, algorithm, from, to)?)
        }
        None => None,
    };
    // The row's own comes last: its output is what is verified.
    let plans: Vec<&Plan> = (cipher_alone.iter().map(|alone| &alone.plan))
        .chain([&plan])
        .collect();
    let mut samples = gpu.time_in_turn(plans.len(), |number, stream| {
        // SAFETY: everything lives until `time_in_turn` has waited, and nothing else uses it.
        Ok(unsafe { plans[number].launch(stream) }?)
    })?;
    let refused = plan.failed(&gpu.stream)?;
    if !refused.is_empty() {
        return Err(Error::Wrong(format!(
            "{}: {} messages were refused that had been sealed before",
            case.name(),
            refused.len()
        )));
    }
    let made = (aead && case.direction == Direction::Encrypt).then_some(&tags);
    let block_keys = case.key_each_block().then_some(&message_keys);
    let texts = (input, &buffers.output);
    verify::samples(context, case, (&secrets, block_keys), texts, made)?;
    if let (Mode::Gcm, 1, Some(key)) = (mode, count, &key) {
        verify::whole_message(gpu, context, key)?;
    }
    Ok(Times {
        own: samples.pop().expect("the row's own"),
        cipher_alone: samples.pop(),
    })
}
