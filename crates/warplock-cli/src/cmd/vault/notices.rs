//! Notices of a mount while it serves: on stderr, or, in the background, in the system's log.
//!
//! An attacker who alters the store decides how much there is to report, and a terminal or log that
//! is not read would block its writer. So the threads that serve requests only put sentences in a
//! short queue, the same one once a minute; another thread writes them. Sentences that do not fit
//! are counted, and the count is reported.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::log::Log;
use super::one_line;
use crate::console::say;

const MINUTE: Duration = Duration::from_secs(60);
/// The most sentences per minute.
const MOST: usize = 60;
/// Sentences that wait to be written.
const QUEUE: usize = 64;
/// How long the end of a mount waits for them.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often the thread checks whether there are dropped sentences to report.
const PAUSE: Duration = Duration::from_secs(5);

/// Takes sentences, and never waits for their readers.
pub(super) struct Notices {
    in_background: AtomicBool,
    limit: Arc<Mutex<Limit>>,
    queue: SyncSender<Notice>,
}

enum Notice {
    Line {
        text: String,
        to_log: bool,
    },
    /// Answered when all before it is written.
    Flush(Sender<()>),
}

impl Notices {
    /// Starts the thread that writes.
    pub(super) fn start(log: Log) -> io::Result<Self> {
        let (queue, waiting) = sync_channel(QUEUE);
        let limit = Arc::new(Mutex::new(Limit::new(Instant::now())));
        let writer = Writer {
            limit: Arc::clone(&limit),
            log,
            to_log: false,
        };
        thread::Builder::new()
            .name("notices".to_owned())
            .spawn(move || writer.run(&waiting))?;
        Ok(Notices {
            in_background: AtomicBool::new(false),
            limit,
            queue,
        })
    }

    /// Writes to the terminal, while there is one.
    pub(super) fn show(&self, sentence: &str) {
        if !self.in_background.load(Ordering::Relaxed) {
            self.put(sentence, false);
        }
    }

    /// Writes to the log, once there is no terminal.
    pub(super) fn log(&self, sentence: &str) {
        if self.in_background.load(Ordering::Relaxed) {
            self.put(sentence, true);
        }
    }

    /// Writes what waits; from now on notices go to the log.
    pub(super) fn leave_terminal(&self) {
        self.flush();
        self.in_background.store(true, Ordering::Relaxed);
    }

    /// Waits until all is written, for a limited time.
    pub(super) fn flush(&self) {
        let (written, waits) = channel();
        if self.queue.try_send(Notice::Flush(written)).is_ok() {
            let _ = waits.recv_timeout(PATIENCE);
        }
    }

    fn put(&self, sentence: &str, to_log: bool) {
        if !lock(&self.limit).admits(sentence, Instant::now()) {
            return;
        }
        let text = one_line(sentence);
        if self.queue.try_send(Notice::Line { text, to_log }).is_err() {
            lock(&self.limit).dropped += 1;
        }
    }
}

struct Writer {
    limit: Arc<Mutex<Limit>>,
    log: Log,
    to_log: bool,
}

