//! The cipher for study on a GPU: its pad, and the fitness of generators. Results are those of the
//! CPU, bit for bit.

use std::fmt;

use warplock::cuda::{Device, DeviceBuffer, Region, Stream};

use super::evolution::{Evolved, Measure, Reference, SCORES, WORST, evolve_with, mean, samples};
use super::generator::{Generator, OPERATIONS, Operation, start};
use crate::data::Error;
use crate::gpu::{KernelLauncher, argument};

static FATBIN: &[u8] = include_bytes!("../../kernels/prebuilt/research.fatbin");

/// Segments of a block, one for each thread; as in `kernels/research.cu`.
const PAD_THREADS: usize = 128;

/// The kernels of the cipher on one GPU. Threads may share it.
pub struct GpuResearch {
    launcher: KernelLauncher,
    /// [`Reference::terms`].
    terms: DeviceBuffer,
}

/// An operation for kernels: masks instead of numbers.
#[derive(Clone, Copy)]
#[repr(C)]
struct Masks {
    to: [u32; 4],
    from: [u32; 4],
    adds: u32,
    rotate: u32,
}

type GeneratorMasks = [Masks; OPERATIONS];

/// What the fitness needs of a generator and a key.
#[repr(C)]
struct KernelSample {
    generator: GeneratorMasks,
    state: [u32; 4],
    other: [u32; 4],
}

#[repr(C)]
struct KernelReference {
    expected: [f64; SCORES],
    deviation: [f64; SCORES],
    worst: f64,
}

fn masks(generator: &Generator) -> GeneratorMasks {
    let mask = |is_set: bool| if is_set { u32::MAX } else { 0 };
    let word = |number: u8| [0, 1, 2, 3].map(|word| mask(word == number));
    generator.operations.map(|one: Operation| Masks {
        to: word(one.to),
        from: word(one.from),
        adds: mask(one.adds),
        rotate: u32::from(one.rotate),
    })
}

impl KernelSample {
    fn words(&self) -> impl Iterator<Item = u32> {
        let operations = self.generator.iter().flat_map(|one| {
            let masks = one.to.into_iter().chain(one.from);
            masks.chain([one.adds, one.rotate])
        });
        operations.chain(self.state).chain(self.other)
    }
}

impl GpuResearch {
    /// Loads the kernels. May synchronise.
    ///
    /// # Errors
    /// [`Error::Gpu`] if the driver refuses them.
    pub fn new(device: &Device) -> Result<Self, Error> {
        // SAFETY: the image is a whole fatbin.
        let launcher = unsafe { KernelLauncher::new(device, FATBIN)? };
        let terms = Reference::get().terms.iter();
        let bytes: Vec<u8> = terms.flat_map(|term| term.to_le_bytes()).collect();
        let mut terms = device.alloc(bytes.len())?;
        terms.write(0, &bytes)?;
        Ok(GpuResearch { launcher, terms })
    }

    /// Queues [`Generator::apply`]: `output` becomes `input` XOR the pad. Does not synchronise.
    ///
    /// # Safety
    /// Both are memory of this GPU, as is the stream. They are the same or do not overlap, and until
    /// the stream has passed this point they live, and nothing else writes them or uses `output`.
    ///
    /// # Errors
    /// [`Error::Unequal`], [`Error::Gpu`].
    pub unsafe fn apply(
        &self,
        generator: &Generator,
        key: &[u8; 16],
        iv: &[u8; 16],
        input: Region,
        output: Region,
        stream: &Stream,
    ) -> Result<(), Error> {
        if input.len() != output.len() {
            return Err(Error::Unequal {
                left: input.len(),
                right: output.len(),
            });
        }
        if input.is_empty() {
            return Ok(());
        }
        let (generator, state) = (masks(generator), start(key, iv));
        let len = input.len() as u64;
        let blocks = input.len().div_ceil(PAD_THREADS * Generator::SEGMENT);
        // SAFETY: these are the kernel's parameters; the rest by this function's contract.
        unsafe {
            self.launcher.launch(
                "pad",
                blocks as u32,
                [
                    argument(&generator),
                    argument(&state),
                    argument(&input.address()),
                    argument(&output.address()),
                    argument(&len),
                ],
                stream,
            )
        }
    }

    /// As [`encrypt`](super::encrypt()): the text goes to the GPU and comes back. Waits.
    ///
    /// # Errors
    /// [`Error::Gpu`].
    pub fn encrypt(
        &self,
        generator: &Generator,
        key: &[u8; 16],
        iv: &[u8; 16],
        plain: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let mut cipher = iv.to_vec();
        cipher.extend_from_slice(plain);
        self.apply_to(generator, key, iv, &mut cipher[Generator::BLOCK..])?;
        Ok(cipher)
    }

