//! A plan's sheet: everything that kernels must know about a batch in GPU memory, laid out for one
//! upload.

use zeroize::Zeroizing;

use super::batch::{DeviceAad, DeviceIvs, DeviceKeys, DeviceTags, Region};
use super::check::Checked;
use super::counter;
use super::split::HashersAt;
use super::spread::SpreadPlaces;
use crate::cuda::launch::abi::{Address, Piece, TABLE_KEY, Verdict, split_bytes};
use crate::cuda::launch::keys::OneKey;
use crate::cuda::launch::pieces::{Cut, Message, Messages, Pieces, Places, Unit};
use crate::cuda::launch::policy::{self, Policy};
use crate::cuda::launch::sheet::{Located, Split};
use crate::{Cipher, Direction, Key, Keys, Mode, Span, Spans};

/// The offsets of a plan's data, in bytes from the sheet's start.
pub(super) struct PlanSheet {
    pub(super) mode: Mode,
    /// Single blocks with a key each: the kernel needs no pieces.
    pub(super) blocks: bool,
    pub(super) small: bool,
    /// Whether CTR's kernel for one long piece works.
    pub(super) long: bool,
    /// Bytes that the host writes.
    pub(super) len: usize,
    /// Bytes that the device needs.
    pub(super) device_len: usize,
    pub(super) pieces: Pieces,
    /// How texts are cut into pieces.
    pub(super) cut: Cut,
    /// Whether texts lie at any byte: of ACORN, or if some multiprocessors only hash.
    pub(super) any_byte: bool,
    /// IVs that the host writes: XTS's numbers of sectors, counted nonces.
    pub(super) own_ivs: usize,
    /// The offset of the counter value of the first nonce.
    pub(super) counted: usize,
    /// The offset of the raw keys and their number, if they come from the host and must be
    /// expanded.
    pub(super) raw_keys: Option<(usize, usize)>,
    /// The offset of the table of keys, and the number of keys.
    pub(super) table: Option<(usize, usize)>,
    pub(super) messages: Messages,
    /// The offset of the verdicts.
    pub(super) verdicts: usize,
    pub(super) scratch: usize,
    pub(super) powers: usize,
    /// If some multiprocessors only hash: the offset of their blocks' state, and the table of those
    /// that may.
    pub(super) split: Option<(usize, HashersAt)>,
    /// Set if the device makes the tables.
    pub(super) spread: Option<SpreadPlaces>,
}

/// The only key of a batch, if it must be expanded.
pub(super) fn one_key(batch: &Checked<'_>) -> Option<OneKey> {
    match batch.keys {
        _ if batch.info.mode == Mode::Acorn => None,
        DeviceKeys::Host(Keys::One(key)) => Some(OneKey::of(key)),
        _ => None,
    }
}

