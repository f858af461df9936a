//! Groups: a run of the plain file, with all that the GPU needs to make it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use warplock::cuda::{DeviceBuffer, Region};
use warplock::{Batch, Engine, Ivs, Key, Keys, Span, Spans, Text};

use super::PART;
use super::queue::Queue;
use crate::error::{Error, Result};
use crate::files::{Target, read_exact_at};
use crate::keys::ModuleKey;
use crate::module::{NONCE, counters, packed};
use crate::pages::GROUP;
use crate::sheet::{ChunkPages, Sheet};

/// What is copied to the GPU together, and opened there together.
pub(super) struct Group {
    /// Its place in the ring, counted without end.
    pub(super) place: Range<u64>,
    /// Its own memory, if it is longer than the ring.
    pub(super) memory: Option<DeviceBuffer>,
    /// Parts of the encrypted file, one after the other.
    extents: Vec<Extent>,
    /// Bytes that the host made, and their place after those parts.
    own: Vec<u8>,
    own_at: usize,
    /// Parts of [`PART`] bytes that are not queued yet.
    pub(super) left: AtomicUsize,
    /// What is plain already, and where it goes.
    pub(super) copies: Vec<(Span, usize)>,
    pub(super) calls: Vec<Call>,
}

struct Extent {
    /// Where it begins in the encrypted file.
    from: usize,
    /// And in the group.
    at: usize,
    len: usize,
}

/// A decryption with one key. Spans and offsets are in the group, but for `to`.
pub(super) struct Call {
    /// `None`: the transport's.
    pub(super) key: Option<Arc<ModuleKey>>,
    pub(super) texts: Vec<Span>,
    /// Where the plaintexts go in the plain file.
    to: Vec<usize>,
    /// Where the nonces are, or the start counters of CTR.
    nonces: Vec<usize>,
    /// Of GCM.
    aad: Vec<Span>,
    /// Where the GPU finds all this: arrays of the texts' addresses and lengths, of the plaintexts'
    /// and nonces' addresses, and for GCM of the associated data's addresses and lengths. They come
    /// with the group: copies of their own would wait for those of groups.
    pub(super) tables: usize,
    /// Whose pages these are.
    pub(super) chunks: Vec<Arc<ChunkPages>>,
}

impl Call {
    fn new(key: Option<Arc<ModuleKey>>) -> Self {
        Call {
            key,
            texts: Vec::new(),
            to: Vec::new(),
            nonces: Vec::new(),
            aad: Vec::new(),
            tables: 0,
            chunks: Vec::new(),
        }
    }

    fn columns(&self) -> usize {
        if self.is_ctr() { 4 } else { 6 }
    }

    /// Whether it decrypts in CTR mode; else it opens with GCM.
    pub(super) fn is_ctr(&self) -> bool {
        self.key.as_ref().is_none_or(|key| key.ctr.is_some())
    }
}