impl Writer {
    fn run(mut self, waiting: &Receiver<Notice>) {
        loop {
            match waiting.recv_timeout(PAUSE) {
                Ok(Notice::Line { text, to_log }) => {
                    self.to_log = to_log;
                    if !self.write(&text) {
                        lock(&self.limit).dropped += 1;
                    }
                }
                Ok(Notice::Flush(done)) => {
                    self.tell_dropped(true);
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => self.tell_dropped(false),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn tell_dropped(&self, now: bool) {
        let Some(dropped) = lock(&self.limit).take_dropped(now, Instant::now()) else {
            return;
        };
        let written = self.write(&format!(
            "{dropped} more sentences of the last minute were left out; `warplock vault check` \
             lists what was altered"
        ));
        if !written {
            lock(&self.limit).dropped += dropped;
        }
    }

    /// Whether the line was written: a log that is not read takes none.
    fn write(&self, line: &str) -> bool {
        if !self.to_log {
            say(format_args!("warplock: {line}"));
            return true;
        }
        let written = self.log.error(line);
        // Without a log, the sentence is dropped.
        !written.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// The sentences of this minute.
struct Limit {
    since: Instant,
    told: HashSet<String>,
    dropped: u64,
}

impl Limit {
    fn new(now: Instant) -> Self {
        Limit {
            since: now,
            told: HashSet::new(),
            dropped: 0,
        }
    }

    /// Whether the sentence should be written.
    fn admits(&mut self, sentence: &str, now: Instant) -> bool {
        if now.duration_since(self.since) >= MINUTE {
            self.since = now;
            self.told.clear();
        }
        let admitted = self.told.len() < MOST && self.told.insert(object(sentence).to_owned());
        self.dropped += u64::from(!admitted);
        admitted
    }

    /// How many were dropped, once the minute is over or if that is wanted `now`.
    fn take_dropped(&mut self, at_once: bool, now: Instant) -> Option<u64> {
        let due = at_once || now.duration_since(self.since) >= MINUTE;
        let dropped = match due {
            true => std::mem::take(&mut self.dropped),
            false => 0,
        };
        (dropped > 0).then_some(dropped)
    }
}

/// The part of a sentence about one block that names the file: there may be millions of blocks.
fn object(sentence: &str) -> &str {
    let rest = sentence.strip_prefix("block ");
    let rest = rest.map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.unwrap_or(sentence)
}

fn lock(limit: &Mutex<Limit>) -> std::sync::MutexGuard<'_, Limit> {
    limit.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    fn received(log: &UnixDatagram) -> Vec<String> {
        log.set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        let mut lines = Vec::new();
        let mut buffer = [0; 8192];
        while let Ok(len) = log.recv(&mut buffer) {
            lines.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
        }
        lines
    }

    #[test]
    fn a_log_that_is_not_read_blocks_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = UnixDatagram::bind(&path).unwrap();
        let notices = Notices::start(Log(path)).unwrap();
        notices.leave_terminal();
        let start = Instant::now();
        for number in 0..1000 {
            notices.log(&format!("file {number} was altered"));
        }
        assert!(start.elapsed() < Duration::from_millis(500));
        // As the end of a mount.
        notices.flush();
        assert!(start.elapsed() < PATIENCE + Duration::from_secs(1));
        let mut lines = received(&log);
        notices.flush();
        lines.extend(received(&log));
        assert!(lines[0].ends_with(": file 0 was altered"), "{}", lines[0]);
        assert!(lines.len() <= MOST + 2);
        let told = lines.iter().filter(|line| line.contains("]: file "));
        let more = lines.iter().filter_map(|line| {
            let (_, rest) = line.split_once("]: ")?;
            rest.split_once(" more sentences")?.0.parse::<usize>().ok()
        });
        assert_eq!(told.count() + more.sum::<usize>(), 1000, "{lines:?}");
    }

    #[test]
    fn the_same_is_told_once_a_minute() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        let altered = "block 7 of the file with id 12 was altered";
        assert!(limit.admits(altered, start));
        assert!(!limit.admits(&altered.replace('7', "8"), start));
        assert!(limit.admits(&altered.replace("12", "34"), start));
        assert_eq!(limit.take_dropped(false, start), None);
        assert!(limit.admits(altered, start + MINUTE));
        assert_eq!(limit.take_dropped(true, start + MINUTE), Some(1));
        for number in 0..1000 {
            limit.admits(&format!("file {number}"), start + MINUTE);
        }
        assert_eq!(limit.told.len(), MOST);
        assert_eq!(limit.dropped, 1000 - (MOST as u64 - 1));
    }

    #[test]
    fn lines_cannot_be_forged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = UnixDatagram::bind(&path).unwrap();
        let notices = Notices::start(Log(path)).unwrap();
        notices.leave_terminal();
        notices.log("/a\n<0>kernel: b\x1b[2J was altered");
        notices.flush();
        let lines = received(&log);
        assert!(
            lines[0].ends_with(r"]: /a\n<0>kernel: b\u{1b}[2J was altered"),
            "{lines:?}"
        );
    }
}
