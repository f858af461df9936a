//! Reads and writes that come short, are interrupted, fail, or are cancelled.

use std::io::{self, Cursor, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::*;
use warplock_container::{
    Error, ErrorKind, Monitor, ReadAt, Sink, Source, WriteAt, open, seal, sealed_len,
};

#[test]
fn single_bytes_and_interruptions_change_nothing() {
    let plain = pattern(2 * SEGMENT + 20);
    let mut sealed = Vec::new();
    let source = Source::sequential(Dribble(Cursor::new(&plain), false));
    seal(
        source,
        Sink::sequential(Slow(&mut sealed, false)),
        &key(),
        &pipeline(),
    )
    .unwrap();
    let mut opened = Vec::new();
    let source = Source::sequential(Dribble(Cursor::new(&sealed), false));
    open(
        source,
        Sink::sequential(Slow(&mut opened, false)),
        &key(),
        &pipeline(),
    )
    .unwrap();
    assert!(opened == plain);

    let memory = Memory::default();
    let (source, sink) = (
        Source::positioned(Pieces(&plain), 0..plain.len() as u64),
        Sink::positioned(Pieces(&memory), 0),
    );
    seal(source, sink, &key(), &pipeline()).unwrap();
    assert!(open_all(&memory.0.into_inner().unwrap(), &key()).unwrap() == plain);
}

/// Writes a few bytes at a time, after an interruption each.
struct Slow<'a>(&'a mut Vec<u8>, bool);

impl Write for Slow<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = bytes.len().min(777);
        self.0.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads and writes at most 1001 bytes at a time.
struct Pieces<T>(T);

impl ReadAt for Pieces<&Vec<u8>> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = buffer.len().min(1001);
        (&self.0[..]).read_at(&mut buffer[..len], offset)
    }
}

impl WriteAt for Pieces<&Memory> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(&bytes[..bytes.len().min(1001)], offset)
    }
}

/// Fails with `kind` once `left` bytes went through.
struct Failing {
    left: usize,
    kind: io::ErrorKind,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(self.left);
        self.left -= len;
        if len == 0 {
            Err(self.kind.into())
        } else {
            Ok(len)
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(self.left);
        self.left -= len;
        if len == 0 {
            Err(self.kind.into())
        } else {
            Ok(len)
        }
    }
}

#[test]
fn a_sink_that_fails_midway_ends_the_run_with_its_own_kind() {
    let plain = pattern(20 * SEGMENT);
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::BrokenPipe] {
        for left in [0, 30, 56, 57, SEGMENT, 10 * SEGMENT + 3] {
            let error = seal(
                Source::bytes(&plain),
                Sink::sequential(Failing { left, kind }),
                &key(),
                &pipeline(),
            );
            let error = error.unwrap_err();
            assert_eq!(error.io_kind(), Some(kind), "{error}");
            assert_eq!(error.kind(), ErrorKind::Failure);
            assert!(
                error.to_string().starts_with("writing the output failed: "),
                "{error}"
            );
        }
    }
}

#[test]
fn a_source_that_fails_midway_ends_the_run_with_its_own_kind() {
    let kind = io::ErrorKind::ConnectionReset;
    for left in [0, SEGMENT - 1, SEGMENT, 10 * SEGMENT + 3] {
        let mut written = Vec::new();
        let source = Source::sequential(Failing { left, kind });
        let error = seal(source, Sink::sequential(&mut written), &key(), &pipeline()).unwrap_err();
        assert_eq!(error.io_kind(), Some(kind), "{error}");
        assert!(
            written.len() < sealed_len(left as u64).unwrap() as usize,
            "no last chunk"
        );
    }
}

/// A file that has shrunk since its length was taken.
struct Shrunk(Vec<u8>);

impl ReadAt for &Shrunk {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (&self.0[..]).read_at(buffer, offset)
    }
}

#[test]
fn a_file_that_shrinks_is_noticed() {
    let shrunk = Shrunk(pattern(3 * SEGMENT));
    for expected in [3 * SEGMENT as u64 + 1, 9 * SEGMENT as u64] {
        let source = Source::positioned(&shrunk, 0..expected);
        let error = seal(source, Sink::nowhere(), &key(), &pipeline()).unwrap_err();
        let found = 3 * SEGMENT as u64;
        assert!(
            matches!(error, Error::InputShrank { expected: e, found: f } if e == expected && f == found)
        );
    }
}

/// Cancels the run once it was read from `after` times; it never ends.
struct Endless {
    monitor: Arc<Monitor>,
    reads: AtomicUsize,
    after: usize,
}

impl Endless {
    fn read(&self, buffer: &mut [u8]) -> usize {
        if self.reads.fetch_add(1, Ordering::Relaxed) == self.after {
            self.monitor.cancel();
        }
        buffer.fill(1);
        buffer.len()
    }
}

impl ReadAt for &Endless {
    fn read_at(&self, buffer: &mut [u8], _: u64) -> io::Result<usize> {
        Ok(self.read(buffer))
    }
}

impl Read for &Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(Endless::read(self, buffer))
    }
}

#[test]
fn cancelling_stops_every_way() {
    for positioned in [true, false] {
        let pipeline = pipeline();
        let monitor = pipeline.monitor().clone();
        let endless = Endless {
            monitor,
            reads: AtomicUsize::new(0),
            after: 10,
        };
        let source = match positioned {
            true => Source::positioned(&endless, 0..1 << 50),
            false => Source::sequential(&endless),
        };
        let mut written = Vec::new();
        let error = seal(source, Sink::sequential(&mut written), &key(), &pipeline).unwrap_err();
        assert!(matches!(error, Error::Cancelled));
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(
            endless.reads.load(Ordering::Relaxed) <= 10 + 2 * pipeline.concurrency().workers.get()
        );
        assert!(pipeline.monitor().done() >= 10 * SEGMENT as u64);
    }
}

/// A pipe with nothing in it, and a signal that asks to stop.
struct Interrupted(Arc<Monitor>);

impl Read for Interrupted {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.cancel();
        Err(io::ErrorKind::Interrupted.into())
    }
}

#[test]
fn a_signal_ends_a_blocked_read() {
    let pipeline = pipeline();
    let source = Source::sequential(Interrupted(pipeline.monitor().clone()));
    let error = seal(source, Sink::nowhere(), &key(), &pipeline).unwrap_err();
    assert!(matches!(error, Error::Cancelled));
}

/// Panics on its second write.
struct Panics(usize);

impl Write for Panics {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += 1;
        assert!(self.0 < 3, "the third write panics");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_panic_in_a_worker_is_passed_on_and_no_thread_waits_for_ever() {
    let plain = pattern(30 * SEGMENT);
    let run = std::panic::AssertUnwindSafe(|| {
        seal(
            Source::bytes(&plain),
            Sink::sequential(Panics(0)),
            &key(),
            &pipeline(),
        )
        .map(drop)
    });
    assert!(std::panic::catch_unwind(run).is_err());
}
