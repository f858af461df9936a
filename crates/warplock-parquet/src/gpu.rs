//! From an encrypted file in host memory to a plain one in GPU memory: only ciphertext crosses the
//! link, and the host never has the plaintext of an encrypted page.

use std::fs::File;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use warplock::cuda::{
    Device, DeviceAad, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceKey, DeviceText, DeviceVerdicts,
    PinnedBuffer, Region, Stream,
};
use warplock::{Algorithm, Batch, Direction, Engine, Ivs, Key, Keys, Span, Spans, Text};

use crate::decrypt::{Options, convert};
use crate::error::{Error, Result};
use crate::files::read_exact_at;
use crate::keys::{KeySource, ModuleKey};
use crate::module::{NONCE, counters, packed};
use crate::sheet::{ChunkPages, Sheet};

/// Decrypts files into the memory of one GPU, through pinned buffers that it keeps.
pub struct GpuDecryption {
    device: Device,
    lanes: Vec<Lane>,
}

/// Bytes of a pinned buffer, and the most threads that fill two each: on an H200, larger or more
/// ones were slower (2 MiB and 12 threads 45 GB/s, 1 MiB 35, 8 MiB 33; 8 threads 36).
const PART: usize = 2 << 20;
const MOST_THREADS: usize = 12;

/// A queue of copies, and the memory that they read.
struct Lane {
    stream: Stream,
    pinned: PinnedBuffer,
}

impl GpuDecryption {
    /// For a GPU. The buffers are made at the first use.
    pub fn new(device: &Device) -> Self {
        GpuDecryption {
            device: device.clone(),
            lanes: Vec::new(),
        }
    }

    /// As [`decrypt_slice`](crate::decrypt_slice), to GPU memory: the result is a plain Parquet file.
    /// `engine` opens what the host needs: the footer, the headers of pages, indexes and bloom
    /// filters. Waits until every page is verified.
    ///
    /// `file`: the file that `source` is a mapping of. It is read for the GPU, which is faster than
    /// through the mapping; give `None` for bytes that are in memory anyway.
    ///
    /// Host memory: about 100 bytes for each page, and the pinned buffers of at most 48 MiB. GPU
    /// memory: the encrypted file until the call returns, and the result.
    ///
    /// # Errors
    /// As [`decrypt`](crate::decrypt()); [`Error::Engine`] if the GPU fails. Then what was opened is
    /// wiped.
    pub fn decrypt(
        &mut self,
        source: &[u8],
        file: Option<&File>,
        keys: &mut dyn KeySource,
        options: &Options,
        engine: &Engine,
    ) -> Result<DeviceBuffer> {
        let GpuDecryption { device, lanes } = self;
        let sealed = device.alloc(source.len().max(1))?;
        let to = sealed.region();
        let (sheet, uploaded) = thread::scope(|scope| {
            let upload = scope.spawn(|| upload(device, lanes, source, file, to));
            let mut sheet = Sheet::default();
            let noted = convert(&mut { source }, &mut sheet, keys, options, engine);
            let uploaded = upload.join();
            let uploaded = uploaded.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (noted.map(|_| sheet), uploaded)
        });
        let sheet = sheet?;
        uploaded?;
        let mut plain = device.alloc(sheet.len)?;
        let filled = self.fill(&sheet, engine, source, to, plain.region());
        if filled.is_err() {
            plain.fill(0)?;
        }
        filled.map(|()| plain)
    }

    /// Makes the plain file of the encrypted one.
    fn fill(
        &self,
        sheet: &Sheet,
        engine: &Engine,
        source: &[u8],
        sealed: Region,
        plain: Region,
    ) -> Result<()> {
        let mut work = Work {
            device: &self.device,
            stream: self.device.stream()?,
            source,
            sealed,
            plain,
            memory: Vec::new(),
            keys: Vec::new(),
            verdicts: Vec::new(),
        };
        let queued = work.queue(sheet, engine);
        // Also after an error: what is queued uses memory that is freed then.
        let waited = work.stream.synchronize();
        queued?;
        waited?;
        work.check()
    }
}

