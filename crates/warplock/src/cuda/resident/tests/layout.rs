//! The sheets of batches.

use std::mem::offset_of;

use super::super::check::Checked;
use super::super::sheet::{PlanSheet, one_key};
use super::super::{DeviceAad, DeviceBatch, DeviceIvs, DeviceKeys, DeviceTags, DeviceText};
use super::{apart, even, region};
use crate::cuda::launch::abi::{AcornMessage, GcmMessage, Piece};
use crate::cuda::launch::policy::Policy;
use crate::{Algorithm, Key, Keys, Span, Spans};

const SHEET: u64 = 0x70_0000;

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn sheet(batch: DeviceBatch<'_>) -> (PlanSheet, Vec<u8>, Checked<'_>) {
    let batch = Checked::new(batch).unwrap();
    let sheet = PlanSheet::new(&batch, &Policy::DEFAULT, 132, None);
    let host = sheet
        .write(&batch, one_key(&batch).as_ref(), SHEET)
        .to_vec();
    assert_eq!(host.len(), sheet.len);
    (sheet, host, batch)
}

#[test]
fn pieces_name_the_callers_places_and_empty_messages_are_left_out() {
    let key = Key::new(Algorithm::Aes128Ctr, &[1; 16]).unwrap();
    let spans = [(700, 600), (5, 0), (16, 33)];
    let spans = spans.map(|(offset, len)| Span { offset, len });
    let text = DeviceText::InPlace {
        buffer: region(0x1000, 1300),
        spans: Spans::Ragged(&spans),
    };
    let ivs = DeviceIvs::Each(region(0x100, 48));
    let (sheet, host, batch) = sheet(DeviceBatch::encrypt(&key, text).ivs(ivs));
    let located = sheet.located(&batch, SHEET);
    // Rows of 512 bytes.
    assert_eq!((located.work.count, located.work.units), (2, 3));
    assert_eq!(located.work.each, 0);
    let piece = |index: usize, field: usize| {
        let pieces = (located.work.pieces - SHEET) as usize;
        number(&host, pieces + index * size_of::<Piece>() + field)
    };
    for (index, message) in [0, 2].into_iter().enumerate() {
        let place = 0x1000 + spans[message].offset as u64;
        assert_eq!(piece(index, offset_of!(Piece, input)), place);
        assert_eq!(piece(index, offset_of!(Piece, output)), place);
        assert_eq!(
            piece(index, offset_of!(Piece, len)),
            spans[message].len as u64
        );
        assert_eq!(
            piece(index, offset_of!(Piece, iv)),
            0x100 + 16 * message as u64
        );
    }
    let starts = (located.work.starts - SHEET) as usize;
    let starts: Vec<u64> = (0..3).map(|i| number(&host, starts + 8 * i)).collect();
    assert_eq!(starts, [0, 2, 3]);
}

#[test]
fn plain_messages_are_found() {
    let key = Key::new(Algorithm::Aes128Gcm, &[1; 16]).unwrap();
    let plain = |lens: [usize; 2], iv_len: usize, aad_len: usize| {
        let spans = [(0, lens[0]), (20_000, lens[1])].map(|(offset, len)| Span { offset, len });
        let text = DeviceText::InPlace {
            buffer: region(0x1_0000, 40_000),
            spans: Spans::Ragged(&spans),
        };
        let mut batch = DeviceBatch::encrypt(&key, text)
            .ivs(DeviceIvs::Ragged {
                bytes: region(0x100, 2 * iv_len),
                spans: even(2, iv_len),
            })
            .tags(DeviceTags::Apart(region(0x200, 32)));
        if aad_len > 0 {
            batch = batch.aad(DeviceAad::Shared(region(0x300, aad_len)));
        }
        let (sheet, _, batch) = sheet(batch);
        sheet.located(&batch, SHEET).plain
    };
    assert!(plain([9000, 1], 12, 0));
    assert!(!plain([9000, 0], 12, 0));
    assert!(!plain([9000, 1], 16, 0));
    assert!(!plain([9000, 1], 12, 1));
}

