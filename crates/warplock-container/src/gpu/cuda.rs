//! An NVIDIA GPU.

use std::ops::Range;

use warplock::cuda::{
    self, Device, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceKey, DeviceText, DeviceVerdicts,
    Region, Scratch, Stream,
};
use warplock::{Direction, Spans};

use super::device::{Chunks, Gpu, Lane, Memory};
use crate::cipher::Cipher;
use crate::error::Result;
use crate::layout::{CHUNK_LEN, SEALED_CHUNK_LEN};

pub(crate) struct Cuda(pub(super) Device);

impl Gpu for Cuda {
    type Key = DeviceKey;
    type Memory = DeviceBuffer;
    type Lane = CudaLane;

    fn key(&self, cipher: &Cipher, calls: usize) -> Result<DeviceKey> {
        let ready = DeviceKey::new(&self.0, cipher.key())?;
        // SAFETY: this batch only tells the size of a call; it is not queued.
        let region = |address| unsafe { Region::new(address, SEALED_CHUNK_LEN) };
        let chunks = Chunks {
            direction: Direction::Decrypt,
            first: 0,
            count: 1,
            len: CHUNK_LEN,
            base: &[0; 12],
            input: region(1 << 20),
            output: region(2 << 20),
            verdicts: None,
        };
        ready.reserve(&batch(&ready, &chunks), calls)?;
        Ok(ready)
    }

    fn zeroed(&self, len: usize) -> Result<DeviceBuffer> {
        let mut memory = self.0.alloc(len)?;
        memory.fill(0)?;
        Ok(memory)
    }

    fn lane(&self, len: usize) -> Result<CudaLane> {
        Ok(CudaLane {
            stream: self.0.stream()?,
            pinned: cuda::Lane::new(&self.0, len)?,
            sealed: self.0.alloc(len)?,
            plain: Scratch::default(),
            workspace: Scratch::default(),
            device: self.0.clone(),
        })
    }

    unsafe fn wipe(&self, region: Region) -> Result<()> {
        let stream = self.0.stream()?;
        // SAFETY: by this function's contract; it is waited for.
        unsafe { stream.fill(region, 0)? };
        Ok(stream.synchronize()?)
    }
}

impl Memory for DeviceBuffer {
    fn region(&self) -> Region {
        self.region()
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        Ok(self.read(offset, bytes)?)
    }
}

pub(crate) struct CudaLane {
    stream: Stream,
    pinned: cuda::Lane,
    sealed: DeviceBuffer,
    plain: Scratch,
    workspace: Scratch,
    device: Device,
}

impl Lane for CudaLane {
    type Key = DeviceKey;

    fn ready(&mut self) -> Result<&mut [u8]> {
        Ok(self.pinned.ready()?)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.stream.synchronize()?)
    }

    fn sealed(&self) -> Region {
        self.sealed.region()
    }

    fn plain(&mut self, len: usize) -> Result<Region> {
        Ok(self.plain.region(&self.device, &self.stream, len)?)
    }

    unsafe fn upload(&mut self, part: Range<usize>, to: Region) -> Result<()> {
        // SAFETY: by this function's contract.
        Ok(unsafe { self.pinned.upload(part, to, &self.stream) }?)
    }

    unsafe fn download(&mut self, from: Region) -> Result<()> {
        // SAFETY: as above.
        Ok(unsafe { self.pinned.download(from, &self.stream) }?)
    }

    unsafe fn copy(&mut self, to: Region, from: Region) -> Result<()> {
        // SAFETY: by this function's contract.
        Ok(unsafe { self.stream.copy(to, from) }?)
    }

    unsafe fn run(&mut self, key: &DeviceKey, chunks: &Chunks<'_>) -> Result<()> {
        let batch = batch(key, chunks);
        let needed = key.workspace_len(&batch)?;
        let workspace = (self.workspace).region(&self.device, &self.stream, needed)?;
        let verdicts = match chunks.verdicts {
            Some((each, refused)) => DeviceVerdicts {
                each: Some(each),
                refused: Some(refused),
            },
            None => DeviceVerdicts::default(),
        };
        // SAFETY: by this function's contract; the workspace is this lane's.
        Ok(unsafe { key.enqueue(batch, verdicts, workspace, &self.stream) }?)
    }

    fn wipe(&mut self) -> Result<()> {
        match self.plain.get() {
            // SAFETY: it is this lane's, and dropped after a wait.
            Some(plain) => Ok(unsafe { self.stream.fill(plain, 0) }?),
            None => Ok(()),
        }
    }
}

impl Drop for CudaLane {
    fn drop(&mut self) {
        // After an error there is nothing to wait for.
        let _ = self.stream.synchronize();
    }
}

fn batch<'a>(key: &'a DeviceKey, chunks: &Chunks<'a>) -> DeviceBatch<'a> {
    let spans = |stride| Spans::Even {
        count: chunks.count,
        len: chunks.len,
        stride,
    };
    let (input_stride, output_stride) = match chunks.direction {
        Direction::Encrypt => (CHUNK_LEN, SEALED_CHUNK_LEN),
        Direction::Decrypt => (SEALED_CHUNK_LEN, CHUNK_LEN),
    };
    let text = DeviceText::Apart {
        input: chunks.input,
        input_spans: spans(input_stride),
        output: chunks.output,
        output_spans: spans(output_stride),
    };
    DeviceBatch::new(chunks.direction, key, text).ivs(DeviceIvs::Xor {
        base: chunks.base,
        first: chunks.first,
    })
}
