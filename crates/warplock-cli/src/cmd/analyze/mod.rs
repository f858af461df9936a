//! `warplock analyze`: statistics of ciphertexts.

mod encryption;
mod show;
mod statistics;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use warplock::Algorithm;
use warplock_analyze::page::{Section, Table, page};
use warplock_analyze::trials::{Summary, Trials};
use warplock_analyze::{Comparison, Data, Options, Report, Shape, Test, with_plaintext};

use self::encryption::{Encryption, Randomness};
use self::statistics::Statistics;
use super::inputs::stdin_once;
use crate::args::{Analyze, Change, Choice, Common};
use crate::console::print;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Input, input_name, is_dash};
use crate::output::{Output, distinct};

/// The most padding or tag that raw pixels of a plaintext's shape may have after them.
const MAX_TAIL: usize = 32;
/// Of pictures made here.
const PICTURE: Shape = Shape {
    width: 512,
    height: 512,
    channels: 1,
};
/// The shortest part of a ciphertext whose statistics have known distributions.
const SHORTEST: usize = 1280;

/// One ciphertext and what was found.
pub(super) struct Finding<'a> {
    /// The file or picture.
    name: String,
    algorithm: Option<Algorithm>,
    data: Data<'a>,
    report: Report,
    /// Its correlation with the plaintext.
    with_plaintext: Option<Test>,
    pairs: Vec<Pair>,
    /// Instead of all of the above, which is then of the last trial.
    trials: Option<Vec<Summary>>,
}

/// The ciphertext against another one.
pub(super) struct Pair {
    change: Option<Change>,
    /// What differs between the two.
    what: String,
    /// What that means for the algorithm.
    meaning: &'static str,
    comparison: Comparison,
}

/// Analyses, prints, and draws the page.
pub(super) fn run(options: &Analyze, common: &Common) -> Result<Exit> {
    let inputs = options.files.iter().chain(&options.against);
    let from_stdin: Vec<_> = inputs.map(|file| ("a file", is_dash(file))).collect();
    stdin_once(&from_stdin)?;
    if let (false, [_, _]) = (options.algorithm.is_empty(), &options.files[..]) {
        return Err(Failure::usage(
            "--algorithm encrypts the plaintext itself; give no ciphertext",
        ));
    }
    // Before the work is done.
    let read = options.files.iter().chain(&options.against);
    distinct(options.report.as_deref(), read.map(PathBuf::as_path))?;
    let output = match &options.report {
        Some(path) => Some(Output::create(path, options.force, None)?),
        None => None,
    };
    let statistics = Statistics::new(common)?;
    let plain = plaintext(options, common)?;
    let findings = match &plain {
        Some((name, data)) if !options.algorithm.is_empty() => {
            encrypted(name, data, options, common, &statistics)?
        }
        _ => vec![given(
            plain.as_ref().map(|(_, data)| data),
            options,
            common,
            &statistics,
        )?],
    };
    if let Some(output) = output {
        let settings = settings(options, common);
        let plain = match &plain {
            Some((name, data)) => Some((name, data, statistics.analyze(data, &settings)?)),
            None => None,
        };
        write_page(output, plain.as_ref(), &findings)?;
    }
    if common.json {
        for finding in &findings {
            common.emit(&show::object(finding))?;
        }
        return Ok(Exit::Done);
    }
    let all = common.verbose || findings.len() == 1;
    let mut text = String::new();
    if all {
        findings
            .iter()
            .for_each(|finding| show::finding(&mut text, finding));
    }
    if findings.len() > 1 && options.trials.is_none() {
        show::overview(&mut text, &findings);
    } else if !all {
        findings
            .iter()
            .for_each(|finding| show::trials(&mut text, finding));
    }
    text += show::CLOSING;
    print(&text)?;
    Ok(Exit::Done)
}

fn settings(options: &Analyze, common: &Common) -> Options {
    let default = Options::default();
    Options {
        seed: options.seed.unwrap_or(default.seed),
        threads: common.threads.unwrap_or(default.threads),
        ..default
    }
}

