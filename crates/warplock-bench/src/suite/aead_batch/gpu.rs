//! A row's messages through a GPU: to it over the link, the kernel, and back.

use warplock::cuda::{
    DeviceAad, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceKeys, DeviceTags, DeviceText,
    PinnedBuffer, Plan,
};
use warplock::{Direction, Spans};

use super::messages::Messages;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::{Error, Sample};

/// Short copies and kernels are queued this often, so that the start of the first one does not
/// show.
const TOGETHER: usize = 32;

/// From this many bytes of text on, once is enough.
const LONG: usize = 512 << 20;

/// The rates of one direction, in bytes a second.
pub(super) struct Rates {
    /// Everything that goes to the GPU: texts, associated data, keys, nonces, tags to open with.
    pub(super) copy_in: Sample,
    /// Text and associated data over the kernel's time.
    pub(super) kernel: Sample,
    /// Everything that comes back: texts, and tags when sealing.
    pub(super) copy_out: Sample,
}

/// The same bytes on both sides of the link.
struct Mirror {
    host: PinnedBuffer,
    device: DeviceBuffer,
}

impl Mirror {
    fn new(gpu: &Gpu, bytes: &[u8]) -> Result<Self> {
        let mut host = gpu.device.pinned(bytes.len())?;
        host.copy_from_slice(bytes);
        let mut device = gpu.device.alloc(bytes.len())?;
        device.fill(0xa5)?;
        Ok(Mirror { host, device })
    }
}

/// The device memory of a row. Sealing goes from `plain` to `cipher`, opening back.
struct Row<'a> {
    messages: &'a Messages,
    text: PinnedBuffer,
    plain: DeviceBuffer,
    cipher: DeviceBuffer,
    keys: Mirror,
    ivs: Mirror,
    aad: Mirror,
    tags: Mirror,
}

/// Seals and opens on the GPU; both results are compared with the messages' own.
pub(super) fn measure(gpu: &Gpu, messages: &Messages) -> Result<[Rates; 2]> {
    let Messages { count, len, .. } = *messages;
    let mut row = Row {
        messages,
        text: gpu.device.pinned(count * len)?,
        plain: gpu.device.alloc(count * len)?,
        cipher: gpu.device.alloc(count * len)?,
        keys: Mirror::new(gpu, &messages.keys)?,
        ivs: Mirror::new(gpu, &messages.ivs)?,
        aad: Mirror::new(gpu, &messages.aad)?,
        tags: Mirror::new(gpu, &messages.tags)?,
    };
    let seal = row.measure(gpu, Direction::Encrypt)?;
    let open = row.measure(gpu, Direction::Decrypt)?;
    Ok([seal, open])
}

impl Row<'_> {
    fn plan(&self, gpu: &Gpu, direction: Direction) -> Result<Plan> {
        let Messages { count, len, .. } = *self.messages;
        let even = |len| Spans::Even {
            count,
            len,
            stride: len,
        };
        let (input, output) = match direction {
            Direction::Encrypt => (&self.plain, &self.cipher),
            Direction::Decrypt => (&self.cipher, &self.plain),
        };
        let text = DeviceText::Apart {
            input: input.region(),
            input_spans: even(len),
            output: output.region(),
            output_spans: even(len),
        };
        let keys = DeviceKeys::Each {
            algorithm: self.messages.algorithm,
            bytes: self.keys.device.region(),
        };
        let batch = DeviceBatch::new(direction, keys, text)
            .ivs(DeviceIvs::Each(self.ivs.device.region()))
            .aad(DeviceAad::Each {
                bytes: self.aad.device.region(),
                spans: even(self.messages.aad_len),
            })
            .tags(DeviceTags::Apart(self.tags.device.region()));
        Ok(Plan::new(&gpu.device, batch)?)
    }

    fn measure(&mut self, gpu: &Gpu, direction: Direction) -> Result<Rates> {
        let opens = direction == Direction::Decrypt;
        self.text.copy_from_slice(match opens {
            true => &self.messages.cipher,
            false => &self.messages.plain,
        });
        let Row { plain, cipher, .. } = self;
        let (input, output) = match opens {
            true => (cipher, plain),
            false => (plain, cipher),
        };
        // So that missing output shows.
        output.fill(0xa5)?;
        let mut brought = vec![&self.keys, &self.ivs, &self.aad];
        if opens {
            brought.push(&self.tags);
        }
        let text = self.text.len();
        let times = (LONG / text.max(1)).clamp(1, TOGETHER);
        let seconds = gpu.time(|stream| {
            (0..times).try_for_each(|_| {
                // SAFETY: everything lives until `time` has waited, and nothing else uses it.
                unsafe {
                    input.upload(&self.text, stream)?;
                    for mirror in &brought {
                        mirror.device.upload(&mirror.host, stream)?;
                    }
                }
                Ok(())
            })
        })?;
        let small: usize = brought.iter().map(|mirror| mirror.host.len()).sum();
        let copy_in = rate(seconds, times * (text + small));

        let plan = self.plan(gpu, direction)?;
        let seconds = gpu.time(|stream| {
            // SAFETY: as above; launches on one stream follow each other.
            (0..times).try_for_each(|_| Ok(unsafe { plan.launch(stream) }?))
        })?;
        let kernel = rate(seconds, times * self.messages.bytes());
        let refused = plan.failed(&gpu.stream)?;

        let output = if opens { &self.plain } else { &self.cipher };
        let (to, tags) = (&mut self.text, &mut self.tags);
        let seconds = gpu.time(|stream| {
            (0..times).try_for_each(|_| {
                // SAFETY: as above.
                unsafe {
                    output.download(to, stream)?;
                    if !opens {
                        tags.device.download(&mut tags.host, stream)?;
                    }
                }
                Ok(())
            })
        })?;
        gpu.stream.synchronize()?;
        let made = if opens { 0 } else { self.tags.host.len() };
        let copy_out = rate(seconds, times * (text + made));
        let right = match opens {
            true => self.text[..] == self.messages.plain,
            false => {
                self.text[..] == self.messages.cipher && self.tags.host[..] == self.messages.tags
            }
        };
        if !right || !refused.is_empty() {
            return Err(Error::Wrong(format!(
                "{} messages of {} bytes: the GPU does not agree with the CPU ({}, \
                 {direction:?}, {} refused)",
                self.messages.count,
                self.messages.len,
                self.messages.algorithm,
                refused.len()
            )));
        }
        Ok(Rates {
            copy_in,
            kernel,
            copy_out,
        })
    }
}

fn rate(seconds: Sample, bytes: usize) -> Sample {
    seconds.map(|seconds| bytes as f64 / seconds)
}
