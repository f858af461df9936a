//! `aead-batch`: many short messages with associated data, sealed and opened by ACORN-128 and by
//! its usual alternatives, next to published numbers.

mod gpu;
mod messages;
mod published;

use warplock::cuda::{LinkRates, link_rates};
use warplock::{Algorithm, BackendChoice, Direction, Engine, InstructionSet};

use self::gpu::Rates;
use self::messages::Messages;
use self::published::SOURCE;
use super::Suite;
use crate::error::Result;
use crate::gpu::{Gpu, cpu_engine};
use crate::report::{Column, Report, Unit, Value};
use crate::table::grouped;
use crate::{Axis, Context, Error, Machine, Plot, Sample, Series, memory};

/// Bytes of associated data of each message.
const AAD: usize = 32;

/// The algorithms that are compared: the quoted cipher first.
const ALGORITHMS: [Algorithm; 3] = [
    Algorithm::Acorn128,
    Algorithm::Aes128Gcm,
    Algorithm::Aes256Gcm,
];

const DIRECTIONS: [Direction; 2] = [Direction::Encrypt, Direction::Decrypt];

/// Columns before the rates.
const NAMES: usize = 3;

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct AeadBatch {
    /// Numbers of messages. The CPU is measured with the first only, and without a GPU it is the
    /// only one.
    pub counts: Vec<usize>,
    /// Bytes of text of each.
    pub lens: Vec<usize>,
}

impl Default for AeadBatch {
    /// The published shapes.
    fn default() -> Self {
        AeadBatch {
            counts: vec![1 << 16, 1 << 17, 1 << 18],
            lens: vec![64, 128, 256, 512, 1024, 2048, 4096],
        }
    }
}

/// What runs the rows.
struct Contenders {
    /// The CPU: one thread and all.
    cpu: [Engine; 2],
    gpu: Option<(Gpu, LinkRates)>,
    /// The baseline of rows with the CPU, and of all others.
    references: [Engine; 2],
}

impl Contenders {
    fn new(context: &Context<'_>) -> Result<Self> {
        let gpu = match (context.choice, Gpu::open(context)) {
            (Some(BackendChoice::Cpu(_)), _) | (_, Err(Error::NoGpu(_))) => None,
            (_, gpu) => Some(gpu?),
        };
        let gpu = match gpu {
            None => None,
            Some(gpu) => {
                (context.notify)("the link");
                let link = link_rates(Some(gpu.device.gpu().number))?;
                Some((gpu, link))
            }
        };
        let portable = BackendChoice::Cpu(Some(InstructionSet::Portable));
        let portable = Engine::builder().backend(portable).threads(context.threads);
        let cpu = context.on_cpu();
        Ok(Contenders {
            cpu: [cpu.one_thread()?, cpu.all_threads()?],
            gpu,
            references: [portable.build()?, cpu_engine(context.threads)?],
        })
    }

    /// The rows of a shape, one for each direction.
    fn rows(
        &self,
        context: &Context<'_>,
        count: usize,
        len: usize,
        with_cpu: bool,
    ) -> Result<[Vec<Value>; 2]> {
        let mut rows = DIRECTIONS.map(|direction| start(direction, count, len));
        let mut cpu_cells = [const { Vec::new() }; 2];
        for algorithm in ALGORITHMS {
            let shape = format!("{count} x {len} bytes, {algorithm}");
            (context.notify)(&format!("{shape}: data and reference"));
            let reference = &self.references[usize::from(!with_cpu)];
            let mut messages = Messages::new(algorithm, count, len, reference)?;
            if let Some((gpu, link)) = &self.gpu {
                (context.notify)(&format!("{shape}: GPU"));
                let both = gpu::measure(gpu, &messages)?;
                for ((row, rates), direction) in rows.iter_mut().zip(both).zip(DIRECTIONS) {
                    row.extend(gpu_cells(algorithm, &rates, link, direction, len));
                }
            }
            for (cells, direction) in cpu_cells.iter_mut().zip(DIRECTIONS) {
                if !with_cpu {
                    cells.extend([Value::None, Value::None]);
                    continue;
                }
                (context.notify)(&format!("{shape}: CPU, {}", name(direction)));
                let rates = messages.measure(context, &self.cpu, direction)?;
                cells.extend(rates.into_iter().map(Value::from));
            }
        }
        for ((row, cells), direction) in rows.iter_mut().zip(cpu_cells).zip(DIRECTIONS) {
            row.extend(cells);
            row.push(published::v100(direction, len).into());
            row.push(published::fpga(direction, len).into());
        }
        Ok(rows)
    }
}