/// The plaintext with its name, if there is one.
fn plaintext(options: &Analyze, common: &Common) -> Result<Option<(String, Data<'static>)>> {
    if let Some(picture) = options.picture {
        let shape = options.image.unwrap_or(PICTURE);
        let data = picture.draw(shape, options.seed.unwrap_or(0));
        return Ok(Some((format!("{} {shape}", picture.name()), data)));
    }
    match &options.files[..] {
        [plain, ..] if options.files.len() == 2 || !options.algorithm.is_empty() => {
            let data = load(plain, options.image, None, common)?;
            Ok(Some((input_name(plain), data)))
        }
        _ => Ok(None),
    }
}

/// Reads a file: an image, raw pixels, or bytes of any kind. `of_plain` is the plaintext's shape.
fn load(
    path: &Path,
    image: Option<Shape>,
    of_plain: Option<Shape>,
    common: &Common,
) -> Result<Data<'static>> {
    let mut input = Input::open(path)?;
    let mut bytes = Vec::new();
    let read = input.file.read_to_end(&mut bytes);
    read.map_err(|error| Failure::io("cannot read", &error).about(&input.name))?;
    if bytes.is_empty() {
        return Err(Failure::error("is empty: there is nothing to analyze").about(&input.name));
    }
    let ends = [".png", ".pgm", ".ppm", ".pnm", ".bmp", ".tif", ".tiff"];
    let lower = input.name.to_lowercase();
    let ends_with = |ends: &[&str]| ends.iter().any(|end| lower.ends_with(end));
    let data = if let Some(shape) = image {
        let tail = bytes.len().saturating_sub(shape.len());
        if tail > MAX_TAIL {
            common.warn(format_args!(
                "{}: {tail} bytes after the raw pixels of --image are left out",
                input.name
            ));
        }
        Data::image(bytes, shape)
    } else if ends_with(&ends) {
        Data::decode(&bytes)
    } else {
        if ends_with(&[".jpg", ".jpeg", ".gif", ".webp"]) {
            common.warn(format_args!(
                "{}: these are the bytes of the file, not its pixels; for those, convert it to PNG",
                input.name
            ));
        }
        match of_plain {
            Some(shape) if (shape.len()..=shape.len() + MAX_TAIL).contains(&bytes.len()) => {
                Data::image(bytes, shape)
            }
            _ => Ok(Data::bytes(bytes)),
        }
    };
    data.map_err(|error| Failure::error(error).about(&input.name))
}

/// A ciphertext that was given, alone or with its plaintext.
fn given(
    plain: Option<&Data<'_>>,
    options: &Analyze,
    common: &Common,
    statistics: &Statistics,
) -> Result<Finding<'static>> {
    let path = options.files.last().expect("there is a file or a picture");
    let shape = plain.and_then(Data::shape);
    let data = load(path, options.image, shape, common)?;
    let name = input_name(path);
    if let Some(plain) = plain
        && plain.as_bytes().len() != data.as_bytes().len()
    {
        common.warn(format_args!(
            "{name}: has {} bytes to compare and the plaintext {}, so that the correlation with the \
             plaintext is left out",
            data.as_bytes().len(),
            plain.as_bytes().len()
        ));
    }
    let settings = settings(options, common);
    let trials = match options.trials {
        Some(count) => {
            let part = data.as_bytes().len() / count.get();
            if part < SHORTEST {
                return Err(Failure::usage(format_args!(
                    "--trials: {count} parts would have {part} bytes each, and fewer than \
                     {SHORTEST} are too short for these statistics"
                )));
            }
            let mut trials = Trials::default();
            for part in data.as_bytes().chunks_exact(part) {
                let report = statistics.analyze(&Data::bytes(part), &settings)?;
                report.tests().for_each(|test| trials.add("", test));
            }
            Some(trials.summaries())
        }
        None => None,
    };
    let pairs = match &options.against {
        Some(path) => {
            let other = load(path, options.image, data.shape(), common)?;
            let comparison = statistics.compare(&data, &other);
            vec![Pair {
                change: None,
                what: format!("against {}", input_name(path)),
                meaning: "What this shows depends on what was changed between the two: a stream \
                          cipher changes all bytes with the nonce or key, and only those that \
                          differ with the plaintext.",
                comparison: comparison.map_err(|error| Failure::error(error).about(&name))?,
            }]
        }
        None => Vec::new(),
    };
    Ok(Finding {
        name,
        algorithm: None,
        report: statistics.analyze(&data, &settings)?,
        with_plaintext: plain.and_then(|plain| with_plaintext(plain.as_bytes(), data.as_bytes())),
        data,
        pairs,
        trials,
    })
}

