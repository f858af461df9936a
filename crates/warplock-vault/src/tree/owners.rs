//! Type, permissions and owner of objects, as headers and records seal them: what a mount shows of
//! them, and what the store's objects get.

use rustix::process::{getegid, geteuid};

use crate::format::header::Owner;
use crate::fs::{Attributes, Changes, FileType};

/// The bits of `st_mode` that tell the type.
pub(crate) const TYPE: u32 = 0o170_000;
const PERMISSIONS: u32 = 0o7777;
pub(crate) const SETUID: u32 = 0o4000;
pub(crate) const SETGID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o010;
/// Of a folder's record: it may hold fifos, sockets or devices, which in a listing of the store
/// look like files.
const HOLDS_SPECIALS: u32 = 1 << 31;

impl Owner {
    /// The type that a mount shows: a folder for a folder's record, any other for a header.
    pub(crate) fn kind(&self) -> FileType {
        match FileType::from_raw_mode(self.mode & TYPE) {
            FileType::Symlink | FileType::Unknown => FileType::RegularFile,
            kind => kind,
        }
    }

    /// The owner of something without a sealed one: only the user who runs this may use it.
    pub(crate) fn unsealed(kind: FileType) -> Self {
        let permissions = match kind {
            FileType::Directory => 0o700,
            _ => 0o600,
        };
        Owner {
            mode: kind.as_raw_mode() | permissions,
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            rdev: 0,
        }
    }

    /// With the requested permissions and owners. A change of owner clears setuid and setgid,
    /// except of folders.
    pub(crate) fn changed(mut self, changes: &Changes) -> Self {
        self.uid = changes.uid.unwrap_or(self.uid);
        self.gid = changes.gid.unwrap_or(self.gid);
        match changes.mode {
            Some(mode) => self.mode = self.mode & !PERMISSIONS | mode & PERMISSIONS,
            None if changes.uid.is_some() || changes.gid.is_some() => self = self.unprivileged(),
            None => {}
        }
        self
    }

    /// With these permissions of owner, group and others.
    pub(crate) fn permitting(mut self, permissions: u32) -> Self {
        self.mode = self.mode & !0o777 | permissions;
        self
    }

    /// Without setuid and setgid, unless it is a folder.
    pub(crate) fn unprivileged(mut self) -> Self {
        if self.kind() != FileType::Directory {
            self.mode &= !SETUID;
            // Without execution by the group, setgid means something else.
            if self.mode & GROUP_EXECUTES != 0 {
                self.mode &= !SETGID;
            }
        }
        self
    }

    /// The permissions of the object in the store. Its owner may always use it, as the vault must;
    /// and ciphertext is never set-user-ID or set-group-ID.
    pub(crate) fn permissions_in_store(&self) -> u32 {
        match self.kind() {
            FileType::Directory => self.mode & PERMISSIONS | 0o700,
            _ => self.mode & 0o777 | 0o600,
        }
    }

    /// Whether what is made in this folder gets the folder's group.
    pub(crate) fn hands_down_group(&self) -> bool {
        self.mode & SETGID != 0
    }

    pub(crate) fn may_hold_specials(&self) -> bool {
        self.mode & HOLDS_SPECIALS != 0
    }

    pub(crate) fn holding_specials(mut self) -> Self {
        self.mode |= HOLDS_SPECIALS;
        self
    }

    /// Shows this of an object.
    pub(crate) fn show(&self, found: &mut Attributes) {
        found.mode = self.kind().as_raw_mode() | self.mode & PERMISSIONS;
        (found.uid, found.gid) = (self.uid, self.gid);
        found.device = self.rdev.into();
    }
}

/// The mapping between sealed ids and those of this machine.
///
/// They are the same, except for a user whose store was copied from where the user had another id:
/// that one and the user's own are exchanged, so that the vault is the user's here, too.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ids {
    exchanged: Option<[(u32, u32); 2]>,
}

impl Ids {
    /// `top`: what is sealed of the topmost folder; `found`: what the store has of it.
    pub(crate) fn new(top: &Owner, found: &Attributes) -> Self {
        let (uid, gid) = (geteuid(), getegid().as_raw());
        let copied = found.uid == uid.as_raw() && top.uid != found.uid;
        Ids {
            exchanged: (copied && !uid.is_root())
                .then(|| [(top.uid, uid.as_raw()), (top.gid, gid)]),
        }
    }

