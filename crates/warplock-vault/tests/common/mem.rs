//! A store in memory that remembers every change, so that tests can crash it anywhere.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use rustix::io::Errno;
use warplock_vault::Storage;
use warplock_vault::fs::{
    Attributes, Changes, FileType, RenameFlags, SetTime, StatVfs, StatVfsMountFlags, XattrFlags,
};
use warplock_vault::storage::{At, Listed};

mod disk;

pub(crate) use disk::{Disk, Object, Op};

const ROOT: u64 = 1;

/// The store. Clones share one disk.
#[derive(Clone)]
pub(crate) struct Mem(pub(crate) Arc<Mutex<Disk>>);

impl Mem {
    pub(crate) fn new() -> Self {
        let root = Object::new(0o40_755);
        Mem(Arc::new(Mutex::new(Disk {
            objects: HashMap::from([(ROOT, root)]),
            next: ROOT + 1,
            reused: None,
            on_write: None,
            on_last_name: None,
            log: Vec::new(),
            image_in: None,
            image: None,
            fault: None,
            full: false,
            no_exchange: false,
            fixed_folders: false,
            fixed_owners: false,
            longest_read: 0,
            refused: HashMap::new(),
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

impl Storage for Mem {
    type Dir = u64;
    type File = u64;

    fn root(&self) -> Result<u64> {
        Ok(ROOT)
    }

    fn open_dir(&self, dir: &u64, name: &OsStr) -> Result<u64> {
        let disk = self.disk();
        let inode = disk.find(*dir, name)?;
        disk.refuse(inode, false)?;
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
                inode: disk.objects[inode]
                    .appears_as
                    .map_or(*inode, |(_, inode)| inode),
                kind: FileType::from_raw_mode(disk.objects[inode].mode),
            })
            .collect())
    }

    fn open(&self, dir: &u64, name: &OsStr, write: bool) -> Result<u64> {
        let disk = self.disk();
        let inode = disk.find(*dir, name)?;
        if write && disk.is_read_only() {
            return Err(Errno::ROFS.into());
        }
        disk.refuse(inode, write)?;
        match FileType::from_raw_mode(disk.objects[&inode].mode) {
            FileType::RegularFile => Ok(inode),
            _ => Err(Errno::INVAL.into()),
        }
    }

    fn create(&self, dir: &u64, name: &OsStr, mode: u32) -> Result<u64> {
        self.make(*dir, name, Object::new(0o100_000 | mode))
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
        let inode = disk.find(*dir, name)?;
        if FileType::from_raw_mode(disk.objects[&inode].mode) == FileType::Directory {
            return Err(Errno::ISDIR.into());
        }
        disk.change(Op::Unlink {
            dir: *dir,
            name: name.into(),
        })?;
        unnamed(disk, inode);
        Ok(())
    }

    fn rename(&self, from: (&u64, &OsStr), to: (&u64, &OsStr), flags: RenameFlags) -> Result<()> {
        let mut disk = self.disk();
        let moved = disk.find(*from.0, from.1)?;
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        let other = disk.find(*to.0, to.1);
        let into_itself = |one: u64, dir: u64| disk.holds(one, dir);
        if into_itself(moved, *to.0)
            || exchange
                && other
                    .as_ref()
                    .is_ok_and(|other| into_itself(*other, *from.0))
        {
            return Err(Errno::INVAL.into());
        }
        match &other {
            Ok(_) if flags.contains(RenameFlags::NOREPLACE) => return Err(Errno::EXIST.into()),
            Ok(other) if !exchange && !disk.objects[other].entries.is_empty() => {
                return Err(Errno::NOTEMPTY.into());
            }
            Err(_) if exchange => return other.map(drop),
            _ if exchange && disk.no_exchange => return Err(Errno::INVAL.into()),
            _ if disk.fixed_folders
                && FileType::from_raw_mode(disk.objects[&moved].mode) == FileType::Directory =>
            {
                return Err(Errno::XDEV.into());
            }
            _ => {}
        }
        disk.change(Op::Rename {
            from: (*from.0, from.1.into()),
            to: (*to.0, to.1.into()),
            exchange,
        })?;
        if let Ok(other) = other {
            unnamed(disk, other);
        }
        Ok(())
    }

    fn attributes(&self, at: At<'_, Self>) -> Result<Attributes> {
        let disk = self.disk();
        let inode = disk.at(at)?;
        let object = &disk.objects[&inode];
        let (volume, node) = object.appears_as.unwrap_or((1, inode));
        Ok(Attributes {
            node,
            volume,
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
        if disk.fixed_owners && (changes.mode, changes.uid, changes.gid) != (None, None, None) {
            return Err(Errno::PERM.into());
        }
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
        let mut disk = self.disk();
        disk.longest_read = disk.longest_read.max(buffer.len());
        let data = &disk.objects[file].data;
        let start = data.len().min(offset as usize);
        let len = buffer.len().min(data.len() - start);
        buffer[..len].copy_from_slice(&data[start..start + len]);
        Ok(len)
    }

    fn write_at(&self, file: &u64, data: &[u8], offset: u64) -> Result<()> {
        let (inode, data) = (*file, data.to_vec());
        let hook = self.disk().on_write.take();
        if let Some(hook) = hook {
            hook(inode);
        }
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
        let mut stat = rustix::fs::statvfs("/")?;
        let read_only = self.disk().is_read_only();
        stat.f_flag.set(StatVfsMountFlags::RDONLY, read_only);
        Ok(stat)
    }
}

/// After an object lost a name: if that was the last one, the test's turn.
fn unnamed(mut disk: MutexGuard<'_, Disk>, inode: u64) {
    if disk.objects[&inode].links == 0
        && let Some(hook) = disk.on_last_name.take()
    {
        drop(disk);
        hook(inode);
    }
}

impl Mem {
    fn make(&self, dir: u64, name: &OsStr, object: Object) -> Result<u64> {
        let mut disk = self.disk();
        if disk.find(dir, name).is_ok() {
            return Err(Errno::EXIST.into());
        }
        let inode = disk.reused.take().unwrap_or(disk.next);
        disk.next = disk.next.max(inode + 1);
        disk.change(Op::Make {
            dir,
            name: name.into(),
            inode,
            object,
        })?;
        Ok(inode)
    }
}
