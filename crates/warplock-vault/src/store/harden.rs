//! Hardening of a process that has a vault's keys in memory.

use rustix::mm::MlockAllFlags;
use rustix::process::{DumpableBehavior, Resource, Rlimit};

/// Forbids core dumps and debuggers of the same user, and keeps the process's memory out of swap
/// where that is allowed without a limit (as root, or with `ulimit -l unlimited`): a limit would
/// make later allocations fail. Whether memory is locked is the answer.
///
/// # Errors
/// The system's, if core dumps cannot be forbidden.
pub fn harden() -> std::io::Result<bool> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(Resource::Core, none)?;
    let limit = rustix::process::getrlimit(Resource::Memlock).current;
    if limit.is_some() && !rustix::process::geteuid().is_root() {
        return Ok(false);
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    Ok(rustix::mm::mlockall(flags).is_ok())
}
