//! Plans for random batches in every form that a batch has, against the CPU, on a GPU.

use std::num::NonZeroUsize;

use super::super::check::Checked;
use super::super::{
    Device, DeviceAad, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceKey, DeviceKeys, DeviceTags,
    DeviceText, DeviceVerdicts, Plan, Region,
};
use super::on_gpu::{device, has_mask, read};
use crate::cpu::{CpuBackend, InstructionSet};
use crate::cuda::launch::policy::Policy;
use crate::testing::random_jobs::{Buffers, KeyForm, Random, Setup, buffers};
use crate::{Algorithm, Direction, Keys, Mode, Spans};

/// Bytes in GPU memory, often at an odd address, between others that must not be touched.
struct Placed {
    buffer: DeviceBuffer,
    at: usize,
    len: usize,
}

const UNTOUCHED: u8 = 0x5C;

impl Placed {
    fn new(device: &Device, random: &mut Random, len: usize) -> Self {
        let at = [16, 16 + random.below(16)][random.below(2)];
        let mut buffer = device.alloc(at + len + 16).unwrap();
        buffer.fill(UNTOUCHED).unwrap();
        Placed { buffer, at, len }
    }

    fn region(&self) -> Region {
        self.buffer.region().part(self.at, self.len)
    }

    fn write(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len);
        if !bytes.is_empty() {
            self.buffer.write(self.at, bytes).unwrap();
        }
    }

    fn read(&self) -> Vec<u8> {
        let all = read(&self.buffer);
        let end = self.at + self.len;
        let around = all[..self.at].iter().chain(&all[end..]);
        assert!(
            around.into_iter().all(|&byte| byte == UNTOUCHED),
            "only what belongs to a batch is written"
        );
        all[self.at..end].to_vec()
    }
}

/// A batch's parts in GPU memory.
struct There {
    input: Placed,
    output: Placed,
    tags: Placed,
    ivs: Placed,
    aad: Placed,
    /// Keys of each message, if they are in GPU memory.
    keys: Option<Placed>,
}

impl There {
    fn new(device: &Device, random: &mut Random, setup: &Setup, given: &Buffers) -> Self {
        let mut placed = |len| Placed::new(device, random, len);
        let [input, output, tags, ivs, aad] = [
            given.input.len(),
            given.output.len(),
            given.tags.len(),
            setup.ivs.len(),
            setup.aad.len(),
        ]
        .map(&mut placed);
        let keys = placed(setup.raw_keys.len());
        let each = matches!(setup.form, KeyForm::Each);
        There {
            input,
            output,
            tags,
            ivs,
            aad,
            keys: (each && random.flip()).then_some(keys),
        }
    }

    fn write(&mut self, text: &Buffers, [ivs, aad, keys]: [&[u8]; 3]) {
        self.input.write(&text.input);
        self.output.write(&text.output);
        self.tags.write(&text.tags);
        self.ivs.write(ivs);
        self.aad.write(aad);
        if let Some(place) = &mut self.keys {
            place.write(keys);
        }
    }

