//! A chunk's sheet: everything that kernels must know about it, packed for one copy to the device:
//! pieces, IVs, associated data, keys and tags.

use super::abi::{Address, Piece, TABLE_KEY, Verdict, Work};
use super::cut::{Chunk, Part, Previous, has_table};
use super::keys::OneKey;
use super::parts::{AadPlaces, number_keys, padded, start_iv, verdict};
use super::pieces::{Message, Messages, Pieces, Places, Unit};
use super::policy::Policy;
use crate::job::Job;
use crate::{Direction, Mode};

/// Bytes of a tag on the device.
pub(crate) const TAG: usize = 16;

/// Where the keys of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyPlace {
    /// A parameter of the kernels.
    Parameter,
    /// A table of one key that the host has made.
    OneInTable,
    /// A table that the device makes of raw bytes.
    Table,
    /// The raw bytes (ACORN).
    Raw,
}

/// The offsets of a chunk's data, in bytes from the sheet's start.
#[derive(Debug)]
pub(crate) struct Sheet {
    mode: Mode,
    small: bool,
    /// Whether CTR's kernel for one long piece works.
    long: bool,
    keys: KeyPlace,
    /// Bytes that the host writes and uploads.
    pub(crate) len: usize,
    /// Bytes that the device needs.
    pub(crate) device_len: usize,
    pieces: Pieces,
    ivs: usize,
    aads: usize,
    raw_keys: usize,
    /// For each raw key, a message that has it.
    key_owners: Vec<usize>,
    /// For each part, its key's index in the table; empty: all 0.
    key_numbers: Vec<u32>,
    pub(crate) messages: Messages,
    /// The offset of the verdicts.
    verdicts: usize,
    tags: usize,
    table: usize,
    scratch: usize,
    powers: usize,
    opens: bool,
}

/// Whether a chunk of whole messages takes GCM's kernel for short ones.
pub(crate) fn is_small(job: &Job<'_>, policy: &Policy) -> bool {
    job.info().mode == Mode::Gcm
        && (has_table(job) || job.text_bytes() / (job.count().max(1) as u64) < policy.gcm_long)
}

impl Sheet {
    /// Allocates space for a chunk. `multiprocessors` bounds what CBC decryption passes on.
    pub(crate) fn new(job: &Job<'_>, chunk: &Chunk, policy: &Policy, multiprocessors: u32) -> Self {
        let whole = matches!(chunk, Chunk::Whole(_));
        let long = matches!(chunk, Chunk::Long(_));
        let small = whole && is_small(job, policy);
        let table = !long && has_table(job);
        let sheet = Sheet::lay_out(job, chunk.parts(), whole, small, table, multiprocessors);
        Sheet {
            long: sheet.pieces.are_long(policy),
            ..sheet
        }
    }

    /// Allocates space for what GCM needs of one long message from its first part to its last. Its
    /// pieces are in the chunks' sheets.
    pub(crate) fn of_long_message(job: &Job<'_>, message: usize) -> (Self, Part) {
        let part = Part {
            message,
            before: 0,
            len: job.text_len(message),
            after: 0,
            place: 0,
            previous: Previous::Iv,
        };
        (Sheet::lay_out(job, &[part], true, false, false, 0), part)
    }

