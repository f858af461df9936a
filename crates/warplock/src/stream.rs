//! One long message, fed in pieces.

use crate::checks::check_tag_len;
use crate::cpu::{Io, Running};
use crate::{Batch, BatchProblem, Direction, Engine, Error, Ivs, Key, Keys, Lack, Mode, Text};

/// One message that does not fit into memory, or is not complete yet. Its pieces are worked on in
/// place: those of ECB, CTR and CBC decryption on the engine's backend, all others
/// ([`MessageStream::stays_on_cpu`]) on the CPU, on all threads if they are long.
///
/// When it opens authenticated ciphertext, what [`MessageStream::update`] returns is **unverified**
/// until [`MessageStream::verify`] has returned `Ok`: do not act on it before, and discard it if
/// the tag is wrong. [`crate::Batch`] and encrypted files have no such trap.
///
/// ```
/// use warplock::{Algorithm, Direction, Engine, Key, MessageStream};
///
/// let engine = Engine::new()?;
/// let key = Key::generate(Algorithm::Aes256Ctr)?;
/// let mut start = [0; 16];
/// warplock::fill_random(&mut start)?; // stored with the text
/// let mut text = *b"whole blocks, then what is left";
/// let (head, tail) = text.split_at_mut(16);
/// let mut stream = MessageStream::new(&engine, Direction::Encrypt, &key, &start, b"")?;
/// stream.update(head)?;
/// assert_eq!(stream.finish(tail)?, None); // counter mode makes no tag
/// # Ok::<(), warplock::Error>(())
/// ```
pub struct MessageStream<'a> {
    engine: &'a Engine,
    key: &'a Key,
    direction: Direction,
    state: Running,
    /// Text bytes so far.
    done: u64,
    /// A piece failed: part of it may be encrypted, and the next piece would use the same counter.
    broken: bool,
}

impl<'a> MessageStream<'a> {
    /// Starts a message: `iv` and `aad` (empty if there is none) as [`crate::Batch`] takes them.
    ///
    /// # Errors
    /// [`Error::Batch`] if the IV does not fit the key's algorithm, or if there is associated data
    /// and the algorithm takes none.
    pub fn new(
        engine: &'a Engine,
        direction: Direction,
        key: &'a Key,
        iv: &[u8],
        aad: &[u8],
    ) -> Result<Self, Error> {
        let info = key.algorithm().info();
        if !info.accepts_iv_len(iv.len()) {
            return Err(BatchProblem::IvLength {
                algorithm: info.algorithm,
                found: iv.len(),
            }
            .of_batch());
        }
        if !aad.is_empty() && !key.algorithm().is_aead() {
            return Err(Lack::AssociatedData.of(info.algorithm));
        }
        let kernels = engine.cpu().kernels();
        let state = Running::start(kernels, key.prepared(kernels), info, iv, aad);
        Ok(MessageStream {
            engine,
            key,
            direction,
            state,
            done: 0,
            broken: false,
        })
    }

    /// Whether the CPU does the work whatever the engine's backend is: then the state between
    /// pieces is not an IV that a batch could start with.
    pub fn stays_on_cpu(&self) -> bool {
        self.next_iv().is_none()
    }

