//! The kernels that a chunk takes, with their order and parameters.

use super::abi::{Address, RoundKeys, SPLIT_FINISHED, Work};
use super::keys::OneKey;
use super::policy;
use super::sheet::{Located, Split};
use super::spread::Spread;
use crate::cuda::driver::api::{Failure, RawStream};
use crate::cuda::driver::module::{Family, Kernel, Module, argument};
use crate::job::Job;
use crate::{AlgorithmInfo, Cipher, Direction, Mode};

/// A parameter of a kernel.
#[derive(Clone, Copy)]
pub(crate) enum Parameter<'a> {
    Work(Work),
    Keys(&'a RoundKeys),
    Address(Address),
    Count(u64),
    Number(u32),
    Block(&'a [u8; 16]),
    Spread(&'a Spread),
}

impl Parameter<'_> {
    /// The value as the driver copies it.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: none of these types has padding.
        unsafe {
            match self {
                Parameter::Work(work) => bytes_of(work),
                Parameter::Keys(keys) => bytes_of(*keys),
                Parameter::Address(address) => bytes_of(address),
                Parameter::Count(count) => bytes_of(count),
                Parameter::Number(number) => bytes_of(number),
                Parameter::Block(block) => bytes_of(*block),
                Parameter::Spread(spread) => bytes_of(*spread),
            }
        }
    }
}

/// # Safety
/// The type has no padding.
unsafe fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: a reference is valid for all of its value, which has no padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The number of blocks, and of threads per block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grid {
    /// This many per multiprocessor; they divide the work among themselves.
    Persistent(u32),
    /// As the persistent grid of this other kernel.
    Like(String),
    Blocks(u32),
    /// This many threads.
    Threads(u64),
    /// This many threads, or as many as fill all multiprocessors.
    AtMost(u64),
    /// A thread for each of this many items, spread over all multiprocessors.
    Spread(u64),
    /// The same, but with a warp for each of a multiprocessor's four schedulers before the next
    /// multiprocessor is used: a chain is as fast there, and the chains of other streams find room.
    Fill(u64),
}

/// One launch.
pub(crate) struct Step<'a> {
    pub(crate) name: String,
    pub(crate) family: Family,
    pub(crate) grid: Grid,
    pub(crate) parameters: Vec<Parameter<'a>>,
}

impl Step<'_> {
    /// Queues the launch. The context is bound.
    ///
    /// # Safety
    /// All memory that the parameters name is valid until the stream has passed this point, and
    /// nothing else uses it meanwhile.
    pub(crate) unsafe fn launch(
        &self,
        module: &Module,
        multiprocessors: u32,
        stream: &RawStream,
    ) -> Result<(), Failure> {
        let (kernel, grid, threads) = self.shape(module, multiprocessors)?;
        let parameters = self.parameters.iter();
        let mut arguments: Vec<_> = parameters.map(|value| argument(value.bytes())).collect();
        // SAFETY: the parameters are those of the kernel, see below; the rest by this function's
        // contract.
        unsafe { kernel.launch(&self.name, stream, grid, threads, &mut arguments) }
    }

    /// The kernel, the number of blocks, and of threads per block. The context is bound.
    pub(crate) fn shape(
        &self,
        module: &Module,
        multiprocessors: u32,
    ) -> Result<(Kernel, u32, u32), Failure> {
        let kernel = module.kernel(&self.name, self.family)?;
        let mut threads = kernel.threads;
        let blocks = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let grid = match &self.grid {
            Grid::Persistent(each) => multiprocessors * each,
            Grid::Like(other) => {
                threads = module.kernel(other, Family::FLAT)?.threads;
                multiprocessors
            }
            Grid::Blocks(count) => *count,
            Grid::Threads(count) => blocks(count.div_ceil(u64::from(threads))),
            Grid::AtMost(count) => blocks(count.div_ceil(u64::from(threads))).min(multiprocessors),
            Grid::Spread(things) | Grid::Fill(things) => {
                let fill = matches!(self.grid, Grid::Fill(_));
                let least = if fill { 128 } else { 32 };
                let each = blocks(things.div_ceil(u64::from(multiprocessors)));
                threads = each.next_multiple_of(32).clamp(least, threads);
                blocks(things.div_ceil(u64::from(threads)))
            }
        };
        Ok((kernel, grid, threads))
    }
}

/// The properties that the kernels of a job have in common.
pub(crate) struct Launcher {
    mode: Mode,
    direction: Direction,
    cipher: Cipher,
    tag_len: usize,
}

impl Launcher {
    pub(crate) fn new(job: &Job<'_>) -> Self {
        Launcher::of(job.info(), job.direction(), job.tag_len())
    }

