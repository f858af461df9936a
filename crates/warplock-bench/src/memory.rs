//! Main memory: whether a size fits. A process that uses more is killed without a message.

use crate::Error;
use crate::error::Result;
use crate::table::grouped;

/// Bytes that are free; if that is unknown, the most that can be requested.
fn free() -> u64 {
    let most = isize::MAX as u64;
    let known = || {
        let info = std::fs::read_to_string("/proc/meminfo").ok()?;
        let mut lines = info.lines();
        let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        kib.checked_mul(1 << 10)
    };
    known().map_or(most, |free| free.min(most))
}

/// Whether `needed` bytes fit, and leave some for others.
pub(crate) fn fits(needed: u64) -> bool {
    fits_in(free(), needed)
}

fn fits_in(free: u64, needed: u64) -> bool {
    needed <= free / 10 * 9
}

/// Refuses `needed` bytes if they do not fit; `what` needs them.
pub(crate) fn check(what: &str, needed: u64) -> Result<()> {
    let free = free();
    if fits_in(free, needed) {
        return Ok(());
    }
    Err(Error::Input(format!(
        "{what} needs {} bytes of memory, but only {} are free, of which a tenth is left to \
         others; ask for less",
        grouped(needed),
        grouped(free)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_memory_holds_is_refused_in_words() {
        check("little", 1000).unwrap();
        for needed in [u64::MAX, 1 << 50] {
            let error = check("much", needed).unwrap_err().to_string();
            assert!(error.starts_with("much needs 1"), "{error}");
            assert!(error.contains("bytes of memory, but only"), "{error}");
        }
    }
}
