//! Sheets whose tables the device makes: of calls with even batches, with many messages, and with
//! places that only the device knows.

use super::batch::{DeviceAad, DeviceIvs, DeviceKeys, DeviceTags, Region};
use super::check::Checked;
use super::indirect::DevicePlaces;
use super::sheet::{PlanSheet, TOO_LONG_FOR_ANY_BYTE, are_blocks, cut, takes_any_byte};
use super::split::HashersAt;
use crate::cuda::launch::abi::{Address, Verdict, split_bytes};
use crate::cuda::launch::pieces::{Cut, Lens, Messages, Pieces, Places, Unit};
use crate::cuda::launch::policy::Policy;
use crate::cuda::launch::spread::{CLASSES, Column, OwnIv, Spread, THREADS, TagPlace, sums};
use crate::{AlgorithmInfo, Direction, Keys, Mode, Span, Spans};

/// What [`PlanSheet`] has in addition: offsets in the sheet.
pub(super) struct SpreadPlaces {
    count: usize,
    unit: Unit,
    /// Arrays of spans that the host writes, where the batch has such.
    input: usize,
    output: usize,
    iv: usize,
    aad: usize,
    /// The order of ACORN's messages and what it is made with, if they are sorted by length.
    order: Option<(usize, usize)>,
    sums: usize,
}

/// Whether the device makes a call's tables.
pub(super) fn spreads(batch: &Checked<'_>, policy: &Policy) -> bool {
    let one = matches!(batch.keys, DeviceKeys::Host(Keys::One(_)));
    let pays = batch.input_spans.is_even() && batch.output_spans.is_even();
    if !one || are_blocks(batch) {
        return false;
    }
    if !pays && batch.count() < policy.spread {
        return false;
    }
    // The device makes one piece of each message. Batches with messages to cut have few.
    if cut(batch, policy).is_any() {
        return false;
    }
    // A chain has at least a block.
    let chains = batch.info.mode == Mode::Cbc && batch.direction == Direction::Encrypt;
    !chains || (0..batch.count()).all(|number| batch.input_spans.get(number).len > 0)
}

/// What a sheet depends on, except for its addresses.
struct Shape {
    info: &'static AlgorithmInfo,
    direction: Direction,
    small: bool,
    unit: Unit,
    lens: Lens,
    plain: bool,
    /// Whether messages of ACORN may have different lengths.
    sorted: bool,
    /// As [`Checked::own_ivs_len`] and [`Checked::counted_len`].
    own_ivs: usize,
    counted: usize,
}

impl Shape {
    /// A shape without IVs from the engine; `lens` is called with its unit.
    fn new(
        info: &'static AlgorithmInfo,
        direction: Direction,
        mean: u64,
        policy: &Policy,
        lens: impl FnOnce(Unit) -> Lens,
    ) -> Self {
        let small = info.mode == Mode::Gcm && mean < policy.gcm_long;
        let unit = Unit::of_mode(info.mode, direction, small, false);
        Shape {
            info,
            direction,
            small,
            unit,
            lens: lens(unit),
            plain: false,
            sorted: info.mode == Mode::Acorn,
            own_ivs: 0,
            counted: 0,
        }
    }

    fn of(batch: &Checked<'_>, policy: &Policy) -> Self {
        let mean = batch.text_bytes / batch.count().max(1) as u64;
        let lens = |unit| Lens::of(unit, &batch.input_spans);
        let shape = Shape::new(batch.info, batch.direction, mean, policy, lens);
        Shape {
            plain: is_plain(batch, &shape.lens),
            sorted: is_sorted(batch),
            own_ivs: batch.own_ivs_len(),
            counted: batch.counted_len(),
            ..shape
        }
    }
}

