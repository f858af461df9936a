//! The command that runs this one again, for a mount in the background.

use std::env;
use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

/// The words that start this command line again with the same arguments, if it runs in another
/// program's process.
static AGAIN: OnceLock<Vec<OsString>> = OnceLock::new();

/// Says how another program starts this command line.
pub(crate) fn embed(launcher: Vec<OsString>, arguments: &[OsString]) {
    let _ = AGAIN.set([&launcher, arguments.get(1..).unwrap_or(&[])].concat());
}

/// A command that runs this one again, with the same arguments.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "there are no mounts")
)]
pub(crate) fn again() -> Command {
    if let Some((program, arguments)) = AGAIN.get().and_then(|words| words.split_first()) {
        let mut command = Command::new(program);
        command.args(arguments);
        return command;
    }
    // By its name, which `ps` then shows; a new version may have taken the old one's place.
    let program = env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1));
    command
}
