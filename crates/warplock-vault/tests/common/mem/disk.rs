//! The content of a store in memory, and the log of its changes.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io::Result;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;
use warplock_vault::storage::At;

use super::Mem;
use crate::common::rng::Rng;

/// What changed, or was made durable.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Write {
        inode: u64,
        offset: u64,
        data: Vec<u8>,
    },
    SetLen {
        inode: u64,
        len: u64,
    },
    Make {
        dir: u64,
        name: OsString,
        inode: u64,
        object: Object,
    },
    Link {
        dir: u64,
        name: OsString,
        inode: u64,
    },
    Unlink {
        dir: u64,
        name: OsString,
    },
    Rename {
        from: (u64, OsString),
        to: (u64, OsString),
        exchange: bool,
    },
    Xattr {
        inode: u64,
        name: OsString,
        value: Option<Vec<u8>>,
    },
    Sync {
        inode: u64,
    },
    SyncDir {
        dir: u64,
    },
    SyncAll,
}

#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) modified: SystemTime,
    pub(crate) data: Vec<u8>,
    pub(crate) entries: BTreeMap<OsString, u64>,
    pub(crate) target: Vec<u8>,
    pub(crate) xattrs: BTreeMap<OsString, Vec<u8>>,
    /// Another volume and inode number that its attributes claim.
    pub(crate) appears_as: Option<(u64, u64)>,
}

impl Object {
    pub(crate) fn new(mode: u32) -> Self {
        Object {
            mode,
            links: 1,
            uid: 0,
            gid: 0,
            modified: SystemTime::UNIX_EPOCH,
            data: Vec::new(),
            entries: BTreeMap::new(),
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            appears_as: None,
        }
    }
}

/// What a test wants to do in the middle of an operation.
pub(crate) type Hook = Arc<dyn Fn(u64) + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Disk {
    pub(crate) objects: HashMap<u64, Object>,
    pub(super) next: u64,
    /// The number that the next object gets instead, as file systems give freed ones again.
    pub(crate) reused: Option<u64>,
    /// Called once with the number of an object that is about to be written to.
    pub(crate) on_write: Option<Hook>,
    /// Called once with the number of an object that has just lost its last name.
    pub(crate) on_last_name: Option<Hook>,
    pub(crate) log: Vec<Op>,
    /// After this many changes, the state that a crash would find is kept in `image`.
    pub(crate) image_in: Option<(u64, Hook)>,
    pub(crate) image: Option<Box<Disk>>,
    /// This many changes succeed before all others fail with this error.
    pub(crate) fault: Option<(u64, Errno)>,
    /// The disk is full: existing bytes can be replaced, also by zeros, which free room; of other
    /// writes at least half is done.
    pub(crate) full: bool,
    /// Names cannot be exchanged, as on some file systems.
    pub(crate) no_exchange: bool,
    /// Folders cannot be renamed, as in the lower layers of overlayfs.
    pub(crate) fixed_folders: bool,
    /// Neither owners nor permissions can be changed.
    pub(crate) fixed_owners: bool,
    /// The most bytes that were requested in one call.
    pub(crate) longest_read: usize,
    /// Objects that cannot be opened, or not for writing only, if the flag is set.
    pub(crate) refused: HashMap<u64, (Errno, bool)>,
}

impl Disk {
    pub(crate) fn object(&mut self, inode: u64) -> &mut Object {
        self.objects.get_mut(&inode).unwrap()
    }

    pub(super) fn find(&self, dir: u64, name: &OsStr) -> Result<u64> {
        Ok(*self.objects[&dir].entries.get(name).ok_or(Errno::NOENT)?)
    }

    pub(super) fn at(&self, at: At<'_, Mem>) -> Result<u64> {
        match at {
            At::File(inode) | At::Dir(inode) => Ok(*inode),
            At::Name(dir, name) => self.find(*dir, name),
        }
    }

    /// Whether a folder is another one, or holds it somewhere below.
    pub(super) fn holds(&self, folder: u64, other: u64) -> bool {
        let mut waiting = vec![folder];
        while let Some(at) = waiting.pop() {
            if at == other {
                return true;
            }
            waiting.extend(self.objects[&at].entries.values());
        }
        false
    }

    /// Gives new objects other numbers than those of another disk.
    pub(crate) fn number_above(&mut self, other: &Disk) {
        self.next = self.next.max(other.next);
    }

    /// Puts an object on the disk that has no name yet; returns its number.
    pub(crate) fn plant(&mut self, object: Object) -> u64 {
        let inode = self.next;
        self.next += 1;
        self.objects.insert(inode, object);
        inode
    }

    /// Whether all changes fail as on a read-only file system.
    pub(super) fn is_read_only(&self) -> bool {
        self.fault == Some((0, Errno::ROFS))
    }

    /// Fails if an object cannot be opened.
    pub(super) fn refuse(&self, inode: u64, write: bool) -> Result<()> {
        match self.refused.get(&inode) {
            Some((errno, only_writing)) if write || !only_writing => Err((*errno).into()),
            _ => Ok(()),
        }
    }

    /// Does and logs a change.
    pub(super) fn change(&mut self, op: Op) -> Result<()> {
        self.take_image();
        if let Some((left, errno)) = &mut self.fault {
            if *left == 0 {
                return Err((*errno).into());
            }
            *left -= 1;
        }
        if self.full
            && let Op::Write {
                inode,
                offset,
                data,
            } = &op
            && let Some(room) = self.room(*inode, *offset, data)
        {
            let half = Op::Write {
                inode: *inode,
                offset: *offset,
                data: data[..room.max(data.len() / 2)].to_vec(),
            };
            self.apply(&half);
            self.log.push(half);
            return Err(Errno::NOSPC.into());
        }
        self.apply(&op);
        self.log.push(op);
        Ok(())
    }

