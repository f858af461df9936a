//! `warplock bench` and `warplock gen`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use warplock::{Algorithm, BackendChoice, InstructionSet};

use super::raw::algorithm_parser;

/// Measure what this machine can do.
///
/// Each suite prints a table (with --json: an object), and verifies every result before its time
/// counts.
#[derive(Args, Debug)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) suite: BenchSuite,
    /// Also write the results as JSON to FILE (report: the page).
    #[arg(short, long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Also draw the figure into FILE: SVG, or PNG if its name ends in .png.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) plot: Option<PathBuf>,
    /// Replace existing outputs.
    #[arg(long, global = true)]
    pub(crate) force: bool,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  warplock bench file-sizes --plot sizes.svg
  warplock gen --entries 10M entries && warplock bench entries entries -o entries.json
  warplock bench kernels --size 1GiB -o kernels.json
  warplock bench sizes --quick --plot sizes.svg
  warplock bench questions --plot questions.png
  warplock bench report -o report.html";

/// The name after `cpu:`.
fn instruction_set(name: &str) -> Result<InstructionSet, String> {
    let choice = format!("cpu:{name}").parse::<BackendChoice>();
    match choice.map_err(|error| error.to_string())? {
        BackendChoice::Cpu(Some(set)) if set.is_available() => Ok(set),
        _ => Err("this processor does not have it".to_owned()),
    }
}

/// Ways to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchDirection {
    Encrypt,
    Decrypt,
    Both,
}

