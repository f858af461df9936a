//! A batch of one message. If it is short, a job's checks and copies would show in its time.

use crate::batch::{Aad, Batch, Direction, Ivs, Keys, Span, Spans, Tags, Text};
use crate::job::{Iv, Message};
use crate::{AlgorithmInfo, Key, Mode};

/// One checked message. Its existence proves what a [`crate::job::Job`] of it would prove.
pub(crate) struct Single<'a> {
    pub(crate) info: &'static AlgorithmInfo,
    pub(crate) direction: Direction,
    pub(crate) key: &'a Key,
    pub(crate) message: Message<'a>,
    pub(crate) tag_len: usize,
}

impl<'a> Single<'a> {
    /// The message of a batch that has only one, with one key, and in which everything fits. None
    /// for any other batch: [`crate::job::Job::new`] has the rules, and the error messages.
    #[inline]
    pub(crate) fn of(batch: &mut Batch<'a>) -> Option<Self> {
        let Keys::One(key) = batch.keys else {
            return None;
        };
        let direction = batch.direction;
        let info = key.algorithm().info();
        let (input, input_len, output, output_len, len) = match &mut batch.text {
            Text::InPlace {
                buffer,
                spans: Spans::Even { count: 1, len, .. },
            } => {
                let (pointer, size) = (buffer.as_mut_ptr(), buffer.len());
                (pointer.cast_const(), size, pointer, size, *len)
            }
            Text::Apart {
                input,
                input_spans: Spans::Even { count: 1, len, .. },
                output,
                output_spans:
                    Spans::Even {
                        count: 1, len: to, ..
                    },
            } if len == to => {
                let (to, room) = (output.as_mut_ptr(), output.len());
                (input.as_ptr(), input.len(), to, room, *len)
            }
            _ => return None,
        };
        if len > input_len || len > output_len || !info.accepts_text_len(len as u64) {
            return None;
        }
        let mut iv = match batch.ivs {
            Ivs::Each(bytes) if bytes.len() == info.iv_len() => Iv::Bytes(bytes),
            Ivs::None if info.accepts_iv_len(0) => Iv::Bytes(&[]),
            Ivs::Sectors { first } if info.mode == Mode::Xts => Iv::Block(first.to_le_bytes()),
            // Drawn at the end: nothing is written before all checks have passed.
            Ivs::Random(ref array)
                if array.len() == info.iv_len() && direction == Direction::Encrypt =>
            {
                Iv::Bytes(&[])
            }
            Ivs::Ragged {
                bytes,
                spans: spans @ Spans::Even { count: 1, .. },
            } => {
                let Span { offset, len } = spans.get(0);
                let iv = bytes.get(offset..)?.get(..len)?;
                info.accepts_iv_len(len).then_some(Iv::Bytes(iv))?
            }
            _ => return None,
        };
        let tag_len = batch.tag_len;
        let (tag, aad) = if info.algorithm.is_aead() {
            let tag = match &mut batch.tags {
                // SAFETY: the text and the tag after it lie in the buffer.
                Tags::Appended if direction == Direction::Encrypt => unsafe {
                    (output_len - len >= tag_len).then(|| output.add(len))?
                },
                // SAFETY: as above; it is only read.
                Tags::Appended => unsafe {
                    (input_len - len >= tag_len).then(|| input.add(len).cast_mut())?
                },
                Tags::Apart(array) if array.len() == tag_len => array.as_mut_ptr(),
                // It is only read.
                Tags::Given(array) if array.len() == tag_len && direction == Direction::Decrypt => {
                    array.as_ptr().cast_mut()
                }
                _ => return None,
            };
            let aad: &[u8] = match batch.aad {
                Aad::None => &[],
                Aad::Shared(bytes) => bytes,
                Aad::Each { .. } => return None,
            };
            (
                info.accepts_tag_len(direction, tag_len).then_some(tag)?,
                aad,
            )
        } else if batch.must_authenticate {
            return None;
        } else {
            // Without text there is nothing to do.
            match (&batch.tags, batch.aad) {
                (Tags::Appended, Aad::None) if len > 0 => (output, [].as_slice()),
                _ => return None,
            }
        };
        if let Ivs::Random(_) = batch.ivs {
            // If this fails, `Job::new` tries again and reports the error.
            batch.ivs.draw().ok()?;
            if let Ivs::Each(bytes) = batch.ivs {
                iv = Iv::Bytes(bytes);
            }
        }
        Some(Single {
            info,
            direction,
            key,
            message: Message {
                input,
                output,
                len,
                iv,
                aad,
                tag,
            },
            tag_len,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Algorithm;
    use crate::job::Job;

    /// Everything that is accepted here is accepted as a job; and everything with text that a job
    /// accepts and that has this form is accepted here.
    #[test]
    fn takes_what_a_job_takes() {
        let (mut taken, mut refused) = (0, 0);
        for algorithm in Algorithm::all() {
            let key = Key::generate(algorithm).unwrap();
            for case in 0..3 * 4 * 6 * 5 * 3 * 3 * 2 * 3 {
                let mut digits = case;
                let mut pick = |from: &[usize]| {
                    let digit = digits % from.len();
                    digits /= from.len();
                    from[digit]
                };
                let tag_len = pick(&[3, 12, 16]);
                let iv_len = pick(&[0, 12, 15, 16]);
                let len = pick(&[0, 1, 15, 16, 33, 48]);
                let room = len + pick(&[0, 3, 12, 16, 20]);
                let tags = pick(&[0, 12, 16]);
                let shape = pick(&[0, 1, 2]);
                let direction = match pick(&[0, 1]) {
                    0 => Direction::Encrypt,
                    _ => Direction::Decrypt,
                };
                let ivs = pick(&[0, 1, 2]);
                let batch = |buffers: [&mut Vec<u8>; 3], check: &mut dyn FnMut(Batch<'_>)| {
                    let [input, output, array] = buffers;
                    let mut drawn = [0; 16];
                    let spans = Spans::one(len);
                    let text = match shape {
                        0 => Text::InPlace {
                            buffer: output,
                            spans,
                        },
                        1 => Text::Apart {
                            input,
                            input_spans: spans,
                            output,
                            output_spans: spans,
                        },
                        // A place that is too small.
                        _ => Text::Apart {
                            input,
                            input_spans: spans,
                            output,
                            output_spans: Spans::one(len / 2),
                        },
                    };
                    let mut batch = Batch::new(direction, Keys::One(&key), text)
                        .ivs(match ivs {
                            0 => Ivs::Each(&[5; 16][..iv_len]),
                            1 => Ivs::Random(&mut drawn[..iv_len]),
                            _ => Ivs::Ragged {
                                bytes: &[5; 16],
                                spans: Spans::one(iv_len),
                            },
                        })
                        .tag_len(tag_len);
                    if tags > 0 {
                        batch = batch.tags(Tags::Apart(array));
                    }
                    check(batch);
                };
                let buffers = || [vec![0; room], vec![0; room], vec![0; tags]];
                let (mut single, mut job) = (false, false);
                let [a, b, c] = &mut buffers();
                batch([a, b, c], &mut |mut batch| {
                    single = Single::of(&mut batch).is_some();
                });
                batch([a, b, c], &mut |batch| job = Job::new(batch).is_ok());
                let idle = len == 0 && !algorithm.is_aead();
                assert_eq!(
                    single,
                    job && !idle,
                    "{algorithm}, {len} bytes of {room}, IV {iv_len} ({ivs}), tags {tags} of \
                     {tag_len}, shape {shape}, {direction:?}"
                );
                match job {
                    true => taken += 1,
                    false => refused += 1,
                }
            }
        }
        assert!(taken > 100 && refused > 100, "{taken} {refused}");
    }
}
