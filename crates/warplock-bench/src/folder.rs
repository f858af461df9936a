//! Where files lie: the folder, its file system, its disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A folder with its file system and, where it has one, its disk: `/data (ext4 on vda1, 512 GB)`.
pub(crate) fn describe(dir: &Path) -> String {
    let full = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let number = fs::metadata(&full).map(|found| device_number(found.dev()));
    match number.ok().and_then(|number| place(&mounts, &number)) {
        Some(place) => format!("{} ({place})", dir.display()),
        None => dir.display().to_string(),
    }
}

fn device_number(device: u64) -> String {
    format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    )
}

/// The file system of a device number, from the system's table of mounts.
fn place(mounts: &str, number: &str) -> Option<String> {
    let line = mounts
        .lines()
        .rfind(|line| line.split(' ').nth(2) == Some(number))?;
    let (_, after) = line.split_once(" - ")?;
    let mut fields = after.split(' ');
    let (kind, source) = (fields.next()?, fields.next()?);
    if matches!(kind, "tmpfs" | "ramfs") {
        return Some(format!("{kind}, in memory"));
    }
    let disk = disk(number, source);
    Some(match disk.is_empty() {
        true => kind.to_owned(),
        false => format!("{kind} on {disk}"),
    })
}

/// The disk's name, model and kind as far as the system tells them.
fn disk(number: &str, source: &str) -> String {
    let name = source.strip_prefix("/dev/").unwrap_or_default().to_owned();
    // A partition's folder lies in its disk's.
    let entry = Path::new("/sys/dev/block").join(number);
    let whole = match entry.join("partition").exists() {
        true => entry.join(".."),
        false => entry,
    };
    let read = |file: &str| {
        let text = fs::read_to_string(whole.join(file)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let mut parts = vec![name];
    parts.extend(read("device/model"));
    match read("queue/rotational").as_deref() {
        Some("0") => parts.push("no spinning disk".to_owned()),
        Some("1") => parts.push("spinning or virtual disk".to_owned()),
        _ => {}
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_found_by_its_number() {
        let mounts = "22 1 254:1 / / rw,noatime shared:1 - ext4 /dev/none1 rw\n\
                      23 22 0:25 / /dev/shm rw,nosuid - tmpfs tmpfs rw\n";
        assert_eq!(place(mounts, "0:25").unwrap(), "tmpfs, in memory");
        assert!(place(mounts, "254:1").unwrap().starts_with("ext4 on none1"));
        assert_eq!(place(mounts, "1:1"), None);
        assert!(describe(Path::new("/")).starts_with("/ ("));
    }
}
