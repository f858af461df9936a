//! A statistical test of whether the kernels' times depend on secrets, as for the portable code
//! (see `tests/constant_time`): many launches with a fixed key and text and with random ones, in
//! random order, timed by events in the GPU's own queue. `scripts/device-check` runs this, and has
//! a profiler count bank conflicts in [`kernels_for_a_profiler`].

use std::ptr::null_mut;

use cudarc::driver::sys;

use super::welch::{THRESHOLD, largest_t};
use super::{Random, whole};
use crate::cuda::driver::api::{Driver, Failure, RawStream, check};
use crate::cuda::driver::memory::{Address, DeviceMemory, PinnedMemory, fill, upload};
use crate::cuda::driver::memory::{DeviceBytes, HostBytes};
use crate::cuda::driver::module::{Family, Module, argument};
use crate::cuda::launch::abi::{MULTIPROCESSORS, SPLIT_CAPABILITY, Work, split_bytes};
use crate::cuda::launch::keys::OneKey;
use crate::cuda::launch::link::{CudaLink, Link};
use crate::cuda::launch::policy::Policy;
use crate::cuda::launch::sheet::{Addresses, Located, Sheet, Split};
use crate::cuda::launch::steps::Launcher;
use crate::job::Job;
use crate::{Algorithm, Batch, Cipher, Direction, Ivs, Key, Keys, Mode, Spans, Tags, Text};

/// The leaky kernel; its source is next to it.
static LEAKY: &[u8] = include_bytes!("leaky.fatbin");

/// Bytes of text of a launch.
const LEN: usize = 2 << 20;

/// Inputs of each class.
const INPUTS: usize = 24;

/// Launches of both classes together.
const LAUNCHES: usize = 4000;

/// Launches that are queued before a wait.
const TOGETHER: usize = 100;

/// The subject of a measurement.
#[derive(Clone, Copy, Debug)]
struct What {
    algorithm: Algorithm,
    direction: Direction,
    /// Bytes of a message.
    each: usize,
    /// With the GCM kernels in which some multiprocessors only hash.
    split: bool,
    /// The text's offset from a multiple of 16.
    shift: usize,
}

/// The leaky kernel.
const LEAKY_DOES: What = What {
    algorithm: Algorithm::Aes128Ecb,
    direction: Direction::Encrypt,
    each: LEN,
    split: false,
    shift: 0,
};

/// Every eighth multiprocessor hashes, in kernels where only some do.
const HASHERS: usize = 16;

/// A key and a text. They wait on the host: with device buffers of their own, the buffers'
/// addresses would show in the times.
struct Input {
    fixed: bool,
    key: OneKey,
    sheet: PinnedMemory,
    text: PinnedMemory,
}

/// An event that records the time.
struct Mark(sys::CUevent);

impl Mark {
    fn new() -> Self {
        let mut event = null_mut();
        // SAFETY: a context is bound; the pointer is to a local variable.
        let code = unsafe { sys::cuEventCreate(&raw mut event, 0) };
        check(code, || "making an event").unwrap();
        Mark(event)
    }

    fn record(&self, stream: &RawStream) {
        // SAFETY: both live.
        let code = unsafe { sys::cuEventRecord(self.0, stream.handle) };
        check(code, || "marking a place").unwrap();
    }