    /// As [`decrypt`](super::decrypt()); `None` if the ciphertext is shorter than an IV. Waits.
    ///
    /// # Errors
    /// [`Error::Gpu`].
    pub fn decrypt(
        &self,
        generator: &Generator,
        key: &[u8; 16],
        cipher: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some((iv, text)) = cipher.split_first_chunk() else {
            return Ok(None);
        };
        let mut plain = text.to_vec();
        self.apply_to(generator, key, iv, &mut plain)?;
        Ok(Some(plain))
    }

    fn apply_to(
        &self,
        generator: &Generator,
        key: &[u8; 16],
        iv: &[u8; 16],
        text: &mut [u8],
    ) -> Result<(), Error> {
        let device = self.launcher.device();
        let (mut memory, stream) = (device.alloc(text.len())?, device.stream()?);
        memory.write(0, text)?;
        let place = memory.region();
        // SAFETY: only this function uses the memory, which lives until the stream is synchronised.
        unsafe { self.apply(generator, key, iv, place, place, &stream)? };
        stream.synchronize()?;
        memory.read(0, text)?;
        Ok(())
    }

    /// The [`cost`](super::cost) of each generator. Waits.
    ///
    /// # Errors
    /// [`Error::Gpu`].
    pub fn costs(&self, generators: &[Generator], keys: u64, seed: u64) -> Result<Vec<f64>, Error> {
        Fitness::new(self)?.costs(generators, keys, seed)
    }

    /// As [`evolve`](super::evolve). Waits.
    ///
    /// # Errors
    /// [`Error::Gpu`].
    pub fn evolve(&self, seed: u64, generations: u32) -> Result<Evolved, Error> {
        evolve_with(&Fitness::new(self)?, seed, generations)
    }
}

impl fmt::Debug for GpuResearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuResearch({:?})", self.launcher.device())
    }
}

/// Measures generators.
struct Fitness<'a> {
    kernels: &'a GpuResearch,
    stream: Stream,
    /// For [`Fitness::MOST`] samples and their scores.
    memory: DeviceBuffer,
}

impl<'a> Fitness<'a> {
    /// Samples of a launch: more than an evolution has.
    const MOST: usize = 1024;

    fn new(kernels: &'a GpuResearch) -> Result<Self, Error> {
        let device = kernels.launcher.device();
        Ok(Fitness {
            kernels,
            stream: device.stream()?,
            memory: device.alloc(Fitness::MOST * (size_of::<KernelSample>() + 8 * SCORES))?,
        })
    }

    /// The scores of each sample.
    fn scores(&self, samples: &[KernelSample]) -> Result<Vec<f64>, Error> {
        let words = samples.iter().flat_map(KernelSample::words);
        let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let mut scores = vec![0; 8 * SCORES * samples.len()];
        let reference = Reference::get();
        let reference = KernelReference {
            expected: reference.expected,
            deviation: reference.deviation,
            worst: WORST,
        };
        let memory = self.memory.region();
        let (to, from) = (
            memory.part(0, bytes.len()),
            memory.part(bytes.len(), scores.len()),
        );
        // SAFETY: only this value uses the memory, which is waited for; the kernel's parameters are
        // these, and it has a block for each sample.
        unsafe {
            self.stream.upload(to, &bytes)?;
            self.kernels.launcher.launch(
                "fitness",
                samples.len() as u32,
                [
                    argument(&to.address()),
                    argument(&self.kernels.terms.region().address()),
                    argument(&reference),
                    argument(&from.address()),
                ],
                &self.stream,
            )?;
            self.stream.download(&mut scores, from)?;
        }
        self.stream.synchronize()?;
        let (words, _) = scores.as_chunks();
        Ok(words.iter().map(|&word| f64::from_le_bytes(word)).collect())
    }
}

impl Measure for Fitness<'_> {
    type Error = Error;

    fn costs(&self, generators: &[Generator], keys: u64, seed: u64) -> Result<Vec<f64>, Error> {
        let samples = samples(keys, seed);
        let all = generators.iter().flat_map(|generator| {
            let generator = masks(generator);
            samples.iter().map(move |sample| KernelSample {
                generator,
                state: start(&sample.key, &sample.iv),
                other: start(&sample.other, &sample.iv),
            })
        });
        let all: Vec<_> = all.collect();
        let mut scores = Vec::with_capacity(SCORES * all.len());
        for part in all.chunks(Fitness::MOST) {
            scores.extend(self.scores(part)?);
        }
        let each = scores.chunks((SCORES * samples.len()).max(1));
        Ok(each.map(|scores| mean(scores.iter().copied())).collect())
    }
}

impl Drop for Fitness<'_> {
    fn drop(&mut self) {
        // After an error there is nothing to wait for.
        let _ = self.stream.synchronize();
    }
}
