//! Many small submissions of many threads, gathered into batches.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zeroize::Zeroize;

use crate::nonces;
use crate::{Aad, Batch, Direction, Engine, Error, Ivs, Key, Keys, Span, Spans, Tags, Text};

/// When gathered messages are sent.
#[derive(Clone, Copy, Debug)]
pub struct Gathering {
    /// As soon as so many bytes of text are together; more than 64 MiB count as that.
    pub bytes: usize,
    /// At the latest so long after the first of them came: what a message may wait longer than
    /// alone.
    pub deadline: Duration,
    /// Also where the engine does not expect that it pays. For tests and measurements.
    pub always: bool,
}

impl Default for Gathering {
    /// 1 MiB, or half a millisecond; only where it pays.
    fn default() -> Self {
        Gathering {
            bytes: 1 << 20,
            deadline: Duration::from_micros(500),
            always: false,
        }
    }
}

/// Room for twice as many is there from the first message on.
const MOST_BYTES: usize = 64 << 20;

/// Collects messages that threads submit one by one, such as blocks of a file system, into batches
/// large enough for a GPU. Each submission returns when its own message is done.
///
/// Where a batch of [`Gathering::bytes`] would run on the processor anyway, nothing is gathered:
/// each message runs at once, on the thread that submits it.
///
/// ```
/// use std::sync::Arc;
/// use warplock::{Algorithm, Direction, Engine, Gatherer, Gathering, Key};
///
/// let engine = Arc::new(Engine::new()?);
/// let key = Key::generate(Algorithm::Aes256Gcm)?;
/// let seals = Gatherer::new(engine, key, Direction::Encrypt, Gathering::default());
/// // From any number of threads:
/// let (mut block, mut nonce, mut tag) = (vec![7; 4096], [0; 12], [0; 16]);
/// warplock::fill_random(&mut nonce)?; // stored with the block, like the tag
/// seals.run(&nonce, b"block 5", &mut block, &mut tag)?;
/// # Ok::<(), warplock::Error>(())
/// ```
pub struct Gatherer {
    engine: Arc<Engine>,
    key: Key,
    direction: Direction,
    settings: Gathering,
    state: Mutex<State>,
    changed: Condvar,
}

/// Messages side by side, each with the same length of IV.
#[derive(Default)]
struct Heap {
    /// Its number.
    round: u64,
    /// When its first message came.
    began: Option<Instant>,
    text: Vec<u8>,
    spans: Vec<Span>,
    ivs: Vec<u8>,
    iv_spans: Vec<Span>,
    /// The nonces so far, if a repeat must be refused.
    used: HashSet<Vec<u8>>,
    aad: Vec<u8>,
    aad_spans: Vec<Span>,
    tags: Vec<u8>,
}

/// A batch that has run.
struct Done {
    heap: Heap,
    result: Result<(), Error>,
    /// Submissions that have not fetched their message.
    left: usize,
}

#[derive(Default)]
struct State {
    heap: Heap,
    done: Vec<Done>,
}

fn append(bytes: &mut Vec<u8>, spans: &mut Vec<Span>, more: &[u8]) {
    spans.push(Span {
        offset: bytes.len(),
        len: more.len(),
    });
    bytes.extend_from_slice(more);
}

impl Heap {
    fn add(&mut self, iv: &[u8], aad: &[u8], text: &[u8], tag: &[u8], room: usize) -> usize {
        self.began.get_or_insert_with(Instant::now);
        if self.spans.is_empty() {
            // Never moved: what a vector leaves behind when it grows is not wiped.
            self.text.reserve_exact(room);
        }
        append(&mut self.text, &mut self.spans, text);
        append(&mut self.ivs, &mut self.iv_spans, iv);
        append(&mut self.aad, &mut self.aad_spans, aad);
        self.tags.extend_from_slice(tag);
        self.spans.len() - 1
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.text.as_mut_slice().zeroize();
    }
}

