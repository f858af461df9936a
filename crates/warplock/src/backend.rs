//! What a backend is to the engine: a place where checked batches run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::cpu::InstructionSet;
use crate::{Error, Job};

/// A place where batches run.
pub trait Backend: Send + Sync {
    /// Its name, as `--backend` takes it: `cpu:aesni`, `cuda:0`.
    fn name(&self) -> String;

    /// Whether it can run this job at all.
    fn supports(&self, job: &Job<'_>) -> bool;

    /// About how long it would take for this job, copies included. A planner compares these.
    fn estimate(&self, job: &Job<'_>) -> Duration;

    /// Starts a job; it may be done before this returns.
    ///
    /// # Safety
    /// What the job borrows stays borrowed until [`Ticket::wait`] has returned: the caller must
    /// neither touch nor free it before, nor forget the ticket.
    ///
    /// # Errors
    /// [`Error::Backend`] if the job could not be started; the output is then to be thrown away.
    unsafe fn submit(&self, job: &Job<'_>) -> Result<Ticket, Error>;
}

/// A job under way.
#[must_use = "the job's memory is in use until the ticket was waited for"]
pub struct Ticket(Pending);

enum Pending {
    Done(Vec<usize>),
}

impl Ticket {
    /// A ticket for a job that is already done; `failed` are the messages that did not verify,
    /// ascending.
    pub(crate) fn done(failed: Vec<usize>) -> Self {
        Ticket(Pending::Done(failed))
    }

    /// Waits until the job is done, and tells which messages did not verify (ascending).
    ///
    /// # Errors
    /// [`Error::Backend`] if the backend failed.
    pub fn wait(self) -> Result<Vec<usize>, Error> {
        match self.0 {
            Pending::Done(failed) => Ok(failed),
        }
    }
}

/// Which backend shall run a batch, as `--backend` and `WARPLOCK_BACKEND` name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Choice {
    /// `auto`: whichever ends soonest.
    #[default]
    Auto,
    /// `cpu`: the fastest instruction set here; `cpu:NAME`: that one.
    Cpu(Option<InstructionSet>),
    /// `cuda`: the first NVIDIA GPU; `cuda:N`: that one. Of large batches in page-locked memory a
    /// thread of the processor does the end meanwhile, if the engine has more than one.
    Cuda(Option<u32>),
    /// `cuda:N,M,..`: several NVIDIA GPUs, which share each batch.
    Gpus(GpuSet),
}

/// Some GPUs, by their numbers: up to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuSet(u64);

impl GpuSet {
    /// The set of these numbers; none if there are no numbers or one is above 63.
    pub fn new(numbers: impl IntoIterator<Item = u32>) -> Option<Self> {
        let mut set = 0;
        for number in numbers {
            set |= 1_u64.checked_shl(number)?;
        }
        (set != 0).then_some(GpuSet(set))
    }

    /// The numbers, ascending.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |number| self.0 >> number & 1 == 1)
    }
}

impl Choice {
    /// These GPUs; `cuda:0,0` is one.
    fn of_gpus(set: GpuSet) -> Self {
        let mut numbers = set.numbers();
        match (numbers.next(), numbers.next()) {
            (Some(number), None) => Choice::Cuda(Some(number)),
            _ => Choice::Gpus(set),
        }
    }
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let unknown = |reason: String| Error::NoBackend {
            name: name.to_owned(),
            reason,
        };
        let (kind, detail) = match name.split_once(':') {
            None => (name, None),
            Some((kind, detail)) => (kind, Some(detail)),
        };
        match (kind, detail) {
            ("auto", None) => Ok(Choice::Auto),
            ("cpu", None) => Ok(Choice::Cpu(None)),
            ("cpu", Some(set)) => InstructionSet::all()
                .find(|known| known.name() == set)
                .map(|known| Choice::Cpu(Some(known)))
                .ok_or_else(|| {
                    let names: Vec<_> = InstructionSet::all().map(|set| set.name()).collect();
                    unknown(format!(
                        "no such instruction set; there are {}",
                        names.join(", ")
                    ))
                }),
            ("cuda", None) => Ok(Choice::Cuda(None)),
            ("cuda", Some(numbers)) => {
                let parsed: Result<Vec<u32>, _> = numbers.split(',').map(str::parse).collect();
                match parsed.as_deref() {
                    Ok(&[number]) => Some(Choice::Cuda(Some(number))),
                    Ok(numbers) => GpuSet::new(numbers.iter().copied()).map(Choice::of_gpus),
                    Err(_) => None,
                }
                .ok_or_else(|| {
                    unknown("GPUs are named by their numbers, as in cuda:0 or cuda:0,1".to_owned())
                })
            }
            _ => Err(unknown(
                "take auto, cpu, cpu:NAME, cuda, cuda:N or cuda:N,M".to_owned(),
            )),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Auto => f.write_str("auto"),
            Choice::Cpu(None) => f.write_str("cpu"),
            Choice::Cpu(Some(set)) => write!(f, "cpu:{}", set.name()),
            Choice::Cuda(None) => f.write_str("cuda"),
            Choice::Cuda(Some(number)) => write!(f, "cuda:{number}"),
            Choice::Gpus(set) => {
                let numbers: Vec<_> = set.numbers().map(|number| number.to_string()).collect();
                write!(f, "cuda:{}", numbers.join(","))
            }
        }
    }
}