impl PlanSheet {
    /// `hashers`: for batches that [`may_split`](super::split::may_split).
    pub(super) fn new(
        batch: &Checked<'_>,
        policy: &Policy,
        multiprocessors: u32,
        hashers: Option<HashersAt>,
    ) -> Self {
        let mode = batch.info.mode;
        let count = batch.count();
        let one = matches!(batch.keys, DeviceKeys::Host(Keys::One(_)));
        let mean = batch.text_bytes / count.max(1) as u64;
        let small = mode == Mode::Gcm && (!one || mean < policy.gcm_long);
        let unit = Unit::of_mode(mode, batch.direction, small, !one);
        let blocks = are_blocks(batch);
        let message_count = if batch.info.algorithm.is_aead() {
            count
        } else {
            0
        };
        let key_count = match &batch.keys {
            DeviceKeys::Host(Keys::One(_)) => 1,
            DeviceKeys::Host(Keys::Indexed { keys, .. }) => keys.len(),
            DeviceKeys::Host(Keys::Each { .. }) | DeviceKeys::Each { .. } => count,
        };

        let mut places = Places(0);
        let texts = if blocks { 0 } else { count };
        let cut = cut(batch, policy);
        let lens = (0..texts).map(|index| batch.input_spans.get(index).len);
        let lens = lens.flat_map(|len| cut.pieces(len)).map(|(_, len)| len);
        let pieces = Pieces::new(&mut places, (mode, unit, small), lens);
        let own_ivs = places.take(batch.own_ivs_len());
        let lens = (0..count).map(|index| {
            let text = batch.input_spans.get(index).len as u64;
            (text, aad(batch, index).1, iv_len(batch, index))
        });
        let messages = Messages::new(&mut places, mode, message_count, lens);
        let acorn = mode == Mode::Acorn;
        let from_host = matches!(batch.keys, DeviceKeys::Host(_));
        let raw = (from_host && (!one || acorn))
            .then(|| (places.take(key_count * batch.info.key_len), key_count));
        // ACORN's kernels take raw bytes.
        let (raw_keys, mut table) = if acorn { (None, raw) } else { (raw, None) };
        // The tweaks' key is looked up in a table, as are those of short messages.
        if one && (small || mode == Mode::Xts) {
            table = Some((places.take(TABLE_KEY), 1));
        }
        let len = places.0;
        if !one && !blocks && !acorn {
            table = Some((places.take(key_count * TABLE_KEY), key_count));
        }
        let counted = places.take(batch.counted_len());
        let scratch = places.take(pieces.scratch(batch.direction, multiprocessors));
        let powers = places.take(pieces.powers(&messages));
        let split = hashers.map(|hashers| {
            let work = pieces.work(0).in_units(pieces.longest);
            (places.take(split_bytes(&work)), hashers)
        });
        let verdicts = match mode {
            Mode::Acorn => places.take(message_count * size_of::<Verdict>()),
            _ => messages.at,
        };
        PlanSheet {
            mode,
            blocks,
            small,
            long: pieces.are_long(policy),
            len,
            device_len: places.0,
            pieces,
            cut,
            any_byte: takes_any_byte(batch, hashers.is_some()),
            own_ivs,
            counted,
            raw_keys,
            table,
            messages,
            verdicts,
            scratch,
            powers,
            split,
            spread: None,
        }
    }

    /// The host's part of the sheet, for a copy at `sheet`.
    pub(super) fn write(
        &self,
        batch: &Checked<'_>,
        one: Option<&OneKey>,
        sheet: Address,
    ) -> Zeroizing<Vec<u8>> {
        let mut host = Zeroizing::new(vec![0; self.len]);
        self.write_places(batch, &mut host, sheet);
        self.write_keys(batch, one, &mut host);
        host
    }

    /// All but the keys.
    pub(super) fn write_places(&self, batch: &Checked<'_>, host: &mut [u8], sheet: Address) {
        if let Some(places) = &self.spread {
            return PlanSheet::write_spans(places, batch, host);
        }
        let mut pieces = self.pieces.writer();
        for number in 0..if self.blocks { 0 } else { batch.count() } {
            let (from, to) = (
                batch.input_spans.get(number),
                batch.output_spans.get(number),
            );
            let iv = self.iv(batch, number, sheet);
            let key = key_number(batch, number);
            let (input, output) = (
                batch.input.address() + from.offset as Address,
                batch.output.address() + to.offset as Address,
            );
            if self.messages.count > 0 {
                let message = Message {
                    input,
                    output,
                    len: from.len as u64,
                    iv,
                    aad: aad(batch, number),
                    tag: tag(batch, number, from, to),
                    key,
                };
                self.messages.put(host, number, &message);
            }
            self.write_own_iv(batch, number, host);
            for (before, len) in self.cut.pieces(from.len) {
                let piece = Piece {
                    input: input + before as Address,
                    output: output + before as Address,
                    len: len as u64,
                    before: before as u64,
                    iv: iv.0,
                    key,
                    message: number as u32,
                    after: (from.len - before - len) as u64,
                };
                pieces.put(host, piece);
            }
        }
        pieces.finish(host);
    }

