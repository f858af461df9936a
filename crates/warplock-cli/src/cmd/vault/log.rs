//! The system's log.

use std::os::unix::net::UnixDatagram;

/// Writes a line at the priority "error" of the facility "daemon" (RFC 3164). Without a log there
/// is nobody to tell.
pub(super) fn error(line: &str) {
    const DAEMON_ERROR: u32 = 3 * 8 + 3;
    let text = format!("<{DAEMON_ERROR}>warplock[{}]: {line}", std::process::id());
    if let Ok(socket) = UnixDatagram::unbound() {
        let _ = socket.send_to(text.as_bytes(), "/dev/log");
    }
}
