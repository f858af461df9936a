//! Known-answer tests of the kernels that plans take, by plans.

use super::batch::{DeviceAad, DeviceBatch, DeviceIvs, DeviceKeys, DeviceTags, DeviceText, Region};
use super::buffers::DeviceBuffer;
use super::check::Checked;
use super::device::Device;
use super::plan::Plan;
use super::sheet::{PlanSheet, one_key};
use crate::cuda::launch::policy::{FEW_CHAINS, Policy};
use crate::cuda::launch::selftest::{Case, Shape, Tested, side_by_side};
use crate::cuda::launch::sheet::Located;
use crate::cuda::launch::steps::{finishes, is_long};
use crate::job::{Job, Message};
use crate::{Algorithm, Direction, Error, Mode, Span, Spans};

/// Tests the kernels of a batch's plan, unless this process has tested them before.
pub(super) fn ensure_tested(
    device: &Device,
    batch: &Checked<'_>,
    layout: &PlanSheet,
) -> Result<(), Error> {
    Tested::on(device.gpu().number)
        .ensure_cases(cases(batch, layout), |case, job| run(device, case, job))
        .map_err(|reason| device.failed(reason))
}

/// Tests the kernels that calls with one key take, unless they were tested on this [`Device`] before.
/// That also loads them, so that the first call does not wait. `hashers`: also those in which some
/// multiprocessors only hash.
pub(super) fn ensure_key_tested(
    device: &Device,
    algorithm: Algorithm,
    hashers: bool,
) -> Result<(), Error> {
    device
        .tested()
        .ensure_cases(key_cases(algorithm, hashers), |case, job| {
            run(device, case, job)
        })
        .map_err(|reason| device.failed(reason))
}

/// The cases that cover every kernel that a call takes.
pub(super) fn key_cases(algorithm: Algorithm, hashers: bool) -> Vec<Case> {
    let shapes: &[Shape] = match algorithm.info().mode {
        Mode::Gcm => &[Shape::One, Shape::Small, Shape::Long, Shape::Plain],
        Mode::Ctr => &[Shape::One, Shape::Long, Shape::AnyByte],
        Mode::Cbc => &[Shape::One, Shape::Many],
        Mode::Acorn => &[Shape::One, Shape::AnyByte],
        Mode::Ecb | Mode::Xts => &[Shape::One],
    };
    let split: &[Shape] = if hashers { &Shape::SPLIT } else { &[] };
    let ways = [Direction::Encrypt, Direction::Decrypt];
    let cases = ways.into_iter().flat_map(|direction| {
        let shapes = shapes.iter().chain(split);
        // Only encryption has chains.
        let fits = move |&&shape: &&Shape| shape != Shape::Many || direction == Direction::Encrypt;
        shapes.filter(fits).map(move |&shape| Case {
            algorithm,
            direction,
            shape,
        })
    });
    cases.collect()
}

/// The cases that cover every kernel that the batch's plan takes.
pub(super) fn cases(batch: &Checked<'_>, layout: &PlanSheet) -> Vec<Case> {
    let shapes = match layout.blocks {
        true => vec![Shape::Blocks],
        false => shapes(batch, &layout.located(batch, 0)),
    };
    let case = |shape| Case {
        algorithm: batch.info.algorithm,
        direction: batch.direction,
        shape,
    };
    shapes.into_iter().map(case).collect()
}

fn shapes(batch: &Checked<'_>, located: &Located) -> Vec<Shape> {
    let chains = batch.info.mode == Mode::Cbc && batch.direction == Direction::Encrypt;
    let many = chains && located.work.count > FEW_CHAINS;
    let gcm = batch.info.mode == Mode::Gcm;
    if batch.info.mode == Mode::Acorn {
        return vec![match located.any_byte {
            true => Shape::AnyByte,
            false => Shape::One,
        }];
    }
    if let Some(split) = &located.split {
        let any_byte = located.any_byte;
        let mut shapes = match located.plain {
            true => vec![Shape::SplitPlain { any_byte }],
            false => vec![Shape::Split { any_byte }],
        };
        // Those make tags in another way, or leave them to another kernel.
        shapes.extend((split.work.each == 1).then_some(Shape::SplitUnits { any_byte }));
        shapes.extend((!finishes(located)).then_some(Shape::Plain));
        return shapes;
    }
    let one = one_key(batch);
    if located.long && one.is_some() {
        return vec![Shape::Long, Shape::AnyByte];
    }
    vec![match one {
        None if many => Shape::ManyTable,
        None => Shape::Table,
        Some(_) if many => Shape::Many,
        Some(_) if located.small => Shape::Small,
        Some(_) if gcm && is_long(&located.work) && located.plain => Shape::Plain,
        Some(_) if gcm && is_long(&located.work) => Shape::Long,
        Some(_) => Shape::One,
    }]
}

