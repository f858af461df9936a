//! Planning: a tree is listed once, in a fixed order, without keeping the list in memory.

use std::collections::HashSet;
use std::fs::{self, DirEntry, File, Metadata};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use crate::error::{Error, Result};
use crate::job::{Job, Kind, Name, Operation, Unit, part_name, result_name};

/// What [`plan()`] is asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What to do with each file.
    pub operation: Operation,
    /// The tree.
    pub source: PathBuf,
    /// Where the results go; it is made. None to verify or rewrap.
    pub destination: Option<PathBuf>,
    /// For whom to encrypt or rewrap.
    pub recipients: Vec<String>,
    /// Only files that one of these patterns matches; none: all. Patterns are matched with the path
    /// in the tree, and if they hold no `/`, with the name alone.
    pub include: Vec<String>,
    /// No files and folders that one of these patterns matches.
    pub exclude: Vec<String>,
}

/// Lists a tree into a new folder `job`.
///
/// # Errors
/// [`Error::Usage`] for patterns, places and recipients that make no sense, [`Error::Io`]. What
/// cannot be read inside the tree is a unit that fails.
pub fn plan(options: &Plan, job: &Path) -> Result<Job> {
    let Plan {
        operation, source, ..
    } = options;
    for place in std::iter::once(source).chain(&options.destination) {
        refuse_url(place)?;
    }
    let source = fs::canonicalize(source).map_err(Error::io(source))?;
    if !source.is_dir() {
        let source = source.display();
        return Err(Error::Usage(format!(
            "{source} is not a folder; for single files there is `warplock encrypt`"
        )));
    }
    let destination = match (&options.destination, operation) {
        (None, operation) if !operation.has_destination() => None,
        (Some(path), operation) if operation.has_destination() => {
            fs::create_dir_all(path).map_err(Error::io(path))?;
            Some(fs::canonicalize(path).map_err(Error::io(path))?)
        }
        _ => {
            return Err(Error::Usage(
                "encrypt and decrypt need a destination, verify and rewrap have none".to_owned(),
            ));
        }
    };
    if destination.as_ref() == Some(&source) {
        return Err(Error::Usage(
            "source and destination are the same folder".to_owned(),
        ));
    }
    let (include, exclude) = (patterns(&options.include)?, patterns(&options.exclude)?);
    make_job(job)?;
    let identity = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    let mut walk = Walk {
        operation: *operation,
        chosen: include.is_empty(),
        include,
        exclude,
        own: identity(job),
        results: destination.as_deref().and_then(identity),
        source: source.clone(),
        job,
        out: None,
        units: 0,
        bytes: 0,
        parts: 0,
    };
    walk.folder(Path::new(""))?;
    walk.end_part()?;
    if !walk.chosen {
        let source = source.display();
        return Err(Error::Usage(format!(
            "{source}: no file there matches --include"
        )));
    }
    let planned = Job {
        version: 1,
        operation: *operation,
        source: Name(source),
        destination: destination.map(Name),
        recipients: options.recipients.clone(),
        units: walk.units,
        bytes: walk.bytes,
        parts: walk.parts,
    };
    let path = job.join("job.json");
    let text = serde_json::to_vec_pretty(&planned).map_err(|error| Error::job(&path, error))?;
    let written = File::create_new(&path).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    written.map_err(Error::io(&path))?;
    Ok(planned)
}

/// Makes the folder of a job. One that is there must hold nothing but what a plan left that was
/// stopped: the folder is no part of the tree.
fn make_job(job: &Path) -> Result<()> {
    match fs::create_dir(job) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && job.is_dir() => {}
        made => return made.map_err(Error::io(job)),
    }
    let entries = fs::read_dir(job).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(Error::io(job))?;
    let is_left = |entry: &DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let number = name.strip_prefix("units-");
        let number = number.and_then(|rest| rest.strip_suffix(".jsonl"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if let Some(other) = entries.iter().find(|entry| !is_left(entry)) {
        return Err(Error::Usage(format!(
            "{} is there already, with {}: name a new folder for the job",
            job.display(),
            other.file_name().display()
        )));
    }
    for left in entries {
        fs::remove_file(left.path()).map_err(Error::io(&left.path()))?;
    }
    Ok(())
}

/// A bucket's URL is also a path, but hardly meant as one.
fn refuse_url(place: &Path) -> Result<()> {
    let text = place.to_string_lossy();
    match text.split_once("://") {
        Some((scheme, _)) if !scheme.contains('/') && !place.exists() => {
            Err(Error::Usage(format!(
                "{text} is not a folder; for buckets there is `python -m warplock.bulk` \
                 (pip install \"warplock[bulk]\")"
            )))
        }
        _ => Ok(()),
    }
}

/// A pattern for the names of files and folders, or if it has a slash, for their paths. A slash at its
/// beginning makes it one for paths, one at its end makes no difference.
struct Chooser {
    pattern: Pattern,
    by_path: bool,
}

fn patterns(texts: &[String]) -> Result<Vec<Chooser>> {
    let parse = |text: &String| {
        let told = text.trim_end_matches('/');
        let path = told.strip_prefix('/').unwrap_or(told);
        if path.split('/').any(|name| ["", ".", ".."].contains(&name)) {
            return Err(Error::Usage(format!(
                "the pattern {text} matches nothing: paths in the tree have no empty names, '.' or '..'"
            )));
        }
        let pattern = Pattern::new(path);
        Ok(Chooser {
            pattern: pattern
                .map_err(|error| Error::Usage(format!("the pattern {text}: {error}")))?,
            by_path: told.contains('/'),
        })
    };
    texts.iter().map(parse).collect()
}

/// Units in one file.
const PART: u64 = 100_000;

struct Walk<'a> {
    operation: Operation,
    include: Vec<Chooser>,
    exclude: Vec<Chooser>,
    /// Something was found that is included.
    chosen: bool,
    /// Device and inode of the job's folder, and of the destination.
    own: Option<(u64, u64)>,
    results: Option<(u64, u64)>,
    source: PathBuf,
    job: &'a Path,
    out: Option<BufWriter<File>>,
    units: u64,
    bytes: u64,
    parts: u32,
}

