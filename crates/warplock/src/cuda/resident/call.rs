//! Calls: a batch in GPU memory that is queued once, with a key that was made ready before.

use std::fmt;

use super::batch::{DeviceBatch, DeviceKeys, Region};
use super::check::Checked;
use super::counter;
use super::device::Device;
use super::indirect::DevicePlaces;
use super::plan::{kernels, runs_on};
use super::selftest::ensure_key_tested;
use super::sheet::PlanSheet;
use super::slots::{FIRST_SLOTS, SLOT};
use super::split::{HashersAt, may_split};
use super::spread::spreads;
use super::stream::Stream;
use crate::checks::check_array;
use crate::cuda::driver::api::Failure;
use crate::cuda::driver::memory::{self, Address, DeviceBytes, DeviceMemory, HostBytes};
use crate::cuda::driver::module::Family;
use crate::cuda::launch::abi::{GCM_POWERS, TABLE_KEY, split_bytes};
use crate::cuda::launch::keys::OneKey;
use crate::cuda::launch::link::Link;
use crate::cuda::launch::parts::verdict;
use crate::cuda::launch::policy::Policy;
use crate::cuda::launch::sheet::Located;
use crate::cuda::launch::spread::{CLASSES, Spread};
use crate::cuda::launch::steps::{Grid, Launcher, Parameter, Step, finishes};
use crate::{AlgorithmInfo, BatchProblem, Direction, Error, Key, Keys, Mode};

/// A key made ready on one GPU, once, for any number of calls: expanded, with its powers of H, its
/// kernels tested. Threads may share it.
///
/// A [`Plan`](super::Plan) is for a batch whose addresses stay, and for graphs; a call is for
/// addresses that are new each time: it allocates nothing on the device, waits for nothing and
/// frees nothing.
///
/// ```no_run
/// use warplock::cuda::{
///     Device, DeviceBatch, DeviceIvs, DeviceKey, DeviceTags, DeviceText, DeviceVerdicts,
/// };
/// use warplock::{Algorithm, Key, Spans};
///
/// let device = Device::open(0)?;
/// let key = DeviceKey::new(&device, &Key::generate(Algorithm::Aes256Gcm)?)?;
/// let (data, tags) = (device.alloc(1000 * 16384)?, device.alloc(1000 * 16)?);
/// let mut nonces = device.alloc(1000 * 12)?;
/// let mut drawn = vec![0; 1000 * 12]; // new ones for each call that seals
/// warplock::fill_random(&mut drawn)?;
/// nonces.write(0, &drawn)?;
///
/// let spans = Spans::Even { count: 1000, len: 16384, stride: 16384 };
/// let text = DeviceText::InPlace { buffer: data.region(), spans };
/// let batch = DeviceBatch::encrypt(&key, text)
///     .ivs(DeviceIvs::Each(nonces.region()))
///     .tags(DeviceTags::Apart(tags.region()));
/// let workspace = device.alloc(key.workspace_len(&batch)?)?;
/// let stream = device.stream()?;
/// // SAFETY: all of it lives until the stream is synchronized, and nothing else uses it.
/// unsafe { key.enqueue(batch, DeviceVerdicts::default(), workspace.region(), &stream)? };
/// stream.synchronize()?;
/// # Ok::<(), warplock::Error>(())
/// ```
pub struct DeviceKey {
    key: Key,
    /// None for ACORN, whose kernels take the key's own bytes.
    one: Option<OneKey>,
    /// The key as a table of one, or its own bytes; then its powers of H.
    memory: DeviceMemory,
    hashers: Option<HashersAt>,
    pub(super) policy: Policy,
    device: Device,
}

impl DeviceVerdicts {
    /// 0: left out.
    fn addresses(&self) -> [Address; 2] {
        [self.each, self.refused].map(|region| region.map_or(0, |region| region.address()))
    }
}

/// The offset of the powers in a key's memory.
const POWERS: usize = TABLE_KEY.next_multiple_of(256);

/// Where a call that opens says which messages it refused: both in the caller's GPU memory, valid
/// in stream order, and both may be left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceVerdicts {
    /// An unsigned 32-bit number for each message, at a multiple of 4: 0 if its tag was right, 1 if
    /// it was refused and is all zeros.
    pub each: Option<Region>,
    /// An unsigned 32-bit number, at a multiple of 4, to which the number of refused messages is
    /// added: zero it once, and read it after any number of calls.
    pub refused: Option<Region>,
}

