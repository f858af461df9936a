//! `aead-batch`: many short messages with associated data, sealed and opened by ACORN-128 and by
//! what a user would take instead, beside published numbers.

use warplock::{
    Aad, Algorithm, Batch, Direction, Engine, Error as EngineError, Ivs, Keys, Spans, Tags, Text,
};

use super::Suite;
use crate::context::portable;
use crate::error::Result;
use crate::measure::interleave;
use crate::report::{Column, Report, Unit, Value};
use crate::{Axis, Context, Error, Machine, Plot, Sample, Series, random};

/// Who measured the quoted columns.
const SOURCE: &str = "quoted from the README of itzmeanjan/acorn (SYCL), whose GPU and FPGA code \
                      is not ACORN-128 v3: text and associated data over the kernel's time; not \
                      measured here";

/// Bytes of text, and bytes per second that they published for a V100 to encrypt, with 32 bytes
/// of associated data.
const V100: [(usize, f64); 6] = [
    (64, 44.0e9),
    (128, 30.3e9),
    (256, 22.8e9),
    (512, 13.4e9),
    (1024, 4.8e9),
    (4096, 3.9e9),
];

/// The same for an Arria 10 FPGA; the best that they have.
const FPGA: (usize, f64) = (256, 992e6);

/// Bytes of associated data of each message.
const AAD: usize = 32;

/// What is compared: the quoted cipher first.
const ALGORITHMS: [Algorithm; 3] = [
    Algorithm::Acorn128,
    Algorithm::Aes128Gcm,
    Algorithm::Aes256Gcm,
];

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct AeadBatch {
    /// Numbers of messages.
    pub counts: Vec<usize>,
    /// Bytes of text of each.
    pub lens: Vec<usize>,
}

impl Default for AeadBatch {
    /// The published lengths, 2^16 messages of each.
    fn default() -> Self {
        AeadBatch {
            counts: vec![1 << 16],
            lens: vec![64, 128, 256, 512, 1024, 2048, 4096],
        }
    }
}

/// Messages with a key each, and what the reference makes of them.
struct Messages {
    algorithm: Algorithm,
    count: usize,
    len: usize,
    keys: Vec<u8>,
    ivs: Vec<u8>,
    aad: Vec<u8>,
    plain: Vec<u8>,
    cipher: Vec<u8>,
    tags: Vec<u8>,
    output: Vec<u8>,
    output_tags: Vec<u8>,
}

impl Messages {
    fn new(algorithm: Algorithm, count: usize, len: usize, reference: &Engine) -> Result<Self> {
        let iv_len = if algorithm == Algorithm::Acorn128 {
            16
        } else {
            12
        };
        let mut messages = Messages {
            algorithm,
            count,
            len,
            keys: random::bytes(count * algorithm.key_len())?,
            ivs: random::bytes(count * iv_len)?,
            aad: random::bytes(count * AAD)?,
            plain: random::bytes(count * len)?,
            cipher: Vec::new(),
            tags: Vec::new(),
            output: vec![0; count * len],
            output_tags: vec![0; 16 * count],
        };
        messages.run(reference, Direction::Encrypt)?;
        messages.cipher.clone_from(&messages.output);
        messages.tags.clone_from(&messages.output_tags);
        Ok(messages)
    }

    fn run(
        &mut self,
        engine: &Engine,
        direction: Direction,
    ) -> std::result::Result<(), EngineError> {
        let even = |len| Spans::Even {
            count: self.count,
            len,
            stride: len,
        };
        let text = Text::Apart {
            input: match direction {
                Direction::Encrypt => &self.plain,
                Direction::Decrypt => &self.cipher,
            },
            input_spans: even(self.len),
            output: &mut self.output,
            output_spans: even(self.len),
        };
        let keys = Keys::Each {
            algorithm: self.algorithm,
            bytes: &self.keys,
        };
        let aad = Aad::Each {
            bytes: &self.aad,
            spans: even(AAD),
        };
        let tags = match direction {
            Direction::Encrypt => Tags::Apart(&mut self.output_tags),
            Direction::Decrypt => Tags::Given(&self.tags),
        };
        let batch = Batch::new(direction, keys, text);
        engine.run(batch.ivs(Ivs::Each(&self.ivs)).aad(aad).tags(tags))
    }

    fn poison(&mut self) {
        self.output.fill(0xa5);
        self.output_tags.fill(0xa5);
    }

    fn is_right(&self, direction: Direction) -> bool {
        match direction {
            Direction::Encrypt => self.output == self.cipher && self.output_tags == self.tags,
            Direction::Decrypt => self.output == self.plain,
        }
    }

    /// Bytes of text and associated data a second, on each engine.
    fn measure(
        &mut self,
        context: &Context<'_>,
        engines: &[Engine],
        direction: Direction,
    ) -> Result<Vec<Sample>> {
        let bytes = (self.count * (self.len + AAD)) as f64;
        let samples = interleave(
            &context.plan,
            engines.len(),
            self,
            Messages::poison,
            |messages, engine| Ok(messages.run(&engines[engine], direction)?),
            |messages, engine| match messages.is_right(direction) {
                true => Ok(()),
                false => Err(Error::Wrong(format!(
                    "{} messages of {} bytes: {} on {} threads does not agree with cpu:portable \
                     ({}, {direction:?})",
                    messages.count,
                    messages.len,
                    engines[engine].backend(),
                    if engine == 0 {
                        1
                    } else {
                        context.threads.get()
                    },
                    messages.algorithm,
                ))),
            },
        )?;
        let rate = |sample: Sample| sample.map(|seconds| bytes / seconds);
        Ok(samples.into_iter().map(rate).collect())
    }
}

