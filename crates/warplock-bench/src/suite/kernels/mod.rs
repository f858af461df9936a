//! `kernels`: every algorithm on data in GPU memory, next to a copy inside that memory.

mod case;
mod run;
mod verify;

use warplock::cuda::DeviceBuffer;

use self::case::cases;
use self::run::Buffers;
use super::Suite;
use crate::error::Result;
use crate::gpu::{Gpu, LAUNCHES};
use crate::report::{Column, Report, Unit, Value};
use crate::table::grouped;
use crate::{Context, Error, Machine, Sample};

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// Bytes of text that the kernels work on, and that are copied for comparison.
    pub sizes: Vec<u64>,
}

impl Default for Kernels {
    /// 1 GiB and 4 GiB.
    fn default() -> Self {
        Kernels {
            sizes: vec![1 << 30, 4 << 30],
        }
    }
}

/// The smallest size at which all cases have a message.
const SMALLEST: u64 = 4 << 20;

impl Suite for Kernels {
    fn name(&self) -> &'static str {
        "kernels"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        let gpu = Gpu::open(context)?;
        let machine = Machine::here(context)?;
        let mut notes = vec![
            gpu.line(),
            format!(
                "Everything lies in GPU memory; times are the device's own, between two events, \
                 medians of {LAUNCHES} launches after a warm-up. Share: the rate, divided by that \
                 of a device-to-device copy (cuMemcpyDtoD) of as many bytes as the first column \
                 says, in the same run; both count each byte once."
            ),
            "Verified against the CPU: first, last and middle MiB of every result; for GCM \
             and ACORN the tags of those messages, for GCM those of a message of 1 MiB where there \
             is only one."
                .to_owned(),
            "Share of CTR, of GCM with one key: the time of CTR on as much text with a key as long, \
             launched in turn with it, over its own."
                .to_owned(),
            "A key each: expanding the keys is part of the time.".to_owned(),
            "Share of the limit, of ACORN-128: its 28 instructions for 32 steps on all \
             multiprocessors at their highest clock, or the copy, whichever takes longer, over the \
             time."
                .to_owned(),
        ];
        let mut report = Report {
            suite: self.name().to_owned(),
            title: format!("kernels: data in the memory of {}", gpu.device.gpu().name),
            notes: Vec::new(),
            columns: columns(),
            rows: Vec::new(),
            machine,
            stopped: false,
        };
        for &size in &self.sizes {
            let Some(size) = fitting(&gpu, size, &mut notes)? else {
                continue;
            };
            report.notes.clone_from(&notes);
            (context.notify)(&format!("{} bytes: copy", grouped(size as u64)));
            let mut buffers = Buffers::new(&gpu, size)?;
            let copy = time_copy(&gpu, &buffers.input, &buffers.output)?;
            let copy_rate = size as f64 / copy.median;
            let is_first = report.rows.is_empty();
            report.rows.push(row(
                size,
                COPY,
                (1, size),
                copy,
                copy_rate,
                (None, None),
                None,
            ));
            (context.progress)(&report);
            for case in &cases(size) {
                if !is_first && !case.every_size {
                    continue;
                }
                (context.notify)(&format!("{} bytes: {}", grouped(size as u64), case.name()));
                let times = run::run(&gpu, context, &mut buffers, case)?;
                let sample = times.own;
                let blocks = case.key_each_block().then_some(case.count);
                let (name, messages) = (case.name(), (case.count, case.len));
                let Gpu { device, .. } = &gpu;
                let device = device.gpu();
                let least = case.least_seconds(device.multiprocessors, device.hertz as f64);
                // The copy also moves each byte twice.
                let copied = case.bytes() as f64 / copy_rate;
                let limit = least.map(|least| least.max(copied) / sample.median);
                let alone = times.cipher_alone;
                let of_cipher = alone.map(|alone| alone.median / sample.median);
                let shares = (limit, of_cipher);
                report.rows.push(row(
                    size, &name, messages, sample, copy_rate, shares, blocks,
                ));
                (context.progress)(&report);
            }
        }
        if report.rows.is_empty() {
            return Err(Error::Input(notes.pop().unwrap_or_default()));
        }
        report.notes = notes;
        Ok(report)
    }
}

