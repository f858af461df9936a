//! Reads, works and writes at the same time, in bounded memory, for input of any length.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::failure::{Failure, Result};

/// Every piece but the last has the length that the caller asked for; the last one has at least
/// this many bytes (if the input does): a tag and a whole block, or a block to be padded.
const TAIL: usize = 64;
/// The work may lengthen the last piece by this many bytes without a new allocation.
const ROOM: usize = 32;
/// Buffers in flight: one each to read, work on and write, and one to even out.
const BUFFERS: usize = 4;

/// The work on the input.
pub(crate) trait Work {
    /// Replaces a piece that has exactly the requested length.
    fn update(&mut self, piece: &mut [u8]) -> Result<()>;

    /// Replaces what is left, perhaps nothing; it may become longer or shorter.
    fn finish(self, last: &mut Vec<u8>) -> Result<()>;
}

/// Where bytes come from or go to, and its name in messages.
pub(crate) struct End<'a, F> {
    pub(crate) file: F,
    pub(crate) name: &'a str,
}

/// Sends `input` in pieces of `len` bytes through `work` to `output`, whose file is returned.
/// `done` counts the bytes that were worked on.
pub(crate) fn pump<W: Write + Send + 'static>(
    work: impl Work,
    input: End<'_, File>,
    output: End<'_, W>,
    len: usize,
    done: &AtomicU64,
) -> Result<W> {
    let (give_back, free) = channel();
    for _ in 0..BUFFERS {
        give_back
            .send(Vec::new())
            .expect("the receiver is in this function");
    }
    let (read, pieces) = sync_channel(1);
    let (write, worked) = sync_channel(1);
    let no_thread = |error| Failure::no_thread(&error);
    // Not joined: when writing fails, it may be waiting for input that never comes.
    thread::Builder::new()
        .spawn(move || read_pieces(input.file, len, &free, &read))
        .map_err(no_thread)?;
    let writer = thread::Builder::new()
        .spawn(move || write_pieces(output.file, &worked, &give_back))
        .map_err(no_thread)?;

    let outcome = work_pieces(work, &pieces, &write, done);
    drop(write);
    let written = writer
        .join()
        .map_err(|_| Failure::error("the writing thread failed"))?;
    outcome.map_err(|failure| failure.about(input.name))?;
    written.map_err(|error| Failure::writing(&error).about(output.name))
}

/// A piece, and whether it is the last one.
type Next = io::Result<(Vec<u8>, bool)>;

fn work_pieces(
    mut work: impl Work,
    pieces: &Receiver<Next>,
    write: &SyncSender<Vec<u8>>,
    done: &AtomicU64,
) -> Result<()> {
    loop {
        let next = pieces
            .recv()
            .map_err(|_| Failure::error("the reading thread failed"))?;
        let (mut piece, last) = next.map_err(|error| Failure::io("cannot read", &error))?;
        let count = piece.len() as u64;
        if last {
            work.finish(&mut piece)?;
            done.fetch_add(count, Ordering::Relaxed);
            // A writer that stopped has an error of its own to tell.
            let _ = write.send(piece);
            return Ok(());
        }
        work.update(&mut piece)?;
        done.fetch_add(count, Ordering::Relaxed);
        if write.send(piece).is_err() {
            return Ok(());
        }
    }
}

fn read_pieces(
    mut input: impl Read,
    len: usize,
    free: &Receiver<Vec<u8>>,
    read: &SyncSender<Next>,
) {
    let mut tail = [0; TAIL];
    let mut held = 0;
    while let Ok(mut buffer) = free.recv() {
        // The first time this allocates, later it does nothing but restore the length.
        buffer.reserve_exact((len + TAIL + ROOM).saturating_sub(buffer.len()));
        buffer.resize(len + TAIL, 0);
        buffer[..held].copy_from_slice(&tail[..held]);
        let next = match fill(&mut input, &mut buffer, held) {
            Err(error) => Err(error),
            Ok(filled) if filled < len + TAIL => {
                buffer.truncate(filled);
                Ok((buffer, true))
            }
            Ok(_) => {
                tail.copy_from_slice(&buffer[len..]);
                held = TAIL;
                buffer.truncate(len);
                Ok((buffer, false))
            }
        };
        let over = !matches!(next, Ok((_, false)));
        if read.send(next).is_err() || over {
            return;
        }
    }
}

/// Reads until the buffer is full or the input ends; returns the number of bytes in the buffer.
fn fill(input: &mut impl Read, buffer: &mut [u8], mut filled: usize) -> io::Result<usize> {
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn write_pieces<W: Write>(
    mut output: W,
    worked: &Receiver<Vec<u8>>,
    give_back: &Sender<Vec<u8>>,
) -> io::Result<W> {
    for piece in worked {
        output.write_all(&piece)?;
        // The reader may be done already.
        let _ = give_back.send(piece);
    }
    output.flush()?;
    Ok(output)
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::*;

    /// Checks the pieces and marks the end.
    struct Check {
        piece_len: usize,
        len: usize,
    }

    impl Work for Check {
        fn update(&mut self, piece: &mut [u8]) -> Result<()> {
            assert_eq!(piece.len(), self.piece_len);
            Ok(())
        }

        fn finish(self, last: &mut Vec<u8>) -> Result<()> {
            assert!(last.len() >= TAIL.min(self.len) && last.len() < self.piece_len + TAIL);
            last.extend([0xEE; 3]);
            Ok(())
        }
    }

    #[test]
    fn pieces_are_whole_and_the_last_one_is_never_short() {
        let lens = [0, 1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 256, 1000];
        for (len, piece_len) in lens.into_iter().flat_map(|len| [(len, 64), (len, 128)]) {
            let content: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&content).unwrap();
            file.rewind().unwrap();
            let done = AtomicU64::new(0);
            let input = End { file, name: "in" };
            let output = End {
                file: Vec::new(),
                name: "out",
            };
            let output = pump(Check { piece_len, len }, input, output, piece_len, &done).unwrap();
            assert_eq!(
                output.strip_suffix(&[0xEE; 3]).unwrap(),
                content,
                "{len} in {piece_len}"
            );
            assert_eq!(done.load(Ordering::Relaxed), len as u64);
        }
    }

    struct Refuse;

    impl Work for Refuse {
        fn update(&mut self, _: &mut [u8]) -> Result<()> {
            Err(Failure::error("no"))
        }

        fn finish(self, _: &mut Vec<u8>) -> Result<()> {
            Err(Failure::error("never reached"))
        }
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn failures_end_it_and_name_their_file() {
        let zeros = || End {
            file: File::open("/dev/zero").unwrap(),
            name: "in",
        };
        let done = AtomicU64::new(0);
        let refused = pump(
            Refuse,
            zeros(),
            End {
                file: Vec::new(),
                name: "out",
            },
            4096,
            &done,
        );
        assert_eq!(refused.unwrap_err().to_string(), "in: no");
        let check = Check {
            piece_len: 4096,
            len: usize::MAX,
        };
        let full = pump(
            check,
            zeros(),
            End {
                file: Full,
                name: "out",
            },
            4096,
            &done,
        );
        assert!(
            full.err()
                .unwrap()
                .to_string()
                .starts_with("out: cannot write")
        );
    }
}