impl Gatherer {
    /// For messages with one key in one direction.
    pub fn new(
        engine: Arc<Engine>,
        key: Key,
        direction: Direction,
        mut settings: Gathering,
    ) -> Self {
        settings.bytes = settings.bytes.min(MOST_BYTES);
        Gatherer {
            engine,
            key,
            direction,
            settings,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one message in place, alone or together with those of other threads, and returns when
    /// it is done. `tag` is written when sealing, read when opening, and unused by algorithms
    /// without tags.
    ///
    /// # Errors
    /// As [`Engine::run`] for a batch of this one message; [`Error::Backend`] if the batch that it
    /// was part of failed, the message is then as it was.
    pub fn run(
        &self,
        iv: &[u8],
        aad: &[u8],
        text: &mut [u8],
        tag: &mut [u8; 16],
    ) -> Result<(), Error> {
        let info = self.key.algorithm().info();
        // What would be refused must not make the others' batch fail.
        let plain = info.accepts_iv_len(iv.len())
            && info.accepts_text_len(text.len() as u64)
            && (aad.is_empty() || self.key.algorithm().is_aead());
        let large = text.len() >= self.settings.bytes;
        if !plain || large || !(self.settings.always || self.pays(text.len())) {
            return self.alone(iv, aad, text, tag);
        }
        let once = nonces::must_differ(info.mode, self.direction);
        let mut state = self.lock();
        // Refused here, or the engine would refuse the whole batch.
        if once && !state.heap.used.insert(iv.to_vec()) {
            return Err(Error::Batch(
                "another message under this key has the same nonce: give each its own".to_owned(),
            ));
        }
        let (round, place) = {
            let heap = &mut state.heap;
            // The text before the last message, and the last.
            let room = 2 * self.settings.bytes;
            (heap.round, heap.add(iv, aad, text, tag, room))
        };
        loop {
            if let Some(at) = state.done.iter().position(|done| done.heap.round == round) {
                return self.fetch(&mut state, at, place, text, tag);
            }
            let due = match &state.heap {
                // Somebody else runs it.
                heap if heap.round != round => None,
                heap => {
                    let waited = heap.began.map_or(Duration::ZERO, |began| began.elapsed());
                    match heap.text.len() >= self.settings.bytes {
                        true => Some(Duration::ZERO),
                        false => Some(self.settings.deadline.saturating_sub(waited)),
                    }
                }
            };
            state = match due {
                Some(Duration::ZERO) => self.send(state),
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    /// Whether a batch of such messages would leave the processor.
    fn pays(&self, len: usize) -> bool {
        let count = self.settings.bytes / len.max(1);
        let algorithm = self.key.algorithm();
        self.engine
            .wants_batches(algorithm, self.direction, count, len)
    }

    /// Runs what was gathered, while others gather the next batch.
    fn send<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let mut next = Heap::default();
        next.round = state.heap.round + 1;
        let mut heap = std::mem::replace(&mut state.heap, next);
        drop(state);
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_heap(&mut heap)));
        let (result, panicked) = match ran {
            Ok(result) => (result, None),
            Err(panic) => {
                let backend = self.engine.backend();
                let reason = "a panic".to_owned();
                (Err(Error::Backend { backend, reason }), Some(panic))
            }
        };
        // Who panics does not fetch its message.
        let left = heap.spans.len() - usize::from(panicked.is_some());
        let mut state = self.lock();
        if left > 0 {
            state.done.push(Done { heap, result, left });
        }
        self.changed.notify_all();
        if let Some(panic) = panicked {
            // Only now: the others wait for this thread.
            drop(state);
            resume_unwind(panic);
        }
        state
    }

    fn run_heap(&self, heap: &mut Heap) -> Result<(), Error> {
        let text = Text::InPlace {
            buffer: &mut heap.text,
            spans: Spans::Ragged(&heap.spans),
        };
        let mut batch = Batch::new(self.direction, Keys::One(&self.key), text);
        if !heap.ivs.is_empty() {
            batch = batch.ivs(Ivs::Ragged {
                bytes: &heap.ivs,
                spans: Spans::Ragged(&heap.iv_spans),
            });
        }
        if self.key.algorithm().is_aead() {
            let aad = Aad::Each {
                bytes: &heap.aad,
                spans: Spans::Ragged(&heap.aad_spans),
            };
            batch = batch.aad(aad).tags(Tags::Apart(&mut heap.tags));
        }
        self.engine.run(batch)
    }

    /// Takes a message out of a batch that has run.
    fn fetch(
        &self,
        state: &mut State,
        at: usize,
        place: usize,
        text: &mut [u8],
        tag: &mut [u8; 16],
    ) -> Result<(), Error> {
        let done = &mut state.done[at];
        let span = done.heap.spans[place];
        let result = match &done.result {
            Err(Error::Authentication { failed, .. }) if !failed.contains(&place) => Ok(()),
            Err(Error::Authentication { .. }) => Err(Error::Authentication {
                failed: vec![0],
                total: 1,
            }),
            Err(error) => Err(Error::Backend {
                backend: self.engine.backend(),
                reason: error.to_string(),
            }),
            Ok(()) => Ok(()),
        };
        if !matches!(result, Err(Error::Backend { .. })) {
            text.copy_from_slice(&done.heap.text[span.offset..][..span.len]);
            tag.copy_from_slice(&done.heap.tags[16 * place..][..16]);
        }
        done.left -= 1;
        if done.left == 0 {
            state.done.swap_remove(at);
        }
        result
    }

    fn alone(
        &self,
        iv: &[u8],
        aad: &[u8],
        text: &mut [u8],
        tag: &mut [u8; 16],
    ) -> Result<(), Error> {
        let mut batch = Batch::new(self.direction, Keys::One(&self.key), Text::in_place(text));
        if !iv.is_empty() {
            batch = batch.ivs(Ivs::Ragged {
                bytes: iv,
                spans: Spans::one(iv.len()),
            });
        }
        if !aad.is_empty() {
            batch = batch.aad(Aad::Shared(aad));
        }
        if self.key.algorithm().is_aead() {
            batch = batch.tags(Tags::Apart(tag));
        }
        self.engine.run(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Choice};
    use std::num::NonZeroUsize;

    fn gatherer(direction: Direction, settings: Gathering) -> Gatherer {
        let engine = Engine::builder()
            .backend(Choice::Cpu(None))
            .threads(NonZeroUsize::MIN)
            .build()
            .unwrap();
        let key = Key::new(Algorithm::Aes256Gcm, &[5; 32]).unwrap();
        Gatherer::new(Arc::new(engine), key, direction, settings)
    }

    /// The nonce, length and text of a thread's message.
    fn message(number: usize) -> ([u8; 12], Vec<u8>) {
        let nonce = std::array::from_fn(|place| (number >> (8 * (place % 4))) as u8);
        (nonce, vec![number as u8; 1 + number % 300])
    }

    const SETTINGS: Gathering = Gathering {
        bytes: 2000,
        deadline: Duration::from_millis(3),
        always: true,
    };

    #[test]
    fn any_number_of_bytes_can_be_asked_for() {
        let settings = Gathering {
            bytes: usize::MAX,
            ..SETTINGS
        };
        let ((nonce, mut text), mut tag) = (message(100), [0; 16]);
        let seals = gatherer(Direction::Encrypt, settings);
        seals.run(&nonce, b"", &mut text, &mut tag).unwrap();
        assert_ne!(text, message(100).1);
    }

    #[test]
    fn every_thread_gets_its_own_message_back() {
        let seals = gatherer(Direction::Encrypt, SETTINGS);
        let opens = gatherer(Direction::Decrypt, SETTINGS);
        let direct = gatherer(Direction::Encrypt, Gathering::default());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (seals, opens, direct) = (&seals, &opens, &direct);
                scope.spawn(move || {
                    for turn in 0..40 {
                        let number = thread * 1000 + turn;
                        let (nonce, plain) = message(number);
                        let aad = &[thread as u8; 3][..thread % 4];
                        let (mut text, mut tag) = (plain.clone(), [0; 16]);
                        seals.run(&nonce, aad, &mut text, &mut tag).unwrap();
                        let (mut wanted, mut wanted_tag) = (plain.clone(), [0; 16]);
                        direct
                            .run(&nonce, aad, &mut wanted, &mut wanted_tag)
                            .unwrap();
                        assert_eq!((&text, tag), (&wanted, wanted_tag));
                        let forged = number % 3 == 0;
                        tag[4] ^= u8::from(forged);
                        let opened = opens.run(&nonce, aad, &mut text, &mut tag);
                        assert_eq!(opened.is_err(), forged, "{number}");
                        let zeros = vec![0; plain.len()];
                        assert_eq!(text, if forged { zeros } else { plain });
                    }
                });
            }
        });
        for gatherer in [seals, opens] {
            let state = gatherer.state.into_inner().unwrap();
            assert!(state.done.is_empty() && state.heap.spans.is_empty());
            // 8 threads, 3 ms: fewer batches than messages.
            assert!((1..320).contains(&state.heap.round), "{}", state.heap.round);
        }
    }