impl DeviceKey {
    /// Makes a key ready. The first one of its algorithm in a process also tests its kernels on
    /// small messages with known answers. Allocates and synchronises.
    ///
    /// # Errors
    /// [`Error::NoBackend`] if the algorithm does not run on the device, [`Error::Backend`] if the
    /// device has too little memory or fails.
    pub fn new(device: &Device, key: &Key) -> Result<Self, Error> {
        let info = key.algorithm().info();
        runs_on(info, device)?;
        let hashers = match info.mode {
            Mode::Gcm => device.call(Device::hashers)?,
            _ => None,
        };
        ensure_key_tested(device, info.algorithm, hashers.is_some())?;
        device.ensure_spread_tested()?;
        let own = Key::new(info.algorithm, key.bytes())?;
        let one = (info.mode != Mode::Acorn).then(|| OneKey::of(&own));
        let mut host = zeroize::Zeroizing::new(vec![0; TABLE_KEY]);
        match &one {
            Some(one) => one.write_table_key(&mut host),
            None => host[..key.bytes().len()].copy_from_slice(key.bytes()),
        }
        let memory = device.call(|device| {
            device.slots().reserve(device, SLOT, FIRST_SLOTS)?;
            let memory = device.link().device(POWERS + GCM_POWERS)?;
            // SAFETY: the memory is longer, and this function's own.
            unsafe { device.write(memory.address(), &host)? };
            if let (Mode::Gcm, Some(one)) = (info.mode, &one) {
                let launcher = Launcher::of(info, Direction::Encrypt, 16);
                let step = launcher.gcm_powers(memory.address() + POWERS as Address, one);
                let stream = device.own_stream();
                // SAFETY: as above; it is waited for.
                unsafe { device.link().launch(stream, &step)? };
                stream.wait("making powers of H")?;
            }
            if info.algorithm.is_aead() {
                // The kernel is loaded with its first launch, which waits for the whole device.
                let step = give_verdicts(info.mode, 0, 0, DeviceVerdicts::default());
                // SAFETY: it reads and writes nothing.
                unsafe { device.link().launch(device.own_stream(), &step)? };
            }
            Ok(memory)
        })?;
        Ok(DeviceKey {
            key: own,
            one,
            memory,
            hashers,
            policy: Policy::DEFAULT,
            device: device.clone(),
        })
    }

    /// The GPU that it is ready on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes of GPU memory that a call with this batch needs to work in. Does not touch the device.
    ///
    /// # Errors
    /// [`Error::Batch`] as from [`DeviceKey::enqueue`].
    pub fn workspace_len(&self, batch: &DeviceBatch<'_>) -> Result<usize, Error> {
        let batch = self.check(*batch)?;
        Ok(self.layout(&batch).device_len)
    }

    /// Makes room on the host for `calls` calls like this batch to be under way at the same time.
    /// There is room for eight with about a thousand messages each from the start; a call that
    /// finds none allocates, which waits for the whole device. Synchronises.
    ///
    /// # Errors
    /// [`Error::Batch`] as from [`DeviceKey::enqueue`], [`Error::Backend`] if there is too little
    /// memory.
    pub fn reserve(&self, batch: &DeviceBatch<'_>, calls: usize) -> Result<(), Error> {
        let len = self.layout(&self.check(*batch)?).len;
        self.device
            .call(|device| device.slots().reserve(device, len, calls))
    }

