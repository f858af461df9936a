//! The pieces of text in a sheet, with their units of work, and the messages of authenticated
//! algorithms (`kernels/abi.cuh`, `kernels/work.cuh`).

use super::abi::{Address, GCM_POWERS, GcmMessage, Piece, ROW, Work};
use super::acorn;
use super::parts::{ALIGN, message_size, put};
use super::policy::Policy;
use crate::{Direction, Mode, Spans};

/// The most warps of a block. In CBC decryption, each passes a block on to the next.
const WARPS: usize = 32;

/// Allocates offsets, one after the other.
pub(crate) struct Places(pub(crate) usize);

impl Places {
    pub(crate) fn take(&mut self, len: usize) -> usize {
        let at = self.0;
        self.0 = (at + len).next_multiple_of(ALIGN);
        at
    }
}

/// The unit in which a piece's work is counted, which depends on the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// 16 bytes.
    Block,
    /// 16 bytes, except those that ciphertext stealing touches, which have a kernel of their own.
    XtsBlock,
    /// 32 blocks.
    Row,
    /// A whole piece.
    Message,
}

impl Unit {
    /// The unit of a mode's kernels. `small`: GCM's for short messages; `table`: with several keys.
    pub(crate) fn of_mode(mode: Mode, direction: Direction, small: bool, table: bool) -> Self {
        match mode {
            Mode::Gcm if small => Unit::Message,
            // With several keys, CTR works by blocks.
            Mode::Ctr if table => Unit::Block,
            Mode::Ctr | Mode::Gcm => Unit::Row,
            Mode::Cbc if direction == Direction::Encrypt => Unit::Message,
            Mode::Acorn => Unit::Message,
            Mode::Xts => Unit::XtsBlock,
            Mode::Ecb | Mode::Cbc => Unit::Block,
        }
    }

    /// The number of units of a piece of `len` bytes.
    fn of(self, len: usize) -> u64 {
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

/// Whether XTS steals at the end of a piece of this length.
fn steals(len: usize) -> bool {
    !len.is_multiple_of(16)
}

/// Whether a text of this length is a piece. A GCM message without text has a tag, and so is work
/// for the kernels that do a whole message in one thread; ACORN's kernels take no pieces.
fn is_piece(mode: Mode, len: usize, small: bool) -> bool {
    mode != Mode::Acorn && (len > 0 || small)
}

/// How texts in GPU memory are cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Bytes of each piece but the last; none: texts are not cut.
    each: Option<usize>,
}

impl Cut {
    /// Texts stay whole.
    pub(crate) const NONE: Cut = Cut { each: None };

    /// For texts of these lengths with `total` bytes.
    pub(crate) fn of(
        mode: Mode,
        total: u64,
        mut lens: impl Iterator<Item = usize>,
        policy: &Policy,
    ) -> Self {
        let fair = usize::try_from(total.div_ceil(policy.xts_pieces)).unwrap_or(usize::MAX);
        let each = fair.max(policy.xts_piece).next_multiple_of(ROW);
        let cuts = mode == Mode::Xts && lens.any(|len| is_long(len, each));
        Cut {
            each: cuts.then_some(each),
        }
    }

    pub(crate) fn is_any(self) -> bool {
        self.each.is_some()
    }

    /// Where the pieces of a text of `len` bytes begin, and their lengths. The last has what is left
    /// over, so that the two blocks from which XTS steals are in one piece.
    pub(crate) fn pieces(self, len: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
        let each = self.each.unwrap_or(usize::MAX);
        let count = if is_long(len, each) { len / each } else { 1 };
        (0..count).map(move |number| {
            let before = number * each;
            let is_last = number + 1 == count;
            (before, if is_last { len - before } else { each })
        })
    }
}

/// Whether a text of `len` bytes is cut into pieces of `each` bytes.
fn is_long(len: usize, each: usize) -> bool {
    len / 4 > each
}

/// What a sheet must know of the lengths of texts that are all pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lens {
    pub(crate) count: usize,
    /// The units of each, if all have the same number.
    each: Option<u64>,
    units: u64,
    longest: usize,
    /// Bytes of the shortest; 0 if they are not known.
    pub(crate) shortest: usize,
    steals: bool,
}

impl Lens {
    const NONE: Lens = Lens {
        count: 0,
        each: Some(0),
        units: 0,
        longest: 0,
        shortest: 0,
        steals: false,
    };

