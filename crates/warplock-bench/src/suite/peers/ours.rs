//! Warplock itself, through its public interface as any user.

use std::rc::Rc;

use warplock::{Batch, Engine, Ivs, Key, Keys, Spans, Tags, Text};

use super::Peer;
use super::task::{Task, Texts, Work};

/// The engine, on the calling thread.
pub(super) struct Ours(Rc<Engine>);

impl Ours {
    pub(super) fn new(engine: Engine) -> Self {
        Ours(Rc::new(engine))
    }
}

impl Peer for Ours {
    fn name(&self) -> &'static str {
        "warplock"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn prepare(&self, task: &Task, texts: &Texts) -> Option<Work> {
        let engine = Rc::clone(&self.0);
        let task = *task;
        let key = (!task.own_keys).then(|| Key::new(task.algorithm, &texts.keys).ok());
        let key = key.flatten();
        Some(Box::new(move |texts| {
            let keys = match &key {
                Some(key) => Keys::One(key),
                None => Keys::Each {
                    algorithm: task.algorithm,
                    bytes: &texts.keys,
                },
            };
            let spans = Spans::Even {
                count: task.count,
                len: task.len,
                stride: task.len,
            };
            let text = Text::InPlace {
                buffer: &mut texts.buffer,
                spans,
            };
            let mut batch = Batch::new(task.direction, keys, text);
            if task.iv_len() > 0 {
                batch = batch.ivs(Ivs::Each(&texts.ivs));
            }
            if task.algorithm.is_aead() {
                batch = batch.tags(Tags::Apart(&mut texts.tags));
            }
            // A failure shows in the result.
            let _ = engine.run(batch);
        }))
    }
}