impl Walk<'_> {
    /// Lists a folder, given relative to the source: its entries by their names, each folder's
    /// content right after it.
    fn folder(&mut self, path: &Path) -> Result<()> {
        let full = self.source.join(path);
        let entries = fs::read_dir(&full).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) if path.as_os_str().is_empty() => return Err(Error::io(&full)(error)),
            Err(error) => {
                // It may hold what was chosen.
                self.chosen = true;
                let reason = format!("its content cannot be listed: {error}");
                return self.unit(path, Kind::Failed(reason), None);
            }
        };
        entries.sort_by_key(DirEntry::file_name);
        let mut results = HashSet::new();
        for entry in entries {
            let path = path.join(entry.file_name());
            if matches_any(&self.exclude, &path) {
                continue;
            }
            let found = match entry.metadata() {
                Ok(found) => found,
                Err(error) => {
                    self.unit(&path, Kind::Failed(error.to_string()), None)?;
                    continue;
                }
            };
            let identity = Some((found.dev(), found.ino()));
            if found.is_dir() && identity == self.own {
                continue;
            }
            if found.is_dir() && identity == self.results {
                // Told, as a folder of the tree was perhaps named by mistake.
                let reason = "it is the destination".to_owned();
                self.unit(&path, Kind::Skipped(reason), Some(&found))?;
                continue;
            }
            if !found.is_dir() && !self.include.is_empty() {
                if !matches_any(&self.include, &path) {
                    continue;
                }
                self.chosen = true;
            }
            let mut kind = self.kind(&path, &found);
            let result = match kind {
                _ if !self.operation.has_destination() => None,
                Kind::File => result_name(self.operation, &path),
                Kind::Folder | Kind::Link => Some(path.clone()),
                Kind::Skipped(_) | Kind::Failed(_) => None,
            };
            let is_new = result.is_none_or(|result| results.insert(result));
            if !is_new {
                kind = Kind::Failed("its result would have the name of another's".to_owned());
            }
            let enter = kind == Kind::Folder;
            self.unit(&path, kind, Some(&found))?;
            if enter {
                self.folder(&path)?;
            }
        }
        Ok(())
    }

    fn kind(&self, path: &Path, found: &Metadata) -> Kind {
        let kind = found.file_type();
        if kind.is_file() && result_name(self.operation, path).is_none() {
            return Kind::Skipped("its name does not end in .wl".to_owned());
        }
        if kind.is_file() {
            return Kind::File;
        }
        if kind.is_dir() {
            return Kind::Folder;
        }
        if kind.is_symlink() && !self.operation.has_destination() {
            return Kind::Skipped("it is a symbolic link".to_owned());
        }
        if kind.is_symlink() {
            return Kind::Link;
        }
        let what = match () {
            () if kind.is_fifo() => "it is a pipe",
            () if kind.is_socket() => "it is a socket",
            () => "it is a device",
        };
        Kind::Skipped(what.to_owned())
    }

    fn unit(&mut self, path: &Path, kind: Kind, found: Option<&Metadata>) -> Result<()> {
        if kind == Kind::Folder && !self.operation.has_destination() {
            return Ok(());
        }
        if kind == Kind::File {
            // Files with holes can be as long as they like.
            self.bytes = self.bytes.saturating_add(found.map_or(0, Metadata::len));
        }
        let unit = Unit {
            path: Name(path.to_owned()),
            kind,
            size: found.map_or(0, Metadata::len),
            mtime: found.map_or((0, 0), |found| (found.mtime(), found.mtime_nsec() as u32)),
            inode: found.map_or(0, MetadataExt::ino),
            mode: found.map_or(0, |found| found.mode() & 0o7777),
        };
        if self.units.is_multiple_of(PART) {
            self.end_part()?;
            let path = self.job.join(part_name(self.parts));
            let file = File::create_new(&path).map_err(Error::io(&path))?;
            self.out = Some(BufWriter::new(file));
            self.parts += 1;
        }
        self.units += 1;
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        let line = serde_json::to_string(&unit).map_err(|error| Error::job(self.job, error))?;
        writeln!(out, "{line}").map_err(Error::io(self.job))
    }

    fn end_part(&mut self) -> Result<()> {
        let Some(mut out) = self.out.take() else {
            return Ok(());
        };
        let done = out.flush().and_then(|()| out.get_ref().sync_all());
        done.map_err(Error::io(self.job))
    }
}

fn matches_any(choosers: &[Chooser], path: &Path) -> bool {
    let options = MatchOptions {
        require_literal_separator: true,
        ..MatchOptions::default()
    };
    let name = path.file_name().map(Path::new).unwrap_or(path);
    choosers.iter().any(|chooser| {
        let against = match chooser.by_path {
            true => path,
            false => name,
        };
        chooser.pattern.matches_path_with(against, options)
    })
}