impl Group {
    /// Of what a sheet has noted. `packet`: what the host has to bring.
    fn new(sheet: Sheet, packet: Packet, source: &[u8]) -> Self {
        let (mut extents, mut end) = (Vec::new(), 0);
        let mut extent = |from, len| {
            let at = end;
            extents.push(Extent { from, at, len });
            end += len;
            at
        };
        let copies = (sheet.copies.iter())
            .map(|(from, to)| {
                let (offset, len) = (extent(from.offset, from.len), from.len);
                (Span { offset, len }, *to)
            })
            .collect();
        let mut calls: Vec<Call> = Vec::new();
        for chunk in sheet.chunks {
            let (Some(first), Some(last)) = (chunk.texts.first(), chunk.texts.last()) else {
                continue;
            };
            let from = first.offset - NONCE;
            let at = extent(from, last.offset + last.len + chunk.key.page_tag() - from);
            let same = |call: &Call| {
                call.key
                    .as_ref()
                    .is_some_and(|key| Arc::ptr_eq(key, &chunk.key))
            };
            let number = calls.iter().position(same).unwrap_or_else(|| {
                calls.push(Call::new(Some(Arc::clone(&chunk.key))));
                calls.len() - 1
            });
            for (text, &to) in chunk.texts.iter().zip(&chunk.to) {
                let (offset, len) = (text.offset - from + at, text.len);
                calls[number].texts.push(Span { offset, len });
                calls[number].to.push(to);
            }
            calls[number].chunks.push(Arc::new(chunk));
        }
        let own_at = end.next_multiple_of(16);
        let mut own = packet.counters;
        let mut host = Call::new(None);
        host.nonces = (0..packet.texts.len())
            .map(|run| own_at + 16 * run)
            .collect();
        for call in &mut calls {
            if call.is_ctr() {
                let start = own_at + own.len();
                let texts = call.chunks.iter().flat_map(|chunk| &chunk.texts);
                own.extend(counters(
                    texts.map(|text| &source[text.offset - NONCE..text.offset]),
                ));
                call.nonces = (0..call.texts.len())
                    .map(|text| start + 16 * text)
                    .collect();
                continue;
            }
            call.nonces = call.texts.iter().map(|text| text.offset - NONCE).collect();
        }
        let start = own_at + own.len();
        host.texts.extend(packet.texts.iter().map(|text| Span {
            offset: start + text.offset,
            len: text.len,
        }));
        host.to = sheet.runs.iter().map(|run| run.offset).collect();
        own.extend(packet.sealed);
        for call in calls.iter_mut().filter(|call| !call.is_ctr()) {
            for chunk in &call.chunks {
                let start = own_at + own.len();
                call.aad.extend(chunk.aad_spans.iter().map(|span| Span {
                    offset: start + span.offset,
                    len: span.len,
                }));
                own.extend_from_slice(&chunk.aad);
            }
        }
        if !host.texts.is_empty() {
            calls.push(host);
        }
        own.resize(own.len().next_multiple_of(16), 0);
        for call in &mut calls {
            call.tables = own_at + own.len();
            own.resize(own.len() + 8 * call.columns() * call.texts.len(), 0);
        }
        let mut group = Group {
            place: 0..0,
            memory: None,
            extents,
            own,
            own_at,
            left: AtomicUsize::new(0),
            copies,
            calls,
        };
        *group.left.get_mut() = group.parts();
        group
    }

    /// Writes the tables of a group that lies at `base` on the GPU, for a plain file at `plain`.
    fn write_tables(&mut self, base: u64, plain: u64) {
        for call in &self.calls {
            let at = |offset: usize| base + offset as u64;
            let texts = call.texts.iter();
            let numbers = (texts.clone().map(|text| at(text.offset)))
                .chain(texts.map(|text| text.len as u64))
                .chain(call.to.iter().map(|to| plain + *to as u64))
                .chain(call.nonces.iter().map(|nonce| at(*nonce)))
                .chain(call.aad.iter().map(|aad| at(aad.offset)))
                .chain(call.aad.iter().map(|aad| aad.len as u64));
            let places = self.own[call.tables - self.own_at..].chunks_exact_mut(8);
            for (place, number) in places.zip(numbers) {
                place.copy_from_slice(&number.to_le_bytes());
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.own_at + self.own.len()
    }

    pub(super) fn parts(&self) -> usize {
        self.len().div_ceil(PART)
    }

    /// The bytes of a part. All are of about the same length, as short ones cost as much.
    pub(super) fn part(&self, number: usize) -> Range<usize> {
        let len = self.len().div_ceil(self.parts()).next_multiple_of(16);
        let at = |number: usize| (number * len).min(self.len());
        at(number)..at(number + 1)
    }

    /// Writes a part.
    pub(super) fn read(
        &self,
        part: Range<usize>,
        source: &[u8],
        file: Option<&File>,
        to: &mut [u8],
    ) -> io::Result<()> {
        let shared = |at: usize, len: usize| {
            let (start, end) = (part.start.max(at), part.end.min(at + len));
            (start < end).then_some((start - at, start - part.start..end - part.start))
        };
        let first = (self.extents).partition_point(|extent| extent.at + extent.len <= part.start);
        for extent in &self.extents[first..] {
            let Some((inside, place)) = shared(extent.at, extent.len) else {
                break;
            };
            let (from, to) = (extent.from + inside, &mut to[place]);
            match file {
                Some(file) => read_exact_at(file, to, from as u64)?,
                None => to.copy_from_slice(&source[from..][..to.len()]),
            }
        }
        if let Some((inside, place)) = shared(self.own_at, self.own.len()) {
            let len = place.len();
            to[place].copy_from_slice(&self.own[inside..][..len]);
        }
        Ok(())
    }
}

/// Bytes that the host has, on their way to their many places. A copy for each would cost more than
/// the pages; so they are encrypted under a temporary key, and one decryption call puts each run in
/// its place.
struct Packet {
    sealed: Vec<u8>,
    texts: Vec<Span>,
    counters: Vec<u8>,
}

/// The target that makes groups of a file.
pub(super) struct Groups<'a> {
    sheet: Sheet,
    /// How long the plain file was when the last group was sent.
    sent: usize,
    /// Runs of all groups so far.
    runs: u64,
    /// Where the next group begins in the ring.
    pub(super) at: u64,
    /// Where it goes.
    plain: Region,
    /// About how many of its bytes are a group.
    pub(super) group_len: usize,
    /// Gives memory to groups that are longer than the ring.
    alloc: &'a dyn Fn(usize) -> Result<DeviceBuffer>,
    queue: &'a Queue,
    source: &'a [u8],
    transport: &'a Key,
    engine: &'a Engine,
}

/// The most runs in a group: the tables of their places are in pinned memory.
const MOST_RUNS: usize = 1 << 15;

impl<'a> Groups<'a> {
    pub(super) fn new(
        plain: Region,
        alloc: &'a dyn Fn(usize) -> Result<DeviceBuffer>,
        queue: &'a Queue,
        source: &'a [u8],
        transport: &'a Key,
        engine: &'a Engine,
    ) -> Self {
        Groups {
            sheet: Sheet::default(),
            sent: 0,
            runs: 0,
            at: 0,
            plain,
            group_len: GROUP,
            alloc,
            queue,
            source,
            transport,
            engine,
        }
    }

