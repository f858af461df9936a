//! The names of backends: what `--backend` and `WARPLOCK_BACKEND` can say.

use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::cpu::InstructionSet;

/// The backend for batches, as `--backend` and `WARPLOCK_BACKEND` name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// `auto`: the one that finishes first.
    #[default]
    Auto,
    /// `cpu`: the fastest instruction set of this machine; `cpu:NAME`: that one.
    Cpu(Option<InstructionSet>),
    /// `cuda`: the first NVIDIA GPU; `cuda:N`: that one.
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

impl BackendChoice {
    /// These GPUs; `cuda:0,0` is one.
    fn of_gpus(set: GpuSet) -> Self {
        let mut numbers = set.numbers();
        match (numbers.next(), numbers.next()) {
            (Some(number), None) => BackendChoice::Cuda(Some(number)),
            _ => BackendChoice::Gpus(set),
        }
    }
}

impl FromStr for BackendChoice {
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
            ("auto", None) => Ok(BackendChoice::Auto),
            ("cpu", None) => Ok(BackendChoice::Cpu(None)),
            ("cpu", Some(set)) => InstructionSet::all()
                .find(|known| known.name() == set)
                .map(|known| BackendChoice::Cpu(Some(known)))
                .ok_or_else(|| {
                    let names: Vec<_> = InstructionSet::all().map(|set| set.name()).collect();
                    unknown(format!(
                        "no such instruction set; there are {}",
                        names.join(", ")
                    ))
                }),
            ("cuda", None) => Ok(BackendChoice::Cuda(None)),
            ("cuda", Some(numbers)) => {
                let parsed: Result<Vec<u32>, _> = numbers.split(',').map(str::parse).collect();
                match parsed.as_deref() {
                    Ok(&[number]) => Some(BackendChoice::Cuda(Some(number))),
                    Ok(numbers) => GpuSet::new(numbers.iter().copied()).map(BackendChoice::of_gpus),
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

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackendChoice::Auto => f.write_str("auto"),
            BackendChoice::Cpu(None) => f.write_str("cpu"),
            BackendChoice::Cpu(Some(set)) => write!(f, "cpu:{}", set.name()),
            BackendChoice::Cuda(None) => f.write_str("cuda"),
            BackendChoice::Cuda(Some(number)) => write!(f, "cuda:{number}"),
            BackendChoice::Gpus(set) => {
                let numbers: Vec<_> = set.numbers().map(|number| number.to_string()).collect();
                write!(f, "cuda:{}", numbers.join(","))
            }
        }
    }
}