    pub(crate) fn of(unit: Unit, spans: &Spans<'_>) -> Self {
        match spans {
            Spans::Even { count, len, .. } => Lens {
                count: *count,
                each: Some(unit.of(*len)),
                units: unit.of(*len) * *count as u64,
                longest: *len,
                shortest: *len,
                steals: unit == Unit::XtsBlock && steals(*len),
            },
            Spans::Ragged(spans) => Lens::of_each(unit, spans.iter().map(|span| span.len)),
        }
    }

    fn of_each(unit: Unit, lens: impl Iterator<Item = usize>) -> Self {
        let mut all = Lens {
            shortest: usize::MAX,
            ..Lens::NONE
        };
        for len in lens {
            let units = unit.of(len);
            all.each = match all.count {
                0 => Some(units),
                _ => all.each.filter(|&each| each == units),
            };
            all.count += 1;
            all.units += units;
            all.longest = all.longest.max(len);
            all.shortest = all.shortest.min(len);
            all.steals |= unit == Unit::XtsBlock && steals(len);
        }
        all
    }

    /// Of `count` texts with at most `total` bytes together, which only the device knows. Units are
    /// rows or messages.
    pub(crate) fn bound(unit: Unit, count: usize, total: u64) -> Self {
        let units = match unit {
            Unit::Message => count as u64,
            _ => (total / ROW as u64).saturating_add(count as u64),
        };
        Lens {
            count,
            each: (unit == Unit::Message).then_some(1),
            units,
            longest: 0,
            shortest: 0,
            steals: false,
        }
    }
}

/// The pieces of a sheet.
#[derive(Debug)]
pub(crate) struct Pieces {
    mode: Mode,
    unit: Unit,
    small: bool,
    at: usize,
    pub(crate) count: usize,
    /// The offset of the sums of units; none if all pieces have the same number.
    starts: Option<usize>,
    each: u64,
    units: u64,
    /// Bytes of the longest piece.
    pub(crate) longest: usize,
    /// Whether XTS steals from any piece.
    pub(crate) steals: bool,
}

impl Pieces {
    /// Allocates space for texts of these lengths. `small`: for GCM's kernels for short messages.
    pub(crate) fn new(
        places: &mut Places,
        (mode, unit, small): (Mode, Unit, bool),
        lens: impl Iterator<Item = usize>,
    ) -> Self {
        let lens = lens.filter(|&len| is_piece(mode, len, small));
        Pieces::whole(places, (mode, unit, small), &Lens::of_each(unit, lens))
    }

    /// Whether there are sums of units.
    pub(crate) fn has_starts(&self) -> bool {
        self.starts.is_some()
    }

    /// Whether they are for CTR's kernel for one long piece.
    pub(crate) fn are_long(&self, policy: &Policy) -> bool {
        self.mode == Mode::Ctr && self.count == 1 && self.units >= policy.ctr_long
    }

    /// Allocates space for texts that are all pieces; ACORN's kernels take none.
    pub(crate) fn whole(
        places: &mut Places,
        (mode, unit, small): (Mode, Unit, bool),
        lens: &Lens,
    ) -> Self {
        let lens = if mode == Mode::Acorn {
            &Lens::NONE
        } else {
            lens
        };
        let Lens { count, each, .. } = *lens;
        Pieces {
            mode,
            unit,
            small,
            at: places.take(count * size_of::<Piece>()),
            count,
            starts: (each.is_none()).then(|| places.take((count + 1) * 8)),
            each: each.unwrap_or(0),
            units: lens.units,
            longest: lens.longest,
            steals: lens.steals,
        }
    }

    /// Bytes that CBC decryption passes between warps on `multiprocessors`, or bytes for XTS's
    /// tweaks.
    pub(crate) fn scratch(&self, direction: Direction, multiprocessors: u32) -> usize {
        match (self.mode, direction) {
            (Mode::Cbc, Direction::Decrypt) => multiprocessors as usize * WARPS * 16,
            (Mode::Xts, _) => self.count * 16,
            _ => 0,
        }
    }

    /// Bytes for the powers of H that GCM's kernels for these messages need.
    pub(crate) fn powers(&self, messages: &Messages) -> usize {
        match self.mode {
            Mode::Gcm if messages.count > 0 && !self.small => GCM_POWERS,
            _ => 0,
        }
    }

