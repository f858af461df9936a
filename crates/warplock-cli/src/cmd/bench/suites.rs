//! The suites with the options of the command line.

use warplock::{Algorithm, Direction};
use warplock_bench::suite::{
    AeadBatch, Calls, CbcBatch, Entries, FileSizes, Files, Fs, Host, Kernels, Questions, Sizes,
};
use warplock_bench::{Context, Suite};

use crate::args::{BenchDirection, BenchSuite};
use crate::failure::{Failure, Result};

/// The suite with its options.
pub(super) fn suite(which: BenchSuite, context: &Context<'_>) -> Result<Box<dyn Suite>> {
    Ok(match which {
        BenchSuite::FileSizes { algorithm, size } => {
            let defaults = FileSizes::default();
            let sizes = match size.is_empty() {
                true => defaults.sizes,
                false => numbers(&size),
            };
            Box::new(FileSizes { algorithm, sizes })
        }
        BenchSuite::Files {
            dir,
            algorithm,
            size,
        } => {
            let mut suite = Files {
                algorithm,
                size: size.map_or(Files::default().size, |size| numbers(&[size])[0]),
                ..Files::default()
            };
            if let Some(dir) = dir {
                suite.dir = dir;
            }
            Box::new(suite)
        }
        BenchSuite::Entries {
            dir,
            chunk,
            cold,
            profile,
        } => Box::new(Entries {
            chunks: chunk,
            cold,
            profile,
            ..Entries::new(dir)
        }),
        BenchSuite::AeadBatch {
            messages,
            text,
            aad,
        } => {
            let mut suite = AeadBatch::default();
            if !messages.is_empty() {
                suite.counts = numbers(&messages);
            }
            if !text.is_empty() {
                suite.lens = numbers(&text);
            }
            if !aad.is_empty() {
                suite.aad = numbers(&aad);
            }
            Box::new(suite)
        }
        BenchSuite::Host { algorithm, size } => {
            let mut suite = Host::default();
            if !algorithm.is_empty() {
                suite.algorithms = algorithm;
            }
            if !size.is_empty() {
                suite.sizes = numbers(&size);
            }
            Box::new(suite)
        }
        BenchSuite::Sizes {
            quick,
            algorithm,
            size,
        } => Box::new(sizes(quick, algorithm, size)?),
        BenchSuite::Kernels { size } => Box::new(match size.is_empty() {
            true => Kernels::default(),
            false => Kernels { sizes: size },
        }),
        BenchSuite::Questions { sizes, runs } => {
            let mut suite = Questions {
                runs,
                ..Questions::default()
            };
            if !sizes.is_empty() {
                suite.sizes = numbers(&sizes);
            }
            Box::new(suite)
        }
        BenchSuite::Calls => Box::new(Calls),
        BenchSuite::CbcBatch {
            messages,
            text,
            streams,
            direction,
            algorithm,
        } => {
            let mut suite = CbcBatch {
                algorithm,
                len: numbers(&[text])[0],
                ..CbcBatch::default()
            };
            if !messages.is_empty() {
                suite.counts = messages;
            }
            if !streams.is_empty() {
                suite.streams = streams;
            }
            suite.directions = match direction {
                BenchDirection::Encrypt => vec![Direction::Encrypt],
                BenchDirection::Decrypt => vec![Direction::Decrypt],
                BenchDirection::Both => suite.directions,
            };
            Box::new(suite)
        }
        BenchSuite::Fs {
            dir,
            size,
            files,
            requests,
            jobs,
            backends,
            instruction_set,
            peers,
        } => {
            let mut defaults = Fs::default();
            if !requests.is_empty() {
                defaults.requests = numbers(&requests);
            }
            if !jobs.is_empty() {
                defaults.jobs = jobs;
            }
            Box::new(Fs {
                dir: dir.unwrap_or(defaults.dir),
                size,
                files,
                requests: defaults.requests,
                jobs: defaults.jobs,
                backends,
                instruction_set,
                peers: peers.unwrap_or(defaults.peers),
            })
        }
        BenchSuite::Peers => peers(context)?,
        BenchSuite::Report { .. } => {
            return Err(Failure::usage("a report is no suite"));
        }
    })
}

/// What no memory holds stays what no memory holds.
fn numbers(given: &[u64]) -> Vec<usize> {
    let number = |&number: &u64| usize::try_from(number).unwrap_or(usize::MAX);
    given.iter().map(number).collect()
}

fn sizes(quick: bool, algorithms: Vec<Algorithm>, mut sizes: Vec<u64>) -> Result<Sizes> {
    let mut suite = match quick {
        true => Sizes::quick(),
        false => Sizes::default(),
    };
    if !algorithms.is_empty() || !sizes.is_empty() {
        // What was asked for, and no more.
        suite.batches.clear();
    }
    if !algorithms.is_empty() {
        suite.huge_algorithms.clone_from(&algorithms);
        suite.algorithms = algorithms;
    }
    if !sizes.is_empty() {
        sizes.sort_unstable();
        if sizes[0] == 0 {
            return Err(Failure::usage("a size is at least one byte"));
        }
        let sizes = numbers(&sizes).into_iter();
        // Longer ones would take portable code minutes.
        (suite.sizes, suite.huge) = sizes.partition(|&size| size < 1 << 30);
    }
    Ok(suite)
}

/// Restarts the program if libraries must find something in the environment, which they read as
/// soon as they are loaded.
#[cfg(feature = "peers")]
fn peers(context: &Context<'_>) -> Result<Box<dyn Suite>> {
    use warplock_bench::suite::Peers;

    #[cfg(unix)]
    if let Some((name, value)) = Peers::wants(context)? {
        use std::os::unix::process::CommandExt;

        let error = crate::launcher::again().env(name, value).exec();
        return Err(Failure::io("cannot restart", &error));
    }
    Ok(Box::new(Peers))
}

#[cfg(not(feature = "peers"))]
fn peers(_: &Context<'_>) -> Result<Box<dyn Suite>> {
    Err(Failure::usage(
        "this build has no other libraries to compare with; build it with --features peers",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_sizes_are_for_each_algorithm_that_was_named() {
        use Algorithm::{Aes128Ctr, Aes192Ctr, Aes256Gcm};
        let given = [1 << 30, 64];
        for named in [vec![Aes192Ctr], vec![Aes128Ctr, Aes192Ctr, Aes256Gcm]] {
            let suite = sizes(true, named.clone(), given.to_vec()).unwrap();
            assert_eq!((suite.sizes, suite.huge), (vec![64], vec![1 << 30]));
            assert_eq!(
                (&suite.algorithms, &suite.huge_algorithms),
                (&named, &named)
            );
        }
        let suite = sizes(true, vec![], given.to_vec()).unwrap();
        assert_eq!(suite.huge_algorithms, [Aes128Ctr, Aes256Gcm]);
    }
}
