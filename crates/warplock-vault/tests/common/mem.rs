//! A store in memory that remembers every change, so that tests can crash it anywhere.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use rustix::io::Errno;
use warplock_vault::Storage;
use warplock_vault::fs::{
    Attributes, Changes, FileType, RenameFlags, SetTime, StatVfs, XattrFlags,
};
use warplock_vault::storage::{At, Listed};

use super::rng::Rng;

const ROOT: u64 = 1;

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
}

impl Object {
    fn new(mode: u32) -> Self {
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
        }
    }
}

#[derive(Clone)]
pub(crate) struct Disk {
    pub(crate) objects: HashMap<u64, Object>,
    next: u64,
    pub(crate) log: Vec<Op>,
    /// So many changes succeed before all others fail with this.
    pub(crate) fault: Option<(u64, Errno)>,
}

/// The store. Clones share one disk.
#[derive(Clone)]
pub(crate) struct Mem(pub(crate) Arc<Mutex<Disk>>);

impl Mem {
    pub(crate) fn new() -> Self {
        let root = Object::new(0o40_755);
        Mem(Arc::new(Mutex::new(Disk {
            objects: HashMap::from([(ROOT, root)]),
            next: ROOT + 1,
            log: Vec::new(),
            fault: None,
        })))
    }

    pub(crate) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }

    /// A copy that shares nothing.
    pub(crate) fn fork(&self) -> Self {
        Mem(Arc::new(Mutex::new(self.disk().clone())))
    }
}

impl Disk {
    pub(crate) fn object(&mut self, inode: u64) -> &mut Object {
        self.objects.get_mut(&inode).unwrap()
    }

    fn find(&self, dir: u64, name: &OsStr) -> Result<u64> {
        Ok(*self.objects[&dir].entries.get(name).ok_or(Errno::NOENT)?)
    }

    fn at(&self, at: At<'_, Mem>) -> Result<u64> {
        match at {
            At::File(inode) | At::Dir(inode) => Ok(*inode),
            At::Name(dir, name) => self.find(*dir, name),
        }
    }

