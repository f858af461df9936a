//! Statistics of data in GPU memory: the same results as on the CPU, bit for bit.
//!
//! The kernels ([`crate`]'s folder `kernels`) add up integers; what follows from the sums is computed
//! on the host by the same code.
//!
//! ```no_run
//! use warplock::cuda::Device;
//! use warplock_analyze::Options;
//! use warplock_analyze::gpu::Gpu;
//!
//! let device = Device::open(0)?;
//! let gpu = Gpu::new(&device)?;
//! let (mut memory, stream) = (device.alloc(1 << 20)?, device.stream()?);
//! memory.write(0, &[7; 1 << 20])?;
//! // SAFETY: the memory lives and nothing writes it.
//! let report = unsafe { gpu.analyze(memory.region(), None, &Options::default(), &stream)? };
//! for test in report.tests() {
//!     println!("{}", test.sentence);
//! }
//! # Ok::<(), warplock_analyze::Error>(())
//! ```

mod launch;
mod planes;
mod work;

use warplock::cuda::{Device, Region, Stream};

use self::launch::Launcher;
use self::planes::Planes;
use self::work::Work;
use crate::bits::Autocorrelation;
use crate::data::{Error, Grid, Shape};
use crate::difference::Difference;
use crate::repeats::RepeatedBlocks;
use crate::report::{ChannelPair, Comparison, Options, Report, channel, whole_tests};
use crate::tables::Tables;

#[cfg(feature = "research")]
pub(crate) use self::launch::{Launcher as KernelLauncher, argument};

static FATBIN: &[u8] = include_bytes!("../../kernels/prebuilt/analyze.fatbin");

/// The kernels of this module on one GPU. Threads may share it.
#[derive(Debug)]
pub struct Gpu(Launcher);

impl Gpu {
    /// Loads the kernels. May synchronise.
    ///
    /// # Errors
    /// [`Error::Gpu`] if the driver refuses them.
    pub fn new(device: &Device) -> Result<Self, Error> {
        // SAFETY: the image is a whole fatbin.
        let launcher = unsafe { Launcher::new(device, FATBIN)? };
        Ok(Gpu(launcher))
    }

    /// As [`analyze`](crate::analyze) for data in GPU memory; `shape` is that of an image, after
    /// which bytes are left out. Waits.
    ///
    /// GPU memory: 0.4 to 0.75 bytes for each byte while repeated blocks are counted, and a byte for
    /// each byte of an image with several channels. `options.threads` is not used.
    ///
    /// # Safety
    /// The data is memory of this GPU and stays, and nothing writes it, until the call returns;
    /// earlier work that writes it is on `stream`, a stream of this GPU.
    ///
    /// # Errors
    /// [`Error::BadShape`], [`Error::TooShort`], [`Error::TooLong`], [`Error::Gpu`].
    pub unsafe fn analyze(
        &self,
        data: Region,
        shape: Option<Shape>,
        options: &Options,
        stream: &Stream,
    ) -> Result<Report, Error> {
        let data = cut(data, shape)?;
        let work = Work::new(&self.0, stream)?;
        // SAFETY: by this function's contract.
        let planes = unsafe { Planes::of(&work, data, shape)? };
        let channels = planes.each();
        let channels = channels.map(|(name, plane)| channel(name, &plane, options));
        let channels = channels.collect::<Result<Vec<_>, Error>>()?;
        // Their memory is free for the table of blocks.
        drop(planes);
        let tests = whole_tests(
            &channels,
            // SAFETY: as above.
            |whole| unsafe { work.autocorrelation(data, whole) },
            // SAFETY: as above.
            || unsafe { work.repeats(data) },
        )?;
        Ok(Report {
            len: data.len(),
            channels,
            tests,
        })
    }