    #[test]
    fn only_the_message_that_repeats_a_nonce_is_refused() {
        let seals = gatherer(Direction::Encrypt, SETTINGS);
        let sealed = std::thread::scope(|scope| {
            let run = |nonce| {
                let seals = &seals;
                scope.spawn(move || {
                    let (mut text, mut tag) = ([1; 50], [0; 16]);
                    seals.run(&[nonce; 12], b"", &mut text, &mut tag).is_ok()
                })
            };
            let threads = [1, 2, 1, 3].map(run);
            threads.map(|thread| thread.join().unwrap())
        });
        // The two with the same nonce may have come into different batches.
        assert!(
            sealed[1] && sealed[3] && (sealed[0] || sealed[2]),
            "{sealed:?}"
        );
        let (mut text, mut tag) = ([1; 50], [0; 16]);
        seals.lock().heap.used.insert(vec![4; 12]);
        let refused = seals.run(&[4; 12], b"", &mut text, &mut tag).unwrap_err();
        assert!(refused.to_string().contains("the same nonce"), "{refused}");
        assert_eq!((text, tag), ([1; 50], [0; 16]));
        let opens = gatherer(Direction::Decrypt, SETTINGS);
        opens.lock().heap.used.insert(vec![4; 12]);
        let refused = opens.run(&[4; 12], b"", &mut text, &mut tag).unwrap_err();
        assert!(matches!(refused, Error::Authentication { .. }));
    }

