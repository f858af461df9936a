//! The thread that opens groups.

use std::collections::VecDeque;
use std::sync::Arc;

use warplock::cuda::{
    Device, DeviceKey, DevicePlaces, DeviceVerdicts, Event, Region, Scratch, Stream,
};
use warplock::{Direction, Key};

use super::group::{Call, Group};
use super::queue::{Next, Queue};
use crate::error::{Error, Result};
use crate::keys::ModuleKey;
use crate::sheet::ChunkPages;

pub(super) struct Opening<'a> {
    pub(super) device: &'a Device,
    /// The stream of the copies to the GPU.
    pub(super) copies: &'a Stream,
    /// Where groups are opened.
    pub(super) stream: &'a Stream,
    pub(super) plain: Region,
    pub(super) transport: &'a Key,
    pub(super) workspace: &'a mut Scratch,
    pub(super) verdicts: &'a mut Scratch,
}

/// What must live until the streams are synchronized, and what is to be looked at then.
#[derive(Default)]
struct Work {
    /// `None` is the transport's.
    keys: Vec<(Option<Arc<ModuleKey>>, DeviceKey)>,
    groups: VecDeque<(Event, Arc<Group>)>,
    /// Whose pages have verdicts, and how many those are.
    chunks: Vec<Arc<ChunkPages>>,
    pages: usize,
}

/// The least bytes for verdicts: a 32-bit number for each page, 1 if it was refused.
const VERDICTS: usize = 1 << 20;

impl Opening<'_> {
    /// Opens groups until there are no more, and refuses the first page that does not verify. Ends
    /// when nothing is under way.
    pub(super) fn run(mut self, queue: &Queue) -> Result<()> {
        let _guard = queue.guard();
        let mut work = Work::default();
        let opened = self.open_all(queue, &mut work);
        // Also after an error: what is queued uses memory that is freed then.
        let waited = (self.copies.synchronize()).and(self.stream.synchronize());
        let opened = opened.and(waited.map_err(Error::from));
        let result = opened.and_then(|()| self.check(&mut work));
        queue.quit();
        result
    }

    fn open_all(&mut self, queue: &Queue, work: &mut Work) -> Result<()> {
        self.key(work, None)?;
        let copied = self.device.event()?;
        loop {
            match queue.next(work.groups.is_empty())? {
                Next::Group(group) => {
                    // This may also wait for the first parts of the next group.
                    copied.record(self.copies)?;
                    self.stream.wait_for(&copied)?;
                    let opened = self.device.event()?;
                    work.groups.push_back((opened, Arc::clone(&group)));
                    self.open(&group, queue.region(&group), work)?;
                    if let Some((opened, _)) = work.groups.back() {
                        opened.record(self.stream)?;
                    }
                }
                Next::Later => {
                    if let Some((opened, group)) = work.groups.front() {
                        opened.wait()?;
                        queue.free(group.place.end);
                        work.groups.pop_front();
                    }
                }
                Next::End => return Ok(()),
            }
        }
    }

    fn open(&mut self, group: &Group, sealed: Region, work: &mut Work) -> Result<()> {
        for (from, to) in &group.copies {
            let from = sealed.part(from.offset, from.len);
            let to = self.plain.part(*to, from.len());
            // SAFETY: both live until the stream is synchronized, or the group's place is free;
            // nothing else is written at that place.
            unsafe { self.stream.copy(to, from)? };
        }
        (group.calls.iter()).try_for_each(|call| self.call(call, sealed, work))
    }

    /// Queues a decryption.
    fn call(&mut self, call: &Call, sealed: Region, work: &mut Work) -> Result<()> {
        let key = self.key(work, call.key.as_ref())?;
        let count = call.texts.len();
        let column = |number| sealed.part(call.tables + 8 * count * number, 8 * count);
        let places = DevicePlaces {
            count,
            total_len: call.texts.iter().map(|text| text.len as u64).sum(),
            inputs: column(0),
            lens: column(1),
            outputs: Some(column(2)),
            nonces: column(3),
            aad: (!call.is_ctr()).then(|| (column(4), column(5))),
            tags: None,
        };
        let mut verdicts = DeviceVerdicts::default();
        if !call.is_ctr() {
            verdicts.each = Some(self.verdicts(count, work)?);
            work.chunks.extend(call.chunks.iter().cloned());
            work.pages += count;
        }
        let key = &work.keys[key].1;
        let needed = key.workspace_len_indirect(Direction::Decrypt, &places)?;
        let workspace = (self.workspace).region(self.device, self.stream, needed)?;
        // SAFETY: all regions live until the stream is synchronized, or the group's place is free.
        // What the tables name lies in the group and in the plain file; no two results share a byte
        // of that, and what is read was copied before.
        Ok(unsafe {
            key.enqueue_indirect(
                Direction::Decrypt,
                &places,
                verdicts,
                workspace,
                self.stream,
            )
        }?)
    }

    /// The number of a key that is ready.
    fn key(&self, work: &mut Work, key: Option<&Arc<ModuleKey>>) -> Result<usize> {
        let same = |(ready, _): &(Option<Arc<ModuleKey>>, _)| match (ready, key) {
            (Some(ready), Some(key)) => Arc::ptr_eq(ready, key),
            (None, None) => true,
            _ => false,
        };
        if let Some(number) = work.keys.iter().position(same) {
            return Ok(number);
        }
        let of = key.map_or(self.transport, |key| key.ctr.as_ref().unwrap_or(&key.gcm));
        let ready = DeviceKey::new(self.device, of)?;
        work.keys.push((key.cloned(), ready));
        Ok(work.keys.len() - 1)
    }

    /// The place for the verdicts on `count` more pages.
    fn verdicts(&mut self, count: usize, work: &mut Work) -> Result<Region> {
        let found = self.verdicts.get().map_or(0, |place| place.len());
        if 4 * (work.pages + count) > found {
            self.stream.synchronize()?;
            self.check(work)?;
        }
        let room = (4 * count).max(VERDICTS);
        let place = self.verdicts.region(self.device, self.stream, room)?;
        Ok(place.part(4 * work.pages, 4 * count))
    }

    /// Refuses the first page of the file that has a verdict and did not verify. The stream is
    /// synchronized.
    fn check(&mut self, work: &mut Work) -> Result<()> {
        let (count, chunks) = (work.pages, std::mem::take(&mut work.chunks));
        work.pages = 0;
        if count == 0 {
            return Ok(());
        }
        let mut words = vec![0; 4 * count];
        let place = (self.verdicts).region(self.device, self.stream, words.len())?;
        // SAFETY: both live until the stream is synchronized, and nothing else uses them.
        unsafe { (self.stream).download(&mut words, place.part(0, 4 * count))? };
        self.stream.synchronize()?;
        let pages =
            (chunks.iter()).flat_map(|chunk| (0..chunk.texts.len()).map(move |page| (chunk, page)));
        let all = words.as_chunks::<4>().0.iter().zip(pages);
        let refused = all.filter(|(word, _)| **word != [0; 4]);
        let first = refused.min_by_key(|(_, (chunk, page))| chunk.texts[*page].offset);
        match first {
            Some((_, (chunk, page))) => Err(Error::Changed(chunk.place(page))),
            None => Ok(()),
        }
    }
}
