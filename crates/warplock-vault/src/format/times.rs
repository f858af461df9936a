//! Times as seconds and nanoseconds: in headers, in `stat`, and to be set.

use std::time::{Duration, SystemTime};

use rustix::fs::{Timespec, UTIME_NOW, UTIME_OMIT};

use crate::fs::SetTime;

/// Seconds and nanoseconds since 1970, the seconds rounded down.
pub(crate) fn split_time(time: SystemTime) -> (i64, u32) {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(error) => {
            let before = error.duration();
            match before.subsec_nanos() {
                // The earliest second has no positive counterpart.
                0 => (0i64.wrapping_sub_unsigned(before.as_secs()), 0),
                nanos => {
                    let second = (-1i64).wrapping_sub_unsigned(before.as_secs());
                    (second, 1_000_000_000 - nanos)
                }
            }
        }
    }
}

/// The inverse of [`split_time`]; `None` if there is no such time.
pub(crate) fn join_time(seconds: i64, nanos: u32) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(whole),
        false => SystemTime::UNIX_EPOCH.checked_add(whole),
    };
    second?.checked_add(Duration::from_nanos(u64::from(nanos)))
}

/// A time in `stat`.
pub(crate) fn stat_time(seconds: i64, nanos: u64) -> SystemTime {
    let time = u32::try_from(nanos).ok();
    time.and_then(|nanos| join_time(seconds, nanos))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

/// A time for `utimensat`; `None` leaves it as it is.
pub(crate) fn timespec(set: Option<SetTime>) -> Timespec {
    let (tv_sec, tv_nsec) = match set {
        None => (0, UTIME_OMIT),
        Some(SetTime::Now) => (0, UTIME_NOW),
        Some(SetTime::To(time)) => {
            let (seconds, nanos) = split_time(time);
            (seconds, nanos.into())
        }
    };
    Timespec { tv_sec, tv_nsec }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970() {
        let usual = [(0, 0), (0, 1), (5, 999_999_999), (-1, 0), (-1, 1), (-7, 5)];
        let extreme = [(i64::MIN, 0), (i64::MIN, 1), (i64::MAX, 999_999_999)];
        for (seconds, nanos) in usual.into_iter().chain(extreme) {
            let time = join_time(seconds, nanos).unwrap();
            assert_eq!(split_time(time), (seconds, nanos));
        }
        assert_eq!(join_time(i64::MAX, u32::MAX), None);
    }
}