#[test]
fn tags_are_after_the_ciphertext_or_apart() {
    let key = Key::new(Algorithm::Aes256Gcm, &[1; 32]).unwrap();
    let text = DeviceText::InPlace {
        buffer: region(0x1000, 300),
        spans: Spans::Even {
            count: 2,
            len: 100,
            stride: 150,
        },
    };
    let ivs = DeviceIvs::Each(region(0x100, 24));
    let batch = DeviceBatch::encrypt(&key, text).ivs(ivs);
    let apart = DeviceTags::Apart(region(0x2000, 24));
    let places = [
        (batch, [0x1000 + 100, 0x1000 + 250]),
        (batch.tag_len(12).tags(apart), [0x2000, 0x2000 + 12]),
    ];
    for (batch, expected) in places {
        let (sheet, host, _) = sheet(batch);
        let tag = |index: usize| {
            let message = sheet.verdicts + index * size_of::<GcmMessage>();
            number(&host, message + offset_of!(GcmMessage, tag))
        };
        assert_eq!([tag(0), tag(1)], expected);
    }
}

#[test]
fn sectors_count_up_and_keys_are_in_a_table() {
    let key = Key::new(Algorithm::Aes128Xts, &[[1; 16], [2; 16]].concat()).unwrap();
    let ivs = DeviceIvs::Sectors { first: 255 };
    let (sheet, host, batch) = sheet(DeviceBatch::encrypt(&key, apart(3, 512)).ivs(ivs));
    let located = sheet.located(&batch, SHEET);
    assert!(located.table.is_some() && located.raw_keys.is_none());
    let pieces = (located.work.pieces - SHEET) as usize;
    for index in 0..3 {
        let iv = number(
            &host,
            pieces + index * size_of::<Piece>() + offset_of!(Piece, iv),
        );
        assert_eq!(number(&host, (iv - SHEET) as usize), 255 + index as u64);
    }
}

#[test]
fn long_messages_of_xts_are_cut_into_pieces() {
    let key = Key::new(Algorithm::Aes128Xts, &[[1; 16], [2; 16]].concat()).unwrap();
    let each = Policy::DEFAULT.xts_piece;
    // The last has the blocks from which is stolen, and what is left over.
    let lens = [4 * each, 5 * each + 17, 100];
    let wanted = [
        vec![4 * each],
        vec![each, each, each, each, each + 17],
        vec![100],
    ];
    let spans: Vec<Span> = (lens.iter().zip([0, 5 * each, 11 * each]))
        .map(|(&len, offset)| Span { offset, len })
        .collect();
    let text = DeviceText::InPlace {
        buffer: region(0x100_0000, 12 * each),
        spans: Spans::Ragged(&spans),
    };
    let (sheet, host, batch) =
        sheet(DeviceBatch::encrypt(&key, text).ivs(DeviceIvs::Sectors { first: 1 }));
    let located = sheet.located(&batch, SHEET);
    assert_eq!(located.work.count, 7);
    let pieces = (located.work.pieces - SHEET) as usize;
    let (mut index, mut units) = (0, 0);
    for (span, wanted) in spans.iter().zip(wanted) {
        let mut before = 0;
        for len in wanted {
            let at = pieces + index * size_of::<Piece>();
            let field = |field: usize| number(&host, at + field);
            let place = 0x100_0000 + (span.offset + before) as u64;
            assert_eq!(field(offset_of!(Piece, input)), place);
            assert_eq!(field(offset_of!(Piece, output)), place);
            assert_eq!(field(offset_of!(Piece, len)), len as u64);
            assert_eq!(field(offset_of!(Piece, before)), before as u64);
            let starts = (located.work.starts - SHEET) as usize;
            assert_eq!(number(&host, starts + 8 * index), units);
            (before, index) = (before + len, index + 1);
            units += (len / 16 - usize::from(len % 16 > 0)) as u64;
        }
        assert_eq!(before, span.len);
    }
    assert_eq!(units, located.work.units);
}

