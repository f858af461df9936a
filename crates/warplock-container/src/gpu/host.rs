//! A GPU in host memory: its addresses are the host's, and what is queued is done immediately.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warplock::cuda::Region;
use warplock::{Batch, Direction, Engine, Ivs, Keys, Spans, Text};

use super::device::{Chunks, Gpu, Lane, Memory};
use crate::cipher::Cipher;
use crate::error::Result;
use crate::layout::{CHUNK_LEN, SEALED_CHUNK_LEN};

pub(super) struct Host {
    engine: Arc<Engine>,
    /// Calls until one fails.
    pub(super) calls_left: Arc<AtomicUsize>,
}

impl Host {
    pub(super) fn new() -> Self {
        let one = std::num::NonZeroUsize::MIN;
        let engine = Engine::builder()
            .threads(one)
            .backend("cpu".parse().unwrap());
        Host {
            engine: Arc::new(engine.build().unwrap()),
            calls_left: Arc::new(AtomicUsize::new(usize::MAX)),
        }
    }
}

pub(super) fn region(bytes: &mut [u8]) -> Region {
    // SAFETY: it is used with a `Host` only, whose addresses these are.
    unsafe { Region::new(bytes.as_mut_ptr() as u64, bytes.len()) }
}

/// # Safety
/// The region is one of a `Host`, and no other slice of it is in use.
unsafe fn bytes<'a>(region: Region) -> &'a mut [u8] {
    let start = match region.is_empty() {
        true => std::ptr::NonNull::dangling().as_ptr(),
        false => region.address() as *mut u8,
    };
    // SAFETY: by this function's contract.
    unsafe { std::slice::from_raw_parts_mut(start, region.len()) }
}

impl Gpu for Host {
    type Key = Cipher;
    type Memory = HostMemory;
    type Lane = HostLane;

    fn key(&self, cipher: &Cipher, _calls: usize) -> Result<Cipher> {
        Cipher::for_header(&super::tests::key(), cipher.header())
    }

    fn zeroed(&self, len: usize) -> Result<HostMemory> {
        Ok(HostMemory::new(len, 0))
    }

    fn lane(&self, len: usize) -> Result<HostLane> {
        Ok(HostLane {
            pinned: vec![0xcc; len],
            sealed: HostMemory::new(len, 0xcc),
            plain: HostMemory::new(0, 0),
            engine: self.engine.clone(),
            calls_left: self.calls_left.clone(),
        })
    }

    unsafe fn wipe(&self, region: Region) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { bytes(region) }.fill(0);
        Ok(())
    }
}

pub(super) struct HostMemory(Region);

impl HostMemory {
    fn new(len: usize, value: u8) -> Self {
        HostMemory(region(Vec::leak(vec![value; len])))
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: leaked in `new`.
        drop(unsafe { Box::from_raw(std::ptr::from_mut(bytes(self.0))) });
    }
}

impl Memory for HostMemory {
    fn region(&self) -> Region {
        self.0
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        // SAFETY: all lanes are done.
        to.copy_from_slice(&unsafe { bytes(self.0) }[offset..][..to.len()]);
        Ok(())
    }
}

pub(super) struct HostLane {
    pinned: Vec<u8>,
    sealed: HostMemory,
    plain: HostMemory,
    engine: Arc<Engine>,
    calls_left: Arc<AtomicUsize>,
}

impl Lane for HostLane {
    type Key = Cipher;

    fn ready(&mut self) -> Result<&mut [u8]> {
        Ok(&mut self.pinned)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    fn sealed(&self) -> Region {
        self.sealed.0
    }

    fn plain(&mut self, len: usize) -> Result<Region> {
        if self.plain.0.len() < len {
            self.plain = HostMemory::new(len, 0xcc);
        }
        Ok(self.plain.0)
    }

    unsafe fn upload(&mut self, part: Range<usize>, to: Region) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { bytes(to) }.copy_from_slice(&self.pinned[part]);
        Ok(())
    }

    unsafe fn download(&mut self, from: Region) -> Result<()> {
        // SAFETY: by this function's contract.
        self.pinned[..from.len()].copy_from_slice(unsafe { bytes(from) });
        Ok(())
    }

    unsafe fn copy(&mut self, to: Region, from: Region) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { bytes(to).copy_from_slice(bytes(from)) };
        Ok(())
    }

    unsafe fn run(&mut self, key: &Cipher, chunks: &Chunks<'_>) -> Result<()> {
        if self.calls_left.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(warplock::Error::Backend {
                backend: "host".to_owned(),
                reason: "it fails here".to_owned(),
            }
            .into());
        }
        let spans = |stride| Spans::Even {
            count: chunks.count,
            len: chunks.len,
            stride,
        };
        let (from, to) = match chunks.direction {
            Direction::Encrypt => (CHUNK_LEN, SEALED_CHUNK_LEN),
            Direction::Decrypt => (SEALED_CHUNK_LEN, CHUNK_LEN),
        };
        let mut nonces = Vec::new();
        for chunk in chunks.first..chunks.first + chunks.count as u64 {
            let mut nonce = chunks.base.to_vec();
            let last = nonce[4..].iter_mut();
            last.zip(chunk.to_be_bytes())
                .for_each(|(byte, count)| *byte ^= count);
            nonces.extend(nonce);
        }
        // SAFETY: by this function's contract.
        let text = unsafe {
            Text::Apart {
                input: bytes(chunks.input),
                input_spans: spans(from),
                output: bytes(chunks.output),
                output_spans: spans(to),
            }
        };
        let batch =
            Batch::new(chunks.direction, Keys::One(key.key()), text).ivs(Ivs::Each(&nonces));
        let failed = match self.engine.run(batch) {
            Ok(()) => Vec::new(),
            Err(warplock::Error::Authentication { failed, .. }) => failed,
            Err(other) => return Err(other.into()),
        };
        if let Some((each, refused)) = chunks.verdicts {
            // SAFETY: this chunk's words are this call's.
            let each = unsafe { bytes(each) };
            failed.iter().for_each(|index| each[4 * index] = 1);
            let address = refused.address() as *const std::sync::atomic::AtomicU32;
            // SAFETY: an aligned word of memory that lives, which is only counted up.
            unsafe { &*address }.fetch_add(failed.len() as u32, Ordering::Relaxed);
        }
        Ok(())
    }

    fn wipe(&mut self) -> Result<()> {
        // SAFETY: it is this lane's.
        unsafe { bytes(self.plain.0) }.fill(0);
        Ok(())
    }
}