    /// Does and logs a change.
    fn change(&mut self, op: Op) -> Result<()> {
        if let Some((left, errno)) = &mut self.fault {
            if *left == 0 {
                return Err((*errno).into());
            }
            *left -= 1;
        }
        self.apply(&op);
        self.log.push(op);
        Ok(())
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
                self.object(inode).links -= 1;
            }
            Op::Rename { from, to, exchange } => {
                let inode = self.object(from.0).entries.remove(&from.1).unwrap();
                let other = self.object(to.0).entries.insert(to.1.clone(), inode);
                if let Some(other) = other {
                    if *exchange {
                        self.object(from.0).entries.insert(from.1.clone(), other);
                    } else {
                        self.object(other).links -= 1;
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
    /// was `self` before them: names in order, up to some point behind the last durable one;
    /// content in any selection, with writes torn at sectors.
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

impl Storage for Mem {
    type Dir = u64;
    type File = u64;

    fn root(&self) -> Result<u64> {
        Ok(ROOT)
    }

    fn open_dir(&self, dir: &u64, name: &OsStr) -> Result<u64> {
        let disk = self.disk();
        let inode = disk.find(*dir, name)?;
        match FileType::from_raw_mode(disk.objects[&inode].mode) {
            FileType::Directory => Ok(inode),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn make_dir(&self, dir: &u64, name: &OsStr, mode: u32) -> Result<()> {
        self.make(*dir, name, Object::new(0o40_000 | mode))
            .map(drop)
    }

    fn remove_dir(&self, dir: &u64, name: &OsStr) -> Result<()> {
        let inode = self.open_dir(dir, name)?;
        if !self.disk().objects[&inode].entries.is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        self.disk().change(Op::Unlink {
            dir: *dir,
            name: name.into(),
        })
    }

    fn list(&self, dir: &u64) -> Result<Vec<Listed>> {
        let disk = self.disk();
        let entries = disk.objects[dir].entries.iter();
        Ok(entries
            .map(|(name, inode)| Listed {
                name: name.clone(),
                inode: *inode,
                kind: FileType::from_raw_mode(disk.objects[inode].mode),
            })
            .collect())
    }

    fn open(&self, dir: &u64, name: &OsStr, _: bool) -> Result<u64> {
        let disk = self.disk();
        let inode = disk.find(*dir, name)?;
        match FileType::from_raw_mode(disk.objects[&inode].mode) {
            FileType::RegularFile => Ok(inode),
            _ => Err(Errno::INVAL.into()),
        }
    }

    fn create(&self, dir: &u64, name: &OsStr, mode: u32) -> Result<u64> {
        self.make(*dir, name, Object::new(0o100_000 | mode))
    }

    fn make_special(&self, dir: &u64, name: &OsStr, mode: u32, _: u64) -> Result<()> {
        self.make(*dir, name, Object::new(mode)).map(drop)
    }

    fn make_symlink(&self, dir: &u64, name: &OsStr, target: &[u8]) -> Result<()> {
        let mut object = Object::new(0o120_777);
        object.target = target.into();
        self.make(*dir, name, object).map(drop)
    }

    fn read_symlink(&self, dir: &u64, name: &OsStr) -> Result<Vec<u8>> {
        let disk = self.disk();
        Ok(disk.objects[&disk.find(*dir, name)?].target.clone())
    }

    fn link(&self, from: (&u64, &OsStr), to: (&u64, &OsStr)) -> Result<()> {
        let mut disk = self.disk();
        let inode = disk.find(*from.0, from.1)?;
        if disk.find(*to.0, to.1).is_ok() {
            return Err(Errno::EXIST.into());
        }
        disk.change(Op::Link {
            dir: *to.0,
            name: to.1.into(),
            inode,
        })
    }

    fn unlink(&self, dir: &u64, name: &OsStr) -> Result<()> {
        let mut disk = self.disk();
        disk.find(*dir, name)?;
        disk.change(Op::Unlink {
            dir: *dir,
            name: name.into(),
        })
    }

    fn rename(&self, from: (&u64, &OsStr), to: (&u64, &OsStr), flags: RenameFlags) -> Result<()> {
        let mut disk = self.disk();
        disk.find(*from.0, from.1)?;
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        match disk.find(*to.0, to.1) {
            Ok(_) if flags.contains(RenameFlags::NOREPLACE) => return Err(Errno::EXIST.into()),
            Ok(other) if !exchange && !disk.objects[&other].entries.is_empty() => {
                return Err(Errno::NOTEMPTY.into());
            }
            Err(error) if exchange => return Err(error),
            _ => {}
        }
        disk.change(Op::Rename {
            from: (*from.0, from.1.into()),
            to: (*to.0, to.1.into()),
            exchange,
        })
    }

    fn attributes(&self, at: At<'_, Self>) -> Result<Attributes> {
        let disk = self.disk();
        let inode = disk.at(at)?;
        let object = &disk.objects[&inode];
        Ok(Attributes {
            node: inode,
            mode: object.mode,
            links: object.links,
            uid: object.uid,
            gid: object.gid,
            device: 0,
            size: object.data.len() as u64,
            blocks: object.data.len() as u64 / 512,
            block_size: 4096,
            accessed: object.modified,
            modified: object.modified,
            changed: object.modified,
        })
    }

    fn change(&self, at: At<'_, Self>, changes: &Changes) -> Result<()> {
        let mut disk = self.disk();
        let inode = disk.at(at)?;
        let object = disk.object(inode);
        object.uid = changes.uid.unwrap_or(object.uid);
        object.gid = changes.gid.unwrap_or(object.gid);
        if let Some(mode) = changes.mode {
            object.mode = object.mode & 0o170_000 | mode;
        }
        match changes.modified {
            Some(SetTime::To(time)) => object.modified = time,
            Some(SetTime::Now) => object.modified = SystemTime::now(),
            None => {}
        }
        Ok(())
    }

    fn read_at(&self, file: &u64, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let disk = self.disk();
        let data = &disk.objects[file].data;
        let start = data.len().min(offset as usize);
        let len = buffer.len().min(data.len() - start);
        buffer[..len].copy_from_slice(&data[start..start + len]);
        Ok(len)
    }

    fn write_at(&self, file: &u64, data: &[u8], offset: u64) -> Result<()> {
        let (inode, data) = (*file, data.to_vec());
        self.disk().change(Op::Write {
            inode,
            offset,
            data,
        })
    }

    fn set_len(&self, file: &u64, len: u64) -> Result<()> {
        self.disk().change(Op::SetLen { inode: *file, len })
    }

    fn allocate(&self, _: &u64, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn punch(&self, file: &u64, offset: u64, len: u64) -> Result<()> {
        let mut disk = self.disk();
        let size = disk.objects[file].data.len() as u64;
        let end = size.min(offset + len);
        if offset < end {
            let data = vec![0; (end - offset) as usize];
            disk.change(Op::Write {
                inode: *file,
                offset,
                data,
            })?;
        }
        Ok(())
    }

    fn next_data(&self, file: &u64, offset: u64) -> Result<Option<u64>> {
        let disk = self.disk();
        let data = &disk.objects[file].data;
        Ok((offset..data.len() as u64).find(|at| data[*at as usize] != 0))
    }

    fn sync(&self, file: &u64, _: bool) -> Result<()> {
        self.disk().change(Op::Sync { inode: *file })
    }

    fn sync_dir(&self, dir: &u64) -> Result<()> {
        self.disk().change(Op::SyncDir { dir: *dir })
    }

    fn sync_all(&self) -> Result<()> {
        self.disk().change(Op::SyncAll)
    }

    fn get_xattr(&self, at: At<'_, Self>, name: &OsStr) -> Result<Vec<u8>> {
        let disk = self.disk();
        let object = &disk.objects[&disk.at(at)?];
        Ok(object.xattrs.get(name).ok_or(Errno::NODATA)?.clone())
    }

    fn set_xattr(&self, at: At<'_, Self>, name: &OsStr, value: &[u8], _: XattrFlags) -> Result<()> {
        let mut disk = self.disk();
        let inode = disk.at(at)?;
        let (name, value) = (name.into(), Some(value.into()));
        disk.change(Op::Xattr { inode, name, value })
    }

    fn list_xattrs(&self, at: At<'_, Self>) -> Result<Vec<u8>> {
        let disk = self.disk();
        let object = &disk.objects[&disk.at(at)?];
        let names = object.xattrs.keys();
        Ok(names
            .flat_map(|name| [name.as_bytes(), b"\0"].concat())
            .collect())
    }

    fn remove_xattr(&self, at: At<'_, Self>, name: &OsStr) -> Result<()> {
        let mut disk = self.disk();
        let inode = disk.at(at)?;
        if !disk.objects[&inode].xattrs.contains_key(name) {
            return Err(Errno::NODATA.into());
        }
        disk.change(Op::Xattr {
            inode,
            name: name.into(),
            value: None,
        })
    }

    fn stat_fs(&self) -> Result<StatVfs> {
        Ok(rustix::fs::statvfs("/")?)
    }
}

impl Mem {
    fn make(&self, dir: u64, name: &OsStr, object: Object) -> Result<u64> {
        let mut disk = self.disk();
        if disk.find(dir, name).is_ok() {
            return Err(Errno::EXIST.into());
        }
        let inode = disk.next;
        disk.next += 1;
        disk.change(Op::Make {
            dir,
            name: name.into(),
            inode,
            object,
        })?;
        Ok(inode)
    }
}
