//! Tells systemd that a mount is ready (`Type=notify`, sd_notify(3)).

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// Tells the service manager, if there is one, that it is mounted. A failure does not matter to the mount.
pub(super) fn ready(point: &Path) {
    let _ = send(&format!("READY=1\nSTATUS=mounted at {}", point.display()));
}

fn send(state: &str) -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