/// Runs a case's job with a plan.
pub(super) fn run(device: &Device, case: Case, job: &Job<'_>) -> Result<Vec<usize>, Error> {
    let messages: Vec<Message<'_>> = (0..job.count()).map(|index| job.message(index)).collect();
    let split = case.shape.splits();
    let acorn = case.algorithm.info().mode == Mode::Acorn;
    // Elsewhere at odd places, too.
    let aligned = (split || acorn) && !case.shape.is_at_any_byte();
    let lens = messages.iter().map(|message| message.len);
    let (mut spans, size) = side_by_side(lens, if aligned { 16 } else { 1 });
    // A text alone would be aligned.
    let skip = 3 * usize::from(case.shape == Shape::AnyByte && !acorn);
    spans.iter_mut().for_each(|span| span.offset += skip);
    let size = skip + size;
    // ACORN's warps whose results are as far into their lines as their texts take a way of their own.
    let ahead = |number: usize| 5 * usize::from(acorn && !aligned && number >= 32);
    let out_spans: Vec<Span> = (spans.iter().enumerate())
        .map(|(number, span)| Span {
            offset: span.offset + ahead(number),
            len: span.len,
        })
        .collect();
    let (iv_spans, _) = side_by_side(messages.iter().map(|message| message.iv.bytes().len()), 1);
    let mut text = vec![0; size];
    let mut tags = vec![0; 16 * messages.len()];
    let aead = job.info().algorithm.is_aead();
    for (number, message) in messages.iter().enumerate() {
        // SAFETY: a job's messages are as long as they say.
        let input = unsafe { std::slice::from_raw_parts(message.input, message.len) };
        text[spans[number].offset..][..message.len].copy_from_slice(input);
        if aead {
            // SAFETY: the cases' tags have 16 bytes.
            let tag = unsafe { std::slice::from_raw_parts(message.tag, 16) };
            tags[16 * number..][..16].copy_from_slice(tag);
        }
    }
    let ivs: Vec<u8> = messages
        .iter()
        .flat_map(|message| message.iv.bytes().to_vec())
        .collect();
    let uploaded = |bytes: &[u8]| -> Result<DeviceBuffer, Error> {
        let mut buffer = device.alloc(bytes.len())?;
        if !bytes.is_empty() {
            buffer.write(0, bytes)?;
        }
        Ok(buffer)
    };
    text.resize(size + 16, 0);
    let (input, output) = (uploaded(&text)?, uploaded(&vec![0xA5; size + 16])?);
    let (ivs, tags_there) = (uploaded(&ivs)?, uploaded(&tags)?);
    let aad = uploaded(messages[0].aad)?;
    let [from, to] = [&spans, &out_spans].map(|spans| match case.shape {
        Shape::Blocks => Spans::Even {
            count: spans.len(),
            len: 16,
            stride: 16,
        },
        _ => Spans::Ragged(spans),
    });
    let mut batch = DeviceBatch::new(
        case.direction,
        DeviceKeys::Host(*job.keys()),
        DeviceText::Apart {
            input: input.region(),
            input_spans: from,
            output: output.region(),
            output_spans: to,
        },
    );
    batch = batch.ivs(given_ivs(case, ivs.region(), &iv_spans));
    if aead {
        let aad = (!aad.region().is_empty()).then(|| DeviceAad::Shared(aad.region()));
        batch = batch.tags(DeviceTags::Apart(tags_there.region()));
        batch = batch.aad(aad.unwrap_or(DeviceAad::None));
    }
    let policy = Policy {
        ctr_long: match case.shape {
            Shape::Long | Shape::AnyByte => 0,
            _ => u64::MAX,
        },
        ..Policy::DEFAULT
    };
    let batch = Checked::new(batch)?;
    let plan = device.call(|device| {
        let hashers = if split { device.hashers()? } else { None };
        Plan::by_policy(device, &batch, &policy, hashers)
    })?;
    let stream = device.stream()?;
    // SAFETY: all of it lives until `failed` has waited, and nothing else has it.
    unsafe { plan.launch(&stream)? };
    let refused = plan.failed(&stream)?;
    output.read(0, &mut text)?;
    tags_there.read(0, &mut tags)?;
    for (number, message) in messages.iter().enumerate() {
        let result = &text[out_spans[number].offset..][..message.len];
        // SAFETY: as above; nothing else uses what the case's job borrows.
        unsafe {
            message
                .output
                .copy_from_nonoverlapping(result.as_ptr(), result.len())
        };
        if aead && case.direction == Direction::Encrypt {
            // SAFETY: as above.
            unsafe {
                message
                    .tag
                    .copy_from_nonoverlapping(tags[16 * number..].as_ptr(), 16)
            };
        }
    }
    Ok(refused)
}

fn given_ivs(case: Case, bytes: Region, spans: &[Span]) -> DeviceIvs<'_> {
    match case.algorithm.info().mode {
        Mode::Ecb => DeviceIvs::None,
        Mode::Gcm => DeviceIvs::Ragged {
            bytes,
            spans: Spans::Ragged(spans),
        },
        _ => DeviceIvs::Each(bytes),
    }
}
