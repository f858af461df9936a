//! Plans: batches in GPU memory, ready to be launched.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use zeroize::Zeroizing;

use super::batch::{DeviceBatch, DeviceIvs, DeviceKeys};
use super::check::Checked;
use super::counter;
use super::device::Device;
use super::selftest::ensure_tested;
use super::sheet::{PlanSheet, one_key};
use super::split::{HashersAt, may_split};
use super::stream::Stream;
use crate::cuda::driver::api::Failure;
use crate::cuda::driver::memory::DeviceBytes;
use crate::cuda::driver::memory::{self, DeviceMemory};
use crate::cuda::launch::abi::split_bytes;
use crate::cuda::launch::bound::BoundLaunch;
use crate::cuda::launch::keys::OneKey;
use crate::cuda::launch::link::Link;
use crate::cuda::launch::parts::{verdict, was_refused};
use crate::cuda::launch::policy::Policy;
use crate::cuda::launch::policy::hashes;
use crate::cuda::launch::sheet::Located;
use crate::cuda::launch::steps::{Launcher, Step};
use crate::{AlgorithmInfo, BatchProblem, Direction, Error, Mode};

/// A batch in GPU memory, checked and prepared once, for any number of launches.
///
/// Texts, IVs, associated data and tags are read again at every launch; places, lengths and keys of
/// host memory are fixed. GCM takes tensor cores for messages of 2 KiB and more (on average) under
/// one key; under several keys eight lanes take a message, so for a few long messages make a plan
/// for each key. ACORN takes one lane per message: thousands of messages fill a GPU.
///
/// ```no_run
/// use warplock::cuda::{Device, DeviceBatch, DeviceIvs, DeviceTags, DeviceText, Plan};
/// use warplock::{Algorithm, Key, Spans};
///
/// let device = Device::open(0)?;
/// let key = Key::generate(Algorithm::Aes256Gcm)?;
/// // 1,000 messages of 16 KiB; their nonces and tags in other buffers.
/// let mut data = device.alloc(1000 * 16384)?;
/// let mut nonces = device.alloc(1000 * 12)?;
/// let tags = device.alloc(1000 * 16)?;
/// data.fill(7)?;
/// let mut drawn = vec![0; 1000 * 12]; // new ones before each launch that seals
/// warplock::fill_random(&mut drawn)?;
/// nonces.write(0, &drawn)?;
///
/// let spans = Spans::Even { count: 1000, len: 16384, stride: 16384 };
/// let text = DeviceText::InPlace { buffer: data.region(), spans };
/// let seal = DeviceBatch::encrypt(&key, text)
///     .ivs(DeviceIvs::Each(nonces.region()))
///     .tags(DeviceTags::Apart(tags.region()));
/// let open = DeviceBatch::decrypt(&key, text)
///     .ivs(DeviceIvs::Each(nonces.region()))
///     .tags(DeviceTags::Apart(tags.region()));
/// let (seal, open) = (Plan::new(&device, seal)?, Plan::new(&device, open)?);
///
/// let stream = device.stream()?;
/// // SAFETY: all buffers and plans live until the stream is synchronized, and nothing else uses
/// // them.
/// unsafe {
///     seal.launch(&stream)?;
///     open.launch(&stream)?;
/// }
/// assert!(open.failed(&stream)?.is_empty());
/// # Ok::<(), warplock::Error>(())
/// ```
pub struct Plan {
    steps: Vec<BoundLaunch>,
    sheet: DeviceMemory,
    mode: Mode,
    /// The verdicts: their offset in the sheet, and their number.
    verdicts: (usize, usize),
    direction: Direction,
    device: Device,
    /// A launch was refused after others of its kernels were queued, so their state is left over.
    halfway: AtomicBool,
}

/// The verdicts on authenticated messages after a launch: an unsigned 32-bit number each, 0 for a
/// message whose tag was right, 1 for one that was refused and is all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statuses {
    /// The device address of the first.
    pub address: u64,
    /// The distance from one to the next, in bytes.
    pub stride: usize,
    /// How many there are: one for each message.
    pub count: usize,
}

impl Plan {
    /// Checks a batch, allocates what its kernels need on the device, uploads keys (expanded, and
    /// wiped again with the plan) and the messages' places. The first plan of its kind in a process
    /// also tests its kernels on small messages with known answers. Synchronises.
    ///
    /// # Errors
    /// [`Error::Batch`] if the parts of the batch do not fit together, [`Error::NoBackend`] if its
    /// algorithm does not run on the device, [`Error::Backend`] if the device has too little memory or fails.
    pub fn new(device: &Device, batch: DeviceBatch<'_>) -> Result<Self, Error> {
        let batch = Checked::new(batch)?;
        refuse_fixed_nonces(&batch)?;
        runs_on(batch.info, device)?;
        if batch.is_idle() {
            let sheet = device.call(|device| device.link().device(0))?;
            return Ok(Plan {
                steps: Vec::new(),
                sheet,
                mode: batch.info.mode,
                verdicts: (0, 0),
                direction: batch.direction,
                device: device.clone(),
                halfway: AtomicBool::new(false),
            });
        }
        let policy = &Policy::DEFAULT;
        let hashers = match may_split(&batch, policy) {
            true => device.call(Device::hashers)?,
            false => None,
        };
        let layout = PlanSheet::new(&batch, policy, device.link().multiprocessors(), hashers);
        ensure_tested(device, &batch, &layout)?;
        device.call(|device| Plan::make(device, &batch, &layout))
    }