    /// `whole`: messages from start to end, whose tags are made or compared. `small`: for the
    /// kernels for short ones. `table`: with several keys.
    fn lay_out(
        job: &Job<'_>,
        parts: &[Part],
        whole: bool,
        small: bool,
        table: bool,
        multiprocessors: u32,
    ) -> Self {
        let mode = job.info().mode;
        let opens = job.direction() == Direction::Decrypt;
        let unit = Unit::of_mode(mode, job.direction(), small, table);
        let keys = match () {
            () if mode == Mode::Acorn => KeyPlace::Raw,
            () if table => KeyPlace::Table,
            // The tweaks' key is looked up in a table.
            () if small || mode == Mode::Xts => KeyPlace::OneInTable,
            () => KeyPlace::Parameter,
        };
        let (key_owners, key_numbers) = match keys {
            KeyPlace::Raw if !table => (vec![parts[0].message], Vec::new()),
            KeyPlace::Table | KeyPlace::Raw => number_keys(job, parts),
            _ => (Vec::new(), Vec::new()),
        };
        let message_count = match mode {
            Mode::Acorn => parts.len(),
            Mode::Gcm if whole => parts.len(),
            _ => 0,
        };
        let mut places = Places(0);
        let lens = parts.iter().map(|part| part.len);
        let pieces = Pieces::new(&mut places, (mode, unit, small), lens);
        let ivs = places.take(match mode {
            Mode::Ecb => 0,
            Mode::Gcm if !whole => 0,
            _ => parts
                .iter()
                .map(|part| padded(start_iv(job, part).bytes().len()))
                .sum(),
        });
        let aads = places.take(if message_count > 0 {
            AadPlaces::default().all(job, parts)
        } else {
            0
        });
        let raw_keys = places.take(match keys {
            KeyPlace::Parameter => 0,
            KeyPlace::OneInTable => TABLE_KEY,
            KeyPlace::Table | KeyPlace::Raw => key_owners.len() * job.info().key_len,
        });
        let lens = parts.iter().map(|part| {
            let (aad, iv) = (job.aad_len(part.message), start_iv(job, part).bytes().len());
            (part.len as u64, aad as u64, iv as u64)
        });
        let messages = Messages::new(&mut places, mode, message_count, lens);
        let tags = places.take(message_count * TAG);
        let verdicts = match mode {
            Mode::Acorn if opens => places.take(message_count * size_of::<Verdict>()),
            _ => messages.at,
        };
        let len = places.0;
        let table = match keys {
            KeyPlace::Table => places.take(key_owners.len() * TABLE_KEY),
            _ => raw_keys,
        };
        let scratch = places.take(pieces.scratch(job.direction(), multiprocessors));
        let powers = places.take(pieces.powers(&messages));
        Sheet {
            mode,
            small,
            long: false,
            keys,
            len,
            device_len: places.0,
            pieces,
            ivs,
            aads,
            raw_keys,
            key_owners,
            key_numbers,
            messages,
            verdicts,
            tags,
            table,
            scratch,
            powers,
            opens,
        }
    }

    /// Writes the sheet into `host`, for a copy at `device`. The chunk's text is at `text`, that of
    /// the preceding chunk at `previous`; `key` is the only key, if there is one.
    pub(crate) fn write(
        &self,
        job: &Job<'_>,
        parts: &[Part],
        key: Option<&OneKey>,
        host: &mut [u8],
        at: &Addresses,
    ) {
        let whole = self.messages.count > 0;
        let mut pieces = self.pieces.writer();
        let mut iv = self.ivs;
        let mut aads = AadPlaces::default();
        for (number, part) in parts.iter().enumerate() {
            let mut iv_at = 0;
            let start = start_iv(job, part);
            let bytes = start.bytes();
            if !bytes.is_empty() && (self.mode != Mode::Gcm || whole) {
                host[iv..][..bytes.len()].copy_from_slice(bytes);
                iv_at = at.sheet + iv as Address;
                iv += padded(bytes.len());
            } else if let Previous::Chained(place) = part.previous {
                iv_at = at.previous + place as Address;
            }
            let key_number = self.key_numbers.get(number).copied().unwrap_or(0);
            let text = at.text + part.place as Address;
            if whole {
                let message = job.message(part.message);
                let (aad, fresh) = aads.place(message.aad);
                let aad = self.aads + aad;
                if fresh {
                    host[aad..][..message.aad.len()].copy_from_slice(message.aad);
                }
                let tag = self.tags + number * TAG;
                if self.opens {
                    let len = job.tag_len();
                    // SAFETY: by the job's checks, a tag of this length can be read.
                    let given =
                        unsafe { std::slice::from_raw_parts(message.tag.cast_const(), len) };
                    host[tag..][..len].copy_from_slice(given);
                }
                let message = Message {
                    input: text,
                    output: text,
                    len: part.len as u64,
                    iv: (iv_at, bytes.len() as u64),
                    aad: (at.sheet + aad as Address, message.aad.len() as u64),
                    tag: at.sheet + tag as Address,
                    key: key_number,
                };
                self.messages.put(host, number, &message);
            }
            let piece = Piece {
                input: text,
                output: text,
                len: part.len as u64,
                before: part.before as u64,
                iv: iv_at,
                key: key_number,
                message: if whole { number as u32 } else { 0 },
                after: part.after as u64,
            };
            pieces.put(host, piece);
        }
        pieces.finish(host);
        self.write_keys(job, key, host);
    }

