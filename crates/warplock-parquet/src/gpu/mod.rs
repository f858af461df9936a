//! From an encrypted file in host memory to a plain one in GPU memory: only ciphertext crosses the
//! link, and the host never has the plaintext of an encrypted page.
//!
//! Three kinds of threads work at the same time. The caller's reads the footer and the headers of
//! pages, and makes groups of about 16 MiB (`group`). Others copy the groups' bytes through pinned
//! memory into a ring on the GPU (`queue`). One more opens a group as soon as it is there, from the
//! ring to its place in the plain file (`open`).

mod group;
mod open;
mod queue;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::num::NonZeroUsize;
use std::thread;

use warplock::cuda::{Device, DeviceBuffer, Lane, Pairs, Scratch};
use warplock::{Algorithm, Engine, Key};

use self::group::Groups;
use self::open::Opening;
use self::queue::{Filling, Queue};
use crate::decrypt::{Options, convert};
use crate::error::{Error, Result};
use crate::files::Mapped;
use crate::keys::KeySource;

/// Decrypts files into the memory of one GPU, through buffers that it keeps.
pub struct GpuDecryption {
    device: Device,
    lanes: Pairs<Lane>,
    /// The ring.
    sealed: Scratch,
    workspace: Scratch,
    verdicts: Scratch,
}

/// Bytes of a pinned buffer, and the most threads that fill two each. On an H200, 2 MiB and 12
/// threads were 3 % slower; from files, 8 threads are as fast as the link.
const PART: usize = 4 << 20;
const MOST_THREADS: usize = 10;

/// Bytes of the ring: all that is in the lanes, as much again that is copied meanwhile, and groups
/// that are opened.
const RING: usize = 256 << 20;

impl GpuDecryption {
    /// For a GPU. The buffers are made at the first use.
    pub fn new(device: &Device) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        GpuDecryption {
            device: device.clone(),
            lanes: Pairs::new(cores.min(MOST_THREADS)),
            sealed: Scratch::default(),
            workspace: Scratch::default(),
            verdicts: Scratch::default(),
        }
    }

    /// As [`decrypt_slice`](crate::decrypt_slice), to GPU memory: the result is a plain Parquet file.
    /// `engine` opens what the host needs: the footer, the headers of pages, indexes and bloom
    /// filters. Waits until every page is verified.
    ///
    /// `file`: the file that `source` is a mapping of. It is read for the GPU, which is faster than
    /// through the mapping; give `None` for bytes that are in memory anyway.
    ///
    /// Host memory: about 100 bytes for each page, and the pinned buffers of at most 80 MiB. GPU
    /// memory: at most 256 MiB for encrypted pages (one more if it is larger), and as many bytes for
    /// the result as the encrypted file has.
    ///
    /// # Errors
    /// As [`decrypt`](crate::decrypt()); [`Error::Engine`] if the GPU fails. Then what was opened is
    /// wiped.
    ///
    /// [`Error::Engine`]: crate::Error::Engine
    pub fn decrypt(
        &mut self,
        source: &[u8],
        file: Option<&File>,
        keys: &mut dyn KeySource,
        options: &Options,
        engine: &Engine,
    ) -> Result<DeviceBuffer> {
        let device = &self.device;
        let (copies, opens) = (device.stream()?, device.stream()?);
        let ring = source.len().next_power_of_two().clamp(1 << 20, RING);
        let ring = self.sealed.region(device, &opens, ring)?;
        let mut plain = device.alloc(source.len())?;
        let place = plain.region();
        let transport = Key::generate(Algorithm::Aes128Ctr)?;
        let queue = Queue::new(ring);
        let filling = Filling {
            queue: &queue,
            source,
            file,
            stream: &copies,
        };
        let threads = source.len().div_ceil(2 * PART);
        let opening = Opening {
            device,
            copies: &copies,
            stream: &opens,
            plain: place,
            transport: &transport,
            workspace: &mut self.workspace,
            verdicts: &mut self.verdicts,
        };
        let lanes = &mut self.lanes;
        let make = || Ok(Lane::new(device, PART)?);
        let (noted, opened) = thread::scope(|scope| {
            let start = || thread::Builder::new();
            let opened = start().spawn_scoped(scope, || opening.run(&queue));
            let opened = opened.map_err(Error::NoThread)?;
            let fill = || lanes.run(threads, make, |lanes| filling.work(lanes));
            if let Err(error) = start().spawn_scoped(scope, fill) {
                // The other thread waits for groups.
                queue.quit();
                return Err(Error::NoThread(error));
            }
            let alloc = |len| Ok(device.alloc(len)?);
            let mut groups = Groups::new(place, &alloc, &queue, source, &transport, engine);
            let mut source = Mapped {
                bytes: source,
                file,
            };
            let noted = convert(&mut source, &mut groups, keys, options, engine);
            // Also after an error: an earlier page that does not verify is refused first.
            groups.end();
            let opened = opened.join();
            let opened = opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, Error>((noted, opened))
        })?;
        // All that was queued is done, also after an error.
        opened?;
        plain.truncate(noted? as usize);
        Ok(plain)
    }
}