    /// Keeps what a crash would find now, if it is time for that, and calls the hook, which must not
    /// use the disk.
    fn take_image(&mut self) {
        match &mut self.image_in {
            Some((0, _)) => {
                let hook = self.image_in.take();
                self.image = Some(Box::new(self.clone()));
                hook.into_iter().for_each(|(_, hook)| hook(0));
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
    }

    /// How much of a write has room on a full disk, if not all: bytes in pages that hold something.
    fn room(&self, inode: u64, offset: u64, data: &[u8]) -> Option<usize> {
        const PAGE: usize = 4096;
        if data.iter().all(|byte| *byte == 0) {
            return None;
        }
        let (there, start) = (&self.objects[&inode].data, offset as usize);
        let taken = |page: usize| {
            let page = there.chunks(PAGE).nth(page);
            page.is_some_and(|page| page.iter().any(|byte| *byte != 0))
        };
        let mut pages = start / PAGE..(start + data.len()).div_ceil(PAGE);
        let lacking = pages.find(|page| !taken(*page))?;
        Some((lacking * PAGE).saturating_sub(start))
    }

    /// Does a change.
    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Write {
                inode,
                offset,
                data,
            } => {
                let object = self.object(*inode);
                let end = *offset as usize + data.len();
                if object.data.len() < end {
                    object.data.resize(end, 0);
                }
                object.data[*offset as usize..end].copy_from_slice(data);
                object.modified = SystemTime::now();
            }
            Op::SetLen { inode, len } => {
                let object = self.object(*inode);
                object.data.resize(*len as usize, 0);
                object.modified = SystemTime::now();
            }
            Op::Make {
                dir,
                name,
                inode,
                object,
            } => {
                self.objects.insert(*inode, object.clone());
                self.object(*dir).entries.insert(name.clone(), *inode);
            }
            Op::Link { dir, name, inode } => {
                self.object(*dir).entries.insert(name.clone(), *inode);
                self.object(*inode).links += 1;
            }
            Op::Unlink { dir, name } => {
                let inode = self.object(*dir).entries.remove(name).unwrap();
                let links = &mut self.object(inode).links;
                *links = links.saturating_sub(1);
            }
            Op::Rename { from, to, exchange } => {
                let inode = self.object(from.0).entries.remove(&from.1).unwrap();
                let other = self.object(to.0).entries.insert(to.1.clone(), inode);
                if let Some(other) = other {
                    if *exchange {
                        self.object(from.0).entries.insert(from.1.clone(), other);
                    } else {
                        let links = &mut self.object(other).links;
                        *links = links.saturating_sub(1);
                    }
                }
            }
            Op::Xattr { inode, name, value } => {
                let object = self.object(*inode);
                match value {
                    Some(value) => object.xattrs.insert(name.clone(), value.clone()),
                    None => object.xattrs.remove(name),
                };
            }
            Op::Sync { .. } | Op::SyncDir { .. } | Op::SyncAll => {}
        }
    }

    /// What a power failure after the first `cut` operations of the log may leave of a disk that
    /// was `self` before them: names in order, up to some point after the last durable one; content
    /// in any selection, with writes torn at sectors.
    pub(crate) fn crash(&self, log: &[Op], cut: usize, rng: &mut Rng) -> Disk {
        let log = &log[..cut];
        let mut disk = self.clone();
        disk.log.clear();
        // Inode numbers of the log are not given again.
        disk.next += 1 << 32;
        disk.fault = None;
        let mut synced: HashMap<u64, usize> = HashMap::new();
        let (mut all, mut names) = (0, 0);
        for (at, op) in log.iter().enumerate() {
            match op {
                Op::Sync { inode } => {
                    synced.insert(*inode, at);
                }
                Op::SyncDir { .. } => names = at,
                Op::SyncAll => (all, names) = (at, at),
                _ => {}
            }
        }
        let names = names + rng.below((cut - names + 1) as u64) as usize;
        let keep = [0, 30, 50, 90, 100][rng.below(5) as usize];
        for (at, op) in log.iter().enumerate() {
            match op {
                Op::Write { inode, .. } | Op::SetLen { inode, .. } | Op::Xattr { inode, .. } => {
                    if !disk.objects.contains_key(inode) {
                        continue;
                    }
                    let durable = at < all || synced.get(inode).is_some_and(|sync| at < *sync);
                    if durable || rng.below(100) < keep {
                        disk.apply(op);
                    } else if let Op::Write {
                        inode,
                        offset,
                        data,
                    } = op
                        && rng.below(4) == 0
                    {
                        disk.tear(*inode, *offset, data, rng);
                    }
                }
                Op::Sync { .. } | Op::SyncDir { .. } | Op::SyncAll => {}
                _ if at < names => disk.apply(op),
                _ => {}
            }
        }
        disk
    }

    /// Some sectors of a write.
    fn tear(&mut self, inode: u64, offset: u64, data: &[u8], rng: &mut Rng) {
        const SECTOR: u64 = 512;
        let mut at = 0;
        while at < data.len() {
            let start = offset + at as u64;
            let len = ((SECTOR - start % SECTOR) as usize).min(data.len() - at);
            if rng.below(2) == 0 {
                let data = data[at..at + len].to_vec();
                self.apply(&Op::Write {
                    inode,
                    offset: start,
                    data,
                });
            }
            at += len;
        }
    }
}