    /// The same with another policy, and without a test. `hashers`: for batches that [`may_split`].
    /// The context is bound.
    pub(super) fn by_policy(
        device: &Device,
        batch: &Checked<'_>,
        policy: &Policy,
        hashers: Option<HashersAt>,
    ) -> Result<Self, Failure> {
        let layout = PlanSheet::new(batch, policy, device.link().multiprocessors(), hashers);
        Plan::make(device, batch, &layout)
    }

    /// Of a batch that is not empty; `layout` is its own. The context is bound.
    fn make(device: &Device, batch: &Checked<'_>, layout: &PlanSheet) -> Result<Self, Failure> {
        let link = device.link();
        let sheet = link.device(layout.device_len)?;
        let key = one_key(batch);
        let host = layout.write(batch, key.as_ref(), sheet.address());
        // SAFETY: the sheet is at least as long, and its memory this function's own.
        unsafe { device.write(sheet.address(), &host)? };
        drop(host);
        let located = layout.located(batch, sheet.address());
        if let Some(split) = &located.split {
            // The blocks' shared state is 0 before and after each launch.
            let (stream, len) = (device.own_stream(), split_bytes(&split.work));
            // SAFETY: as above; what follows goes to the same stream.
            unsafe { memory::fill(stream, split.at, 0, len)? };
        }
        let launcher = Launcher::of(batch.info, batch.direction, batch.tag_len);
        let before = before(batch, layout, &launcher, &located, key.as_ref());
        run(device, &before)?;
        let mut at_launch = located;
        if let (Some((raw, count)), false) = (layout.raw_keys, layout.blocks) {
            // They were expanded just now.
            let stream = device.own_stream();
            let (at, len) = (sheet.address() + raw as u64, count * batch.info.key_len);
            // SAFETY: the keys lie in the sheet, and what read them has completed.
            unsafe { memory::fill(stream, at, 0, len)? };
            stream.wait("wiping keys on the GPU")?;
            at_launch.raw_keys = None;
        }
        let mut all = counter::steps(batch, layout, sheet.address());
        all.extend(steps(batch, layout, &launcher, &at_launch, key.as_ref()));
        let ready = |step: &Step<'_>| BoundLaunch::new(step, &link.module, link.multiprocessors());
        Ok(Plan {
            steps: all.iter().map(ready).collect::<Result<_, _>>()?,
            sheet,
            mode: batch.info.mode,
            verdicts: (layout.verdicts, layout.messages.count),
            direction: batch.direction,
            device: device.clone(),
            halfway: AtomicBool::new(false),
        })
    }

    /// Queues the batch's kernels, and nothing else: no allocation, no copy, no synchronisation, so
    /// that the stream may be capturing a graph. The graph then holds the kernels' parameters,
    /// including round keys, in the driver's memory.
    ///
    /// # Safety
    /// Until the stream has passed this point (for a captured graph: until its last launch is
    /// done), the plan and all regions of its batch live, nothing else uses what is written, and
    /// nothing writes what is read; the stream belongs to the plan's device. Launches of one plan
    /// share its workspace: they go to one stream, or wait for each other.
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver refuses a launch; what was queued before it still runs. If
    /// that was a part of this launch, every further one is refused: a new plan is needed.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<(), Error> {
        if self.halfway.load(Ordering::Relaxed) {
            let reason = "an earlier launch of this plan was refused halfway: make a new plan";
            return Err(self.device.failed(reason));
        }
        self.device.call(|_| {
            // SAFETY: by this function's contract; the sheet lives as long as the plan.
            let launch = |step: &BoundLaunch| unsafe { step.launch(stream.inner()) };
            queue_all(&self.steps, launch, &self.halfway)
        })
    }

    /// The names of the kernels that a launch runs, in this order, as profilers show them.
    pub fn kernels(&self) -> impl ExactSizeIterator<Item = &str> {
        self.steps.iter().map(BoundLaunch::name)
    }

    /// The verdicts' place on the device; none for plans that open nothing. They are valid after a
    /// launch until the next one. Does not synchronise.
    pub fn statuses(&self) -> Option<Statuses> {
        let (place, count) = self.verdicts;
        let (first, stride) = verdict(self.mode);
        (count > 0 && self.direction == Direction::Decrypt).then(|| Statuses {
            address: self.sheet.address() + (place + first) as u64,
            stride,
            count,
        })
    }

    /// Waits for the stream of the last launch; returns the messages that were refused, ascending;
    /// none for plans that open nothing. Synchronises.
    ///
    /// # Errors
    /// [`Error::Backend`] if a kernel failed: then discard the output.
    pub fn failed(&self, stream: &Stream) -> Result<Vec<usize>, Error> {
        stream.synchronize()?;
        if self.statuses().is_none() {
            return Ok(Vec::new());
        }
        let (place, count) = self.verdicts;
        let (_, stride) = verdict(self.mode);
        let mut verdicts = Zeroizing::new(vec![0; count * stride]);
        let from = self.sheet.address() + place as u64;
        self.device.call(|device| {
            // SAFETY: they lie in the sheet.
            unsafe { device.read(&mut verdicts, from) }
        })?;
        Ok((0..count)
            .filter(|&number| was_refused(self.mode, &verdicts, number))
            .collect())
    }
}