    fn batch<'a>(&self, setup: &'a Setup, direction: Direction) -> DeviceBatch<'a> {
        let algorithm = setup.algorithm;
        let keys = match (setup.form, &self.keys) {
            (_, Some(keys)) => DeviceKeys::Each {
                algorithm,
                bytes: keys.region(),
            },
            (KeyForm::One, None) => DeviceKeys::from(&setup.keys[0]),
            (KeyForm::Each, None) => DeviceKeys::Host(Keys::Each {
                algorithm,
                bytes: &setup.raw_keys,
            }),
            (KeyForm::Indexed, None) => DeviceKeys::Host(Keys::Indexed {
                keys: &setup.keys,
                index: &setup.index,
            }),
        };
        let text = match setup.in_place {
            true => DeviceText::InPlace {
                buffer: self.output.region(),
                spans: setup.spans(&setup.spans),
            },
            false => DeviceText::Apart {
                input: self.input.region(),
                input_spans: setup.spans(&setup.input_spans),
                output: self.output.region(),
                output_spans: setup.spans(&setup.spans),
            },
        };
        let same_len = setup
            .iv_spans
            .iter()
            .all(|span| span.len == algorithm.info().iv_len());
        let ivs = match setup.sectors {
            _ if setup.ivs.is_empty() => DeviceIvs::None,
            Some(first) => DeviceIvs::Sectors { first },
            None if same_len => DeviceIvs::Each(self.ivs.region()),
            None => DeviceIvs::Ragged {
                bytes: self.ivs.region(),
                spans: Spans::Ragged(&setup.iv_spans),
            },
        };
        let batch = DeviceBatch::new(direction, keys, text).ivs(ivs);
        if !algorithm.is_aead() {
            return batch;
        }
        let aad = match setup.aad_shared {
            true => DeviceAad::Shared(self.aad.region()),
            false => DeviceAad::Each {
                bytes: self.aad.region(),
                spans: Spans::Ragged(&setup.aad_spans),
            },
        };
        let batch = batch.aad(aad).tag_len(setup.tag_len);
        match setup.appended {
            true => batch,
            false => batch.tags(DeviceTags::Apart(self.tags.region())),
        }
    }

    /// Launches a plan on other contents, then on those given; returns what was refused. One-key
    /// CTR also runs on the kernel for one long piece, however short it is, and messages of XTS are
    /// cut into pieces of a row.
    fn run(
        &mut self,
        device: &Device,
        random: &mut Random,
        setup: &Setup,
        direction: Direction,
        given: &Buffers,
    ) -> (Buffers, Vec<usize>) {
        let batch = self.batch(setup, direction);
        let plan = match random.flip() {
            false => Plan::new(device, batch).unwrap(),
            true => {
                let batch = Checked::new(batch).unwrap();
                if batch.text_bytes == 0 {
                    Plan::new(device, self.batch(setup, direction)).unwrap()
                } else {
                    let policy = Policy {
                        ctr_long: 0,
                        xts_piece: 512,
                        ..Policy::DEFAULT
                    };
                    let plan = |device: &Device| Plan::by_policy(device, &batch, &policy, None);
                    device.call(plan).unwrap()
                }
            }
        };
        let other =
            [&setup.ivs, &setup.aad, &setup.raw_keys].map(|bytes| random.bytes(bytes.len()));
        let stream = device.stream().unwrap();
        self.write(&buffers(setup, random), other.each_ref().map(Vec::as_slice));
        // SAFETY: everything lives until `failed` has waited.
        unsafe { plan.launch(&stream).unwrap() };
        plan.failed(&stream).unwrap();
        self.write(given, [&setup.ivs, &setup.aad, &setup.raw_keys]);
        // SAFETY: as above.
        unsafe { plan.launch(&stream).unwrap() };
        let refused = plan.failed(&stream).unwrap();
        let found = Buffers {
            input: self.input.read(),
            output: self.output.read(),
            tags: self.tags.read(),
        };
        assert!(self.ivs.read() == setup.ivs && self.aad.read() == setup.aad);
        (found, refused)
    }

    /// The same by a call, with tables from the host or the device; none for batches with other keys than one of the host's.
    fn call(
        &mut self,
        device: &Device,
        setup: &Setup,
        direction: Direction,
        given: &Buffers,
        from_host: bool,
    ) -> Option<(Buffers, Vec<usize>)> {
        if !matches!(setup.form, KeyForm::One) {
            return None;
        }
        let mut key = DeviceKey::new(device, &setup.keys[0]).unwrap();
        key.policy.spread = [0, usize::MAX][usize::from(from_host)];
        if from_host {
            key.policy.xts_piece = 512;
        }
        let mut batch = self.batch(setup, direction);
        batch.keys = DeviceKeys::from(&key);
        self.write(given, [&setup.ivs, &setup.aad, &setup.raw_keys]);
        let count = setup.spans.len();
        let mut workspace = device.alloc(key.workspace_len(&batch).unwrap()).unwrap();
        let (mut each, mut refused) = (device.alloc(4 * count).unwrap(), device.alloc(4).unwrap());
        workspace.fill(UNTOUCHED).unwrap();
        each.fill(0).unwrap();
        refused.fill(0).unwrap();
        let verdicts = DeviceVerdicts {
            each: Some(each.region()),
            refused: Some(refused.region()),
        };
        let stream = device.stream().unwrap();
        // SAFETY: everything lives until the stream is synchronized.
        unsafe { key.enqueue(batch, verdicts, workspace.region(), &stream) }.unwrap();
        stream.synchronize().unwrap();
        let nonces = setup.iv_spans.iter();
        let nonces = nonces.map(|span| &setup.ivs[span.offset..][..span.len]);
        let is_gcm = setup.algorithm.info().mode == Mode::Gcm;
        assert!(!is_gcm || !has_mask(&read(&workspace), &setup.keys[0], nonces));
        let each = read(&each);
        let wrong = |number: &usize| each[4 * number..][..4] != [0; 4];
        let failed: Vec<usize> = (0..count).filter(wrong).collect();
        assert_eq!(read(&refused), (failed.len() as u32).to_le_bytes());
        let found = Buffers {
            input: self.input.read(),
            output: self.output.read(),
            tags: self.tags.read(),
        };
        Some((found, failed))
    }
}

/// Tags may be shorter when opening than when sealing.
fn shorten(setup: &mut Setup, sealed: &mut Buffers, tag_len: usize) {
    let tags = sealed.tags.chunks(setup.tag_len);
    sealed.tags = tags.flat_map(|tag| tag[..tag_len].to_vec()).collect();
    setup.tag_len = tag_len;
}

fn check(device: &Device, random: &mut Random, algorithm: Algorithm, room: usize) {
    let cpu = CpuBackend::new(InstructionSet::Portable, NonZeroUsize::MIN).unwrap();
    let mut setup = Setup::random(random, algorithm, room);
    let mut given = buffers(&setup, random);
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let mut there = There::new(device, random, &setup, &given);
        let (found, refused) = there.run(device, random, &setup, direction, &given);
        let mut expected = given.clone();
        let right = expected.run(&cpu, &setup, direction);
        let what = format!("{algorithm} {direction:?}, {} messages", setup.spans.len());
        assert_eq!(refused, right, "{what}");
        assert!(found.output == expected.output, "{what}: output");
        assert!(found.tags == expected.tags, "{what}: tags");
        assert!(found.input == given.input, "{what}: only read");
        for from_host in [true, false] {
            let called = there.call(device, &setup, direction, &given, from_host);
            let Some((found, refused)) = called else {
                continue;
            };
            assert_eq!(refused, right, "{what}, called");
            assert!(found.output == expected.output, "{what}, called: output");
            assert!(found.tags == expected.tags, "{what}, called: tags");
        }
        given = expected.reversed(&setup, random);
        if direction == Direction::Encrypt {
            if algorithm.info().mode == crate::Mode::Gcm && random.below(3) == 0 {
                shorten(&mut setup, &mut given, [4, 8][random.below(2)]);
            }
            given.forge(&setup, random);
        }
    }
}

#[test]
fn random_plans_agree_with_the_cpu() {
    let Some((device, _alone)) = device() else {
        return;
    };
    for algorithm in Algorithm::all() {
        for number in 0..36 {
            let random = &mut Random::new(number << 8 | algorithm as u64);
            check(
                &device,
                random,
                algorithm,
                [100, 1500, 9000][number as usize % 3],
            );
        }
    }
}