/// The row that all others are compared with.
pub(crate) const COPY: &str = "copy inside GPU memory";

/// The size, if the GPU has room for it; otherwise reports that it is left out.
fn fitting(gpu: &Gpu, size: u64, notes: &mut Vec<String>) -> Result<Option<usize>> {
    let room = gpu.device.free_memory()?;
    // Three buffers, keys of 32 bytes for each block, and the tables of plans with many messages.
    let needed = size
        .saturating_mul(5)
        .saturating_add(size / 8)
        .saturating_add(256 << 20);
    if size < SMALLEST || !size.is_multiple_of(SMALLEST) {
        return Err(Error::Input(format!(
            "{size} bytes are no size for this suite: take a multiple of 4MiB"
        )));
    }
    if needed > room {
        notes.push(format!(
            "{} bytes are left out: they need {} bytes of GPU memory, and {} are free",
            grouped(size),
            grouped(needed),
            grouped(room)
        ));
        return Ok(None);
    }
    Ok(usize::try_from(size).ok())
}

fn time_copy(gpu: &Gpu, from: &DeviceBuffer, to: &DeviceBuffer) -> Result<Sample> {
    // SAFETY: both live until `time` has waited, and nothing else uses them.
    let copy = || gpu.time(|stream| Ok(unsafe { to.copy_from(from, stream) }?));
    // Clock rates rise in the first.
    copy()?;
    copy()
}

fn row(
    size: usize,
    name: &str,
    (count, len): (usize, usize),
    sample: Sample,
    copy_rate: f64,
    (limit, of_cipher): (Option<f64>, Option<f64>),
    blocks: Option<usize>,
) -> Vec<Value> {
    let bytes = (count * len) as f64;
    let rate = sample.map(|seconds| bytes / seconds);
    vec![
        Value::Number(size as f64),
        name.into(),
        Value::Number(count as f64),
        Value::Number(len as f64),
        rate.into(),
        Value::Number(rate.median / copy_rate),
        limit.into(),
        of_cipher.into(),
        sample.into(),
        blocks
            .map(|blocks| sample.map(|seconds| blocks as f64 / seconds))
            .into(),
    ]
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("bytes", "bytes", Unit::Bytes).name(),
        Column::new("kernel", "kernel", Unit::Text).name(),
        Column::new("messages", "messages", Unit::Count),
        Column::new("message_bytes", "bytes each", Unit::Bytes),
        Column::new("rate", "rate", Unit::BytesPerSecond),
        Column::new("share", "share of\nthe copy", Unit::Ratio),
        Column::new("limit", "share of\nthe limit", Unit::Ratio),
        Column::new("of_ctr", "share of\nCTR", Unit::Ratio),
        Column::new("seconds", "median", Unit::Seconds),
        Column::new("aes_per_second", "keys/s", Unit::PerSecond),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_gpu_it_says_so() {
        let suite = Kernels {
            sizes: vec![SMALLEST],
        };
        match suite.run(&Context::default()) {
            Err(Error::NoGpu(reason)) => println!("skipped: no GPU ({reason})"),
            Err(error) => panic!("{error}"),
            Ok(report) => {
                let cases = cases(SMALLEST as usize).len();
                assert_eq!(report.rows.len(), 1 + cases);
                for row in &report.rows {
                    assert!(row[4].number().unwrap() > 0.0 && row[5].number().unwrap() > 0.0);
                }
            }
        }
    }

    #[test]
    fn cases_fit_and_have_different_names() {
        for size in [SMALLEST as usize, 1 << 30, 4 << 30] {
            let cases = cases(size);
            assert!(cases.iter().all(|case| case.bytes() <= size));
            let mut names: Vec<_> = cases.iter().map(case::Case::name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), cases.len());
        }
        assert_eq!(cases(1 << 30).len(), cases(4 << 30).len());
    }
}
