//! The system's table of mounts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::SUBTYPE;

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Where.
    pub point: PathBuf,
    /// `fuse.warplock` and the like.
    pub kind: String,
    /// What, as its owner calls it.
    pub source: OsString,
    /// Whether nothing can be changed there.
    pub read_only: bool,
    /// `major:minor` of its device.
    pub device: String,
}

impl Mounted {
    /// Whether Warplock mounted it.
    pub fn is_ours(&self) -> bool {
        self.kind.strip_prefix("fuse.") == Some(SUBTYPE)
    }
}

/// What is mounted at `point` (a full path without symlinks); if several, the topmost.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn mounted_at(point: &Path) -> io::Result<Option<Mounted>> {
    let table = table()?;
    let mut rows = table.rsplit(|&byte| byte == b'\n').filter_map(row);
    Ok(rows.find(|row| row.point == point))
}

/// The mount of ours that shows `source`, as its owner calls it; if several, the newest.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn mounted_from(source: &OsStr) -> io::Result<Option<Mounted>> {
    let table = table()?;
    let mut rows = table.rsplit(|&byte| byte == b'\n').filter_map(row);
    Ok(rows.find(|row| row.is_ours() && row.source == source))
}

/// All mounts of ours, the oldest first.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn all_mounted() -> io::Result<Vec<Mounted>> {
    let table = table()?;
    let rows = table.split(|&byte| byte == b'\n').filter_map(row);
    Ok(rows.filter(Mounted::is_ours).collect())
}

/// The whole table. The kernel gives it in pieces, between which others mount and unmount, so that a
/// row may be missing: only two readings that agree are believed.
fn table() -> io::Result<Vec<u8>> {
    let read = || fs::read("/proc/self/mountinfo");
    let mut table = read()?;
    for _ in 0..100 {
        let again = read()?;
        if again == table {
            break;
        }
        table = again;
    }
    Ok(table)
}

/// `36 35 98:0 /root /point rw,noatime master:1 - fuse.kind source rw,options` (proc(5)).
fn row(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = fields.nth(2)?;
    let point = fields.nth(1)?;
    let options = fields.next()?;
    let mut tail = fields.skip_while(|field| *field != b"-").skip(1);
    let text = |field: &[u8]| String::from_utf8_lossy(&unescaped(field)).into_owned();
    let (kind, source) = (tail.next()?, tail.next()?);
    let mounted = Mounted {
        point: PathBuf::from(OsString::from_vec(unescaped(point))),
        kind: text(kind),
        source: OsString::from_vec(unescaped(source)),
        read_only: options.split(|&byte| byte == b',').any(|one| one == b"ro"),
        device: text(device),
    };
    Some(match mounted.is_ours() {
        true => Mounted {
            source: name_of(mounted.source.as_bytes()),
            ..mounted
        },
        false => mounted,
    })
}

/// A name as the source of a mount, in one word of a list of options that knows commas and
/// backslashes (that of fusermount3, which mounts for users).
pub(super) fn source_of(name: &OsStr) -> String {
    let mut source = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '%' | ',' | '\\' | '\0'..='\x1f' | '\x7f' => source.push_str(&hex(c as u8)),
                _ => source.push(c),
            }
        }
        chunk
            .invalid()
            .iter()
            .for_each(|byte| source.push_str(&hex(*byte)));
    }
    source
}

fn hex(byte: u8) -> String {
    format!("%{byte:02X}")
}

/// The name whose source this is.
fn name_of(source: &[u8]) -> OsString {
    OsString::from_vec(decoded(source, b'%', 2, 16))
}

/// Blanks, line ends and backslashes stand as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    decoded(field, b'\\', 3, 8)
}

/// Puts bytes in the place of `mark` and their numbers.
fn decoded(field: &[u8], mark: u8, digits: usize, radix: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let number = (first == mark).then(|| after.get(..digits)).flatten();
        let code = number.and_then(|number| {
            let number = std::str::from_utf8(number).ok()?;
            u8::from_str_radix(number, radix).ok()
        });
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[digits..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        let line =
            br"36 35 0:98 / /mnt/a\040b rw,nosuid shared:1 - fuse.warplock /srv/v\134ault rw";
        let row = row(line).unwrap();
        assert_eq!(row.point.as_os_str(), OsStr::from_bytes(b"/mnt/a b"));
        assert_eq!(row.source, r"/srv/v\ault");
        assert!(!row.read_only);
        assert_eq!(row.device, "0:98");
        assert!(row.is_ours());
        assert_eq!(super::row(b"36 35 0:98 /"), None);
    }

    #[test]
    fn a_source_is_one_word() {
        let name = OsStr::from_bytes(b"/srv/Smith, John/x,allow_other\\/100%2C\n\xff\xc3\xbc");
        let source = source_of(name);
        assert_eq!(
            source,
            "/srv/Smith%2C John/x%2Callow_other%5C/100%252C%0A%FFü"
        );
        assert_eq!(name_of(source.as_bytes()), name);
        assert_eq!(name_of(b"100%"), "100%");
        let options = super::super::Options {
            name: name.into(),
            ..super::super::Options::default()
        };
        let list = super::super::device::for_helper(&options);
        assert_eq!(list.split(',').next().unwrap(), format!("fsname={source}"));
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(mounted_at(Path::new("/")).unwrap().is_some());
    }
}
