//! The system's table of mounts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
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
    pub source: String,
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
    let table = fs::read("/proc/self/mountinfo")?;
    let mut rows = table.rsplit(|&byte| byte == b'\n').filter_map(row);
    Ok(rows.find(|row| row.point == point))
}

/// The mount of ours that shows `source`, as its owner calls it; if several, the newest.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn mounted_from(source: &str) -> io::Result<Option<Mounted>> {
    let table = fs::read("/proc/self/mountinfo")?;
    let mut rows = table.rsplit(|&byte| byte == b'\n').filter_map(row);
    Ok(rows.find(|row| row.is_ours() && row.source == source))
}

/// `36 35 98:0 /root /point rw,noatime master:1 - fuse.kind source rw,options` (proc(5)).
fn row(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = fields.nth(2)?;
    let point = fields.nth(1)?;
    let mut tail = fields.skip_while(|field| *field != b"-").skip(1);
    let text = |field: &[u8]| String::from_utf8_lossy(&unescaped(field)).into_owned();
    let (kind, source) = (tail.next()?, tail.next()?);
    Some(Mounted {
        point: PathBuf::from(OsString::from_vec(unescaped(point))),
        kind: text(kind),
        source: text(source),
        device: text(device),
    })
}

/// Blanks, line ends and backslashes stand as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = (first == b'\\').then(|| after.get(..3)).flatten();
        let code = octal.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[3..];
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
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn rows_are_read() {
        let line =
            br"36 35 0:98 / /mnt/a\040b rw,nosuid shared:1 - fuse.warplock /srv/v\134ault rw";
        let row = row(line).unwrap();
        assert_eq!(row.point.as_os_str(), OsStr::from_bytes(b"/mnt/a b"));
        assert_eq!(row.source, r"/srv/v\ault");
        assert_eq!(row.device, "0:98");
        assert!(row.is_ours());
        assert_eq!(super::row(b"36 35 0:98 /"), None);
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(mounted_at(Path::new("/")).unwrap().is_some());
    }
}