/// Copies the source to the GPU, by several threads with two lanes each.
fn upload(
    device: &Device,
    lanes: &mut Vec<Lane>,
    source: &[u8],
    file: Option<&File>,
    to: Region,
) -> Result<()> {
    let parts = source.len().div_ceil(PART);
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = cores.min(MOST_THREADS).min(parts.div_ceil(2)).max(1);
    while lanes.len() < 2 * threads {
        lanes.push(Lane {
            stream: device.stream()?,
            pinned: device.pinned(PART)?,
        });
    }
    let next = AtomicUsize::new(0);
    let copy = |lane: &mut Lane, part: usize| -> Result<()> {
        lane.stream.synchronize()?;
        let start = part * PART;
        let bytes = &source[start..source.len().min(start + PART)];
        let pinned = &mut lane.pinned[..bytes.len()];
        match file {
            Some(file) => read_exact_at(file, pinned, start as u64).map_err(Error::Read)?,
            None => pinned.copy_from_slice(bytes),
        }
        // SAFETY: nothing else uses this part of the memory, and the pinned bytes stay until the
        // stream is synchronized.
        Ok(unsafe { lane.stream.upload(to.part(start, bytes.len()), pinned) }?)
    };
    let work = |lanes: &mut [Lane]| {
        let mut copied = Ok(());
        for turn in 0.. {
            let part = next.fetch_add(1, Relaxed);
            if part >= parts || copied.is_err() {
                break;
            }
            copied = copy(&mut lanes[turn % 2], part);
        }
        // Also after an error: what is queued uses memory that is freed then.
        let waited = lanes.iter().try_for_each(|lane| lane.stream.synchronize());
        copied.and(waited.map_err(Error::from))
    };
    thread::scope(|scope| {
        let mut pairs = lanes[..2 * threads].chunks_exact_mut(2);
        let first = pairs.next();
        let others: Vec<_> = pairs.map(|pair| scope.spawn(|| work(pair))).collect();
        let mut result = first.map_or(Ok(()), work);
        for other in others {
            let ended = other.join();
            let ended = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result = result.and(ended);
        }
        result
    })
}

/// Column chunks with the same key.
fn by_key(chunks: &[ChunkPages]) -> Vec<Vec<&ChunkPages>> {
    let mut groups: Vec<Vec<&ChunkPages>> = Vec::new();
    for chunk in chunks.iter().filter(|chunk| !chunk.texts.is_empty()) {
        let same = |group: &&mut Vec<&ChunkPages>| Arc::ptr_eq(&group[0].key, &chunk.key);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(chunk),
            None => groups.push(vec![chunk]),
        }
    }
    groups
}

/// Work queued on one stream, and what must live until the stream is synchronized.
struct Work<'a> {
    device: &'a Device,
    stream: Stream,
    source: &'a [u8],
    /// The source on the GPU.
    sealed: Region,
    plain: Region,
    memory: Vec<DeviceBuffer>,
    keys: Vec<DeviceKey>,
    /// A 32-bit number for each page of the chunks: 1 if it was refused.
    verdicts: Vec<(DeviceBuffer, Vec<&'a ChunkPages>)>,
}

impl<'a> Work<'a> {
    fn queue(&mut self, sheet: &'a Sheet, engine: &Engine) -> Result<()> {
        for (from, to) in &sheet.copies {
            let from = self.sealed.part(from.offset, from.len);
            let to = self.plain.part(*to, from.len());
            // SAFETY: both buffers live until the stream is synchronized; nothing else is written
            // at that place.
            unsafe { self.stream.copy(to, from)? };
        }
        self.scatter(sheet, engine)?;
        for chunks in by_key(&sheet.chunks) {
            self.open(chunks)?;
        }
        Ok(())
    }

    /// Brings what the host has to its many places. A copy for each would cost more than the pages;
    /// so one copy carries all of it, encrypted under a temporary key, and one decryption call puts
    /// each run in its place.
    fn scatter(&mut self, sheet: &Sheet, engine: &Engine) -> Result<()> {
        let key = Key::generate(Algorithm::Aes128Ctr)?;
        let packed = packed(sheet.runs.iter().map(|run| run.len));
        // No two runs share a block of the counter.
        let ivs: Vec<u8> = (0..packed.len() as u64)
            .flat_map(|run| (u128::from(run) << 64).to_be_bytes())
            .collect();
        let mut sealed = vec![0; sheet.host.len()];
        let text = Text::Apart {
            input: &sheet.host,
            input_spans: Spans::Ragged(&packed),
            output: &mut sealed,
            output_spans: Spans::Ragged(&packed),
        };
        let batch = Batch::encrypt(Keys::One(&key), text);
        engine.run(batch.ivs(Ivs::Each(&ivs)))?;
        let (input, ivs) = (self.uploaded(&sealed)?, self.uploaded(&ivs)?);
        let text = DeviceText::Apart {
            input,
            input_spans: Spans::Ragged(&packed),
            output: self.plain,
            output_spans: Spans::Ragged(&sheet.runs),
        };
        let (ivs, none) = (DeviceIvs::Each(ivs), DeviceVerdicts::default());
        self.call(&key, text, ivs, DeviceAad::None, none)
    }