    #[test]
    fn a_message_alone_waits_no_longer_than_the_deadline() {
        let seals = gatherer(Direction::Encrypt, SETTINGS);
        let start = Instant::now();
        let (mut text, mut tag) = ([1; 50], [0; 16]);
        seals.run(&[1; 12], b"", &mut text, &mut tag).unwrap();
        let waited = start.elapsed();
        assert!(
            waited >= SETTINGS.deadline && waited < Duration::from_secs(2),
            "{waited:?}"
        );
    }

    #[test]
    fn what_is_wrong_harms_nobody_else_and_large_ones_do_not_wait() {
        let patient = Gathering {
            deadline: Duration::from_secs(60),
            ..SETTINGS
        };
        let seals = gatherer(Direction::Encrypt, patient);
        let mut tag = [0; 16];
        assert!(seals.run(&[], b"", &mut [1; 50], &mut tag).is_err());
        seals.run(&[1; 12], b"", &mut [1; 2000], &mut tag).unwrap();
        assert_eq!(seals.lock().heap.round, 0);
        // On a processor alone it does not pay.
        let off = Gathering {
            always: false,
            ..patient
        };
        let seals = gatherer(Direction::Encrypt, off);
        seals.run(&[1; 12], b"", &mut [1; 50], &mut tag).unwrap();
        assert_eq!(seals.lock().heap.round, 0);
    }
}
