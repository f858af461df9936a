//! A known-answer test of the kernels that make the tables of calls.

use std::mem::offset_of;

use super::batch::{DeviceAad, DeviceBatch, DeviceIvs, DeviceText, Region};
use super::check::Checked;
use super::device::Device;
use super::sheet::PlanSheet;
use crate::cuda::driver::memory::DeviceBytes;
use crate::cuda::launch::abi::{AcornMessage, Address, Piece};
use crate::cuda::launch::link::Link;
use crate::cuda::launch::parts::message_size;
use crate::cuda::launch::policy::Policy;
use crate::cuda::launch::spread::THREADS;
use crate::{Algorithm, Error, Key, Span, Spans};

/// Whether the device makes the tables that the host would write, of messages at made-up places: of a
/// few hundred, and of a few with nonces from a counter.
pub(super) fn test(device: &Device) -> Result<(), Error> {
    const PLACES: Address = 1 << 40;
    // SAFETY: nothing is launched that reads or writes it.
    let region = |number: u64| unsafe { Region::new(PLACES * number, 1 << 39) };
    let span = |i: usize| Span {
        offset: i << 13,
        len: 1 + i * 37 % 8000,
    };
    let spans: Vec<Span> = (0..2 * THREADS + 1).map(span).collect();
    let ivs = DeviceIvs::Each(region(3).part(0, 16 * spans.len()));
    let spans = Spans::Ragged(&spans);
    let key = Key::new(Algorithm::Aes128Gcm, &[0; 16])?;
    let acorn = Key::new(Algorithm::Acorn128, &[0; 16])?;
    fn batch<'a>(key: &'a Key, text: [Region; 2], spans: Spans<'a>) -> DeviceBatch<'a> {
        let text = DeviceText::Apart {
            input: text[0],
            input_spans: spans,
            output: text[1],
            output_spans: spans,
        };
        DeviceBatch::encrypt(key, text)
    }
    let text = [region(1), region(2)];
    let aad = DeviceAad::Each {
        bytes: region(4),
        spans,
    };
    let many = batch(&key, text, spans).aad(aad).ivs(DeviceIvs::Ragged {
        bytes: region(3),
        spans,
    });
    let sorted = batch(&acorn, text, spans).aad(aad).ivs(ivs);
    let few = Spans::Even {
        count: 3,
        len: 5000,
        stride: 6000,
    };
    let first = 0x0102_0304_05FF_FFFE;
    let base = &[7; 12];
    let counted = batch(&key, text, few).ivs(DeviceIvs::Xor { base, first });
    let right = makes_tables(device, many, None)?
        && makes_tables(device, sorted, None)?
        && makes_tables(device, counted, Some(first))?;
    match right {
        true => Ok(()),
        false => Err(device.failed("its kernels make wrong tables")),
    }
}

/// `next`: what a counter has that the first number is taken from.
fn makes_tables(device: &Device, batch: DeviceBatch<'_>, next: Option<u64>) -> Result<bool, Error> {
    let batch = Checked::new(batch)?;
    let host = PlanSheet::new(&batch, &Policy::DEFAULT, 1, None);
    let sheet = PlanSheet::spread(&batch, &Policy::DEFAULT, 1, None);
    let (mut wanted, mut found) = (vec![0; host.len], vec![0; sheet.device_len]);
    sheet.write_places(&batch, &mut found[..sheet.len], 0);
    let at = device.call(|device| {
        let memory = device.link().device(sheet.device_len + size_of::<u64>())?;
        let (at, counter) = (memory.address(), memory.address() + found.len() as Address);
        let mut spread = sheet.spread_of(&batch, at).expect("the device makes them");
        let stream = device.own_stream();
        // SAFETY: the memory is this function's own, and lives until the copy has completed.
        unsafe {
            device.write(at, &found)?;
            if let Some(next) = next {
                device.write(counter, &next.to_le_bytes())?;
                (spread.next, spread.first) = (counter, [0; 2]);
            }
            for step in spread.steps() {
                device.link().launch(stream, &step)?;
            }
            stream.wait("testing the kernels of tables")?;
            device.read(&mut found, at)?;
        }
        Ok(at)
    })?;
    // Where counted nonces have the same addresses.
    let moved = at + sheet.own_ivs as Address - host.own_ivs as Address;
    host.write_places(&batch, &mut wanted, moved);
    let tables = |sheet: &PlanSheet| {
        let work = sheet.pieces.work(0);
        let starts = (sheet.pieces.count + 1) * size_of::<u64>();
        let has_starts = sheet.pieces.has_starts();
        [
            (
                work.pieces as usize,
                sheet.pieces.count * size_of::<Piece>(),
            ),
            (work.starts as usize, if has_starts { starts } else { 0 }),
            (sheet.messages.at, batch.count() * message_size(sheet.mode)),
            (sheet.own_ivs, batch.own_ivs_len()),
        ]
    };
    if sheet.classes(0).is_some() {
        sort_messages(&mut wanted[host.messages.at..], batch.count());
        if !sort_messages(&mut found[sheet.messages.at..], batch.count()) {
            return Ok(false);
        }
    }
    let mut pairs = tables(&sheet).into_iter().zip(tables(&host));
    Ok(pairs.all(|((made, len), (right, _))| found[made..][..len] == wanted[right..][..len]))
}

/// Puts the first `count` messages of ACORN into the order of their numbers. Returns whether longer ones
/// came first; lengths within a 128th count as the same.
fn sort_messages(table: &mut [u8], count: usize) -> bool {
    let (messages, _) = table.as_chunks_mut::<{ size_of::<AcornMessage>() }>();
    let messages = &mut messages[..count];
    let number = |message: &[u8], at: usize| {
        let bytes = message[at..][..size_of::<u64>()].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes"))
    };
    let lens = messages
        .iter()
        .map(|message| number(message, offset_of!(AcornMessage, len)));
    let fall = lens.is_sorted_by(|before, len| *len <= before + before / 128);
    // The key's number, which is 0, then the message's.
    messages.sort_unstable_by_key(|message| number(message, offset_of!(AcornMessage, key)));
    fall
}
