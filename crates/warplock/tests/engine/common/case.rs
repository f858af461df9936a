//! A test vector, checked in every way.

use std::collections::BTreeMap;

use super::layout::{Message, Plan, assert_same};
use super::random::Random;
use super::{engines, key};
use warplock::{Algorithm, Direction, Engine, Error, MessageStream};

/// One vector: `cipher` and `tag` belong to `plain`, unless it is forged.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) key: Vec<u8>,
    pub(crate) iv: Vec<u8>,
    pub(crate) aad: Vec<u8>,
    /// Not looked at if the case is forged.
    pub(crate) plain: Vec<u8>,
    pub(crate) cipher: Vec<u8>,
    /// Perhaps a cut one; empty without authentication.
    pub(crate) tag: Vec<u8>,
    /// Opening must refuse it.
    pub(crate) forged: bool,
}

impl Case {
    /// What sealing must make: the vector's ciphertext, and the tag of which it has a cut.
    fn sealed(&self) -> Message {
        let Case { key, iv, aad, .. } = self;
        let message = Message::new(self.algorithm, key, iv, aad, self.plain.clone());
        assert!(
            message.output == self.cipher && message.tag.starts_with(&self.tag),
            "{}: the vector and the other implementation disagree",
            self.name
        );
        message
    }

    /// What opening is given, and must give.
    fn opened(&self) -> Message {
        Message {
            key: self.key.clone(),
            iv: self.iv.clone(),
            aad: self.aad.clone(),
            input: self.cipher.clone(),
            output: self.plain.clone(),
            tag: self.tag.clone(),
            forged: self.forged,
        }
    }
}

/// Checks the cases on every instruction set with one thread and two: each alone, those of one
/// algorithm and tag length in one batch, and as streams. Encrypting and decrypting; forged ones
/// must be refused. Returns how many cases there were.
pub(crate) fn check(cases: &[Case]) -> usize {
    let mut random = Random::new(cases.len() as u64);
    let engines = engines(&[1, 2]);
    let mut groups = BTreeMap::<_, Vec<(&str, Message)>>::new();
    for case in cases {
        let mut add = |direction, message: Message| {
            for engine in &engines {
                let plan = Plan {
                    name: &case.name,
                    algorithm: case.algorithm,
                    direction,
                    messages: std::slice::from_ref(&message),
                };
                plan.run(engine, &mut random);
                check_stream(engine, &plan, &message, &mut random);
            }
            let group = (
                case.algorithm.name(),
                direction == Direction::Encrypt,
                message.tag.len(),
            );
            groups.entry(group).or_default().push((&case.name, message));
        };
        if !case.forged {
            add(Direction::Encrypt, case.sealed());
        }
        add(Direction::Decrypt, case.opened());
    }
    for ((algorithm, encrypt, _), group) in groups {
        let (names, messages): (Vec<&str>, Vec<Message>) = group.into_iter().unzip();
        for engine in &engines {
            let plan = Plan {
                name: &format!("{} to {}", names[0], names[names.len() - 1]),
                algorithm: algorithm.parse().unwrap(),
                direction: match encrypt {
                    true => Direction::Encrypt,
                    false => Direction::Decrypt,
                },
                messages: &messages,
            };
            plan.run(engine, &mut random);
        }
    }
    cases.len()
}

/// One message as a stream of up to three pieces.
fn check_stream(engine: &Engine, plan: &Plan<'_>, message: &Message, random: &mut Random) {
    let blocks = message.input.len() / 16;
    // The last piece keeps a whole block for XTS to steal from.
    let kept = (!message.input.len().is_multiple_of(16)) as usize;
    let end = blocks.saturating_sub(kept);
    let mut cuts = [random.below(end + 1) * 16, random.below(end + 1) * 16];
    cuts.sort_unstable();
    let found = stream(engine, plan, message, &cuts);
    let context = format!("{} as a stream cut at {cuts:?}", plan.name);
    match (found, message.forged) {
        (Ok((text, tag)), false) => {
            assert_same(&text, &message.output, &context);
            if plan.direction == Direction::Encrypt {
                assert_eq!(tag, message.tag, "{context}");
            }
        }
        (Err(Error::Authentication { .. }), true) => {}
        (Ok(_), true) => panic!("{context}: not refused"),
        (Err(error), _) => panic!("{context}: {error}"),
    }
}

/// Runs a message as a stream cut at the given places; returns its text and tag.
pub(crate) fn stream(
    engine: &Engine,
    plan: &Plan<'_>,
    message: &Message,
    cuts: &[usize],
) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let key = key(plan.algorithm, &message.key);
    let mut stream = MessageStream::new(engine, plan.direction, &key, &message.iv, &message.aad)?;
    let mut text = message.input.clone();
    let mut start = 0;
    for &cut in cuts {
        stream.update(&mut text[start..cut])?;
        start = cut;
    }
    let last = &mut text[start..];
    let mut tag = Vec::new();
    if plan.algorithm.is_aead() && plan.direction == Direction::Decrypt {
        let verified = stream.verify(last, &message.tag);
        if verified.is_err() {
            assert!(
                last.iter().all(|&byte| byte == 0),
                "{}: a refused stream's last piece must be zeros",
                plan.name
            );
        }
        verified?;
    } else {
        tag = stream.finish(last)?.map_or(Vec::new(), |tag| tag.to_vec());
    }
    Ok((text, tag))
}