    /// The IV of a message that would continue from here, if there is one.
    fn next_iv(&self) -> Option<Ivs<'_>> {
        match (&self.state, self.direction) {
            (Running::Ecb, _) => Some(Ivs::None),
            (Running::Ctr { counter }, _) => Some(Ivs::Each(&counter.0)),
            (Running::Cbc { prev }, Direction::Decrypt) => Some(Ivs::Each(&prev.0)),
            _ => None,
        }
    }

    /// Works on the next piece, in place: whole blocks of 16 bytes, and not the message's end.
    ///
    /// # Errors
    /// [`Error::Batch`] if the piece is not a whole number of blocks, or the message gets too long.
    /// [`Error::Backend`] if the machine failed: this piece may be lost, those before it are valid,
    /// and every later call returns the same error.
    pub fn update(&mut self, piece: &mut [u8]) -> Result<(), Error> {
        if !piece.len().is_multiple_of(16) {
            return Err(BatchProblem::PieceLength { found: piece.len() }.of_batch());
        }
        self.count(piece.len())?;
        let (algorithm, len) = (self.key.algorithm(), piece.len());
        let leaves =
            !self.stays_on_cpu() && self.engine.prefers_gpu(algorithm, self.direction, len);
        // Until the piece is done; stays true if a panic ends it.
        self.broken = true;
        self.advance(piece, leaves)?;
        self.broken = false;
        Ok(())
    }

    /// Works on whole blocks, as a batch if `leaves` and they can be one.
    fn advance(&mut self, piece: &mut [u8], leaves: bool) -> Result<(), Error> {
        let blocks = piece.len() as u64 / 16;
        if let (true, Some(&last), Some(iv)) = (leaves, piece.last_chunk(), self.next_iv()) {
            let text = Text::in_place(piece);
            let batch = Batch::new(self.direction, Keys::One(self.key), text).ivs(iv);
            self.engine.run(batch)?;
            self.state = self.state.skip(blocks, last);
            return Ok(());
        }
        let cpu = self.engine.cpu();
        let prepared = self.key.prepared(cpu.kernels());
        let what = (self.key.algorithm(), self.direction);
        // SAFETY: the piece is borrowed for this call.
        unsafe { cpu.advance(&mut self.state, prepared, what, Io::in_place(piece)) };
        Ok(())
    }

    /// Works on the last piece, in place, and returns the tag if the algorithm makes one. The last
    /// piece may be empty; for XTS, one that is not a whole number of blocks has at least 17 bytes.
    ///
    /// # Errors
    /// [`Error::Batch`] if the algorithm does not take a message of this length, [`Error::Backend`]
    /// after a piece that failed.
    pub fn finish(mut self, last: &mut [u8]) -> Result<Option<[u8; 16]>, Error> {
        self.end(last)?;
        let kernels = self.engine.cpu().kernels();
        Ok(self.state.tag(kernels, self.key.prepared(kernels)))
    }

    /// Works on the last piece as [`MessageStream::finish`] does, and compares the tag, in constant time.
    ///
    /// # Errors
    /// [`Error::Authentication`] if the tag is wrong: all plaintext of this stream is worthless,
    /// and `last` is zeros. [`Error::Batch`] if the algorithm does not take a tag of this length
    /// ([`crate::AlgorithmInfo::accepts_tag_len`]) or makes none, or as for
    /// [`MessageStream::finish`].
    pub fn verify(mut self, last: &mut [u8], tag: &[u8]) -> Result<(), Error> {
        if !self.key.algorithm().is_aead() {
            return Err(Lack::Tags.of(self.key.algorithm()));
        }
        let info = self.key.algorithm().info();
        check_tag_len(info, Direction::Decrypt, tag.len())?;
        self.end(last)?;
        let kernels = self.engine.cpu().kernels();
        if self.state.verify(kernels, self.key.prepared(kernels), tag) {
            return Ok(());
        }
        last.fill(0);
        Err(Error::Authentication {
            failed: vec![0],
            total: 1,
        })
    }

    fn end(&mut self, last: &mut [u8]) -> Result<(), Error> {
        self.count(last.len())?;
        let info = self.key.algorithm().info();
        let partial = !last.len().is_multiple_of(16);
        let stolen = info.mode == Mode::Xts && partial;
        if !info.accepts_text_len(self.done) {
            return Err(self.wrong_len());
        }
        if stolen && last.len() < 17 {
            return Err(BatchProblem::LastPieceLength {
                algorithm: info.algorithm,
                found: last.len(),
            }
            .of_batch());
        }
        let cpu = self.engine.cpu();
        let prepared = self.key.prepared(cpu.kernels());
        // SAFETY: the piece is borrowed for this call.
        unsafe {
            self.state
                .finish(cpu.kernels(), prepared, self.direction, Io::in_place(last));
        }
        Ok(())
    }

    fn count(&mut self, len: usize) -> Result<(), Error> {
        if self.broken {
            return Err(Error::Backend {
                backend: self.engine.backend(),
                reason: "an earlier piece of this stream failed: start the message again"
                    .to_owned(),
            });
        }
        let info = self.key.algorithm().info();
        self.done += len as u64;
        if info.mode == Mode::Gcm && !info.accepts_text_len(self.done) {
            return Err(self.wrong_len());
        }
        Ok(())
    }

    /// The error if the algorithm does not take a message of this length.
    fn wrong_len(&self) -> Error {
        BatchProblem::TextLength {
            algorithm: self.key.algorithm(),
            found: self.done,
        }
        .of_batch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Algorithm;

    #[test]
    fn after_a_piece_that_failed_nothing_begins_with_its_counter() {
        let engine = Engine::builder().backend("cpu".parse().unwrap()).build();
        let engine = engine.unwrap();
        let key = Key::generate(Algorithm::Aes128Ctr).unwrap();
        let mut stream =
            MessageStream::new(&engine, Direction::Encrypt, &key, &[1; 16], b"").unwrap();
        stream.update(&mut [0; 16]).unwrap();
        stream.broken = true;
        let (mut piece, before) = ([7; 32], [7; 32]);
        let refused = stream.update(&mut piece).unwrap_err();
        assert!(matches!(refused, Error::Backend { .. }), "{refused}");
        assert!(stream.finish(&mut piece).is_err());
        assert_eq!(piece, before);
    }

    /// A GPU would get the same batches.
    #[test]
    fn pieces_that_leave_give_what_those_that_stay_give() {
        let engine = Engine::builder().backend("cpu".parse().unwrap()).build();
        let engine = engine.unwrap();
        let mut left = 0;
        for algorithm in Algorithm::all() {
            let key = Key::generate(algorithm).unwrap();
            // Counters wrap in the second piece.
            let iv = match algorithm.info().mode {
                Mode::Ecb => vec![],
                Mode::Gcm => vec![0xff; 12],
                _ => [vec![0xff; 15], vec![0xf8]].concat(),
            };
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let start = || MessageStream::new(&engine, direction, &key, &iv, b"").unwrap();
                left += usize::from(!start().stays_on_cpu());
                let text: Vec<u8> = (0..1000_u32).map(|i| (i * i / 7) as u8).collect();
                let run = |leaves: [bool; 3]| {
                    let (mut text, mut stream) = (text.clone(), start());
                    let (head, rest) = text.split_at_mut(64);
                    let (middle, rest) = rest.split_at_mut(256);
                    let (tail, last) = rest.split_at_mut(640);
                    for (piece, leaves) in [head, middle, tail].into_iter().zip(leaves) {
                        stream.advance(piece, leaves).unwrap();
                    }
                    stream.advance(&mut [], true).unwrap();
                    let tag = stream.finish(&mut last[..32]).unwrap();
                    (text, tag)
                };
                let expected = run([false; 3]);
                for leaves in [[true; 3], [true, false, true], [false, true, false]] {
                    assert_eq!(run(leaves), expected, "{algorithm}, {direction:?}");
                }
            }
        }
        // Three key sizes of two modes both ways, and of one in one direction.
        assert_eq!(left, 15);
    }
}