    /// From one to the other; it is the same in both directions.
    pub(crate) fn map(&self, mut owner: Owner) -> Owner {
        if let Some([uids, gids]) = self.exchanged {
            owner.uid = exchange(uids, owner.uid);
            owner.gid = exchange(gids, owner.gid);
        }
        owner
    }
}

fn exchange((one, other): (u32, u32), id: u32) -> u32 {
    match id {
        _ if id == one => other,
        _ if id == other => one,
        _ => id,
    }
}

/// The ACL that goes with permissions.
pub(crate) const ACL: &str = "system.posix_acl_access";
/// The ACL that is handed down in a folder.
pub(crate) const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Bytes of an ACL in its binary form without an entry, which takes an ACL away.
pub(crate) const NO_ACL: usize = 4;
/// Tags of ACL entries.
const USER_OBJ: u16 = 0x01;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Runs `action` on those entries of an ACL in its binary form that permissions also tell of: on the
/// permissions of the entry, and by how many bits these are shifted in a mode.
fn each_entry(acl: &mut [u8], mut action: impl FnMut(&mut u8, u32)) {
    // A version, then entries of a tag, permissions and an id.
    let entries = acl.get_mut(NO_ACL..).unwrap_or_default();
    let (entries, _) = entries.as_chunks_mut::<8>();
    let tag = |entry: &[u8; 8]| u16::from_le_bytes([entry[0], entry[1]]);
    let group = match entries.iter().any(|entry| tag(entry) == MASK) {
        true => MASK,
        false => GROUP_OBJ,
    };
    for entry in entries {
        let shift = match tag(entry) {
            USER_OBJ => 6,
            tag if tag == group => 3,
            OTHER => 0,
            _ => continue,
        };
        action(&mut entry[2], shift);
    }
}

/// The permissions that an ACL brings about.
pub(crate) fn mode_of_acl(acl: &[u8]) -> u32 {
    let mut mode = 0;
    each_entry(&mut acl.to_vec(), |permissions, shift| {
        mode |= u32::from(*permissions & 7) << shift;
    });
    mode
}

/// An ACL with these permissions.
pub(crate) fn acl_with_mode(acl: &[u8], mode: u32) -> Vec<u8> {
    let mut acl = acl.to_vec();
    each_entry(&mut acl, |permissions, shift| {
        *permissions = (mode >> shift & 7) as u8
    });
    acl
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tag: u16, permissions: u8) -> [u8; 8] {
        let [low, high] = tag.to_le_bytes();
        [low, high, permissions, 0, 255, 255, 255, 255]
    }

    #[test]
    fn acls_and_permissions() {
        let parts = [
            entry(USER_OBJ, 6),
            entry(0x02, 7),
            entry(GROUP_OBJ, 1),
            entry(MASK, 5),
            entry(OTHER, 4),
        ];
        let acl = [&[2, 0, 0, 0], parts.concat().as_slice()].concat();
        assert_eq!(mode_of_acl(&acl), 0o654);
        let new = acl_with_mode(&acl, 0o4710);
        assert_eq!(mode_of_acl(&new), 0o710);
        // Those of named users, and the group's where there is a mask, stay.
        assert_eq!((new[4 + 8 + 2], new[4 + 16 + 2]), (7, 1));
        assert_eq!(mode_of_acl(&[2, 0]), 0);
    }

    #[test]
    fn new_owners_take_privileges_off() {
        let owner = |mode| Owner {
            mode,
            ..Owner::default()
        };
        let given = Changes {
            uid: Some(7),
            ..Changes::default()
        };
        let cases = [
            (0o106_755, 0o100_755),
            (0o106_745, 0o102_745),
            (0o042_755, 0o042_755),
        ];
        for (before, after) in cases {
            let new = owner(before).changed(&given);
            assert_eq!((new.mode, new.uid), (after, 7));
        }
        let both = Changes {
            mode: Some(0o4755),
            ..given
        };
        assert_eq!(owner(0o100_644).changed(&both).mode, 0o104_755);
    }

    #[test]
    fn ids_are_exchanged() {
        let ids = Ids {
            exchanged: Some([(1000, 1001), (100, 1001)]),
        };
        let owner = |uid, gid| Owner {
            uid,
            gid,
            ..Owner::default()
        };
        for (sealed, shown) in [
            (owner(1000, 100), owner(1001, 1001)),
            (owner(1001, 0), owner(1000, 0)),
            (owner(0, 1000), owner(0, 1000)),
        ] {
            assert_eq!(ids.map(sealed), shown);
            assert_eq!(ids.map(shown), sealed);
        }
    }
}
