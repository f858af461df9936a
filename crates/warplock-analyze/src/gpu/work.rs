//! The kernels, one function each.

use warplock::cuda::{Region, Stream};

use super::launch::{Argument, Launcher, Scratch, argument};
use crate::bits::Autocorrelation;
use crate::correlation::{Direction, Progression, Sums};
use crate::data::{Error, Grid};
use crate::difference::Difference;
use crate::histogram::Histogram;
use crate::repeats::{BLOCK, RepeatedBlocks};
use crate::tables::Tables;

/// Kernels' sums.
const MOST_SUMS: usize = 512;
/// As in `kernels/analyze.cu`.
const PROGRESSIONS: usize = 9;
const LAGS: usize = 48;

/// The lags of a launch.
#[repr(C)]
struct Lags {
    count: u32,
    of: [u32; LAGS],
}

/// One call's kernels, whose results it waits for.
pub(super) struct Work<'a> {
    pub(super) launcher: &'a Launcher,
    pub(super) stream: &'a Stream,
    sums: Scratch<'a>,
}

impl<'a> Work<'a> {
    pub(super) fn new(launcher: &'a Launcher, stream: &'a Stream) -> Result<Self, Error> {
        let sums = Scratch::new(launcher.device(), 8 * MOST_SUMS, stream)?;
        Ok(Work {
            launcher,
            stream,
            sums,
        })
    }