    fn write_keys(&self, batch: &Checked<'_>, one: Option<&OneKey>, host: &mut [u8]) {
        let raw = match self.mode {
            Mode::Acorn => self.table,
            _ => self.raw_keys,
        };
        match (one, self.table, raw, &batch.keys) {
            (Some(key), Some((table, _)), ..) => {
                key.write_table_key(&mut host[table..][..TABLE_KEY]);
            }
            (_, _, Some((raw, _)), DeviceKeys::Host(keys)) => {
                let bytes: &[&[u8]] = &match *keys {
                    Keys::One(key) => vec![key.bytes()],
                    Keys::Each { bytes, .. } => vec![bytes],
                    Keys::Indexed { keys, .. } => keys.iter().map(Key::bytes).collect(),
                };
                let mut place = raw;
                for bytes in bytes {
                    host[place..][..bytes.len()].copy_from_slice(bytes);
                    place += bytes.len();
                }
            }
            _ => {}
        }
    }

    fn write_own_iv(&self, batch: &Checked<'_>, number: usize, host: &mut [u8]) {
        let len = batch.info.iv_len();
        let place = self.own_ivs + number * len..self.own_ivs + (number + 1) * len;
        match batch.ivs {
            DeviceIvs::Sectors { first } => {
                let sector = first.wrapping_add(number as u128).to_le_bytes();
                host[place].copy_from_slice(&sector);
            }
            DeviceIvs::Xor { base, first } => counter::xor(&mut host[place], base, first, number),
            DeviceIvs::Add32 { base, first } => {
                counter::add32(&mut host[place], base, first, number);
            }
            _ => {}
        }
    }

    pub(super) fn iv(&self, batch: &Checked<'_>, number: usize, sheet: Address) -> (Address, u64) {
        let len = iv_len(batch, number);
        match batch.ivs {
            DeviceIvs::None => (0, 0),
            DeviceIvs::Each(bytes) => (bytes.address() + number as u64 * len, len),
            DeviceIvs::Ragged { bytes, spans } => {
                (bytes.address() + spans.get(number).offset as u64, len)
            }
            DeviceIvs::Counter { nonces, .. } => (nonces.address() + number as u64 * len, len),
            DeviceIvs::Sectors { .. } | DeviceIvs::Xor { .. } | DeviceIvs::Add32 { .. } => {
                let place = self.own_ivs as u64 + number as u64 * len;
                (sheet + place, len)
            }
        }
    }

    /// The addresses of what was written, for a copy at `sheet`. Raw keys are included if they must
    /// be expanded: those of the host once, those in GPU memory before every launch.
    pub(super) fn located(&self, batch: &Checked<'_>, sheet: Address) -> Located {
        let at = |offset: usize| sheet + offset as Address;
        let mut raw_keys = match (self.raw_keys, &batch.keys) {
            (Some((raw, count)), _) => Some((at(raw), count as u32)),
            (None, DeviceKeys::Each { bytes, .. }) => Some((bytes.address(), batch.count() as u32)),
            (None, DeviceKeys::Host(_)) => None,
        };
        let mut table = self.table.map(|(table, _)| at(table));
        if self.mode == Mode::Acorn {
            table = table.or(raw_keys.take().map(|(raw, _)| raw));
        }
        Located {
            table,
            raw_keys,
            ..self.located_without_keys(batch.info.cipher, sheet)
        }
    }

    /// The same, but no keys.
    pub(super) fn located_without_keys(&self, cipher: Cipher, sheet: Address) -> Located {
        let at = |offset: usize| sheet + offset as Address;
        let work = self.pieces.work(sheet);
        Located {
            work,
            steals: self.pieces.steals,
            long: self.long,
            table: None,
            raw_keys: None,
            messages: at(self.messages.at),
            message_count: self.messages.count as u64,
            verdicts: at(self.verdicts),
            small: self.small,
            plain: self.messages.plain,
            any_byte: self.any_byte,
            scratch: at(self.scratch),
            powers: at(self.powers),
            split: self.split.map(|(place, hashers)| Split {
                at: at(place),
                work: work.in_units(self.pieces.longest),
                places: hashers.places,
                hashers: match self.any_byte {
                    true => policy::hashers(cipher, true).min(hashers.count),
                    // More than one GPC has would make two of them slow.
                    false => policy::hashers(cipher, false).min(hashers.largest_gpc),
                },
            }),
            verdicts_to: [0; 2],
        }
    }
}