    /// Microseconds since another mark; both have completed.
    fn since(&self, start: &Mark) -> f64 {
        let mut milliseconds = 0.0;
        // SAFETY: both live and were recorded.
        let code = unsafe { sys::cuEventElapsedTime(&raw mut milliseconds, start.0, self.0) };
        check(code, || "reading a time").unwrap();
        f64::from(milliseconds) * 1e3
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: made in `new`.
        let _ = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

/// The kernels for an algorithm, or the leaky one.
enum Subject {
    Ours(Launcher, Mode, Located),
    Leaky(Module),
}

/// A GPU with inputs of both classes, and buffers for the one at work.
struct Bench {
    link: CudaLink,
    stream: RawStream,
    inputs: Vec<Input>,
    text_at: Address,
    _text: DeviceMemory,
    sheet: DeviceMemory,
    subject: Subject,
    /// The memory of a [`Split`].
    _split: Option<[DeviceMemory; 2]>,
}

/// A GPU, bound to this thread; without one, prints that the test is skipped.
fn gpu() -> Option<CudaLink> {
    let devices = Driver::load().and_then(|driver| driver.devices().map_err(|f| f.to_string()));
    match devices.as_deref() {
        Ok([first, ..]) => Some(CudaLink::new(first).unwrap()),
        Ok([]) => {
            println!("skipped: no GPU");
            None
        }
        Err(why) => {
            println!("skipped: no GPU ({why})");
            None
        }
    }
}

/// The parameters of kernels in which some multiprocessors only hash, and the memory that holds
/// them.
fn hashed_apart(
    link: &CudaLink,
    stream: &RawStream,
    work: Work,
    each: usize,
) -> Result<(Split, [DeviceMemory; 2]), Failure> {
    let work = work.in_units(each);
    let mut table = [0; MULTIPROCESSORS];
    for place in 0..HASHERS {
        table[8 * place] = place as u8 + 1;
    }
    let (shared, places) = (link.device(split_bytes(&work))?, link.device(table.len())?);
    // SAFETY: both have the same length; `table` lives until the stream is synchronized.
    unsafe {
        fill(stream, shared.address(), 0, shared.len())?;
        upload(stream, places.address(), table.as_ptr(), table.len())?;
    }
    stream.wait("writing the table of hashers")?;
    let split = Split {
        at: shared.address(),
        work,
        places: places.address(),
        hashers: HASHERS as u32,
    };
    Ok((split, [shared, places]))
}

impl Bench {
    /// The context is bound.
    fn new(link: CudaLink, what: Option<What>) -> Result<Self, Failure> {
        let What {
            algorithm,
            direction,
            each,
            split,
            shift,
        } = what.unwrap_or(LEAKY_DOES);
        let policy = Policy {
            largest: 2 * LEN,
            smallest: 2 * LEN,
            ..Policy::DEFAULT
        };
        let stream = link.stream()?;
        let text = link.device(LEN + shift)?;
        let text_at = text.address() + shift as Address;
        let count = LEN / each;
        let spans = Spans::Even {
            count,
            len: each,
            stride: each,
        };
        let mode = algorithm.info().mode;
        let iv_len = match mode {
            Mode::Ecb => 0,
            Mode::Gcm => 12,
            _ => 16,
        };
        let ivs = vec![7; count * iv_len];
        let mut random = Random::new(1);
        let mut dummy = vec![0; LEN];
        let mut sheet_on_device = link.device(0)?;
        let mut inputs = Vec::new();
        let (mut subject, mut buffers) = (None, None);
        for number in 0..2 * INPUTS {
            let fixed = number % 2 == 0;
            // One repeated block: either all lookups meet in a bank, or none do.
            let (mut key_bytes, mut plain) = (vec![0x5A; algorithm.key_len()], vec![0xA5; LEN]);
            if mode == Mode::Xts {
                key_bytes[0] = 1;
            }
            if !fixed {
                key_bytes = random.bytes(key_bytes.len());
                plain = random.bytes(LEN);
            }
            let key = Key::new(algorithm, &key_bytes).unwrap();
            let mut tags = vec![0; 16 * count];
            let batch_text = Text::InPlace {
                buffer: &mut dummy,
                spans,
            };
            let mut batch = Batch::new(direction, Keys::One(&key), batch_text);
            if iv_len > 0 {
                batch = batch.ivs(Ivs::Each(&ivs));
            }
            if algorithm.is_aead() {
                batch = batch.tags(Tags::Apart(&mut tags));
            }
            let job = Job::new(batch).unwrap();
            let chunk = whole(&job, &policy).next().unwrap();
            let sheet = Sheet::new(&job, &chunk, &policy, link.multiprocessors());
            if sheet_on_device.len() < sheet.device_len {
                sheet_on_device = link.device(sheet.device_len)?;
            }
            let at = Addresses {
                sheet: sheet_on_device.address(),
                text: text_at,
                previous: 0,
            };
            let one_key = OneKey::new(&job, 0);
            let mut host = link.host(sheet.len.max(1))?;
            let room = &mut host.bytes()[..sheet.len];
            sheet.write(&job, chunk.parts(), Some(&one_key), room, &at);
            let launcher = Launcher::new(&job);
            if subject.is_none() {
                let mut located = sheet.located(at.sheet);
                located.any_byte = shift > 0;
                if split {
                    let (split, own) = hashed_apart(&link, &stream, located.work, each)?;
                    (located.split, buffers) = (Some(split), Some(own));
                }
                subject = Some(Subject::Ours(launcher, mode, located));
            }
            let mut text = link.host(LEN)?;
            text.bytes().copy_from_slice(&plain);
            inputs.push(Input {
                fixed,
                key: one_key,
                sheet: host,
                text,
            });
        }
        let subject = match what {
            Some(_) => subject.expect("there are inputs"),
            // SAFETY: the image is what the compiler made.
            None => Subject::Leaky(unsafe { Module::load_image(&link.context, LEAKY)? }),
        };
        Ok(Bench {
            link,
            stream,
            inputs,
            text_at,
            _text: text,
            sheet: sheet_on_device,
            subject,
            _split: buffers,
        })
    }

    /// Queues the uploads before the kernels.
    fn prepare(&self, input: &Input) -> Result<(), Failure> {
        // SAFETY: all buffers live as long as `self`, whose stream is waited for.
        unsafe {
            upload(&self.stream, self.text_at, input.text.start(), LEN)?;
            if self.sheet.len() > 0 {
                let len = input.sheet.len();
                upload(&self.stream, self.sheet.address(), input.sheet.start(), len)?;
            }
        }
        Ok(())
    }

    /// Queues the kernels.
    fn launch(&self, input: &Input) -> Result<(), Failure> {
        match &self.subject {
            Subject::Leaky(module) => {
                let kernel = module.kernel("leaky_ecb_128", Family::PLAIN)?;
                let (text, blocks) = (self.text_at, (LEN / 16) as u64);
                let keys = &input.key.encrypt;
                let mut arguments = [argument(&text), argument(&blocks), argument(keys)];
                let grid = self.link.multiprocessors();
                // SAFETY: these are its parameters; the text has this many blocks.
                unsafe {
                    kernel.launch("leaky", &self.stream, grid, kernel.threads, &mut arguments)
                }
            }
            Subject::Ours(launcher, mode, located) => {
                let steps = match mode {
                    Mode::Gcm if located.small => launcher.gcm_small(located),
                    Mode::Gcm => launcher.gcm_whole(located, &input.key),
                    Mode::Acorn => vec![launcher.acorn(located)],
                    _ => launcher.pieces(located, Some(&input.key)),
                };
                // SAFETY: the sheet and the text are there, see `prepare`.
                let launch = |step| unsafe { self.link.launch(&self.stream, step) };
                steps.iter().try_for_each(launch)
            }
        }
    }

    /// Times many launches in random order; returns the largest |t|.
    fn measure(&self, name: &str) -> f64 {
        let mut random = Random::new(2);
        let marks: Vec<_> = (0..TOGETHER).map(|_| (Mark::new(), Mark::new())).collect();
        let mut times = Vec::with_capacity(LAUNCHES);
        for round in 0..LAUNCHES / TOGETHER + 1 {
            let order: Vec<usize> = marks.iter().map(|_| random.below(2 * INPUTS)).collect();
            for (&number, (start, end)) in order.iter().zip(&marks) {
                let input = &self.inputs[number];
                self.prepare(input).unwrap();
                start.record(&self.stream);
                self.launch(input).unwrap();
                end.record(&self.stream);
            }
            self.stream.wait("running the kernels").unwrap();
            // The first round warms up.
            if round > 0 {
                let timed = order.iter().zip(&marks);
                times.extend(
                    timed.map(|(&number, (start, end))| {
                        (self.inputs[number].fixed, end.since(start))
                    }),
                );
            }
        }
        let t = largest_t(&times);
        let mean = |fixed: bool| {
            let class: Vec<f64> = times.iter().filter(|t| t.0 == fixed).map(|t| t.1).collect();
            class.iter().sum::<f64>() / class.len() as f64
        };
        let (fixed, random) = (mean(true), mean(false));
        println!("{name}: fixed {fixed:.3} us, random {random:.3} us, |t| = {t:.1}");
        t
    }
}

/// Every kernel for one key that this GPU supports, and GCM's for messages of each length, at a
/// multiple of 16 and at an odd place.
fn subjects() -> Vec<What> {
    let devices = Driver::load().and_then(|driver| driver.devices().map_err(|f| f.to_string()));
    let splits = devices.is_ok_and(|all| {
        all.first()
            .is_some_and(|d| d.gpu.capability == SPLIT_CAPABILITY)
    });
    let mut subjects = Vec::new();
    for algorithm in Algorithm::all() {
        let info = algorithm.info();
        if info.cipher == Cipher::Aes192 {
            continue;
        }
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let lens: &[usize] = match (info.mode, direction) {
                // Few chains and many.
                (Mode::Cbc, Direction::Encrypt) => &[1024, 256],
                // The last: a lane a message.
                (Mode::Gcm, _) => &[LEN, 4096, 1024, 64],
                (Mode::Acorn, _) => &[1024],
                _ => &[LEN],
            };
            let mut add = |each, split, shift| {
                subjects.push(What {
                    algorithm,
                    direction,
                    each,
                    split,
                    shift,
                });
            };
            for &len in lens {
                add(len, false, 0);
                add(len, false, 5);
            }
            if info.mode == Mode::Gcm && splits {
                add(LEN, true, 0);
                add(LEN, true, 5);
            }
        }
    }
    subjects
}

#[test]
#[ignore = "measures time; see scripts/device-check"]
fn times_do_not_depend_on_secrets() {
    let mut leaks = Vec::new();
    'next: for what in subjects() {
        let name = format!("{what:?}");
        // A chance result does not repeat with other buffers.
        let mut t = 0.0;
        for again in ["", ", again"] {
            let Some(link) = gpu() else {
                return;
            };
            let _bound = link.bind().unwrap();
            let bench = Bench::new(link, Some(what)).unwrap();
            t = bench.measure(&format!("{name}{again}"));
            if t <= THRESHOLD {
                continue 'next;
            }
        }
        leaks.push((name, t));
    }
    assert!(leaks.is_empty(), "times depend on secrets: {leaks:?}");
}

