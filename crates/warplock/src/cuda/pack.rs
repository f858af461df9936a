//! What kernels must know about a chunk, packed for one copy to the device: pieces, IVs, associated
//! data, keys and tags.

use super::abi::{Address, GCM_POWERS, GcmMessage, Piece, TABLE_KEY, Verdict, Work};
use super::acorn;
use super::cut::{Chunk, Part, Previous, ROW, has_table};
use super::keys::{OneKey, raw_key};
use super::parts::{
    ALIGN, AadPlaces, iv_bytes, ivs, message_size, number_keys, padded, put, verdict, was_refused,
};
use super::policy::Policy;
use crate::job::Job;
use crate::{Direction, Mode};

/// Bytes of a tag on the device.
pub(crate) const TAG: usize = 16;

/// The most warps of a block, each of which CBC decryption hands a block on to the next.
pub(crate) const WARPS: usize = 32;

/// How many units of work a part is, and so which kernels take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// 16 bytes.
    Block,
    /// 16 bytes; what ciphertext stealing touches is left to a kernel of its own.
    XtsBlock,
    /// 32 blocks.
    Row,
    /// A whole part.
    Message,
}

impl Unit {
    /// What kernels of a mode count in; `small`: GCM's for short messages; `table`: keys of their
    /// own.
    pub(crate) fn of_mode(mode: Mode, direction: Direction, small: bool, table: bool) -> Self {
        match mode {
            Mode::Gcm if small => Unit::Message,
            // With a key each, CTR goes by blocks.
            Mode::Ctr if table => Unit::Block,
            Mode::Ctr | Mode::Gcm => Unit::Row,
            Mode::Cbc if direction == Direction::Encrypt => Unit::Message,
            Mode::Acorn => Unit::Message,
            Mode::Xts => Unit::XtsBlock,
            Mode::Ecb | Mode::Cbc => Unit::Block,
        }
    }

    /// How many units a part of `len` bytes is.
    pub(crate) fn of(self, len: usize) -> u64 {
        let units = match self {
            Unit::Message => 1,
            Unit::Row => len.div_ceil(ROW),
            Unit::Block => len.div_ceil(16),
            Unit::XtsBlock if steals(len) => len / 16 - 1,
            Unit::XtsBlock => len / 16,
        };
        units as u64
    }
}

/// Whether XTS must steal at the end of a part of this length.
pub(crate) fn steals(len: usize) -> bool {
    !len.is_multiple_of(16)
}

/// Whether a part of this length is a piece. GCM's messages without text have a tag, and so work
/// for the kernels that do all of a message in one thread; ACORN's kernels take no pieces.
pub(crate) fn is_piece(mode: Mode, len: usize, small: bool) -> bool {
    mode != Mode::Acorn && (len > 0 || small)
}

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

/// Where everything of a chunk lies, in bytes from the sheet's start.
#[derive(Debug)]
pub(crate) struct Sheet {
    mode: Mode,
    unit: Unit,
    small: bool,
    keys: KeyPlace,
    /// Bytes that the host writes and copies up.
    pub(crate) len: usize,
    /// Bytes that the device needs.
    pub(crate) device_len: usize,
    pieces: usize,
    piece_count: usize,
    starts: usize,
    each: u64,
    units: u64,
    /// Whether XTS must steal from any piece.
    steals: bool,
    ivs: usize,
    aads: usize,
    raw_keys: usize,
    /// For each raw key, a message that has it.
    key_owners: Vec<usize>,
    /// For each part, its key's place in the table; empty: all 0.
    key_numbers: Vec<u32>,
    messages: usize,
    pub(crate) message_count: usize,
    /// Where ACORN's messages stand in their array; empty: in their order.
    acorn_places: Vec<u32>,
    /// What says which messages were refused.
    verdicts: usize,
    tags: usize,
    table: usize,
    scratch: usize,
    powers: usize,
    tag_len: usize,
    opens: bool,
}

/// Whether a chunk of whole messages takes GCM's kernel for short ones, a thread for each.
pub(crate) fn is_small(job: &Job<'_>, policy: &Policy) -> bool {
    job.info().mode == Mode::Gcm
        && (has_table(job) || job.text_bytes() / (job.count().max(1) as u64) < policy.gcm_long)
}

/// Hands out places one behind the other.
pub(crate) struct Places(pub(crate) usize);

impl Places {
    pub(crate) fn take(&mut self, len: usize) -> usize {
        let at = self.0;
        self.0 = (at + len).next_multiple_of(ALIGN);
        at
    }
}