    /// A writer, which must be given every text in order.
    pub(crate) fn writer(&self) -> PieceWriter<'_> {
        PieceWriter {
            pieces: self,
            number: 0,
            units: 0,
        }
    }

    /// The kernels' parameter, for a copy of the sheet at `sheet`.
    pub(crate) fn work(&self, sheet: Address) -> Work {
        let at = |offset: usize| sheet + offset as Address;
        Work {
            pieces: at(self.at),
            starts: self.starts.map_or(0, at),
            each: self.each,
            units: self.units,
            count: self.count as u64,
        }
    }
}

/// Writes pieces one after the other.
pub(crate) struct PieceWriter<'a> {
    pieces: &'a Pieces,
    number: usize,
    units: u64,
}

impl PieceWriter<'_> {
    /// The next text; written if it is a piece.
    pub(crate) fn put(&mut self, host: &mut [u8], piece: Piece) {
        let (all, len) = (self.pieces, piece.len as usize);
        if !is_piece(all.mode, len, all.small) {
            return;
        }
        put(host, all.at + self.number * size_of::<Piece>(), piece);
        self.put_start(host);
        self.units += all.unit.of(len);
        self.number += 1;
    }

    /// Must be called after the last text.
    pub(crate) fn finish(self, host: &mut [u8]) {
        self.put_start(host);
        let all = self.pieces;
        assert_eq!((self.number, self.units), (all.count, all.units));
    }

    fn put_start(&self, host: &mut [u8]) {
        if let Some(starts) = self.pieces.starts {
            put(host, starts + self.number * 8, self.units);
        }
    }
}

/// The messages of a sheet, for an authenticated algorithm.
#[derive(Debug)]
pub(crate) struct Messages {
    mode: Mode,
    pub(crate) at: usize,
    pub(crate) count: usize,
    /// Whether all are plain: GCM messages with text, an IV of 96 bits and no associated data. A
    /// plain message and its piece have the same number, and the kernels for long ones need no
    /// `gcm_prepare`.
    pub(crate) plain: bool,
    /// The places of ACORN's messages in their array; empty for GCM's, which are in order.
    acorn_places: Vec<u32>,
}

/// A message of either algorithm.
pub(crate) struct Message {
    pub(crate) input: Address,
    pub(crate) output: Address,
    pub(crate) len: u64,
    pub(crate) iv: (Address, u64),
    pub(crate) aad: (Address, u64),
    pub(crate) tag: Address,
    pub(crate) key: u32,
}

impl Messages {
    /// Allocates space; `lens` are the lengths of texts, associated data and IVs.
    pub(crate) fn new(
        places: &mut Places,
        mode: Mode,
        count: usize,
        mut lens: impl Iterator<Item = (u64, u64, u64)> + Clone,
    ) -> Self {
        let acorn_places = match mode {
            Mode::Acorn => acorn::places(lens.clone().map(|(text, aad, _)| (text, aad))),
            _ => Vec::new(),
        };
        let plain = lens.all(|(text, aad, iv)| text > 0 && aad == 0 && iv == 12);
        let plain = mode == Mode::Gcm && count > 0 && plain;
        Messages {
            acorn_places,
            ..Messages::whole(places, mode, count, plain)
        }
    }

    /// Allocates space for messages in order.
    pub(crate) fn whole(places: &mut Places, mode: Mode, count: usize, plain: bool) -> Self {
        Messages {
            mode,
            at: places.take(count * message_size(mode)),
            count,
            plain,
            acorn_places: Vec::new(),
        }
    }

    /// Writes the message with this number.
    pub(crate) fn put(&self, host: &mut [u8], number: usize, message: &Message) {
        let place = match self.acorn_places.get(number) {
            Some(&place) => place as usize,
            None => number,
        };
        let at = self.at + place * message_size(self.mode);
        let (iv, iv_len) = message.iv;
        let (aad, aad_len) = message.aad;
        if self.mode == Mode::Acorn {
            let message = acorn::Message {
                input: message.input,
                output: message.output,
                len: message.len,
                aad,
                aad_len,
                iv,
                tag: message.tag,
                key: message.key,
                number: number as u32,
            };
            put(host, at, message);
        } else {
            let message = GcmMessage {
                iv,
                aad,
                tag: message.tag,
                iv_len,
                aad_len,
                len: message.len,
                key: message.key,
                failed: 0,
                padding: 0,
                state: [[0; 16]; 3],
            };
            put(host, at, message);
        }
    }
}