#[test]
#[ignore = "measures time; see scripts/device-check"]
fn the_test_finds_a_leaky_kernel() {
    let Some(link) = gpu() else {
        return;
    };
    let _bound = link.bind().unwrap();
    let bench = Bench::new(link, None).unwrap();
    bench.leaky_kernel_is_aes();
    let t = bench.measure("leaky AES with a plain table");
    assert!(t > THRESHOLD, "|t| = {t:.1}: the test sees nothing");
}

impl Bench {
    /// The leak that the test finds here could be one of an AES: the kernel's results are right.
    fn leaky_kernel_is_aes(&self) {
        let link = gpu().expect("there was one");
        let ours = Bench::new(link, Some(LEAKY_DOES)).unwrap();
        for number in 0..4 {
            let result = |bench: &Bench| {
                bench.prepare(&bench.inputs[number]).unwrap();
                bench.launch(&bench.inputs[number]).unwrap();
                bench.download()
            };
            assert!(result(self) == result(&ours), "input {number}");
        }
    }

    fn download(&self) -> Vec<u8> {
        let mut host = self.link.host(LEN).unwrap();
        // SAFETY: both live until the stream is synchronized.
        unsafe {
            let to = host.start();
            self.link
                .download(&self.stream, to, self.text_at, LEN)
                .unwrap();
        }
        self.stream.wait("downloading").unwrap();
        host.bytes().to_vec()
    }
}

/// Launches each kernel with the fixed and some random inputs, for a profiler that counts.
#[test]
#[ignore = "for a profiler; see scripts/device-check"]
fn kernels_for_a_profiler() {
    let leaky = std::iter::once(None);
    for what in subjects().into_iter().map(Some).chain(leaky) {
        let Some(link) = gpu() else {
            return;
        };
        let _bound = link.bind().unwrap();
        let bench = Bench::new(link, what).unwrap();
        println!("{what:?}");
        for input in &bench.inputs[..6] {
            bench.prepare(input).unwrap();
            bench.launch(input).unwrap();
            bench.stream.wait("running the kernels").unwrap();
        }
    }
}