impl Sheet {
    /// Finds the places for a chunk. `multiprocessors` bounds what CBC decryption hands on.
    pub(crate) fn new(job: &Job<'_>, chunk: &Chunk, policy: &Policy, multiprocessors: u32) -> Self {
        let whole = matches!(chunk, Chunk::Whole(_));
        let long = matches!(chunk, Chunk::Long(_));
        let small = whole && is_small(job, policy);
        let table = !long && has_table(job);
        Sheet::lay_out(job, chunk.parts(), whole, small, table, multiprocessors)
    }

    /// Finds the places for what GCM must know of one long message from its first part to its
    /// last. Its pieces are in the chunks' sheets.
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

    /// `whole`: messages from start to end, whose tags are made or compared. `small`: a thread for
    /// each. `table`: keys of their own.
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
        let pieces = || parts.iter().filter(|part| is_piece(mode, part.len, small));
        let piece_count = pieces().count();
        let steals = unit == Unit::XtsBlock && parts.iter().any(|part| steals(part.len));
        let units = pieces().map(|part| unit.of(part.len)).sum();
        let each = pieces().next().map_or(0, |part| unit.of(part.len));
        let even = pieces().all(|part| unit.of(part.len) == each);

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
        let lens = parts.iter().map(|part| {
            let aad_len = job.aad_len(part.message);
            (part.len as u64, aad_len as u64)
        });
        let acorn_places = match mode {
            Mode::Acorn => acorn::places(lens),
            _ => Vec::new(),
        };

        let mut places = Places(0);
        let pieces = places.take(piece_count * size_of::<Piece>());
        let starts = places.take(if even { 0 } else { (piece_count + 1) * 8 });
        let ivs = places.take(match mode {
            Mode::Ecb => 0,
            Mode::Gcm if !whole => 0,
            _ => ivs(job, parts).map(|iv| padded(iv.len())).sum(),
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
        let messages = places.take(message_count * message_size(mode));
        let tags = places.take(message_count * TAG);
        let verdicts = match mode {
            Mode::Acorn if opens => places.take(message_count * size_of::<Verdict>()),
            _ => messages,
        };
        let len = places.0;
        let table = match keys {
            KeyPlace::Table => places.take(key_owners.len() * TABLE_KEY),
            _ => raw_keys,
        };
        let scratch = places.take(match mode {
            Mode::Cbc if opens => multiprocessors as usize * WARPS * 16,
            Mode::Xts => piece_count * 16,
            _ => 0,
        });
        let powers = places.take(if mode == Mode::Gcm && message_count > 0 && !small {
            GCM_POWERS
        } else {
            0
        });
        Sheet {
            mode,
            unit,
            small,
            keys,
            len,
            device_len: places.0,
            pieces,
            piece_count,
            starts: if even { usize::MAX } else { starts },
            each: if even { each } else { 0 },
            units,
            steals,
            ivs,
            aads,
            raw_keys,
            key_owners,
            key_numbers,
            messages,
            message_count,
            acorn_places,
            verdicts,
            tags,
            table,
            scratch,
            powers,
            tag_len: job.tag_len(),
            opens,
        }
    }

    /// Writes the sheet into `host`, for a copy at `device`. The chunk's text lies at `text`, that
    /// of the chunk before at `previous`; `key` is the one key where there is only one.
    pub(crate) fn write(
        &self,
        job: &Job<'_>,
        parts: &[Part],
        key: Option<&OneKey>,
        host: &mut [u8],
        at: &Addresses,
    ) {
        let whole = self.message_count > 0;
        let (mut piece, mut units) = (0, 0);
        let mut iv = self.ivs;
        let mut aads = AadPlaces::default();
        let starts = (self.starts != usize::MAX).then_some(self.starts);
        for (number, part) in parts.iter().enumerate() {
            let mut iv_at = 0;
            let bytes = iv_bytes(job, part);
            if !bytes.as_ref().is_empty() && (self.mode != Mode::Gcm || whole) {
                let bytes = bytes.as_ref();
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
                    // SAFETY: by the job's checks, a tag of this length can be read.
                    let given = unsafe {
                        std::slice::from_raw_parts(message.tag.cast_const(), self.tag_len)
                    };
                    host[tag..][..self.tag_len].copy_from_slice(given);
                }
                let lengths = (part.len as u64, message.aad.len() as u64);
                let (aad, tag) = (at.sheet + aad as Address, at.sheet + tag as Address);
                if self.mode == Mode::Acorn {
                    let place = self.acorn_places.get(number);
                    let place = place.map_or(number, |&place| place as usize);
                    let message = acorn::Message {
                        input: text,
                        output: text,
                        len: lengths.0,
                        aad,
                        aad_len: lengths.1,
                        iv: iv_at,
                        tag,
                        key: key_number,
                        number: number as u32,
                    };
                    put(
                        host,
                        self.messages + place * message_size(self.mode),
                        message,
                    );
                    continue;
                }
                let message = GcmMessage {
                    iv: iv_at,
                    aad,
                    tag,
                    iv_len: bytes.as_ref().len() as u64,
                    aad_len: lengths.1,
                    len: lengths.0,
                    key: key_number,
                    failed: 0,
                    padding: 0,
                    state: [[0; 16]; 3],
                };
                put(
                    host,
                    self.messages + number * message_size(self.mode),
                    message,
                );
            }
            if !is_piece(self.mode, part.len, self.small) {
                continue;
            }
            let this = Piece {
                input: text,
                output: text,
                len: part.len as u64,
                before: part.before as u64,
                iv: iv_at,
                key: key_number,
                message: if whole { number as u32 } else { 0 },
                after: part.after as u64,
            };
            put(host, self.pieces + piece * size_of::<Piece>(), this);
            if let Some(starts) = starts {
                put(host, starts + piece * 8, units);
            }
            units += self.unit.of(part.len);
            piece += 1;
        }
        if let Some(starts) = starts {
            put(host, starts + piece * 8, units);
        }
        debug_assert_eq!((piece, units), (self.piece_count, self.units));
        self.write_keys(job, key, host);
    }