    /// Opens the pages of chunks that have one key.
    fn open(&mut self, chunks: Vec<&'a ChunkPages>) -> Result<()> {
        let key: &ModuleKey = &chunks[0].key;
        let texts: Vec<Span> = (chunks.iter())
            .flat_map(|chunk| &chunk.texts)
            .copied()
            .collect();
        let to: Vec<Span> = (chunks.iter().flat_map(|chunk| &chunk.to))
            .zip(&texts)
            .map(|(&offset, text)| Span {
                offset,
                len: text.len,
            })
            .collect();
        let nonces: Vec<Span> = (texts.iter())
            .map(|text| Span {
                offset: text.offset - NONCE,
                len: NONCE,
            })
            .collect();
        let text = DeviceText::Apart {
            input: self.sealed,
            input_spans: Spans::Ragged(&texts),
            output: self.plain,
            output_spans: Spans::Ragged(&to),
        };
        if let Some(ctr) = &key.ctr {
            let nonce = |nonce: &Span| &self.source[nonce.offset..nonce.offset + NONCE];
            let ivs = counters(nonces.iter().map(nonce));
            let ivs = DeviceIvs::Each(self.uploaded(&ivs)?);
            let none = DeviceVerdicts::default();
            return self.call(ctr, text, ivs, DeviceAad::None, none);
        }
        let (mut aad, mut aad_spans) = (Vec::new(), Vec::new());
        for chunk in &chunks {
            aad_spans.extend(chunk.aad_spans.iter().map(|span| Span {
                offset: aad.len() + span.offset,
                len: span.len,
            }));
            aad.extend_from_slice(&chunk.aad);
        }
        let aad = DeviceAad::Each {
            bytes: self.uploaded(&aad)?,
            spans: Spans::Ragged(&aad_spans),
        };
        let ivs = DeviceIvs::Ragged {
            bytes: self.sealed,
            spans: Spans::Ragged(&nonces),
        };
        let mut verdicts = self.device.alloc(4 * texts.len())?;
        verdicts.fill(0)?;
        let wanted = DeviceVerdicts {
            each: Some(verdicts.region()),
            refused: None,
        };
        self.verdicts.push((verdicts, chunks));
        self.call(&key.gcm, text, ivs, aad, wanted)
    }

    /// Queues a decryption.
    fn call(
        &mut self,
        key: &Key,
        text: DeviceText<'_>,
        ivs: DeviceIvs<'_>,
        aad: DeviceAad<'_>,
        verdicts: DeviceVerdicts,
    ) -> Result<()> {
        let ready = DeviceKey::new(self.device, key)?;
        let batch = DeviceBatch::new(Direction::Decrypt, &ready, text)
            .ivs(ivs)
            .aad(aad);
        let workspace = self.device.alloc(ready.workspace_len(&batch)?)?;
        // SAFETY: all regions are of buffers that live until the stream is synchronized, and no two
        // calls write the same places.
        let queued = unsafe { ready.enqueue(batch, verdicts, workspace.region(), &self.stream) };
        self.memory.push(workspace);
        self.keys.push(ready);
        Ok(queued?)
    }

    fn uploaded(&mut self, bytes: &[u8]) -> Result<Region> {
        let mut buffer = self.device.alloc(bytes.len())?;
        buffer.write(0, bytes)?;
        let region = buffer.region();
        self.memory.push(buffer);
        Ok(region)
    }

    /// Refuses the first page of the file that did not verify. The stream is synchronized.
    fn check(&self) -> Result<()> {
        let mut first: Option<(usize, Error)> = None;
        for (verdicts, chunks) in &self.verdicts {
            let mut words = vec![0; verdicts.len()];
            verdicts.read(0, &mut words)?;
            let pages = chunks.iter().flat_map(|chunk| {
                let each = chunk.texts.iter().enumerate();
                each.map(move |(page, text)| (chunk, page, text.offset))
            });
            for (word, (chunk, page, offset)) in words.as_chunks::<4>().0.iter().zip(pages) {
                let is_first = first.as_ref().is_none_or(|(before, _)| offset < *before);
                if *word != [0; 4] && is_first {
                    first = Some((offset, Error::Changed(chunk.place(page))));
                }
            }
        }
        first.map_or(Ok(()), |(_, error)| Err(error))
    }
}
