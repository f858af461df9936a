//! Answers to the kernel's questions for what is in a folder.

use std::time::Duration;

use fuser::{FileHandle, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use super::adapter::Adapter;
use super::convert::{attributes, file_type};
use crate::fs::{Attributes, Errno, FileSystem, Node, Result};

impl<F: FileSystem> Adapter<F> {
    /// Names and kinds from `offset` on, as many as there is room for.
    pub(super) fn list(
        &self,
        dir: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<()> {
        let dir = self.dirs.get(dir.0)?;
        self.fs.list(&dir, offset, &mut |entry| {
            let kind = file_type(entry.kind);
            !reply.add(INodeNo(entry.node), entry.next, kind, entry.name)
        })
    }

    /// The same with attributes; the kernel then holds a reference to each node it is told of.
    pub(super) fn list_with_attributes(
        &self,
        node: Node,
        dir: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<()> {
        let dir = self.dirs.get(dir.0)?;
        self.fs.list(&dir, offset, &mut |entry| {
            let dots = entry.name == "." || entry.name == "..";
            let found = match dots {
                // The kernel looks at neither, and counts no reference.
                true => Err(Errno::NOENT),
                false => self.fs.lookup_listed(&dir, node, &entry),
            };
            let (ttl, attr) = match found {
                Ok(found) => (self.timeout_of(found.node), self.attributes(&found)),
                Err(Errno::NOENT) if !dots => return true,
                // What cannot be looked up is listed all the same. Its number means nothing,
                // and is believed not even for a moment.
                Err(_) => (Duration::ZERO, attributes(&Attributes::named(&entry, dots))),
            };
            let full = reply.add(attr.ino, entry.next, entry.name, &ttl, &attr, Generation(0));
            if let (true, Ok(found)) = (full, found) {
                self.fs.forget(found.node, 1);
            }
            !full
        })
    }
}