impl Drop for Plan {
    /// Waits for the whole device, then wipes keys and workspace. Must not happen while a stream
    /// captures a graph.
    fn drop(&mut self) {
        self.device.settle();
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps.len();
        write!(f, "Plan({steps} kernels on {:?})", self.device)
    }
}

/// Refuses nonces that would be the same at each launch.
fn refuse_fixed_nonces(batch: &Checked<'_>) -> Result<(), Error> {
    let fixed = matches!(batch.ivs, DeviceIvs::Xor { .. } | DeviceIvs::Add32 { .. });
    match fixed && batch.direction == Direction::Encrypt {
        true => Err(BatchProblem::FixedNonces.of_batch()),
        false => Ok(()),
    }
}

/// Refuses an algorithm that the device does not run.
pub(super) fn runs_on(info: &AlgorithmInfo, device: &Device) -> Result<(), Error> {
    let gpu = device.gpu();
    if info.mode != Mode::Gcm || hashes(gpu.capability) {
        return Ok(());
    }
    Err(Error::NoBackend {
        name: format!("cuda:{}", gpu.number),
        reason: format!(
            "{} does not run on {}: its tensor cores lack what GHASH needs",
            info.name, gpu.name
        ),
    })
}

/// The steps that run once, when the plan is made: those that depend on keys of the host alone.
pub(super) fn before<'a>(
    batch: &Checked<'_>,
    layout: &PlanSheet,
    launcher: &Launcher,
    located: &Located,
    key: Option<&'a OneKey>,
) -> Vec<Step<'a>> {
    match (&batch.keys, key) {
        (DeviceKeys::Host(_), Some(key)) if batch.info.mode == Mode::Gcm && !located.small => {
            vec![launcher.gcm_powers(located.powers, key)]
        }
        (DeviceKeys::Host(_), None) if !layout.blocks && batch.info.mode != Mode::Acorn => {
            launcher.expand(located).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The steps of every launch.
pub(super) fn steps<'a>(
    batch: &Checked<'_>,
    layout: &PlanSheet,
    launcher: &Launcher,
    located: &Located,
    key: Option<&'a OneKey>,
) -> Vec<Step<'a>> {
    if layout.blocks {
        let (keys, _) = located.raw_keys.expect("single blocks have a key each");
        let span = |spans: &crate::Spans<'_>| spans.get(0).offset as u64;
        let input = batch.input.address() + span(&batch.input_spans);
        let output = batch.output.address() + span(&batch.output_spans);
        return vec![launcher.blocks(keys, input, output, batch.count() as u64)];
    }
    kernels(batch.info.mode, launcher, located, key)
}

/// The steps that do the work of a sheet.
pub(super) fn kernels<'a>(
    mode: Mode,
    launcher: &Launcher,
    located: &Located,
    key: Option<&'a OneKey>,
) -> Vec<Step<'a>> {
    match (mode, key) {
        (Mode::Gcm, Some(key)) if !located.small => launcher.gcm_after_powers(located, key),
        (Mode::Gcm, _) => launcher.gcm_small(located),
        (Mode::Acorn, _) => vec![launcher.acorn(located)],
        (_, key) => launcher.pieces(located, key),
    }
}

/// Queues steps, and records if one is refused after others were queued.
fn queue_all<S, E>(
    steps: &[S],
    mut queue: impl FnMut(&S) -> Result<(), E>,
    halfway: &AtomicBool,
) -> Result<(), E> {
    for (number, step) in steps.iter().enumerate() {
        queue(step).inspect_err(|_| halfway.store(number > 0, Ordering::Relaxed))?;
    }
    Ok(())
}

/// Runs steps and waits for them. The context is bound.
fn run(device: &Device, steps: &[Step<'_>]) -> Result<(), Failure> {
    let stream = device.own_stream();
    for step in steps {
        // SAFETY: the steps name the plan's own sheet, which lives until they have completed.
        unsafe { device.link().launch(stream, step)? };
    }
    stream.wait("preparing keys on the GPU")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_refused_after_others_is_recorded() {
        let halfway = AtomicBool::new(false);
        let queued = |refused: u32| {
            let queue = |&step: &u32| if step == refused { Err(step) } else { Ok(()) };
            let result = queue_all(&[0, 1, 2], queue, &halfway);
            (result, halfway.swap(false, Ordering::Relaxed))
        };
        assert_eq!(queued(0), (Err(0), false));
        assert_eq!(queued(1), (Err(1), true));
        assert_eq!(queued(2), (Err(2), true));
        assert_eq!(queued(3), (Ok(()), false));
    }
}
