//! The system's log.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

/// How long a log may take for a line.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a line; logs cut, or refuse, what is much longer.
const MOST: usize = 4000;

/// Where the system listens for lines (RFC 3164).
pub(super) struct Log(pub(super) PathBuf);

impl Log {
    pub(super) fn system() -> Self {
        Log("/dev/log".into())
    }

    /// Writes a line at the priority "error" of the facility "daemon".
    ///
    /// # Errors
    /// If there is no log, or it did not take the line in time.
    pub(super) fn error(&self, line: &str) -> io::Result<()> {
        const DAEMON_ERROR: u32 = 3 * 8 + 3;
        let line = &line[..line.floor_char_boundary(MOST)];
        let text = format!("<{DAEMON_ERROR}>warplock[{}]: {line}", std::process::id());
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.send_to(text.as_bytes(), &self.0).map(drop)
    }
}