impl PlanSheet {
    /// The sheet of a call that [`spreads`].
    pub(super) fn spread(
        batch: &Checked<'_>,
        policy: &Policy,
        multiprocessors: u32,
        hashers: Option<HashersAt>,
    ) -> Self {
        let shape = Shape::of(batch, policy);
        let mut places = Places(0);
        let mut array = |spans: &Spans<'_>| match spans {
            Spans::Even { .. } => 0,
            Spans::Ragged(spans) => places.take(size_of_val(*spans)),
        };
        let input = array(&batch.input_spans);
        let output = match batch.in_place {
            true => input,
            false => array(&batch.output_spans),
        };
        let iv = match &batch.ivs {
            DeviceIvs::Ragged { spans, .. } => array(spans),
            _ => 0,
        };
        let aad = match &batch.aad {
            DeviceAad::Each { spans, .. } => array(spans),
            _ => 0,
        };
        let given = SpreadPlaces {
            count: batch.count(),
            unit: shape.unit,
            input,
            output,
            iv,
            aad,
            order: None,
            sums: 0,
        };
        let mut sheet = PlanSheet::assemble(&shape, places, given, multiprocessors, hashers);
        sheet.long = sheet.pieces.are_long(policy);
        sheet.any_byte = takes_any_byte(batch, hashers.is_some());
        sheet
    }

    /// The sheet of a call whose places only the device knows.
    pub(super) fn indirect(
        info: &'static AlgorithmInfo,
        direction: Direction,
        batch: &DevicePlaces,
        policy: &Policy,
        multiprocessors: u32,
    ) -> Self {
        let mean = batch.total_len / batch.count.max(1) as u64;
        let lens = |unit| Lens::bound(unit, batch.count, batch.total_len);
        let shape = Shape::new(info, direction, mean, policy, lens);
        let none = SpreadPlaces {
            count: batch.count,
            unit: shape.unit,
            input: 0,
            output: 0,
            iv: 0,
            aad: 0,
            order: None,
            sums: 0,
        };
        let mut sheet = PlanSheet::assemble(&shape, Places(0), none, multiprocessors, None);
        // Wherever the texts lie, as far as that kernel counts.
        sheet.any_byte = info.mode == Mode::Acorn && batch.total_len < TOO_LONG_FOR_ANY_BYTE;
        sheet
    }

    fn assemble(
        shape: &Shape,
        mut places: Places,
        mut given: SpreadPlaces,
        multiprocessors: u32,
        hashers: Option<HashersAt>,
    ) -> Self {
        let mode = shape.info.mode;
        let count = shape.lens.count;
        let len = places.0;
        let pieces = Pieces::whole(&mut places, (mode, shape.unit, shape.small), &shape.lens);
        given.sums = places.take(if pieces.has_starts() { sums(count) } else { 0 });
        given.order = shape.sorted.then(|| {
            let order = places.take(count * size_of::<u32>());
            (order, places.take(CLASSES))
        });
        let own_ivs = places.take(shape.own_ivs);
        let messages = if shape.info.algorithm.is_aead() {
            count
        } else {
            0
        };
        let messages = Messages::whole(&mut places, mode, messages, shape.plain);
        let counted = places.take(shape.counted);
        let scratch = places.take(pieces.scratch(shape.direction, multiprocessors));
        let split = hashers.map(|hashers| {
            let work = pieces.work(0).in_units(pieces.longest);
            (places.take(split_bytes(&work)), hashers)
        });
        let verdicts = match mode {
            Mode::Acorn => places.take(count * size_of::<Verdict>()),
            _ => messages.at,
        };
        PlanSheet {
            mode,
            blocks: false,
            small: shape.small,
            long: false,
            cut: Cut::NONE,
            any_byte: false,
            len,
            device_len: places.0,
            pieces,
            own_ivs,
            counted,
            raw_keys: None,
            // The device key's own.
            table: (shape.small || mode == Mode::Xts).then_some((0, 1)),
            verdicts,
            messages,
            scratch,
            powers: 0,
            split,
            spread: Some(given),
        }
    }

    /// Writes the spans of a batch whose tables the device makes.
    pub(super) fn write_spans(places: &SpreadPlaces, batch: &Checked<'_>, host: &mut [u8]) {
        let mut write = |at: usize, spans: &Spans<'_>| {
            if let Spans::Ragged(spans) = spans {
                // SAFETY: spans are pairs of numbers without padding, and borrowed.
                let bytes = unsafe {
                    std::slice::from_raw_parts(spans.as_ptr().cast::<u8>(), size_of_val(*spans))
                };
                host[at..][..bytes.len()].copy_from_slice(bytes);
            }
        };
        write(places.input, &batch.input_spans);
        if !batch.in_place {
            write(places.output, &batch.output_spans);
        }
        if let DeviceIvs::Ragged { spans, .. } = &batch.ivs {
            write(places.iv, spans);
        }
        if let DeviceAad::Each { spans, .. } = &batch.aad {
            write(places.aad, spans);
        }
    }

    /// Where the lengths of ACORN's messages are counted, if they are, for a copy at `sheet`: zero it
    /// first.
    pub(super) fn classes(&self, sheet: Address) -> Option<Address> {
        let (_, classes) = self.spread.as_ref()?.order?;
        Some(sheet + classes as Address)
    }

    /// What the device makes the tables from, if it does, for a copy at `sheet`.
    pub(super) fn spread_of(&self, batch: &Checked<'_>, sheet: Address) -> Option<Spread> {
        let places = self.spread.as_ref()?;
        let column = |at: usize, region: Region, spans: &Spans<'_>| {
            let array = sheet + at as Address;
            match *spans {
                Spans::Even { len, stride, .. } => {
                    Column::even(region.address(), stride as u64, len as u64)
                }
                Spans::Ragged(_) => Column {
                    base: region.address(),
                    offsets: array,
                    lens: array + size_of::<usize>() as Address,
                    step: (size_of::<Span>() / size_of::<usize>()) as u64,
                    ..Column::default()
                },
            }
        };
        let iv_len = batch.info.iv_len() as u64;
        let in_row = |region: Region, len: u64| Column::even(region.address(), len, len);
        let mut spread = Spread {
            input: column(places.input, batch.input, &batch.input_spans),
            output: column(places.output, batch.output, &batch.output_spans),
            iv: match &batch.ivs {
                DeviceIvs::Each(nonces) | DeviceIvs::Counter { nonces, .. } => {
                    in_row(*nonces, iv_len)
                }
                DeviceIvs::Ragged { bytes, spans } => column(places.iv, *bytes, spans),
                _ => Column::default(),
            },
            aad: match &batch.aad {
                DeviceAad::None => Column::default(),
                DeviceAad::Shared(bytes) => Column::even(bytes.address(), 0, bytes.len() as u64),
                DeviceAad::Each { bytes, spans } => column(places.aad, *bytes, spans),
            },
            own_len: iv_len as u32,
            ..self.common(sheet)
        };
        (spread.tag, spread.tag_place) = match (batch.tags, batch.direction) {
            (DeviceTags::Apart(array), _) => {
                (in_row(array, batch.tag_len as u64), TagPlace::InColumn)
            }
            (DeviceTags::Appended, Direction::Encrypt) => {
                (Column::default(), TagPlace::AfterOutput)
            }
            (DeviceTags::Appended, Direction::Decrypt) => (Column::default(), TagPlace::AfterInput),
        };
        let mut from = |own: OwnIv, base: &[u8], first: u128| {
            spread.own = own;
            spread.base[..base.len()].copy_from_slice(base);
            spread.first = [first as u64, (first >> 64) as u64];
        };
        match batch.ivs {
            DeviceIvs::Sectors { first } => from(OwnIv::Sector, &[], first),
            DeviceIvs::Xor { base, first } => from(OwnIv::Xor, base, first.into()),
            DeviceIvs::Add32 { base, first } => from(OwnIv::Add32, base, first.into()),
            DeviceIvs::Counter { counter, nonces } if batch.count() <= THREADS => {
                from(OwnIv::Xor, counter.prefix(), 0);
                spread.next = counter.next();
                spread.own_ivs = nonces.address();
            }
            _ => {}
        }
        Some(spread)
    }

    /// The same for places that only the device knows.
    pub(super) fn spread_indirect(
        &self,
        info: &AlgorithmInfo,
        direction: Direction,
        batch: &DevicePlaces,
        sheet: Address,
    ) -> Spread {
        let column = |addresses: Region, lens: Option<Region>, len: usize| Column {
            offsets: addresses.address(),
            lens: lens.map_or(0, |lens| lens.address()),
            step: 1,
            len: len as u64,
            ..Column::default()
        };
        let outputs = batch.outputs.unwrap_or(batch.inputs);
        Spread {
            input: column(batch.inputs, Some(batch.lens), 0),
            output: column(outputs, Some(batch.lens), 0),
            iv: column(batch.nonces, None, info.iv_len()),
            aad: match batch.aad {
                Some((addresses, lens)) => column(addresses, Some(lens), 0),
                None => Column::default(),
            },
            tag: match batch.tags {
                Some(addresses) => column(addresses, None, 0),
                None => Column::default(),
            },
            tag_place: match (batch.tags, direction) {
                (Some(_), _) => TagPlace::InColumn,
                (None, Direction::Encrypt) => TagPlace::AfterOutput,
                (None, Direction::Decrypt) => TagPlace::AfterInput,
            },
            ..self.common(sheet)
        }
    }

    /// What does not depend on the batch's places.
    fn common(&self, sheet: Address) -> Spread {
        let places = self.spread.as_ref().expect("the device makes its tables");
        let at = |offset: usize| sheet + offset as Address;
        let work = self.pieces.work(sheet);
        let given = |used: bool, address: Address| if used { address } else { 0 };
        let messages = at(self.messages.at);
        let mut spread = Spread {
            count: places.count as u64,
            pieces: given(self.mode != Mode::Acorn, work.pieces),
            messages: given(self.mode == Mode::Gcm, messages),
            acorn: given(self.mode == Mode::Acorn, messages),
            order: places.order.map_or(0, |(order, _)| at(order)),
            classes: places.order.map_or(0, |(_, classes)| at(classes)),
            starts: work.starts,
            sums: at(places.sums),
            own_ivs: at(self.own_ivs),
            ..Spread::default()
        };
        spread.set_unit(places.unit);
        spread
    }
}

/// Whether messages may have different lengths and are sorted by them.
fn is_sorted(batch: &Checked<'_>) -> bool {
    let aad = matches!(&batch.aad, DeviceAad::Each { spans, .. } if !spans.is_even());
    batch.info.mode == Mode::Acorn && (aad || !batch.input_spans.is_even())
}

/// Whether all are GCM messages with text, a nonce of 96 bits and no associated data.
fn is_plain(batch: &Checked<'_>, lens: &Lens) -> bool {
    let nonces = match &batch.ivs {
        DeviceIvs::Ragged {
            spans: Spans::Even { len, .. },
            ..
        } => *len == 12,
        DeviceIvs::Ragged {
            spans: Spans::Ragged(spans),
            ..
        } => spans.iter().all(|span| span.len == 12),
        _ => true,
    };
    let no_aad = match batch.aad {
        DeviceAad::None => true,
        DeviceAad::Shared(bytes) => bytes.is_empty(),
        DeviceAad::Each { .. } => false,
    };
    batch.info.mode == Mode::Gcm && batch.count() > 0 && lens.shortest > 0 && no_aad && nonces
}