    /// Memory for this call.
    pub(super) fn scratch(&self, len: usize) -> Result<Scratch<'a>, Error> {
        Scratch::new(self.launcher.device(), len, self.stream)
    }

    /// # Safety
    /// As [`Launcher::launch`].
    unsafe fn launch<const N: usize>(
        &self,
        name: &str,
        grid: u32,
        arguments: [Argument<'_>; N],
    ) -> Result<(), Error> {
        // SAFETY: by this function's contract.
        unsafe { (self.launcher).launch(name, grid, arguments, self.stream) }
    }

    /// What a kernel has added to these sums. `launch` is given their address.
    fn sums<const N: usize>(
        &self,
        sums: [u64; N],
        launch: impl FnOnce(&u64) -> Result<(), Error>,
    ) -> Result<[u64; N], Error> {
        let place = self.sums.region().part(0, 8 * N);
        let mut bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        // SAFETY: only this call uses the sums, and the bytes stay: the driver copies pageable memory
        // before the upload returns, and this waits for the download.
        unsafe {
            self.stream.upload(place, &bytes)?;
            launch(&place.address())?;
            self.stream.download(&mut bytes, place)?;
        }
        self.stream.synchronize()?;
        let (words, _) = bytes.as_chunks();
        let mut words = words.iter().map(|&word| u64::from_le_bytes(word));
        Ok(sums.map(|_| words.next().expect("as many as were copied")))
    }

    /// # Safety
    /// As [`super::Gpu::analyze`]; the grid is the data's.
    pub(super) unsafe fn tables(&self, data: Region, grid: Grid) -> Result<Tables, Error> {
        let (len, width) = (grid.len as u64, grid.width as u64);
        let blocks = self.launcher.blocks(grid.len.div_ceil(BLOCK));
        let found = self.sums([0; 259], |out| {
            // SAFETY: these are the kernel's parameters; the data is read as it lies there.
            unsafe {
                self.launch(
                    "tables",
                    blocks,
                    [
                        argument(&data.address()),
                        argument(&len),
                        argument(&width),
                        argument(out),
                    ],
                )
            }
        })?;
        let (counts, products) = found.split_at(256);
        let mut tables = Tables {
            histogram: Histogram {
                counts: counts.try_into().expect("256 counts"),
            },
            products: products.try_into().expect("three sums"),
        };
        let products = Direction::ALL.into_iter().zip(&mut tables.products);
        for (direction, product) in products {
            // Without pairs it is not used, and 0 on the CPU.
            if direction.lag(grid).is_none() {
                *product = 0;
            }
        }
        Ok(tables)
    }

    /// # Safety
    /// As [`super::Gpu::analyze`], for both.
    pub(super) unsafe fn difference(
        &self,
        left: Region,
        right: Region,
    ) -> Result<Difference, Error> {
        if left.len() != right.len() {
            return Err(Error::Unequal {
                left: left.len(),
                right: right.len(),
            });
        }
        let len = left.len() as u64;
        let blocks = self.launcher.blocks(left.len().div_ceil(BLOCK));
        let [differing, distance, bits, first] = self.sums([0, 0, 0, u64::MAX], |out| {
            // SAFETY: these are the kernel's parameters; the data is read as it lies there.
            unsafe {
                self.launch(
                    "differences",
                    blocks,
                    [
                        argument(&left.address()),
                        argument(&right.address()),
                        argument(&len),
                        argument(out),
                    ],
                )
            }
        })?;
        Ok(Difference {
            len,
            differing,
            distance,
            bits,
            first: (first != u64::MAX).then_some(first),
        })
    }

    /// The sums of each progression; at most three times three.
    ///
    /// # Safety
    /// As [`super::Gpu::analyze`]; the progressions lie in the data.
    pub(super) unsafe fn progressions(
        &self,
        data: Region,
        of: &[[Progression; 3]],
    ) -> Result<Vec<[Sums; 3]>, Error> {
        let mut all = [Progression::default(); PROGRESSIONS];
        let flat = of.as_flattened();
        all[..flat.len()].copy_from_slice(flat);
        let most = flat.iter().map(|one| one.count).max().unwrap_or(0);
        let blocks = PROGRESSIONS as u32 * self.launcher.blocks(most as usize).div_ceil(4);
        let found = self.sums([0; 5 * PROGRESSIONS], |out| {
            // SAFETY: these are the kernel's parameters, which lie in the data.
            unsafe {
                self.launch(
                    "progressions",
                    blocks,
                    [argument(&data.address()), argument(&all), argument(out)],
                )
            }
        })?;
        let (found, _) = found.as_chunks();
        let sums = |(&[x, y, xx, yy, xy], one): (&[u64; 5], &Progression)| Sums {
            n: one.count,
            x,
            y,
            xx,
            yy,
            xy,
        };
        let sums: Vec<_> = found.iter().zip(flat).map(sums).collect();
        let (ends, _) = sums.as_chunks();
        Ok(ends.to_vec())
    }

    /// # Safety
    /// As [`super::Gpu::analyze`]; the histogram is the data's.
    pub(super) unsafe fn autocorrelation(
        &self,
        data: Region,
        histogram: &Histogram,
    ) -> Result<Option<Autocorrelation>, Error> {
        let Some(lags) = Autocorrelation::lags(data.len()) else {
            return Ok(None);
        };
        let mut parameter = Lags {
            count: lags.len() as u32,
            of: [0; LAGS],
        };
        let of = parameter.of.iter_mut().zip(&lags);
        of.for_each(|(to, &lag)| *to = lag as u32);
        let len = data.len() as u64;
        let blocks = self.launcher.blocks(data.len().div_ceil(4 * BLOCK));
        let products = self.sums([0; LAGS], |out| {
            // SAFETY: these are the kernel's parameters; the data is read as it lies there.
            unsafe {
                self.launch(
                    "lagged",
                    blocks,
                    [
                        argument(&data.address()),
                        argument(&len),
                        argument(&parameter),
                        argument(out),
                    ],
                )
            }
        })?;
        let most = lags.last().copied().unwrap_or(0);
        let (mut head, mut tail) = (vec![0; most], vec![0; most]);
        // SAFETY: the data stays, by this function's contract; both are waited for.
        unsafe {
            self.stream.download(&mut head, data.part(0, most))?;
            let end = data.part(data.len() - most, most);
            self.stream.download(&mut tail, end)?;
        }
        self.stream.synchronize()?;
        Ok(Some(Autocorrelation::from_products(
            histogram, &lags, &products, &head, &tail,
        )))
    }

    /// # Safety
    /// As [`super::Gpu::analyze`].
    pub(super) unsafe fn repeats(&self, data: Region) -> Result<Option<RepeatedBlocks>, Error> {
        let blocks = data.len() / BLOCK;
        if blocks < 2 {
            return Ok(None);
        }
        // The last number marks empty slots.
        if blocks >= u32::MAX as usize {
            return Err(Error::TooLong { found: data.len() });
        }
        let slots = (blocks + blocks / 2).next_power_of_two();
        let table = self.scratch(4 * slots)?;
        let (count, mask) = (blocks as u64, slots as u64 - 1);
        // SAFETY: only this call uses the table, which is freed after a wait.
        unsafe { self.stream.fill(table.region(), 0xff)? };
        let [repeats] = self.sums([0], |out| {
            let grid = self.launcher.blocks(blocks);
            // SAFETY: these are the kernel's parameters; the data is read as it lies there, and the
            // table has a slot for each value of the mask.
            unsafe {
                self.launch(
                    "repeats",
                    grid,
                    [
                        argument(&data.address()),
                        argument(&count),
                        argument(&table.region().address()),
                        argument(&mask),
                        argument(out),
                    ],
                )
            }
        })?;
        Ok(Some(RepeatedBlocks {
            blocks: count,
            repeats,
        }))
    }

    /// # Safety
    /// As [`super::Gpu::analyze`]; the places lie in the data.
    pub(super) unsafe fn bytes_at(&self, data: Region, places: &[usize]) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; places.len()];
        if places.is_empty() {
            return Ok(bytes);
        }
        let numbers: Vec<u8> = (places.iter())
            .flat_map(|&place| (place as u64).to_le_bytes())
            .collect();
        let memory = self.scratch(numbers.len() + bytes.len())?;
        let to = memory.region().part(0, numbers.len());
        let from = memory.region().part(numbers.len(), bytes.len());
        let count = places.len() as u64;
        let grid = self.launcher.blocks(places.len());
        // SAFETY: only this call uses the memory, which is freed after a wait; the kernel's parameters
        // are these, and the places lie in the data.
        unsafe {
            self.stream.upload(to, &numbers)?;
            self.launch(
                "gather",
                grid,
                [
                    argument(&data.address()),
                    argument(&to.address()),
                    argument(&count),
                    argument(&from.address()),
                ],
            )?;
            self.stream.download(&mut bytes, from)?;
        }
        self.stream.synchronize()?;
        Ok(bytes)
    }
}