/// What the GPU's columns of an algorithm show; the link's only once.
fn gpu_cells(
    algorithm: Algorithm,
    rates: &Rates,
    link: &LinkRates,
    direction: Direction,
    len: usize,
) -> Vec<Value> {
    if algorithm != ALGORITHMS[0] {
        return vec![rates.kernel.into()];
    }
    let times = published::fpga(direction, len).map(|theirs| rates.kernel.median / theirs);
    let gib = |sample: Sample| sample.map(|rate| rate / f64::from(1 << 30));
    vec![
        rates.copy_in.into(),
        (rates.copy_in.median / link.up).into(),
        rates.kernel.into(),
        gib(rates.kernel).into(),
        times.into(),
        rates.copy_out.into(),
        (rates.copy_out.median / link.down).into(),
    ]
}

impl Suite for AeadBatch {
    fn name(&self) -> &'static str {
        "aead-batch"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        let machine = Machine::here(&context.on_cpu())?;
        let contenders = Contenders::new(context)?;
        let counts = match contenders.gpu {
            Some(_) => &self.counts[..],
            None => &self.counts[..self.counts.len().min(1)],
        };
        let most = |numbers: &[usize]| numbers.iter().copied().max().unwrap_or(0) as u64;
        let (count, len) = (most(counts), most(&self.lens));
        // Plaintexts, ciphertexts, results, and the other parts of each message; for a GPU once
        // more.
        let needed = count
            .saturating_mul(len.saturating_add(64))
            .saturating_mul(6);
        let batch = format!("a batch of {} x {} bytes", grouped(count), grouped(len));
        memory::check(&batch, needed)?;
        let mut rows = Vec::new();
        for (place, &count) in counts.iter().enumerate() {
            for &len in &self.lens {
                rows.extend(contenders.rows(context, count, len, place == 0)?);
            }
        }
        let with_gpu = contenders.gpu.is_some();
        let columns = columns(context, with_gpu);
        let mut notes = vec![
            "CPU: from memory to memory, a key, nonce and tag for each message: key schedules are \
             in the time, on both devices."
                .to_owned(),
            format!("V100, FPGA: {SOURCE}."),
        ];
        if let Some((gpu, link)) = &contenders.gpu {
            notes.insert(0, gpu.line());
            notes.push(format!(
                "Copies: all that a batch needs and gives, from and to pinned memory; of the \
                 link: the share of what it carries in this run, {:.1} GB/s to the GPU and {:.1} \
                 GB/s from it. Kernel: text and associated data over its time on the device's \
                 clock; GiB/s as the quoted figures count. Times FPGA: this kernel's rate over \
                 theirs. The CPU is measured with the first number of messages.",
                link.up / 1e9,
                link.down / 1e9
            ));
        }
        Ok(Report {
            suite: self.name(),
            title: format!(
                "aead-batch: bytes per second, text and {AAD} bytes of associated data, on {}",
                match &contenders.gpu {
                    Some((gpu, _)) => &gpu.device.gpu().name,
                    None => "the CPU",
                }
            ),
            notes,
            plot: plot(&columns, &rows),
            columns,
            rows,
            machine,
        })
    }
}

fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Encrypt => "seal",
        Direction::Decrypt => "open",
    }
}