    fn write_keys(&self, job: &Job<'_>, key: Option<&OneKey>, host: &mut [u8]) {
        let room = &mut host[self.raw_keys..];
        match (self.keys, key) {
            (KeyPlace::Table | KeyPlace::Raw, _) => {
                let each = job.info().key_len;
                let places = room.chunks_exact_mut(each);
                for (place, &owner) in places.zip(&self.key_owners) {
                    place.copy_from_slice(job.key_bytes(owner));
                }
            }
            (KeyPlace::OneInTable, Some(key)) => key.write_table_key(&mut room[..TABLE_KEY]),
            (KeyPlace::OneInTable, None) => unreachable!("a table of one is for jobs with one key"),
            (KeyPlace::Parameter, _) => {}
        }
    }

    /// The addresses of what was written, for a copy at `sheet`.
    pub(crate) fn located(&self, sheet: Address) -> Located {
        let at = |offset: usize| sheet + offset as Address;
        Located {
            work: self.pieces.work(sheet),
            steals: self.pieces.steals,
            long: self.long,
            table: (self.keys != KeyPlace::Parameter).then(|| at(self.table)),
            raw_keys: (self.keys == KeyPlace::Table)
                .then(|| (at(self.raw_keys), self.key_owners.len() as u32)),
            messages: at(self.messages.at),
            message_count: self.messages.count as u64,
            verdicts: at(self.verdicts),
            small: self.small,
            plain: self.messages.plain,
            any_byte: false,
            scratch: at(self.scratch),
            powers: at(self.powers),
            split: None,
            verdicts_to: [0; 2],
        }
    }

    /// The offset and the bytes of the tags.
    pub(crate) fn tags(&self) -> (usize, usize) {
        (self.tags, self.messages.count * TAG)
    }

    /// Whether it must be wiped: it has keys, data derived from them, or tags to be compared.
    pub(crate) fn is_secret(&self) -> bool {
        self.device_len > 0 && (self.keys != KeyPlace::Parameter || self.messages.count > 0)
    }

    /// The offset and the bytes of the results: tags that were made, or messages with the verdicts
    /// on theirs.
    pub(crate) fn results(&self) -> (usize, usize) {
        match (self.messages.count, self.opens) {
            (0, _) => (0, 0),
            (count, true) => (self.verdicts, count * verdict(self.mode).1),
            (_, false) => self.tags(),
        }
    }
}

/// The addresses of a chunk on the device.
pub(crate) struct Addresses {
    pub(crate) sheet: Address,
    pub(crate) text: Address,
    /// The text of the preceding chunk.
    pub(crate) previous: Address,
}

/// The addresses of a written sheet's sections, as kernels take them.
#[derive(Clone, Copy)]
pub(crate) struct Located {
    pub(crate) work: Work,
    /// Whether XTS steals from any piece.
    pub(crate) steals: bool,
    /// Whether CTR's kernel for one long piece works.
    pub(crate) long: bool,
    pub(crate) table: Option<Address>,
    /// Raw keys to expand into the table, and how many.
    pub(crate) raw_keys: Option<(Address, u32)>,
    pub(crate) messages: Address,
    pub(crate) message_count: u64,
    /// ACORN's, when opening.
    pub(crate) verdicts: Address,
    /// Whether GCM's kernels for short messages work.
    pub(crate) small: bool,
    /// Whether GCM's messages are plain ([`Messages`]).
    pub(crate) plain: bool,
    /// Whether texts lie at any byte: of ACORN, or if some multiprocessors only hash. Those of chunks
    /// lie at multiples of 16.
    pub(crate) any_byte: bool,
    /// Scratch for the blocks that CBC decryption passes between pieces, or for the tweaks of XTS's
    /// pieces.
    pub(crate) scratch: Address,
    pub(crate) powers: Address,
    /// If some multiprocessors only hash.
    pub(crate) split: Option<Split>,
    /// Where the kernel that compares GCM's tags writes verdicts in addition, and where it counts them;
    /// 0: nowhere.
    pub(crate) verdicts_to: [Address; 2],
}

/// The additional parameters of GCM's kernels with multiprocessors that only hash.
#[derive(Clone, Copy)]
pub(crate) struct Split {
    /// The state that their blocks share.
    pub(crate) at: Address,
    /// The work in units of 32 rows.
    pub(crate) work: Work,
    /// The table of multiprocessors that may hash, and how many do.
    pub(crate) places: Address,
    pub(crate) hashers: u32,
}
