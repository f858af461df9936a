//! Settings of a mount that the kernel lets root change, and whose defaults are too low for us.

use std::fs;
use std::path::Path;

/// Read-ahead in KiB: several requests of the largest size under way.
const READ_AHEAD_KIB: u32 = 4096;

/// Sets read-ahead and write-back for the mount with the device `number`. Without the right to do
/// so, which is a matter of speed alone, nothing changes.
pub(super) fn kernel(number: Option<&str>) {
    let Some(number) = number else {
        return;
    };
    let folder = Path::new("/sys/class/bdi").join(number);
    for (name, value) in [
        // The kernel's default is 128 KiB.
        ("read_ahead_kb", READ_AHEAD_KIB),
        // By default FUSE mounts get at most 1 % of the memory for unwritten pages, and writers
        // wait every few megabytes. Not all of it: our own writes to the store need some, too.
        ("max_ratio", 25),
        ("min_ratio", 5),
    ] {
        let _ = fs::write(folder.join(name), value.to_string());
    }
}
