//! `warplock bench`: measures, and prints the results.

mod live;
mod suites;

use std::path::{Path, PathBuf};

use serde_json::json;
use warplock::{BACKEND_VARIABLE, BackendChoice};
use warplock_bench::{Context, Error, Report, Section};

use self::live::{Live, Outputs, Picture};
use crate::args::{Bench, BenchSuite, Common};
use crate::console::print;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::{Output, distinct};

/// Runs a suite.
pub(super) fn run(options: Bench, common: &Common) -> Result<Exit> {
    if let BenchSuite::Report { results } = &options.suite {
        return report(results, &options, common);
    }
    let defaults = Context::default();
    // Refused now, not after minutes of work.
    let data = match &options.suite {
        BenchSuite::Entries { dir, .. } => ["keys.bin", "plains.bin", "ciphers.bin"]
            .map(|name| dir.join(name))
            .into(),
        _ => Vec::new(),
    };
    let files = options.output.iter().chain(&options.plot);
    distinct(
        files.map(PathBuf::as_path),
        data.iter().map(PathBuf::as_path),
    )?;
    let create = |path: &Path| Output::create(path, options.force, None);
    let outputs = Outputs {
        json: options.output.as_deref().map(create).transpose()?,
        plot: match &options.plot {
            Some(path) => {
                let picture = Picture::of(path)?;
                Some((create(path)?, picture))
            }
            None => None,
        },
        page: None,
    };
    let live = Live::start(outputs, common);
    let context = Context {
        choice: choice(common)?,
        threads: common.threads.unwrap_or(defaults.threads),
        notify: &|step| common.note(step),
        progress: &|report| live.progress(report),
        ..defaults
    };
    let outcome = match suites::suite(options.suite, &context) {
        Ok(suite) => suite.run(&context),
        Err(failure) => {
            live.discard();
            return Err(failure);
        }
    };
    match outcome {
        Ok(report) => live.finish(&report)?,
        Err(error) => {
            live.discard();
            // Printed instead of the table; no file appears.
            match (&error, common.json) {
                (Error::NoGpu(_) | Error::NoFuse, true) => {
                    common.emit(&json!({ "skipped": error.to_string() }))?;
                }
                (Error::NoGpu(_) | Error::NoFuse, false) => print(&format!("{error}\n"))?,
                _ => return Err(error.into()),
            }
        }
    }
    Ok(Exit::Done)
}

/// All suites, or recorded results, as one page.
fn report(results: &[PathBuf], options: &Bench, common: &Common) -> Result<Exit> {
    let Some(path) = &options.output else {
        return Err(Failure::usage(
            "name the page's file with -o, as in: -o report.html",
        ));
    };
    if options.plot.is_some() {
        return Err(Failure::usage("the page has all figures: leave --plot out"));
    }
    distinct([&**path], results.iter().map(PathBuf::as_path))?;
    let mut sections = Vec::new();
    for path in results {
        let about = |failure: Failure| failure.about(path.display());
        let text = std::fs::read_to_string(path)
            .map_err(|error| about(Failure::io("cannot read", &error)))?;
        let json = serde_json::from_str(&text)
            .map_err(|error| about(Failure::error(format_args!("is no JSON: {error}"))))?;
        let report = Report::from_json(&json).map_err(|error| about(error.into()))?;
        sections.push(Section::Report(Box::new(report)));
    }
    let outputs = Outputs {
        page: Some(Output::create(path, options.force, None)?),
        ..Outputs::default()
    };
    let live = Live::start(outputs, common);
    if sections.is_empty() {
        let defaults = Context::default();
        let context = Context {
            choice: choice(common)?,
            threads: common.threads.unwrap_or(defaults.threads),
            notify: &|step| common.note(step),
            progress: &|report| live.progress(report),
            ..defaults
        };
        for suite in warplock_bench::suite::all() {
            live.say(&format!("{}:", suite.name()));
            let section = match suite.run(&context) {
                Ok(report) => Section::Report(Box::new(report)),
                Err(error @ (Error::NoGpu(_) | Error::NoFuse)) => Section::Skipped {
                    suite: suite.name().to_owned(),
                    why: error.to_string(),
                },
                Err(error) => {
                    live.discard();
                    return Err(error.into());
                }
            };
            live.add(section);
        }
    } else {
        sections.into_iter().for_each(|section| live.add(section));
    }
    live.finish_page()?;
    Ok(Exit::Done)
}

/// The variable stands for the option: a suite reads the settings of its columns from it.
fn choice(common: &Common) -> Result<Option<BackendChoice>> {
    match (common.backend, std::env::var(BACKEND_VARIABLE)) {
        (None, Ok(name)) if !name.is_empty() => Ok(Some(name.parse()?)),
        (choice, _) => Ok(choice),
    }
}

impl From<warplock_bench::Error> for Failure {
    fn from(error: warplock_bench::Error) -> Self {
        match error {
            warplock_bench::Error::Engine(error) => Failure::from(error),
            error => Failure::error(error),
        }
    }
}