    /// Queues a batch whose keys are this one: copies and kernels, which leave nothing secret in the
    /// workspace. Nothing is allocated, waited for or freed, as long as there is room for one more call
    /// ([`DeviceKey::reserve`]). The messages' places are copied in the call; texts,
    /// nonces, associated data and tags are read in stream order. Refused messages are zeros
    /// before anything that is queued later.
    ///
    /// # Safety
    /// Until the stream has passed this point, the key and all regions live, nothing else uses what
    /// is written, and nothing writes what is read. The stream belongs to the key's device.
    ///
    /// # Errors
    /// Before anything is queued: [`Error::Batch`] if the parts do not fit together, the keys are
    /// not this one, or the workspace is too small or not at a multiple of 16; [`Error::Backend`]
    /// if the stream captures a graph, which would read places that are gone: make a plan. Later:
    /// [`Error::Backend`] if the driver refuses a launch; then discard all output.
    pub unsafe fn enqueue(
        &self,
        batch: DeviceBatch<'_>,
        verdicts: DeviceVerdicts,
        workspace: Region,
        stream: &Stream,
    ) -> Result<(), Error> {
        let batch = self.check(batch)?;
        batch.check_apart(&check_words(batch.count(), &verdicts, &workspace)?)?;
        if batch.is_idle() {
            return Ok(());
        }
        let layout = self.layout(&batch);
        refuse_small(&workspace, &layout)?;
        if self.device.call(|_| stream.inner().is_capturing())? {
            let reason = "the stream captures a graph, which would read places that are gone: make a \
                          plan before the capture";
            return Err(self.device.failed(reason));
        }
        let at = workspace.address();
        let spread = layout.spread_of(&batch, at);
        let mut first = match &spread {
            Some(Spread { next: 1.., .. }) => Vec::new(),
            _ => counter::steps(&batch, &layout, at),
        };
        first.extend(spread.iter().flat_map(Spread::steps));
        let work = Work {
            direction: batch.direction,
            tag_len: batch.tag_len,
            count: batch.count(),
            layout: &layout,
            first,
        };
        self.device.call(|device| {
            if layout.len > 0 {
                let mut slot = device.slots().take(device, layout.len)?;
                layout.write_places(&batch, &mut slot.memory.bytes()[..layout.len], at);
                // SAFETY: by this function's contract; the slot is not used before its event is past.
                let copied =
                    unsafe { memory::upload(stream.inner(), at, slot.memory.start(), layout.len) };
                device.slots().give_back(slot, stream)?;
                copied?;
            }
            // SAFETY: by this function's contract.
            unsafe { self.queue(&work, verdicts, workspace, stream) }
        })
    }

    /// Queues a batch of [`DeviceKey::enqueue_indirect`].
    ///
    /// # Safety
    /// As [`DeviceKey::enqueue_indirect`].
    pub(super) unsafe fn run_indirect(
        &self,
        direction: Direction,
        places: &DevicePlaces,
        verdicts: DeviceVerdicts,
        workspace: Region,
        stream: &Stream,
    ) -> Result<(), Error> {
        let layout = self.layout_indirect(direction, places);
        check_words(places.count, &verdicts, &workspace)?;
        refuse_small(&workspace, &layout)?;
        let spread = layout.spread_indirect(self.info(), direction, places, workspace.address());
        let work = Work {
            direction,
            tag_len: 16,
            count: places.count,
            layout: &layout,
            first: spread.steps(),
        };
        // SAFETY: by this function's contract.
        self.device
            .call(|_| unsafe { self.queue(&work, verdicts, workspace, stream) })
    }

    /// # Safety
    /// As [`DeviceKey::enqueue`].
    unsafe fn queue(
        &self,
        work: &Work<'_>,
        verdicts: DeviceVerdicts,
        workspace: Region,
        stream: &Stream,
    ) -> Result<(), Failure> {
        let (stream, info) = (stream.inner(), self.info());
        let mut located = work
            .layout
            .located_without_keys(info.cipher, workspace.address());
        located.table = Some(self.memory.address());
        located.powers = self.memory.address() + POWERS as Address;
        if let Some(split) = &located.split {
            // SAFETY: by this function's contract.
            unsafe { memory::fill(stream, split.at, 0, split_bytes(&split.work))? };
        }
        if let Some(classes) = work.layout.classes(workspace.address()) {
            // SAFETY: as above.
            unsafe { memory::fill(stream, classes, 0, CLASSES)? };
        }
        let steps = work.steps(info, &mut located, self.one.as_ref(), verdicts);
        for step in work.first.iter().chain(&steps) {
            // SAFETY: as above.
            unsafe { self.device.link().launch(stream, step)? };
        }
        // Sums of hashes, or tweaks; other kernels leave nothing secret.
        if located.split.is_some() || info.mode == Mode::Xts {
            // SAFETY: as above.
            unsafe { memory::fill(stream, workspace.address(), 0, work.layout.device_len)? };
        }
        Ok(())
    }