impl Suite for AeadBatch {
    fn name(&self) -> &'static str {
        "aead-batch"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        let machine = Machine::here(context)?;
        let reference = portable()?;
        let engines = [context.one_thread()?, context.all_threads()?];
        let mut rows = Vec::new();
        for &count in &self.counts {
            for &len in &self.lens {
                let directions = [Direction::Encrypt, Direction::Decrypt];
                let mut pair = directions.map(|direction| start(direction, count, len));
                for algorithm in ALGORITHMS {
                    (context.notify)(&format!("{count} x {len} bytes, {algorithm}"));
                    let mut messages = Messages::new(algorithm, count, len, &reference)?;
                    for (row, direction) in pair.iter_mut().zip(directions) {
                        let rates = messages.measure(context, &engines, direction)?;
                        row.extend(rates.into_iter().map(Value::from));
                    }
                }
                for (row, direction) in pair.iter_mut().zip(directions) {
                    row.extend(published(direction, len).map(Value::from));
                }
                rows.extend(pair);
            }
        }
        let columns = columns(context);
        Ok(Report {
            suite: self.name(),
            title: format!(
                "aead-batch: bytes per second, text and {AAD} bytes of associated data, on {}",
                engines[0].backend()
            ),
            notes: vec![
                "From memory to memory, a key, nonce and tag for each message: key schedules are \
                 in the time."
                    .to_owned(),
                format!("V100, FPGA: {SOURCE}."),
            ],
            plot: plot(&columns, &rows),
            columns,
            rows,
            machine,
        })
    }
}

/// A row's first cells.
fn start(direction: Direction, count: usize, len: usize) -> Vec<Value> {
    let name = match direction {
        Direction::Encrypt => "seal",
        Direction::Decrypt => "open",
    };
    vec![name.into(), (count as f64).into(), (len as f64).into()]
}

/// What they have for a shape.
fn published(direction: Direction, len: usize) -> [Option<f64>; 2] {
    if direction == Direction::Decrypt {
        return [None, None];
    }
    let v100 = V100.iter().find(|row| row.0 == len).map(|row| row.1);
    [v100, (FPGA.0 == len).then_some(FPGA.1)]
}

fn columns(context: &Context<'_>) -> Vec<Column> {
    let mut columns = vec![
        Column::new("direction", "direction", Unit::Text),
        Column::new("messages", "messages", Unit::Bytes),
        Column::new("text_bytes", "text bytes", Unit::Bytes),
    ];
    for algorithm in ALGORITHMS {
        let key = algorithm.name().replace('-', "_");
        let threads = [
            ("1", "1 thread".to_owned()),
            ("all", format!("{} threads", context.threads)),
        ];
        for (part, name) in threads {
            let title = format!("{algorithm}\n{name}");
            columns.push(Column::new(
                format!("{key}_{part}"),
                title,
                Unit::BytesPerSecond,
            ));
        }
    }
    for (key, name) in [("v100", "ACORN?\nV100"), ("fpga", "ACORN?\nFPGA")] {
        columns.push(Column::new(key, name, Unit::BytesPerSecond).quoted(SOURCE));
    }
    columns
}

/// Sealing: rates over lengths, of the last number of messages.
fn plot(columns: &[Column], rows: &[Vec<Value>]) -> Plot {
    let last = rows.last().and_then(|row| row[1].number());
    let shown = |row: &&Vec<Value>| row[0] == "seal".into() && row[1].number() == last;
    let series = (3..columns.len()).map(|column| Series {
        name: columns[column].title.replace('\n', ", "),
        points: rows
            .iter()
            .filter(shown)
            .filter_map(|row| row[2].number().zip(row[column].number()))
            .collect(),
        quoted: columns[column].source.is_some(),
    });
    Plot {
        title: "sealing batches of messages".to_owned(),
        x_label: "bytes of text".to_owned(),
        x: Axis::Log,
        y_label: "bytes per second".to_owned(),
        y: Axis::Log,
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn rows_for_both_directions_beside_published_numbers() {
        let suite = AeadBatch {
            counts: vec![40],
            lens: vec![64, 100],
        };
        let context = Context {
            plan: Plan::quick(),
            ..Context::default()
        };
        let report = suite.run(&context).unwrap();
        assert_eq!(report.rows.len(), 4);
        for row in &report.rows {
            assert_eq!(row.len(), report.columns.len());
            assert!(row[3..9].iter().all(|value| value.number().unwrap() > 0.0));
        }
        assert_eq!(report.rows[0][9], Value::Number(44.0e9));
        assert_eq!(report.rows[1][9], Value::None);
        assert!(report.svg().unwrap().starts_with("<svg"));
    }

    #[test]
    fn a_wrong_result_is_refused() {
        let mut messages =
            Messages::new(Algorithm::Acorn128, 20, 50, &portable().unwrap()).unwrap();
        messages.tags[33] ^= 1;
        let context = Context {
            plan: Plan::quick(),
            ..Context::default()
        };
        let engines = [context.one_thread().unwrap()];
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            assert!(messages.measure(&context, &engines, direction).is_err());
        }
    }
}