    /// Sends what was noted, as the last group.
    pub(super) fn end(mut self) {
        self.send();
        // Dropping ends the queue.
    }

    fn send(&mut self) {
        let sheet = self.sheet.take();
        self.sent = self.sheet.len;
        match self.group(sheet) {
            Ok(group) if group.len() > 0 => self.queue.push(group),
            Ok(_) => {}
            Err(error) => self.queue.stop(error),
        }
    }

    fn group(&mut self, sheet: Sheet) -> Result<Group> {
        if sheet.len > self.plain.len() {
            return Err(Error::Write(io::ErrorKind::WriteZero.into()));
        }
        let packet = self.packet(&sheet)?;
        let mut group = Group::new(sheet, packet, self.source);
        let (len, ring) = (group.len() as u64, self.queue.ring.len() as u64);
        if len > ring {
            group.memory = Some((self.alloc)(group.len())?);
            group.place = self.at..self.at;
        } else {
            let mut start = self.at.next_multiple_of(256);
            if start % ring + len > ring {
                start = start.next_multiple_of(ring);
            }
            self.at = start + len;
            group.place = start..self.at;
        }
        let base = self.queue.region(&group).address();
        group.write_tables(base, self.plain.address());
        Ok(group)
    }

    fn packet(&mut self, sheet: &Sheet) -> Result<Packet> {
        let texts = packed(sheet.runs.iter().map(|run| run.len));
        let first = self.runs;
        self.runs += texts.len() as u64;
        // No two runs of a file share a block of the counter.
        let counters: Vec<u8> = (first..self.runs)
            .flat_map(|run| (u128::from(run) << 64).to_be_bytes())
            .collect();
        let mut sealed = vec![0; sheet.host.len()];
        let text = Text::Apart {
            input: &sheet.host,
            input_spans: Spans::Ragged(&texts),
            output: &mut sealed,
            output_spans: Spans::Ragged(&texts),
        };
        let batch = Batch::encrypt(Keys::One(self.transport), text);
        self.engine.run(batch.ivs(Ivs::Each(&counters)))?;
        Ok(Packet {
            sealed,
            texts,
            counters,
        })
    }
}

impl Drop for Groups<'_> {
    fn drop(&mut self) {
        self.queue.end();
    }
}

impl Target for Groups<'_> {
    fn room(&mut self, len: usize) -> io::Result<&mut [u8]> {
        self.sheet.room(len)
    }

    fn filled(&mut self, len: usize) -> io::Result<()> {
        self.sheet.filled(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn sheet(&mut self) -> Option<&mut Sheet> {
        if self.sheet.len - self.sent >= self.group_len || self.sheet.runs.len() >= MOST_RUNS {
            self.send();
        }
        Some(&mut self.sheet)
    }
}
