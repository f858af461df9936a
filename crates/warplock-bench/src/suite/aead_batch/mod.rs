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
use crate::{Context, Error, Machine, Sample, memory};

/// Bytes of associated data of each message in the published measurement.
const AAD: usize = 32;

/// The algorithms that are compared: the quoted cipher first.
const ALGORITHMS: [Algorithm; 3] = [
    Algorithm::Acorn128,
    Algorithm::Aes128Gcm,
    Algorithm::Aes256Gcm,
];

const DIRECTIONS: [Direction; 2] = [Direction::Encrypt, Direction::Decrypt];

/// The suite and its options.
#[derive(Clone, Debug)]
pub struct AeadBatch {
    /// Numbers of messages. The CPU is measured with the first only, and without a GPU it is the
    /// only one.
    pub counts: Vec<usize>,
    /// Bytes of text of each.
    pub lens: Vec<usize>,
    /// Bytes of associated data of each.
    pub aad: Vec<usize>,
}

impl Default for AeadBatch {
    /// The published shapes.
    fn default() -> Self {
        AeadBatch {
            counts: vec![1 << 16, 1 << 17, 1 << 18],
            lens: vec![64, 128, 256, 512, 1024, 2048, 4096],
            aad: vec![AAD],
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
        (count, len, aad): (usize, usize, usize),
        with_cpu: bool,
    ) -> Result<[Vec<Value>; 2]> {
        let mut rows = DIRECTIONS.map(|direction| start(direction, count, len, aad));
        let published = |value: Option<f64>| value.filter(|_| aad == AAD);
        let mut cpu_cells = [const { Vec::new() }; 2];
        for algorithm in ALGORITHMS {
            let shape = format!("{count} x {len} bytes, {algorithm}");
            (context.notify)(&format!("{shape}: data and reference"));
            let reference = &self.references[usize::from(!with_cpu)];
            let mut messages = Messages::new(algorithm, (count, len, aad), reference)?;
            if let Some((gpu, link)) = &self.gpu {
                (context.notify)(&format!("{shape}: GPU"));
                let both = gpu::measure(gpu, &messages)?;
                for ((row, rates), direction) in rows.iter_mut().zip(both).zip(DIRECTIONS) {
                    let fpga = published(published::fpga(direction, len));
                    row.extend(gpu_cells(algorithm, &rates, link, fpga));
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
            row.push(published(published::v100(direction, len)).into());
            row.push(published(published::fpga(direction, len)).into());
        }
        Ok(rows)
    }
}

/// What the GPU's columns of an algorithm show; the link's only once.
fn gpu_cells(
    algorithm: Algorithm,
    rates: &Rates,
    link: &LinkRates,
    fpga: Option<f64>,
) -> Vec<Value> {
    if algorithm != ALGORITHMS[0] {
        return vec![rates.kernel.into()];
    }
    let times = fpga.map(|theirs| rates.kernel.median / theirs);
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
        let mut report = Report {
            suite: self.name().to_owned(),
            title: format!(
                "aead-batch: bytes per second, text and associated data, on {}",
                match &contenders.gpu {
                    Some((gpu, _)) => &gpu.device.gpu().name,
                    None => "the CPU",
                }
            ),
            notes: notes(&contenders),
            columns: columns(context, contenders.gpu.is_some()),
            rows: Vec::new(),
            machine,
            stopped: false,
        };
        for (place, &count) in counts.iter().enumerate() {
            for &aad in &self.aad {
                for &len in &self.lens {
                    let shape = (count, len, aad);
                    let rows = contenders.rows(context, shape, place == 0)?;
                    report.rows.extend(rows);
                    (context.progress)(&report);
                }
            }
        }
        Ok(report)
    }
}

fn notes(contenders: &Contenders) -> Vec<String> {
    let mut notes = vec![
        "Text and associated data over the time. CPU: from memory to memory, a key, nonce and tag \
         for each message: key schedules are in the time, on both devices."
            .to_owned(),
        "Units: here kB, MB, GB are powers of 1000. The publication prints MiB/s for the FPGA and \
         GiB/s for the V100: its 454.65 MiB/s are 477 MB/s, its 41 GiB/s 44.0 GB/s."
            .to_owned(),
        format!("V100, FPGA: {SOURCE}."),
    ];
    if let Some((gpu, link)) = &contenders.gpu {
        notes.insert(0, gpu.line());
        notes.push(format!(
            "Copies: all that a batch needs and gives, from and to pinned memory; of the link: the \
             share of what it carries in this run, {:.1} GB/s to the GPU and {:.1} GB/s from it. \
             Kernel: on the device's clock; GiB/s as the quoted figures count. Times FPGA: this \
             kernel's rate over theirs. The CPU is measured with the first number of messages.",
            link.up / 1e9,
            link.down / 1e9
        ));
    }
    notes
}

fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Encrypt => "seal",
        Direction::Decrypt => "open",
    }
}

/// A row's first cells.
fn start(direction: Direction, count: usize, len: usize, aad: usize) -> Vec<Value> {
    let numbers = [count, len, aad].map(|number| Value::Number(number as f64));
    let mut row = vec![name(direction).into()];
    row.extend(numbers);
    row
}

fn columns(context: &Context<'_>, with_gpu: bool) -> Vec<Column> {
    use Unit::{Bytes, BytesPerSecond, Count, Ratio, Text};
    let mut columns = vec![
        Column::new("direction", "direction", Text).table(),
        Column::new("messages", "messages", Count).name(),
        Column::new("text_bytes", "text\nbytes", Bytes).name(),
        Column::new("aad_bytes", "AD\nbytes", Bytes).name(),
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
    for (key, name) in [("v100", "V100\n(not v3)"), ("fpga", "FPGA\n(not v3)")] {
        columns.push(Column::new(key, name, BytesPerSecond).quoted(SOURCE));
    }
    columns
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
            ..AeadBatch::default()
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
        let table = report.table();
        assert!(
            table.contains("\nseal:\n") && table.contains("\nopen:\n"),
            "{table}"
        );
        assert!(table.contains("454.65 MiB/s are 477 MB/s"), "{table}");
    }

    #[test]
    fn other_lengths_of_associated_data_have_no_published_numbers() {
        let suite = AeadBatch {
            counts: vec![20],
            lens: vec![64],
            aad: vec![0, 100],
        };
        let context = Context {
            plan: Plan::quick(),
            choice: Some(BackendChoice::Cpu(None)),
            ..Context::default()
        };
        let report = suite.run(&context).unwrap();
        assert_eq!(report.rows.len(), 4);
        let fpga = report.column("fpga").unwrap();
        assert!(report.rows.iter().all(|row| row[fpga] == Value::None));
    }

    #[test]
    fn a_wrong_result_is_refused() {
        let mut messages =
            Messages::new(Algorithm::Acorn128, (20, 50, 7), &portable().unwrap()).unwrap();
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