/// The suites.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchSuite {
    /// Seconds to encrypt and decrypt buffers of 1,028 to 102,800,000 bytes
    FileSizes {
        /// Cipher and mode.
        #[arg(short, long, value_name = "NAME", default_value = "aes-128-ctr")]
        #[arg(ignore_case = true, hide_possible_values = true)]
        #[arg(value_parser = algorithm_parser())]
        algorithm: Algorithm,
        /// Buffers. [default: the 27 of the published comparison]
        #[arg(long, value_name = "SIZE,..", value_delimiter = ',')]
        #[arg(value_parser = crate::size::parse)]
        size: Vec<u64>,
    },
    /// One file into another and back, in one warm process, next to a plain copy
    Files {
        /// Where the files go. [default: /dev/shm, a RAM disk]
        #[arg(long, value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
        /// Cipher and mode: ctr or gcm.
        #[arg(short, long, value_name = "NAME", default_value = "aes-128-ctr")]
        #[arg(ignore_case = true, hide_possible_values = true)]
        #[arg(value_parser = algorithm_parser())]
        algorithm: Algorithm,
        /// Bytes of the file. [default: 102,800,000, the largest of a published comparison]
        #[arg(long, value_parser = crate::size::parse)]
        size: Option<u64>,
    },
    /// AES-128 with a key for each 16-byte entry, from files to a file
    Entries {
        /// The folder that `warplock gen` has filled; ciphers.out.bin is written there.
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
        /// Buffers of the simple loop. [default: 1kB to 1GB in steps of ten and 4GB, as far as the
        /// files are that long]
        #[arg(long, value_name = "SIZE,..", value_delimiter = ',')]
        #[arg(value_parser = crate::size::parse)]
        chunk: Vec<u64>,
        /// Read from the disk, not from memory that caches it, and wait until all is written.
        #[arg(long)]
        cold: bool,
        /// Also say where the time goes: CPU time of reading, of the cipher and of writing, waiting.
        #[arg(long)]
        profile: bool,
    },
    /// Sealing and opening many short messages with associated data: ACORN-128 next to AES-GCM
    AeadBatch {
        /// How many messages, a key each; the CPU is measured with the first number only. [default:
        /// 65536,131072,262144]
        #[arg(long, value_name = "N,..", value_delimiter = ',')]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
        messages: Vec<u64>,
        /// Bytes of text of each message. [default: 64 to 4096 in steps of two]
        #[arg(long, value_name = "SIZE,..", value_delimiter = ',')]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
        text: Vec<u64>,
        /// Bytes of associated data of each message. [default: 32]
        #[arg(long, value_name = "SIZE,..", value_delimiter = ',')]
        #[arg(value_parser = clap::value_parser!(u64).range(0..=1 << 20))]
        aad: Vec<u64>,
    },
    /// A GPU on data in host memory, against its link and the CPU
    Host {
        /// Ciphers and modes. [default: aes-128-ctr,aes-256-gcm]
        #[arg(short, long, value_name = "NAME,..", value_delimiter = ',')]
        #[arg(ignore_case = true, hide_possible_values = true)]
        #[arg(value_parser = algorithm_parser())]
        algorithm: Vec<Algorithm>,
        /// Bytes to work on. [default: 64MiB,256MiB,1GiB]
        #[arg(long, value_name = "SIZE,..", value_delimiter = ',')]
        #[arg(value_parser = crate::size::parse)]
        size: Vec<u64>,
    },
    /// Speed against size, 64 bytes to 4 GiB: CPU, GPU and auto, and where they cross
    Sizes {
        /// Fewer sizes and runs: minutes instead of half an hour.
        #[arg(long)]
        quick: bool,
        /// Ciphers and modes. [default: aes-128, aes-192, aes-256 with ctr and gcm]
        #[arg(short, long, value_name = "NAME,..", value_delimiter = ',')]
        #[arg(ignore_case = true, hide_possible_values = true)]
        #[arg(value_parser = algorithm_parser())]
        algorithm: Vec<Algorithm>,
        /// Sizes in bytes. [default: 64 to 64MiB in steps of four, and 4GiB for two of the rows]
        #[arg(long, value_name = "SIZE,..", value_delimiter = ',')]
        #[arg(value_parser = crate::size::parse)]
        size: Vec<u64>,
    },
    /// A paper's questions about AES on GPUs, answered for this machine: yes or no, how many times
    Questions {
        /// Sizes besides the paper's 32,000, 160,000 and 5 x 32,000 bytes.
        /// [default: 1KiB,16KiB,1MiB,64MiB]
        #[arg(long, value_name = "SIZE,..", value_delimiter = ',')]
        #[arg(value_parser = crate::size::parse)]
        sizes: Vec<u64>,
        /// How often everything is measured.
        #[arg(long, value_name = "N", default_value_t = 5)]
        runs: usize,
    },
    /// Every algorithm on data in GPU memory, next to a copy inside that memory
    Kernels {
        /// Bytes to work on; sizes that the GPU has no room for are left out. [default: 1GiB,4GiB]
        #[arg(long, value_name = "SIZE,..", value_delimiter = ',')]
        #[arg(value_parser = crate::size::parse)]
        size: Vec<u64>,
    },
    /// Batches in GPU memory as programs have them: many lengths, at any byte
    Calls,
    /// AES-CBC on batches of messages, from host memory through a GPU and back
    CbcBatch {
        /// How many messages at a time. [default: 1 to 65,536 by powers of two]
        #[arg(long, value_name = "N,..", value_delimiter = ',')]
        messages: Vec<usize>,
        /// Bytes of a message.
        #[arg(long, value_name = "SIZE", default_value = "16KiB")]
        #[arg(value_parser = crate::size::parse)]
        text: u64,
        /// How many streams of the GPU take batches in turn. [default: 1,4]
        #[arg(long, value_name = "N,..", value_delimiter = ',')]
        streams: Vec<usize>,
        /// Which way.
        #[arg(long, default_value = "both")]
        direction: BenchDirection,
        /// Cipher and mode: cbc, ecb or ctr.
        #[arg(short, long, value_name = "NAME", default_value = "aes-128-cbc")]
        #[arg(ignore_case = true, hide_possible_values = true)]
        #[arg(value_parser = algorithm_parser())]
        algorithm: Algorithm,
    },
    /// Mounted file systems: the vault, a bare folder, a pass-through and what is installed
    Fs {
        /// Where the files go. [default: /dev/shm, a RAM disk]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
        /// Length of the one large file.
        #[arg(long, value_name = "SIZE", default_value = "512MiB")]
        #[arg(value_parser = crate::size::parse)]
        size: u64,
        /// How many small files.
        #[arg(long, value_name = "N", default_value_t = 4000)]
        files: usize,
        /// Bytes of a request to write or read the large file. [default: 1MiB]
        #[arg(long, value_name = "SIZE,..", value_delimiter = ',')]
        #[arg(value_parser = crate::size::parse)]
        requests: Vec<u64>,
        /// How many large files are written or read at the same time; they share the length.
        /// [default: 1]
        #[arg(long, value_name = "N,..", value_delimiter = ',')]
        jobs: Vec<usize>,
        /// Backends of the vault, a row each. [default: what --backend says]
        #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
        backends: Vec<BackendChoice>,
        /// Instruction set of the CPU where a backend names none, as in cpu:NAME.
        #[arg(long, value_name = "NAME", value_parser = instruction_set)]
        instruction_set: Option<InstructionSet>,
        /// Other file systems. [default: of gocryptfs, gocryptfs-acl (with access lists, as the vault
        /// has them), securefs and encfs those installed]
        #[arg(long, value_name = "PROGRAM,..", value_delimiter = ',')]
        peers: Option<Vec<String>>,
    },
    /// All suites (but peers) into one HTML page with tables and figures: -o FILE
    ///
    /// Takes some ten minutes. The page needs nothing else, and can be sent to others.
    Report {
        /// Instead of measuring: results that suites wrote with -o, in this order.
        #[arg(value_hint = ValueHint::FilePath)]
        results: Vec<PathBuf>,
    },
    /// The usual alternatives: other libraries, on the same buffers
    Peers,
}

/// Fill a folder with keys.bin, plains.bin and ciphers.bin: 16 bytes an entry, a key each.
///
/// For `warplock bench entries`. The keys follow from the seed and protect nothing.
#[derive(Args, Debug)]
pub(crate) struct Gen {
    /// How many entries (10M: ten million).
    #[arg(short = 'n', long, value_name = "N", value_parser = crate::size::parse)]
    pub(crate) entries: u64,
    /// The same seed gives the same files. [default: a random one, which is printed]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Replace existing files.
    #[arg(long)]
    pub(crate) force: bool,
    /// The folder; it is made if it does not exist.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}