    /// As [`compare`](crate::compare) for data in GPU memory. Waits.
    ///
    /// # Safety
    /// As [`Gpu::analyze`], for both.
    ///
    /// # Errors
    /// [`Error::Unequal`], [`Error::BadShape`], [`Error::TooShort`], [`Error::Gpu`].
    pub unsafe fn compare(
        &self,
        left: Region,
        right: Region,
        shape: Option<Shape>,
        stream: &Stream,
    ) -> Result<Comparison, Error> {
        let (left, right) = (cut(left, shape)?, cut(right, shape)?);
        if left.len() != right.len() {
            return Err(Error::Unequal {
                left: left.len(),
                right: right.len(),
            });
        }
        let work = Work::new(&self.0, stream)?;
        // SAFETY: by this function's contract.
        let left = unsafe { Planes::of(&work, left, shape)? };
        // SAFETY: as above.
        let right = unsafe { Planes::of(&work, right, shape)? };
        let pairs = left.each().zip(right.each());
        let pairs = pairs.map(|((name, left), (_, right))| {
            // SAFETY: as above; the planes live.
            let difference = unsafe { work.difference(left.region(), right.region())? };
            Ok(ChannelPair::of(name, difference))
        });
        let channels = pairs.collect::<Result<Vec<_>, Error>>()?;
        let firsts = (0u64..).zip(&channels).filter_map(|(channel, pair)| {
            let pixel = pair.difference.first?;
            Some(pixel * channels.len() as u64 + channel)
        });
        let first = firsts.min();
        Ok(Comparison { channels, first })
    }

    /// As [`Tables::of`] for rows of `width` bytes in GPU memory; the last row is left out if it is
    /// not whole. One pass. Waits.
    ///
    /// # Safety
    /// As [`Gpu::analyze`].
    ///
    /// # Errors
    /// [`Error::Gpu`].
    pub unsafe fn tables(
        &self,
        data: Region,
        width: usize,
        stream: &Stream,
    ) -> Result<Tables, Error> {
        let len = data.len() - data.len() % width.max(1);
        let grid = Grid { len, width };
        // SAFETY: by this function's contract.
        unsafe { Work::new(&self.0, stream)?.tables(data.part(0, len), grid) }
    }

    /// As [`Difference::of`] for data in GPU memory. One pass. Waits.
    ///
    /// # Safety
    /// As [`Gpu::analyze`], for both.
    ///
    /// # Errors
    /// [`Error::Unequal`], [`Error::Gpu`].
    pub unsafe fn difference(
        &self,
        left: Region,
        right: Region,
        stream: &Stream,
    ) -> Result<Difference, Error> {
        // SAFETY: by this function's contract.
        unsafe { Work::new(&self.0, stream)?.difference(left, right) }
    }

    /// As [`Autocorrelation::of`] for data in GPU memory. Waits.
    ///
    /// # Safety
    /// As [`Gpu::analyze`].
    ///
    /// # Errors
    /// [`Error::Gpu`].
    pub unsafe fn autocorrelation(
        &self,
        data: Region,
        stream: &Stream,
    ) -> Result<Option<Autocorrelation>, Error> {
        let work = Work::new(&self.0, stream)?;
        let grid = Grid {
            len: data.len(),
            width: data.len(),
        };
        // SAFETY: by this function's contract.
        unsafe {
            let tables = work.tables(data, grid)?;
            work.autocorrelation(data, &tables.histogram)
        }
    }

    /// As [`RepeatedBlocks::of`] for data in GPU memory, for each byte of which 0.4 to 0.75 bytes are
    /// taken for a table. Waits.
    ///
    /// # Safety
    /// As [`Gpu::analyze`].
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Gpu`].
    pub unsafe fn repeats(
        &self,
        data: Region,
        stream: &Stream,
    ) -> Result<Option<RepeatedBlocks>, Error> {
        // SAFETY: by this function's contract.
        unsafe { Work::new(&self.0, stream)?.repeats(data) }
    }
}

/// The bytes of an image, without what comes after them; all bytes if it is none.
fn cut(data: Region, shape: Option<Shape>) -> Result<Region, Error> {
    let Some(shape) = shape else {
        return Ok(data);
    };
    if !shape.is_valid() {
        return Err(Error::BadShape(shape));
    }
    match shape.len() <= data.len() {
        true => Ok(data.part(0, shape.len())),
        false => Err(Error::TooShort {
            shape,
            found: data.len(),
        }),
    }
}