    pub(super) fn info(&self) -> &'static AlgorithmInfo {
        self.key.algorithm().info()
    }

    fn check<'a>(&self, batch: DeviceBatch<'a>) -> Result<Checked<'a>, Error> {
        match batch.keys {
            DeviceKeys::Host(Keys::One(key)) if std::ptr::eq(key, &raw const self.key) => {}
            _ => return Err(BatchProblem::OtherKey.of_batch()),
        }
        Checked::new(batch)
    }

    fn layout(&self, batch: &Checked<'_>) -> PlanSheet {
        let policy = &self.policy;
        let hashers = self.hashers.filter(|_| may_split(batch, policy));
        let multiprocessors = self.device.link().multiprocessors();
        match spreads(batch, policy) {
            true => PlanSheet::spread(batch, policy, multiprocessors, hashers),
            false => PlanSheet::new(batch, policy, multiprocessors, hashers),
        }
    }

    pub(super) fn layout_indirect(&self, direction: Direction, places: &DevicePlaces) -> PlanSheet {
        let multiprocessors = self.device.link().multiprocessors();
        PlanSheet::indirect(
            self.info(),
            direction,
            places,
            &self.policy,
            multiprocessors,
        )
    }
}

/// What is queued for a batch.
pub(super) struct Work<'a> {
    pub(super) direction: Direction,
    pub(super) tag_len: usize,
    pub(super) count: usize,
    pub(super) layout: &'a PlanSheet,
    /// Before its own steps.
    pub(super) first: Vec<Step<'a>>,
}

impl Work<'_> {
    /// Its own steps, which also say where `verdicts` are wanted what was refused.
    pub(super) fn steps<'k>(
        &self,
        info: &AlgorithmInfo,
        located: &mut Located,
        key: Option<&'k OneKey>,
        verdicts: DeviceVerdicts,
    ) -> Vec<Step<'k>> {
        let launcher = Launcher::of(info, self.direction, self.tag_len);
        let opens = self.direction == Direction::Decrypt && info.algorithm.is_aead();
        if opens {
            located.verdicts_to = verdicts.addresses();
        }
        let mut steps = kernels(info.mode, &launcher, located, key);
        let compares = info.mode == Mode::Gcm && !located.small && !finishes(located);
        if opens && !compares {
            let count = self.count as u64;
            steps.push(give_verdicts(info.mode, located.verdicts, count, verdicts));
        }
        steps
    }
}

/// Checks the regions that a call works in, and returns them with their names.
fn check_words(
    count: usize,
    verdicts: &DeviceVerdicts,
    workspace: &Region,
) -> Result<Vec<(&'static str, Region)>, Error> {
    const NUMBER: &str = "the number of refused messages";
    let mut own = vec![("the workspace", *workspace, 16)];
    let words = [
        ("verdicts", "the verdicts", verdicts.each, count),
        (NUMBER, NUMBER, verdicts.refused, 1),
    ];
    for (entries, what, region, count) in words {
        let Some(region) = region else { continue };
        // Longer ones are allowed.
        if region.len() < 4 * count {
            check_array(region.len(), count, 4, entries)?;
        }
        own.push((what, region, 4));
    }
    for &(what, region, to) in &own {
        if !region.is_empty() && !region.address().is_multiple_of(to) {
            return Err(BatchProblem::Alignment { what, to }.of_batch());
        }
    }
    Ok(own
        .into_iter()
        .map(|(name, region, _)| (name, region))
        .collect())
}

fn refuse_small(workspace: &Region, layout: &PlanSheet) -> Result<(), Error> {
    let (needed, found) = (layout.device_len, workspace.len());
    match found < needed {
        true => Err(BatchProblem::Workspace { needed, found }.of_batch()),
        false => Ok(()),
    }
}

/// Copies the verdicts of `count` messages to where the caller wants them.
fn give_verdicts(mode: Mode, at: Address, count: u64, to: DeviceVerdicts) -> Step<'static> {
    let (first, stride) = verdict(mode);
    let [each, refused] = to.addresses();
    Step {
        name: "give_verdicts".to_owned(),
        family: Family::PLAIN,
        grid: Grid::Threads(count.max(1)),
        parameters: vec![
            Parameter::Address(at + first as Address),
            Parameter::Count(stride as u64),
            Parameter::Count(count),
            Parameter::Address(each),
            Parameter::Address(refused),
        ],
    }
}

impl<'a> From<&'a DeviceKey> for DeviceKeys<'a> {
    fn from(key: &'a DeviceKey) -> Self {
        DeviceKeys::from(&key.key)
    }
}

impl Drop for DeviceKey {
    /// Waits for the whole device, then wipes the key there.
    fn drop(&mut self) {
        self.device.settle();
    }
}

impl fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DeviceKey({} on {:?})",
            self.key.algorithm(),
            self.device
        )
    }
}
