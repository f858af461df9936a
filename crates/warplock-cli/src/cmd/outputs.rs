//! The outputs of a command with any number of inputs.

use std::cell::Cell;
use std::collections::HashSet;
use std::path::{Path, PathBuf, is_separator};

use warplock_keyring::shown_name;

use super::inputs::{each, file_object};
use crate::args::Common;
use crate::console::say;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Input, is_dash};
use crate::output::{Output, distinct};
use crate::system::{place, stdout_is_read};

/// The destinations of a command's results.
pub(super) struct Outputs<'a, N> {
    /// As given with `-o`.
    given: Option<&'a Path>,
    /// The same, if it is a folder.
    folder: Option<&'a Path>,
    /// Whether existing files may be replaced.
    force: bool,
    /// Makes the output's name from the input's.
    name: N,
    /// Files that the command reads besides its inputs: keys, recipients, a passphrase.
    keys: Vec<&'a Path>,
    several: bool,
    /// Whether the user was told where the results are.
    noted: Cell<bool>,
}

impl<'a, N: Fn(&Path) -> Result<PathBuf>> Outputs<'a, N> {
    /// Refuses `-o` for several inputs, standard input among others, which has no name, and inputs
    /// that another one's output would replace.
    pub(super) fn new(
        inputs: &[PathBuf],
        given: Option<&'a Path>,
        force: bool,
        keys: Vec<&'a Path>,
        name: N,
    ) -> Result<Self> {
        let several = inputs.len() > 1;
        let names_folder = |path: &&Path| match path.as_os_str().as_encoded_bytes() {
            // A separator alone is hardly meant as a folder.
            [_, .., last] => is_separator(char::from(*last)),
            _ => false,
        };
        let folder = given.filter(names_folder);
        if several && given.is_some() && folder.is_none() {
            return Err(Failure::usage(
                "-o names one output, but there are several inputs; leave it out, or name a folder, \
                 with a slash at the end",
            ));
        }
        if folder.is_some() && inputs.iter().any(|input| is_dash(input)) {
            return Err(Failure::usage(
                "the output of stdin has no name; name a file with -o, not a folder",
            ));
        }
        if several && inputs.iter().any(|input| is_dash(input)) {
            return Err(Failure::usage(
                "stdin cannot be one of several inputs: its output has no name",
            ));
        }
        let outputs = Outputs {
            given: given.filter(|_| folder.is_none()),
            folder,
            force,
            name,
            keys,
            several,
            noted: Cell::new(false),
        };
        if several && force {
            outputs.refuse_inputs(inputs)?;
        }
        outputs.refuse_equal(inputs)?;
        Ok(outputs)
    }

    /// `--force` is for older outputs, not for what is still to be read.
    fn refuse_inputs(&self, inputs: &[PathBuf]) -> Result<()> {
        let read: HashSet<_> = inputs.iter().filter_map(|path| place(path)).collect();
        // An input whose output has no name is refused in its turn.
        for output in inputs.iter().filter_map(|input| self.of(input).ok()) {
            if place(&output).is_some_and(|place| read.contains(&place)) {
                let sentence = "is an input, and --force would replace it by the output of \
                                another; do one after the other";
                return Err(Failure::usage(sentence).about(shown_name(&output)));
            }
        }
        Ok(())
    }

    /// In one folder, files of several folders may have the same name.
    fn refuse_equal(&self, inputs: &[PathBuf]) -> Result<()> {
        let mut names = HashSet::new();
        let outputs = inputs.iter().filter_map(|input| self.of(input).ok());
        for output in outputs.filter(|_| self.folder.is_some()) {
            if !names.insert(output.clone()) {
                let sentence = "would be the output of several inputs; do one after the other";
                return Err(Failure::usage(sentence).about(shown_name(&output)));
            }
        }
        Ok(())
    }

    /// The output for `input`.
    pub(super) fn of(&self, input: &Path) -> Result<PathBuf> {
        match self.given {
            Some(output) => Ok(output.to_owned()),
            None if is_dash(input) => Ok(input.to_owned()),
            None => {
                let beside =
                    (self.name)(input).map_err(|failure| failure.about(shown_name(input)))?;
                Ok(match (self.folder, beside.file_name()) {
                    (Some(folder), Some(name)) => folder.join(name),
                    _ => beside,
                })
            }
        }
    }

    /// Opens the output for `input`.
    pub(super) fn create(&self, path: &Path, input: &Input) -> Result<Output> {
        distinct([path], self.keys.iter().copied())?;
        Output::create(path, self.force, Some(input))
    }

    /// Refuses what can be refused before a passphrase is asked for. Returns the inputs that are
    /// left, and the worst exit code of the others.
    pub(super) fn check(&self, inputs: Vec<PathBuf>, common: &Common) -> (Vec<PathBuf>, Exit) {
        let mut left = Vec::new();
        let refused = each(&inputs, common, file_object, |input| {
            let output = self.of(input)?;
            let opened = Input::check(input)?;
            distinct([&*output], self.keys.iter().copied())?;
            if let Some(output) = Output::check(&output, self.force, opened.as_ref())? {
                self.refuse_terminal(&output)?;
            }
            left.push(input.to_owned());
            Ok(())
        });
        (left, refused)
    }

    /// Refuses to show ciphertext where that was not asked for.
    pub(super) fn refuse_terminal(&self, output: &Output) -> Result<()> {
        match self.given.is_none() && output.is_terminal() {
            true => Err(terminal_refused()),
            false => Ok(()),
        }
    }

    /// Says once that results are in files, if a user may look for them on standard output.
    pub(super) fn note(&self, output: &str, common: &Common) {
        let is_told = common.quiet || common.verbose || common.json;
        let is_named = self.given.is_some() || self.folder.is_some();
        if is_named || output == "stdout" || is_told || !stdout_is_read() {
            return;
        }
        if !self.noted.replace(true) {
            say(match self.several {
                true => format!(
                    "warplock: the results are in files next to the inputs, such as {output}; stdout \
                     gets nothing"
                ),
                false => {
                    format!("warplock: the result is in {output}; stdout gets it only with -o -")
                }
            });
        }
    }
}

/// Ciphertext is not shown on a terminal unless asked for.
pub(super) fn terminal_refused() -> Failure {
    Failure::usage(
        "refusing to write ciphertext to a terminal; name a file with -o (-o - writes it anyway)",
    )
}
