//! Where statistics are computed: on the CPU, or with `--backend cuda` on a GPU.

use warplock::cuda::{Device, DeviceBuffer, Stream};
use warplock_analyze::gpu::Gpu;
use warplock_analyze::{Comparison, Data, Error, Options, Report, analyze, compare};

use crate::args::Common;
use crate::failure::{Failure, Result};

pub(super) struct Statistics(Option<OnGpu>);

/// A GPU that files are copied to.
struct OnGpu {
    device: Device,
    gpu: Gpu,
    stream: Stream,
}

impl Statistics {
    /// On the GPU that the options name, if they name one.
    pub(super) fn new(common: &Common) -> Result<Self> {
        let Some(device) = common.gpu()? else {
            return Ok(Statistics(None));
        };
        let gpu = Gpu::new(&device).map_err(Failure::error)?;
        let stream = device.stream()?;
        Ok(Statistics(Some(OnGpu {
            device,
            gpu,
            stream,
        })))
    }

    pub(super) fn analyze(&self, data: &Data<'_>, options: &Options) -> Result<Report> {
        let Some(on) = &self.0 else {
            return Ok(analyze(data, options));
        };
        let memory = on.upload(data)?;
        // SAFETY: the memory lives, and nothing writes it.
        let found = unsafe { (on.gpu).analyze(memory.region(), data.shape(), options, &on.stream) };
        found.map_err(Failure::error)
    }

    /// The library's error says what is wrong with the data.
    pub(super) fn compare(
        &self,
        left: &Data<'_>,
        right: &Data<'_>,
    ) -> std::result::Result<Comparison, Error> {
        let Some(on) = &self.0 else {
            return compare(left, right);
        };
        if left.shape() != right.shape() {
            return Err(Error::Unequal {
                left: left.as_bytes().len(),
                right: right.as_bytes().len(),
            });
        }
        let (one, other) = (on.upload(left)?, on.upload(right)?);
        // SAFETY: the memory lives, and nothing writes it.
        unsafe { (on.gpu).compare(one.region(), other.region(), left.shape(), &on.stream) }
    }
}

impl OnGpu {
    fn upload(&self, data: &Data<'_>) -> std::result::Result<DeviceBuffer, warplock::Error> {
        let mut memory = self.device.alloc(data.as_bytes().len())?;
        memory.write(0, data.as_bytes())?;
        Ok(memory)
    }
}