    pub(crate) fn of(info: &AlgorithmInfo, direction: Direction, tag_len: usize) -> Self {
        Launcher {
            mode: info.mode,
            direction,
            cipher: info.cipher,
            tag_len,
        }
    }

    fn bits(&self) -> usize {
        8 * self.cipher.key_len()
    }

    fn rounds(&self) -> Parameter<'static> {
        Parameter::Number(match self.cipher {
            Cipher::Aes128 => 10,
            Cipher::Aes192 => 12,
            Cipher::Aes256 => 14,
            Cipher::Acorn128 => unreachable!("it has no rounds"),
        })
    }

    /// `expand_keys`: from raw bytes to the table.
    pub(crate) fn expand(&self, at: &Located) -> Option<Step<'static>> {
        let (raw, count) = at.raw_keys?;
        let decrypts = self.direction == Direction::Decrypt
            && matches!(self.mode, Mode::Ecb | Mode::Cbc | Mode::Xts);
        let (two, hashes) = (self.mode == Mode::Xts, self.mode == Mode::Gcm);
        let parts = u32::from(decrypts) | u32::from(two) << 1 | u32::from(hashes) << 2;
        Some(Step {
            name: "expand_keys".to_owned(),
            family: Family::FLAT,
            grid: Grid::Threads(u64::from(count)),
            parameters: vec![
                Parameter::Address(raw),
                Parameter::Address(at.table?),
                Parameter::Number(count),
                self.rounds(),
                Parameter::Number(parts),
            ],
        })
    }

    /// All modes but GCM: pieces, with one key or a table.
    pub(crate) fn pieces<'a>(&self, at: &Located, key: Option<&'a OneKey>) -> Vec<Step<'a>> {
        if at.work.count == 0 {
            // A chunk of empty XTS messages: the driver refuses grids of no blocks.
            return Vec::new();
        }
        let mut steps: Vec<Step<'a>> = self.expand(at).into_iter().collect();
        let way = self.direction.name();
        let (family, stem) = match (self.mode, self.direction) {
            (Mode::Ecb, _) => (Family::FLAT, format!("ecb_{way}")),
            (Mode::Cbc, Direction::Encrypt) if at.work.count <= policy::FEW_CHAINS => {
                (Family::FLAT, "cbc_encrypt_few".to_owned())
            }
            (Mode::Cbc, Direction::Encrypt) => (Family::CBC, "cbc_encrypt".to_owned()),
            (Mode::Cbc, Direction::Decrypt) => (Family::FLAT, "cbc_decrypt".to_owned()),
            (Mode::Ctr, _) if key.is_none() => (Family::FLAT, "ctr".to_owned()),
            (Mode::Ctr, _) if at.long => (Family::LONG, "ctr_long".to_owned()),
            (Mode::Ctr, _) => (Family::CTR, "ctr".to_owned()),
            (Mode::Xts, _) => (Family::FLAT, format!("xts_{way}")),
            (Mode::Gcm, _) => unreachable!("GCM has launches of its own"),
            (Mode::Acorn, _) => unreachable!("ACORN has a launch of its own"),
        };
        let mut parameters = vec![Parameter::Work(at.work)];
        let name = match (key, at.table) {
            (Some(key), _) => {
                parameters.push(Parameter::Keys(match self.mode {
                    Mode::Ctr => &key.encrypt,
                    _ => key.schedule(self.direction),
                }));
                format!("{stem}_{}", self.bits())
            }
            (None, table) => {
                let table = table.expect("without one key there is a table");
                parameters.extend([Parameter::Address(table), self.rounds()]);
                format!("{stem}_table")
            }
        };
        let chained = self.mode == Mode::Cbc && self.direction == Direction::Encrypt;
        match self.mode {
            Mode::Xts => {
                parameters.push(Parameter::Address(at.scratch));
                let grid = Grid::Spread(at.work.count);
                steps.push(self.with_tweaks("xts_tweaks".to_owned(), grid, at));
            }
            Mode::Cbc if !chained => {
                parameters.push(Parameter::Address(at.scratch));
                steps.push(Step {
                    name: "cbc_save".to_owned(),
                    family: Family::FLAT,
                    grid: Grid::Like(name.clone()),
                    parameters: vec![Parameter::Work(at.work), Parameter::Address(at.scratch)],
                });
            }
            _ => {}
        }
        // XTS may have nothing but blocks to steal from.
        if at.work.units > 0 {
            steps.push(Step {
                name,
                family,
                grid: match (chained, family) {
                    // Four lanes a message.
                    (true, Family::FLAT) => Grid::Fill(4 * at.work.count),
                    (true, _) => Grid::Spread(at.work.count),
                    (false, _) => Grid::Persistent(1),
                },
                parameters,
            });
        }
        if at.steals {
            let grid = Grid::Spread(at.work.count);
            steps.push(self.with_tweaks(format!("xts_steal_{way}"), grid, at));
        }
        steps
    }

    /// A kernel of XTS that takes its key from a table.
    fn with_tweaks(&self, name: String, grid: Grid, at: &Located) -> Step<'static> {
        Step {
            name,
            family: Family::FLAT,
            grid,
            parameters: vec![
                Parameter::Work(at.work),
                Parameter::Address(at.table.expect("XTS has its keys in a table")),
                self.rounds(),
                Parameter::Address(at.scratch),
            ],
        }
    }

    /// GCM for short messages or several keys: one kernel does everything.
    pub(crate) fn gcm_small(&self, at: &Located) -> Vec<Step<'static>> {
        let mut steps: Vec<_> = self.expand(at).into_iter().collect();
        steps.push(Step {
            name: format!("gcm_small_{}", self.direction.name()),
            family: Family::SMALL,
            grid: Grid::Persistent(1),
            parameters: vec![
                Parameter::Work(at.work),
                Parameter::Address(at.messages),
                Parameter::Address(
                    at.table
                        .expect("short messages take their keys from a table"),
                ),
                self.rounds(),
                Parameter::Number(self.tag_len as u32),
            ],
        });
        steps
    }

    /// GCM for long messages with one key: the steps before the text.
    pub(crate) fn gcm_begin<'a>(&self, at: &Located, key: &'a OneKey) -> Vec<Step<'a>> {
        vec![self.gcm_powers(at.powers, key), self.gcm_prepare(at, key)]
    }

    /// GCM for long messages: the powers of H, which depend on the key alone.
    pub(crate) fn gcm_powers<'a>(&self, powers: Address, key: &'a OneKey) -> Step<'a> {
        Step {
            name: "gcm_powers".to_owned(),
            family: Family::PLAIN,
            // Five rows of powers, and 320 inverses.
            grid: Grid::Blocks(7),
            parameters: vec![
                Parameter::Block(&key.hash),
                Parameter::Block(&key.inverse),
                Parameter::Address(powers),
            ],
        }
    }

    /// GCM for long messages with one key: counters, masks, associated data.
    fn gcm_prepare<'a>(&self, at: &Located, key: &'a OneKey) -> Step<'a> {
        Step {
            name: format!("gcm_prepare_{}", self.bits()),
            family: Family::GCM,
            // Eight lanes a message.
            grid: Grid::AtMost(8 * at.message_count),
            parameters: vec![
                Parameter::Address(at.messages),
                Parameter::Count(at.message_count),
                Parameter::Keys(&key.encrypt),
                Parameter::Address(at.powers),
            ],
        }
    }

    /// GCM for long messages with one key: pieces of text, of messages at `messages`. `plain`:
    /// these are all their messages, and plain.
    pub(crate) fn gcm_text<'a>(
        &self,
        work: Work,
        messages: &Located,
        key: &'a OneKey,
        plain: bool,
    ) -> Option<Step<'a>> {
        let mut parameters = vec![
            Parameter::Work(work),
            Parameter::Address(messages.messages),
            Parameter::Keys(&key.encrypt),
            Parameter::Address(messages.powers),
        ];
        let (family, stem) = match is_long(&work) {
            true => {
                parameters.push(Parameter::Number(u32::from(plain)));
                (Family::GCM_LONG, "gcm_long")
            }
            false => (Family::GCM, "gcm"),
        };
        (work.units > 0).then(|| Step {
            name: format!("{stem}_{}_{}", self.direction.name(), self.bits()),
            family,
            grid: Grid::Persistent(1),
            parameters,
        })
    }

    /// GCM for much text under one key: multiprocessors that hash, and others that encrypt.
    fn gcm_split<'a>(&self, at: &Located, split: &Split, key: &'a OneKey) -> Step<'a> {
        let any_byte = if at.any_byte { "any_byte_" } else { "" };
        let (way, bits) = (self.direction.name(), self.bits());
        let tag_len = if finishes(at) { self.tag_len } else { 0 };
        Step {
            name: format!("gcm_split_{any_byte}{way}_{bits}"),
            family: Family::GCM_SPLIT,
            grid: Grid::Persistent(1),
            parameters: vec![
                Parameter::Work(split.work),
                Parameter::Address(at.messages),
                Parameter::Keys(&key.encrypt),
                Parameter::Address(at.powers),
                Parameter::Address(split.at),
                Parameter::Address(split.places),
                Parameter::Number(split.hashers),
                Parameter::Number(u32::from(at.plain)),
                Parameter::Number(tag_len as u32),
            ],
        }
    }

    /// GCM for long messages with one key: tags are made or compared.
    pub(crate) fn gcm_end(&self, at: &Located) -> Step<'static> {
        self.gcm_finish(at, self.tag_len, self.direction == Direction::Decrypt)
    }

    /// GCM for a part of a message: its tag so far, whole and not compared.
    pub(crate) fn gcm_sum(&self, at: &Located) -> Step<'static> {
        self.gcm_finish(at, 16, false)
    }

    fn gcm_finish(&self, at: &Located, tag_len: usize, opens: bool) -> Step<'static> {
        Step {
            name: "gcm_finish".to_owned(),
            family: Family::PLAIN,
            grid: Grid::Threads(at.message_count),
            parameters: vec![
                Parameter::Address(at.messages),
                Parameter::Count(at.message_count),
                Parameter::Address(at.powers),
                Parameter::Number(tag_len as u32),
                Parameter::Number(u32::from(opens)),
                Parameter::Address(at.verdicts_to[0]),
                Parameter::Address(at.verdicts_to[1]),
            ],
        }
    }

    /// GCM for whole messages with one key.
    pub(crate) fn gcm_whole<'a>(&self, at: &Located, key: &'a OneKey) -> Vec<Step<'a>> {
        let mut steps = vec![self.gcm_powers(at.powers, key)];
        steps.extend(self.gcm_after_powers(at, key));
        steps
    }

    /// The same without the step that depends on the key alone.
    pub(crate) fn gcm_after_powers<'a>(&self, at: &Located, key: &'a OneKey) -> Vec<Step<'a>> {
        let plain = at.plain && (at.split.is_some() || is_long(&at.work));
        let mut steps = Vec::new();
        if !plain {
            steps.push(self.gcm_prepare(at, key));
        }
        match &at.split {
            Some(split) => steps.push(self.gcm_split(at, split, key)),
            None => steps.extend(self.gcm_text(at.work, at, key, plain)),
        }
        steps.extend((!finishes(at)).then(|| self.gcm_end(at)));
        steps.extend(self.gcm_wipe(at));
        steps
    }

    /// GCM: refused messages become zeros, where their text is still on the device.
    fn gcm_wipe(&self, at: &Located) -> Option<Step<'static>> {
        let opens = self.direction == Direction::Decrypt;
        (opens && at.work.units > 0).then(|| Step {
            name: "gcm_wipe".to_owned(),
            family: Family::PLAIN,
            grid: Grid::Persistent(4),
            parameters: vec![Parameter::Work(at.work), Parameter::Address(at.messages)],
        })
    }

    /// ACORN: one kernel does everything.
    pub(crate) fn acorn(&self, at: &Located) -> Step<'static> {
        let name = match at.any_byte {
            true => "acorn_any_byte".to_owned(),
            false => format!("acorn_{}", self.direction.name()),
        };
        let opens = u32::from(self.direction == Direction::Decrypt);
        let more = at.any_byte.then_some(Parameter::Number(opens));
        let parameters = [
            Parameter::Address(at.messages),
            Parameter::Count(at.message_count),
            Parameter::Address(at.table.expect("its keys are a table, too")),
            Parameter::Address(at.verdicts),
        ];
        Step {
            name,
            family: Family::ACORN,
            grid: Grid::Spread(at.message_count),
            parameters: parameters.into_iter().chain(more).collect(),
        }
    }

    /// Single blocks with a key each, encrypted.
    pub(crate) fn blocks(
        &self,
        keys: Address,
        input: Address,
        output: Address,
        count: u64,
    ) -> Step<'static> {
        Step {
            name: format!("ecb_each_{}", self.bits()),
            family: Family::EACH,
            grid: Grid::Persistent(1),
            parameters: vec![
                Parameter::Address(keys),
                Parameter::Address(input),
                Parameter::Address(output),
                Parameter::Count(count),
            ],
        }
    }
}

/// Whether the kernel for the text also makes the tags, which saves a launch.
pub(crate) fn finishes(at: &Located) -> bool {
    let few = at.message_count <= SPLIT_FINISHED;
    at.split
        .as_ref()
        .is_some_and(|split| few || split.work.each == 1)
}

/// Whether GCM's kernel in which warps divide the work takes these pieces.
pub(crate) fn is_long(work: &Work) -> bool {
    work.units >= policy::LONG_GCM_ROWS * work.count
}
