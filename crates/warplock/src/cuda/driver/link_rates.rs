//! The speed at which a GPU's link copies pinned memory.

use std::time::Instant;

use super::api::{Context, Failure, RawStream};
use super::devices::{find, no_backend};
use super::memory::{DeviceBytes, DeviceMemory, HostBytes, PinnedMemory, download, upload};
use crate::Error;

/// Bytes per second between pinned memory of the host and a GPU.
#[derive(Clone, Copy, Debug)]
pub struct LinkRates {
    /// To the GPU.
    pub up: f64,
    /// From the GPU.
    pub down: f64,
    /// Each way while both are under way: the limit for a round trip.
    pub both: f64,
}

/// Bytes of a copy: the engine's largest.
const PIECE: usize = 16 << 20;

/// Copies in each direction that are timed together.
const COPIES: usize = 64;

/// Measures the link of a GPU, or of the first one. Takes a tenth of a second.
///
/// # Errors
/// [`Error::NoBackend`] if the GPU cannot be used.
pub fn link_rates(number: Option<u32>) -> Result<LinkRates, Error> {
    let failed = |failure: Failure| no_backend(number, &failure.to_string());
    let context = Context::new(&find(number)?).map_err(failed)?;
    let _bound = context.bind().map_err(failed)?;
    let measure = || {
        let stream = || RawStream::new(&context);
        let host = || PinnedMemory::new(&context, PIECE);
        let device = || DeviceMemory::new(&context, PIECE);
        let (above, below) = (device()?, device()?);
        let (from, to) = (host()?, host()?);
        // Dropped first, after all copies have completed.
        let streams = [stream()?, stream()?];
        let run = |up: bool, down: bool, copies: usize| {
            let start = Instant::now();
            for _ in 0..copies {
                // SAFETY: all buffers live until both streams are synchronized.
                unsafe {
                    if up {
                        upload(&streams[0], above.address(), from.start(), PIECE)?;
                    }
                    if down {
                        download(&streams[1], to.start(), below.address(), PIECE)?;
                    }
                }
            }
            for stream in &streams {
                stream.wait("measuring the link")?;
            }
            Ok((copies * PIECE) as f64 / start.elapsed().as_secs_f64())
        };
        run(true, true, 4)?;
        Ok(LinkRates {
            up: run(true, false, COPIES)?,
            down: run(false, true, COPIES)?,
            both: run(true, true, COPIES)?,
        })
    };
    measure().map_err(failed)
}