#[test]
fn acorn_at_any_byte_has_a_kernel_of_its_own() {
    let key = Key::new(Algorithm::Acorn128, &[1; 16]).unwrap();
    let any_byte = |input: u64, output: u64, len: usize| {
        let text = DeviceText::Apart {
            input: region(input, 2 * len),
            input_spans: even(2, len),
            output: region(output, 2 * len),
            output_spans: even(2, len),
        };
        let batch = DeviceBatch::encrypt(&key, text)
            .ivs(DeviceIvs::Each(region(0x101, 32)))
            .tags(DeviceTags::Apart(region(0x207, 32)));
        let (sheet, _, batch) = sheet(batch);
        sheet.located(&batch, SHEET).any_byte
    };
    assert!(!any_byte(0x1000, 0x2000, 32));
    assert!(any_byte(0x1001, 0x2000, 32));
    assert!(any_byte(0x1000, 0x2008, 32));
    assert!(any_byte(0x1000, 0x2000, 24));
    assert!(!any_byte(0x1001, 0x2001, 0));
}

#[test]
fn single_blocks_with_device_keys_need_no_sheet() {
    let keys = DeviceKeys::Each {
        algorithm: Algorithm::Aes128Ecb,
        bytes: region(0x9000_0000, 16 << 20),
    };
    let (sheet, _, batch) = sheet(DeviceBatch::encrypt(keys, apart(1 << 20, 16)));
    assert!(sheet.blocks && sheet.device_len == 0);
    let located = sheet.located(&batch, SHEET);
    assert_eq!(located.raw_keys, Some((0x9000_0000, 1 << 20)));
}

#[test]
fn host_keys_are_numbered_by_the_table() {
    let keys = [1, 2].map(|byte| Key::new(Algorithm::Aes128Ecb, &[byte; 16]).unwrap());
    let keys = Keys::Indexed {
        keys: &keys,
        index: &[1, 0, 1],
    };
    let text = DeviceText::InPlace {
        buffer: region(0x1000, 96),
        spans: even(3, 32),
    };
    let (sheet, host, batch) = sheet(DeviceBatch::decrypt(keys, text));
    let (raw, count) = sheet.raw_keys.unwrap();
    assert_eq!(count, 2);
    assert_eq!(host[raw..raw + 32], [[1; 16], [2; 16]].concat());
    let pieces = (sheet.located(&batch, SHEET).work.pieces - SHEET) as usize;
    let key = |index: usize| host[pieces + index * size_of::<Piece>() + offset_of!(Piece, key)];
    assert_eq!([key(0), key(1), key(2)], [1, 0, 1]);
}

#[test]
fn acorn_takes_raw_keys_and_the_longest_messages_first() {
    let keys = [1, 2].map(|byte| Key::new(Algorithm::Acorn128, &[byte; 16]).unwrap());
    let keys = Keys::Indexed {
        keys: &keys,
        index: &[1, 0, 1],
    };
    let spans = [(0, 5), (16, 300), (400, 0)].map(|(offset, len)| Span { offset, len });
    let text = DeviceText::InPlace {
        buffer: region(0x1000, 500),
        spans: Spans::Ragged(&spans),
    };
    let batch = DeviceBatch::decrypt(keys, text)
        .ivs(DeviceIvs::Each(region(0x100, 48)))
        .tags(DeviceTags::Apart(region(0x2000, 48)));
    let (sheet, host, batch) = sheet(batch);
    assert!(sheet.raw_keys.is_none());
    let located = sheet.located(&batch, SHEET);
    assert!(located.raw_keys.is_none() && located.message_count == 3);
    let table = (located.table.unwrap() - SHEET) as usize;
    assert_eq!(host[table..table + 32], [[1; 16], [2; 16]].concat());
    assert_eq!(located.verdicts, SHEET + sheet.verdicts as u64);
    let messages = (located.messages - SHEET) as usize;
    for (place, message) in [1, 0, 2].into_iter().enumerate() {
        let at = messages + place * size_of::<AcornMessage>();
        let field = |offset: usize| number(&host, at + offset);
        let Span { offset, len } = spans[message];
        assert_eq!(
            field(offset_of!(AcornMessage, output)),
            0x1000 + offset as u64
        );
        assert_eq!(field(offset_of!(AcornMessage, len)), len as u64);
        assert_eq!(
            field(offset_of!(AcornMessage, tag)),
            0x2000 + 16 * message as u64
        );
        let key = [1, 0, 1][message] | (message as u64) << 32;
        assert_eq!(field(offset_of!(AcornMessage, key)), key);
    }
}