    fn write_keys(&self, job: &Job<'_>, key: Option<&OneKey>, host: &mut [u8]) {
        let room = &mut host[self.raw_keys..];
        match (self.keys, key) {
            (KeyPlace::Table | KeyPlace::Raw, _) => {
                let each = job.info().key_len;
                let places = room.chunks_exact_mut(each);
                for (place, &owner) in places.zip(&self.key_owners) {
                    place.copy_from_slice(raw_key(job, owner));
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
            work: Work {
                pieces: at(self.pieces),
                starts: match self.starts {
                    usize::MAX => 0,
                    starts => at(starts),
                },
                each: self.each,
                units: self.units,
                count: self.piece_count as u64,
            },
            steals: self.steals,
            table: (self.keys != KeyPlace::Parameter).then(|| at(self.table)),
            raw_keys: (self.keys == KeyPlace::Table)
                .then(|| (at(self.raw_keys), self.key_owners.len() as u32)),
            messages: at(self.messages),
            message_count: self.message_count as u64,
            verdicts: at(self.verdicts),
            small: self.small,
            scratch: at(self.scratch),
            powers: at(self.powers),
        }
    }

    /// Where the tags are, and their bytes.
    pub(crate) fn tags(&self) -> (usize, usize) {
        (self.tags, self.message_count * TAG)
    }

    /// What must come back: tags that were made, or messages with the verdict on theirs.
    pub(crate) fn results(&self) -> (usize, usize) {
        match (self.message_count, self.opens) {
            (0, _) => (0, 0),
            (count, true) => (self.verdicts, count * verdict(self.mode).1),
            (_, false) => self.tags(),
        }
    }

    /// Whether the message at `index` of downloaded results was refused.
    pub(crate) fn refused(&self, results: &[u8], index: usize) -> bool {
        was_refused(self.mode, results, index)
    }
}

/// Where a chunk lies on the device.
pub(crate) struct Addresses {
    pub(crate) sheet: Address,
    pub(crate) text: Address,
    /// The text of the chunk before.
    pub(crate) previous: Address,
}

/// A written sheet's parts, as kernels are handed them.
#[derive(Clone, Copy)]
pub(crate) struct Located {
    pub(crate) work: Work,
    /// Whether XTS must steal from any piece.
    pub(crate) steals: bool,
    pub(crate) table: Option<Address>,
    /// Raw keys to expand into the table, and how many.
    pub(crate) raw_keys: Option<(Address, u32)>,
    pub(crate) messages: Address,
    pub(crate) message_count: u64,
    /// ACORN's, when opening.
    pub(crate) verdicts: Address,
    /// Whether GCM's kernels for short messages work.
    pub(crate) small: bool,
    /// Room for what CBC decryption hands on, or for the tweaks of XTS's pieces.
    pub(crate) scratch: Address,
    pub(crate) powers: Address,
}