/// A finding for each algorithm.
fn encrypted(
    name: &str,
    plain: &Data<'_>,
    options: &Analyze,
    common: &Common,
    statistics: &Statistics,
) -> Result<Vec<Finding<'static>>> {
    let engine = common.engine()?;
    let settings = settings(options, common);
    let chosen = options.algorithm.iter().flat_map(|choice| match choice {
        Choice::All => Algorithm::all().collect(),
        Choice::One(algorithm) => vec![*algorithm],
    });
    let mut random = Randomness::new(options.seed);
    let mut findings = Vec::new();
    for algorithm in chosen {
        let changes = match &options.change[..] {
            [] => &Change::ALL[..],
            chosen => chosen,
        };
        let mut trials = Trials::default();
        let mut last = None;
        for _ in 0..options.trials.map_or(1, |count| count.get()) {
            let encryption = Encryption::new(&engine, algorithm, plain, &mut random)?;
            let data = encryption.run()?;
            let report = statistics.analyze(&data, &settings)?;
            let mut pairs = Vec::new();
            for &change in changes {
                pairs.extend(encryption.changed(change, &data, &mut random, statistics)?);
            }
            if options.trials.is_some() {
                for channel in &report.channels {
                    let tests = channel.tests.iter();
                    tests.for_each(|test| trials.add(shown(channel.name), test));
                }
                report.tests.iter().for_each(|test| trials.add("", test));
                for pair in &pairs {
                    let change = pair.change.map_or("", Change::name);
                    let tests = pair.comparison.tests();
                    tests.for_each(|test| trials.add(change, test));
                }
            }
            last = Some((data, report, pairs));
        }
        let (data, report, pairs) = last.expect("there is at least one trial");
        findings.push(Finding {
            name: name.to_owned(),
            algorithm: Some(algorithm),
            with_plaintext: with_plaintext(plain.as_bytes(), data.as_bytes()),
            data,
            report,
            pairs,
            trials: options.trials.map(|_| trials.summaries()),
        });
    }
    Ok(findings)
}

/// The only channel needs no name.
fn shown(channel: &str) -> &str {
    match channel {
        "grey" => "",
        channel => channel,
    }
}

fn write_page(
    output: Output,
    plain: Option<&(&String, &Data<'_>, Report)>,
    findings: &[Finding<'_>],
) -> Result<()> {
    let mut sections = Vec::new();
    if let Some((name, data, report)) = plain {
        sections.push(Section {
            title: format!("plaintext: {name}"),
            data,
            report,
            tables: Vec::new(),
        });
    }
    for finding in findings {
        let with_plaintext = finding.with_plaintext.iter().map(|test| Table {
            title: "With the plaintext".to_owned(),
            text: String::new(),
            tests: vec![("", test)],
        });
        let pairs = finding.pairs.iter().map(|pair| Table {
            title: pair.what.clone(),
            text: pair.meaning.to_owned(),
            tests: pair.tests().collect(),
        });
        sections.push(Section {
            title: finding.title(),
            data: &finding.data,
            report: &finding.report,
            tables: with_plaintext.chain(pairs).collect(),
        });
    }
    let page = page("Statistics of ciphertexts", show::CLOSING.trim(), &sections);
    let page = page.map_err(|error| Failure::error(error).about(&output.name))?;
    let written = output.file().write_all(page.as_bytes());
    written.map_err(|error| Failure::writing(&error).about(&output.name))?;
    output.publish()
}

impl Finding<'_> {
    fn title(&self) -> String {
        match self.algorithm {
            Some(algorithm) => format!("{} by {algorithm}", self.name),
            None => self.name.clone(),
        }
    }
}

impl Pair {
    /// Each result with its channel.
    fn tests(&self) -> impl Iterator<Item = (&str, &Test)> {
        let channels = self.comparison.channels.iter();
        channels.flat_map(|channel| channel.tests.iter().map(|test| (channel.name, test)))
    }
}