/// A row's first cells.
fn start(direction: Direction, count: usize, len: usize) -> Vec<Value> {
    let numbers = [count, len].map(|number| Value::Number(number as f64));
    let mut row = vec![name(direction).into()];
    row.extend(numbers);
    row
}

fn columns(context: &Context<'_>, with_gpu: bool) -> Vec<Column> {
    use Unit::{Bytes, BytesPerSecond, Count, Ratio, Text};
    let mut columns = vec![
        Column::new("direction", "direction", Text),
        Column::new("messages", "messages", Count),
        Column::new("text_bytes", "text bytes", Bytes),
    ];
    let key = |algorithm: Algorithm| algorithm.name().replace('-', "_");
    for algorithm in ALGORITHMS.into_iter().filter(|_| with_gpu) {
        let (key, kernel) = (key(algorithm), format!("{algorithm}\nkernel"));
        let kernel = Column::new(format!("{key}_kernel"), kernel, BytesPerSecond);
        if algorithm != ALGORITHMS[0] {
            columns.push(kernel);
            continue;
        }
        columns.extend([
            Column::new("copy_in", "copy in", BytesPerSecond),
            Column::new("copy_in_of_link", "of the\nlink", Ratio),
            kernel,
            Column::new(format!("{key}_kernel_gib"), "kernel\nGiB/s", Count),
            Column::new("times_fpga", "times\nFPGA", Ratio),
            Column::new("copy_out", "copy out", BytesPerSecond),
            Column::new("copy_out_of_link", "of the\nlink", Ratio),
        ]);
    }
    for algorithm in ALGORITHMS {
        let threads = [
            ("1", "1 thread".to_owned()),
            ("all", format!("{} threads", context.threads)),
        ];
        for (part, name) in threads {
            let title = format!("{algorithm}\n{name}");
            let key = format!("{}_{part}", key(algorithm));
            columns.push(Column::new(key, title, BytesPerSecond));
        }
    }
    for (key, name) in [("v100", "ACORN?\nV100"), ("fpga", "ACORN?\nFPGA")] {
        columns.push(Column::new(key, name, BytesPerSecond).quoted(SOURCE));
    }
    columns
}

/// Sealing: rates over lengths, of the first number of messages, which has all columns.
fn plot(columns: &[Column], rows: &[Vec<Value>]) -> Plot {
    let first = rows.first().and_then(|row| row[1].number());
    let shown = |row: &&Vec<Value>| row[0] == "seal".into() && row[1].number() == first;
    let rates = columns.iter().enumerate().skip(NAMES);
    let series = rates
        .filter(|(_, column)| column.unit == Unit::BytesPerSecond)
        .map(|(place, column)| Series {
            name: column.title.replace('\n', ", "),
            points: rows
                .iter()
                .filter(shown)
                .filter_map(|row| row[2].number().zip(row[place].number()))
                .collect(),
            quoted: column.source.is_some(),
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
    use crate::context::portable;

    #[test]
    fn rows_for_both_directions_next_to_published_numbers() {
        let suite = AeadBatch {
            counts: vec![40, 70],
            lens: vec![64, 100],
        };
        let context = Context {
            plan: Plan::quick(),
            ..Context::default()
        };
        let report = suite.run(&context).unwrap();
        let place = |key: &str| report.columns.iter().position(|column| column.key == key);
        let with_gpu = place("copy_in").is_some();
        assert_eq!(report.rows.len(), if with_gpu { 8 } else { 4 });
        for row in &report.rows {
            assert_eq!(row.len(), report.columns.len());
        }
        let rate = |row: usize, key: &str| report.rows[row][place(key).unwrap()].number();
        for row in 0..4 {
            assert!(rate(row, "acorn_128_1").unwrap() > 0.0);
            assert!(rate(row, "aes_256_gcm_all").unwrap() > 0.0);
        }
        assert_eq!(rate(0, "v100"), published::v100(Direction::Encrypt, 64));
        assert_eq!(rate(3, "fpga"), None);
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
