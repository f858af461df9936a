//! `warplock bench`: measures, and prints the results.

use std::io::Write;
use std::path::Path;

use serde_json::json;
use warplock::{Algorithm, BACKEND_VARIABLE, BackendChoice, Mode};
use warplock_bench::suite::{
    AeadBatch, Calls, CbcBatch, Entries, FileSizes, Files, Fs, Host, Kernels, Sizes,
};
use warplock_bench::{Context, Error, Report, Suite};

use crate::args::{Bench, BenchSuite, Common};
use crate::console::print;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Runs a suite.
pub(super) fn run(options: Bench, common: &Common) -> Result<Exit> {
    let defaults = Context::default();
    let context = Context {
        choice: choice(common)?,
        threads: common.threads.unwrap_or(defaults.threads),
        notify: &|step| common.note(step),
        ..defaults
    };
    let suite = suite(options.suite, &context)?;
    // Refused now, not after minutes of work.
    let create = |path: &Path| Output::create(path, options.force, None);
    let json = options.output.as_deref().map(create).transpose()?;
    let plot = options.plot.as_deref().map(create).transpose()?;

    let report = match suite.run(&context) {
        // Printed instead of the table; no file appears.
        Err(skipped @ (Error::NoGpu(_) | Error::NoFuse)) => {
            match common.json {
                true => common.emit(&json!({ "skipped": skipped.to_string() }))?,
                false => print(&format!("{skipped}\n"))?,
            }
            return Ok(Exit::Done);
        }
        outcome => outcome?,
    };
    // Files first: the reader of the table may leave before its end. And the table even if a file
    // failed: the measurement must not be lost.
    let written = files(&report, json, plot);
    let printed = match common.json {
        true => common.emit(&report.json()),
        false => print(&report.table()),
    };
    written.and(printed).map(|()| Exit::Done)
}

fn files(report: &Report, json: Option<Output>, plot: Option<Output>) -> Result<()> {
    if let Some(output) = json {
        write(output, &format!("{:#}\n", report.json()))?;
    }
    match plot {
        Some(output) => write(output, &report.svg()?),
        None => Ok(()),
    }
}

/// The variable stands for the option: a suite reads the settings of its columns from it.
fn choice(common: &Common) -> Result<Option<BackendChoice>> {
    match (common.backend, std::env::var(BACKEND_VARIABLE)) {
        (None, Ok(name)) if !name.is_empty() => Ok(Some(name.parse()?)),
        (choice, _) => Ok(choice),
    }
}

fn suite(which: BenchSuite, context: &Context<'_>) -> Result<Box<dyn Suite>> {
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
        BenchSuite::Entries { dir, chunk, cold } => {
            let defaults = Entries::new(dir);
            let chunks = match chunk.is_empty() {
                true => defaults.chunks,
                false => chunk,
            };
            Box::new(Entries {
                chunks,
                cold,
                ..defaults
            })
        }
        BenchSuite::AeadBatch { messages, text } => {
            let mut suite = AeadBatch::default();
            if !messages.is_empty() {
                suite.counts = numbers(&messages);
            }
            if !text.is_empty() {
                suite.lens = numbers(&text);
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
        BenchSuite::Calls => Box::new(Calls),
        BenchSuite::CbcBatch { messages } => Box::new(match messages.is_empty() {
            true => CbcBatch::default(),
            false => CbcBatch { counts: messages },
        }),
        BenchSuite::Fs {
            dir,
            size,
            files,
            backends,
            instruction_set,
            peers,
        } => {
            let defaults = Fs::default();
            Box::new(Fs {
                dir: dir.unwrap_or(defaults.dir),
                size,
                files,
                backends,
                instruction_set,
                peers: peers.unwrap_or(defaults.peers),
            })
        }
        BenchSuite::Peers => peers(context)?,
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
    // Each size has one IV of 16 bytes and a message of any length.
    let takes = |algorithm: &Algorithm| {
        matches!(algorithm.info().mode, Mode::Ctr | Mode::Gcm | Mode::Acorn)
    };
    if let Some(other) = algorithms.iter().find(|algorithm| !takes(algorithm)) {
        return Err(Failure::usage(format_args!(
            "this suite has messages of any length, which {other} does not take; name ctr, gcm or \
             acorn-128"
        )));
    }
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

        let error = crate::startup::again().env(name, value).exec();
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

fn write(output: Output, text: &str) -> Result<()> {
    let written = output.file().write_all(text.as_bytes());
    written.map_err(|error| Failure::writing(&error).about(&output.name))?;
    output.publish()
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