/// How a batch's texts are cut.
pub(super) fn cut(batch: &Checked<'_>, policy: &Policy) -> Cut {
    let lens = (0..batch.count()).map(|index| batch.input_spans.get(index).len);
    Cut::of(batch.info.mode, batch.text_bytes, lens, policy)
}

/// ACORN's kernel for texts at any byte counts a text's tiles in 32 bits: batches of this many bytes and
/// more take the one for aligned texts, slowly.
pub(super) const TOO_LONG_FOR_ANY_BYTE: u64 = 1 << 37;

/// Whether a text or its result begins elsewhere than at a multiple of 16.
pub(super) fn is_at_any_byte(batch: &Checked<'_>) -> bool {
    let is_unaligned = |region: Region, spans: &Spans<'_>| {
        let first = region.address();
        let bits = match *spans {
            Spans::Even { count, stride, .. } if count > 1 => first | stride as Address,
            Spans::Even { .. } => first,
            // Of all together: quicker than asking each.
            Spans::Ragged(spans) => {
                (spans.iter()).fold(0, |bits, span| bits | (first + span.offset as Address))
            }
        };
        !bits.is_multiple_of(16)
    };
    batch.text_bytes > 0
        && (is_unaligned(batch.input, &batch.input_spans)
            || !batch.in_place && is_unaligned(batch.output, &batch.output_spans))
}

/// Whether a kernel for texts at any byte, of those which have one for aligned texts, too, does the
/// batch. `splits`: some multiprocessors only hash.
pub(super) fn takes_any_byte(batch: &Checked<'_>, splits: bool) -> bool {
    let acorn = batch.info.mode == Mode::Acorn && batch.text_bytes < TOO_LONG_FOR_ANY_BYTE;
    (acorn || splits) && is_at_any_byte(batch)
}

/// Whether messages are single blocks to encrypt without gaps, each with a key of its own.
pub(super) fn are_blocks(batch: &Checked<'_>) -> bool {
    let each = matches!(
        batch.keys,
        DeviceKeys::Each { .. } | DeviceKeys::Host(Keys::Each { .. })
    );
    let encrypts = batch.info.mode == Mode::Ecb && batch.direction == Direction::Encrypt;
    each && encrypts && batch.input_spans.are_blocks() && batch.output_spans.are_blocks()
}

fn key_number(batch: &Checked<'_>, number: usize) -> u32 {
    match &batch.keys {
        DeviceKeys::Host(Keys::One(_)) => 0,
        DeviceKeys::Host(Keys::Indexed { index, .. }) => index[number],
        DeviceKeys::Host(Keys::Each { .. }) | DeviceKeys::Each { .. } => number as u32,
    }
}

fn iv_len(batch: &Checked<'_>, number: usize) -> u64 {
    match batch.ivs {
        DeviceIvs::None => 0,
        DeviceIvs::Ragged { spans, .. } => spans.get(number).len as u64,
        _ => batch.info.iv_len() as u64,
    }
}

pub(super) fn aad(batch: &Checked<'_>, number: usize) -> (Address, u64) {
    match batch.aad {
        DeviceAad::None => (0, 0),
        DeviceAad::Shared(bytes) => (bytes.address(), bytes.len() as u64),
        DeviceAad::Each { bytes, spans } => {
            let span = spans.get(number);
            (bytes.address() + span.offset as u64, span.len as u64)
        }
    }
}

fn tag(batch: &Checked<'_>, number: usize, from: Span, to: Span) -> Address {
    match (batch.tags, batch.direction) {
        (DeviceTags::Apart(array), _) => array.address() + (number * batch.tag_len) as u64,
        (DeviceTags::Appended, Direction::Encrypt) => {
            batch.output.address() + (to.offset + to.len) as u64
        }
        (DeviceTags::Appended, Direction::Decrypt) => {
            batch.input.address() + (from.offset + from.len) as u64
        }
    }
}
