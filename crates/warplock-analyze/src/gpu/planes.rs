//! The channels of an image in GPU memory, each as a plane.

use warplock::cuda::Region;

use super::launch::{Scratch, argument};
use super::work::Work;
use crate::correlation::{Progression, Sums};
use crate::data::{Error, Grid, Shape};
use crate::source::Source;
use crate::tables::Tables;

/// Each channel with its name.
pub(super) struct Planes<'a> {
    work: &'a Work<'a>,
    width: usize,
    planes: Vec<(&'static str, Region)>,
    /// Of the planes, if there are several.
    _memory: Option<Scratch<'a>>,
}

/// One channel.
pub(super) struct OnGpu<'a> {
    work: &'a Work<'a>,
    plane: Region,
    grid: Grid,
}

impl<'a> Planes<'a> {
    /// Queues the kernel that takes several channels apart.
    ///
    /// # Safety
    /// As [`super::Gpu::analyze`], as long as this value lives.
    pub(super) unsafe fn of(
        work: &'a Work<'a>,
        data: Region,
        shape: Option<Shape>,
    ) -> Result<Self, Error> {
        let Some(shape) = shape else {
            return Ok(Planes {
                work,
                width: data.len(),
                planes: vec![("", data)],
                _memory: None,
            });
        };
        let (width, pixels) = (shape.width, shape.width * shape.height);
        let names = shape.channel_names();
        if shape.channels == 1 {
            return Ok(Planes {
                work,
                width,
                planes: vec![(names[0], data)],
                _memory: None,
            });
        }
        let name = match shape.channels {
            2 => "split_2",
            3 => "split_3",
            _ => "split_4",
        };
        let pitch = pixels.next_multiple_of(16);
        let memory = work.scratch(pitch * shape.channels)?;
        let (from, to) = (data.address(), memory.region().address());
        let (count, distance) = (pixels as u64, pitch as u64);
        let grid = work.launcher.blocks(pixels.div_ceil(4));
        let arguments = [
            argument(&from),
            argument(&count),
            argument(&to),
            argument(&distance),
        ];
        // SAFETY: these are the kernel's parameters; the planes have room for the pixels, and what
        // uses them is waited for.
        unsafe { work.launcher.launch(name, grid, arguments, work.stream)? };
        let planes = names.iter().enumerate();
        let planes =
            planes.map(|(number, &name)| (name, memory.region().part(number * pitch, pixels)));
        Ok(Planes {
            work,
            width,
            planes: planes.collect(),
            _memory: Some(memory),
        })
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, OnGpu<'_>)> {
        self.planes.iter().map(|&(name, plane)| {
            let grid = Grid {
                len: plane.len(),
                width: self.width,
            };
            let work = self.work;
            (name, OnGpu { work, plane, grid })
        })
    }
}

impl OnGpu<'_> {
    pub(super) fn region(&self) -> Region {
        self.plane
    }
}

// The calls are sound because `Planes` promises that the data stays.
impl Source for OnGpu<'_> {
    type Error = Error;

    fn grid(&self) -> Grid {
        self.grid
    }

    fn tables(&self) -> Result<Tables, Error> {
        // SAFETY: by the contract of `Planes::of`.
        unsafe { self.work.tables(self.plane, self.grid) }
    }

    fn sums(&self, progressions: &[[Progression; 3]]) -> Result<Vec<[Sums; 3]>, Error> {
        // SAFETY: as above; the progressions lie in the plane.
        unsafe { self.work.progressions(self.plane, progressions) }
    }

    fn bytes_at(&self, places: &[usize]) -> Result<Vec<u8>, Error> {
        // SAFETY: as above; so do the places.
        unsafe { self.work.bytes_at(self.plane, places) }
    }
}
