//! Attacks on what an object is, and on its attributes.

use super::*;

/// Whether something with other attributes stands under a name than before. It may hold the same: with
/// what it holds, or because it is a copy that was left before.
pub(in super::super) fn puts_other_attributes(before: &Disk, after: &Disk) -> bool {
    let all = entries(before).into_iter();
    let mut kept = all.filter_map(|entry| {
        let now = after.objects.get(&entry.dir)?.entries.get(&entry.name)?;
        Some((entry.inode, *now))
    });
    kept.any(|(old, new)| old != new && before.objects[&old].xattrs != after.objects[&new].xattrs)
}

impl Attacker<'_> {
    /// Another kind, or other permissions.
    pub(super) fn change_kind(&mut self) -> Option<String> {
        let entry = self.entry()?;
        if self.rng.below(2) == 0 {
            let mode = self.rng.below(0o10000) as u32;
            let object = self.disk.object(entry.inode);
            object.mode = object.mode & KIND | mode;
            object.uid = mode;
            return Some(format!("permissions {mode:o} for {}", entry.inode));
        }
        let kinds = [0o010_000, FOLDER, FILE, LINK, 0o140_000];
        let mode = *pick(self.rng, &kinds)?;
        let object = self.disk.object(entry.inode);
        if object.mode & KIND == FOLDER && mode != FOLDER {
            object.entries.clear();
        }
        object.mode = mode | 0o644;
        Some(format!("make {} a {mode:o}", entry.inode))
    }

    /// Extended attributes.
    pub(super) fn xattr(&mut self) -> Option<String> {
        let has = |disk: &Disk, entry: &Entry| !disk.objects[&entry.inode].xattrs.is_empty();
        let entry = self.any_entry(has)?;
        let names: Vec<_> = self.disk.objects[&entry.inode]
            .xattrs
            .keys()
            .cloned()
            .collect();
        let name = pick(self.rng, &names)?.clone();
        let other = self.any_entry(has)?;
        let others: Vec<_> = self.disk.objects[&other.inode]
            .xattrs
            .clone()
            .into_iter()
            .collect();
        let (other_name, other_value) = pick(self.rng, &others)?.clone();
        let old = self
            .old()
            .and_then(|old| old.objects.get(&entry.inode).cloned());
        let bit = self.rng.below(1000) as usize;
        let choice = self.rng.below(6);
        let xattrs = &mut self.disk.object(entry.inode).xattrs;
        let how = match choice {
            0 => {
                let value = xattrs.get_mut(&name)?;
                let len = value.len();
                *value.get_mut(bit % len.max(1))? ^= 1;
                "flip"
            }
            1 => {
                xattrs.remove(&name);
                self.xattrs = true;
                "remove"
            }
            2 => {
                *xattrs = old?.xattrs;
                self.xattrs = true;
                "old"
            }
            3 => {
                xattrs.insert(name, other_value);
                "another value in"
            }
            4 => {
                let name = name.to_string_lossy().replacen("user.", "trusted.", 1);
                xattrs.insert(name.into(), other_value);
                "another name space for"
            }
            _ => {
                xattrs.insert(other_name, other_value);
                // It may be its own, or replace a newer one of its own.
                self.xattrs = other.inode == entry.inode;
                "another's in"
            }
        };
        Some(format!("{how} an attribute of {}", entry.inode))
    }
}
