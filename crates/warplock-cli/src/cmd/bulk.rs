//! `warplock bulk`.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use warplock_bulk::{Error, Job, Keys, Operation, Plan, Report, Row, Shard, Status};
use warplock_keyring::{Terminal, shown_name};

use crate::args::{self, Bulk, Common, ForRecipients, Selection, WithIdentities};
use crate::console::{print, report as print_failure};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::keys::{given_recipients, read_identities};
use crate::output::named;
use crate::passphrase::PassphraseSource;
use crate::progress::Progress;
use crate::system::signals;

/// Runs the command.
pub(super) fn run(command: Bulk, common: &Common) -> Result<Exit> {
    match command {
        Bulk::Encrypt {
            dir,
            out,
            keys,
            selection,
            force,
        } => {
            let recipients = recipients(&keys, common)?;
            let plan = plan(Operation::Encrypt, dir, Some(out), recipients, selection);
            finish(&plan_and_run(&plan, None, force, common)?, common)
        }
        Bulk::Decrypt {
            dir,
            out,
            keys,
            selection,
            force,
        } => {
            let plan = plan(Operation::Decrypt, dir, Some(out), vec![], selection);
            finish(&plan_and_run(&plan, Some(&keys), force, common)?, common)
        }
        Bulk::Rewrap {
            dir,
            recipients: new,
            keys,
            selection,
        } => {
            let plan = plan(
                Operation::Rewrap,
                dir,
                None,
                recipients(&new, common)?,
                selection,
            );
            let sum = plan_and_run(&plan, Some(&keys), false, common)?;
            refuse_nothing(&sum, &plan, "rewrapped")?;
            finish(&sum, common)
        }
        Bulk::Verify {
            dir,
            keys,
            selection,
        } => {
            let plan = plan(Operation::Verify, dir, None, vec![], selection);
            let sum = plan_and_run(&plan, Some(&keys), false, common)?;
            refuse_nothing(&sum, &plan, "verified")?;
            finish(&sum, common)
        }
        Bulk::Plan(options) => {
            let operation = match options.op {
                args::Operation::Encrypt => Operation::Encrypt,
                args::Operation::Decrypt => Operation::Decrypt,
                args::Operation::Verify => Operation::Verify,
                args::Operation::Rewrap => Operation::Rewrap,
            };
            let keys = &options.keys;
            let none = keys.recipient.is_empty() && keys.recipients_file.is_empty();
            let recipients = match (operation.has_recipients(), none) {
                (true, _) => recipients(keys, common)?,
                (false, true) => vec![],
                (false, false) => {
                    return Err(Failure::usage(
                        "recipients are for --op encrypt and rewrap: leave out -r and -R",
                    ));
                }
            };
            let (source, to) = (options.source, options.destination);
            let plan = plan(operation, source, to, recipients, options.selection);
            let job = warplock_bulk::plan(&plan, &options.job)?;
            match common.json {
                true => common.emit(&json!({
                    "job": shown_name(&options.job), "units": job.units, "bytes": job.bytes,
                }))?,
                false => common.note(format_args!("{} units, {} bytes", job.units, job.bytes)),
            }
            Ok(Exit::Done)
        }
        Bulk::Run(options) => {
            let shard = options.shard.unwrap_or(Shard::WHOLE);
            let keys = Some(&options.keys);
            let sum = run_job(&options.job, shard, keys, options.force, common)?;
            finish(&sum, common)
        }
        Bulk::Report(options) => {
            let job = Job::open(&options.job)?;
            let sum =
                warplock_bulk::report(&options.job, &job, |row| tell(row, job.operation, common))?;
            finish(&sum, common)
        }
    }
}

/// The recipients as the job keeps them, one each; refused here if there are none. Each list is read
/// once: it may be a pipe.
fn recipients(keys: &ForRecipients, common: &Common) -> Result<Vec<String>> {
    let given = given_recipients(&keys.recipient, &keys.recipients_file, common)?;
    if given.is_empty() {
        return Err(Failure::usage(
            "name the keys that shall open the files: -r RECIPIENT or -R FILE. Passphrases are not \
             for many files: each would take a second; `warplock keygen` makes a key",
        ));
    }
    Ok(given.texts().to_vec())
}

fn plan(
    operation: Operation,
    source: PathBuf,
    destination: Option<PathBuf>,
    recipients: Vec<String>,
    selection: Selection,
) -> Plan {
    Plan {
        operation,
        source,
        destination,
        recipients,
        include: selection.include,
        exclude: selection.exclude,
    }
}

/// Plans and runs; the destination itself says what is done.
fn plan_and_run(
    plan: &Plan,
    keys: Option<&WithIdentities>,
    force: bool,
    common: &Common,
) -> Result<Report> {
    let folder = tempfile::tempdir().map_err(|error| Failure::io("cannot create a job", &error))?;
    let unfinished = folder.path().to_owned();
    // It has the names of all files.
    signals::before_death(Box::new(move || drop(fs::remove_dir_all(&unfinished))));
    let job = folder.path().join("job");
    warplock_bulk::plan(plan, &job)?;
    run_job(&job, Shard::WHOLE, keys, force, common)
}

fn run_job(
    path: &Path,
    shard: Shard,
    given: Option<&WithIdentities>,
    force: bool,
    common: &Common,
) -> Result<Report> {
    let job = Job::open(path)?;
    if let (true, Some(given), Some(to)) = (force, given, &job.destination) {
        refuse_keys_inside(&to.0, given)?;
    }
    let identities = match (job.operation, given) {
        (Operation::Encrypt, _) => None,
        (_, Some(given)) if !given.identity.is_empty() => Some(read_identities(
            &given.identity,
            Arc::new(PassphraseSource::of(&given.from)),
            given.work,
            common,
        )?),
        _ => {
            return Err(Failure::usage(
                "name the identities that open the files: -i FILE",
            ));
        }
    };
    let prompt = Arc::new(Terminal);
    let keys = Keys { identities, prompt };
    let pipeline = common.pipeline()?;
    let threads: NonZeroUsize = pipeline.concurrency().workers;
    let small = Arc::new(AtomicU64::new(0));
    let progress = {
        let (small, monitor) = (small.clone(), pipeline.monitor().clone());
        let done = move || small.load(Ordering::Relaxed) + monitor.done();
        let total = (shard == Shard::WHOLE).then_some(job.bytes);
        Progress::start(&shown_name(path), total, done, !common.quiet)
    };
    let ended = |row: &Row| tell(row, job.operation, common);
    let sum = warplock_bulk::run(
        path, &job, shard, &keys, force, &pipeline, threads, &small, &ended,
    );
    drop(progress);
    Ok(sum?)
}

/// With `--force`, a result may replace any file of the destination.
fn refuse_keys_inside(destination: &Path, given: &WithIdentities) -> Result<()> {
    let Ok(destination) = fs::canonicalize(destination) else {
        return Ok(());
    };
    let files = given.identity.iter().chain(&given.from.passphrase_file);
    let inside = |file: &&PathBuf| {
        fs::canonicalize(named(file)).is_ok_and(|file| file.starts_with(&destination))
    };
    match files.into_iter().find(inside) {
        None => Ok(()),
        Some(file) => Err(Failure::error(
            "is in the destination, where --force may replace it; move it elsewhere first",
        )
        .about(shown_name(file))),
    }
}

/// A folder that is empty, or another one than was meant, is no success.
fn refuse_nothing(sum: &Report, plan: &Plan, what: &str) -> Result<()> {
    match sum.done + sum.unchanged + sum.failed + sum.authentication {
        0 => Err(Failure::error(format_args!(
            "no file there was chosen whose name ends in .wl, so nothing was {what}"
        ))
        .about(shown_name(&plan.source))),
        _ => Ok(()),
    }
}

/// Reports a unit that was not done.
fn tell(row: &Row, operation: Operation, common: &Common) {
    let message = row.message.as_deref().unwrap_or_default();
    // From a listing, not from the command line, where a secret may stand by mistake.
    let name = row.path.0.display().to_string();
    let failure = match row.status {
        Status::Failed => Failure::error(message),
        Status::Authentication => Failure::authentication(message),
        Status::Skipped => {
            let told = format_args!("{name}: skipped: {message}");
            return match operation {
                // Part of the tree has no encrypted copy.
                Operation::Encrypt => common.warn(told),
                _ => common.note(told),
            };
        }
        Status::Done | Status::Unchanged => return,
    };
    let failure = failure.about(&name);
    match common.json {
        true => drop(common.fail(&failure, json!({ "file": name }))),
        false => drop(print_failure(&failure)),
    }
}

fn finish(sum: &Report, common: &Common) -> Result<Exit> {
    if common.json {
        let value = serde_json::to_value(sum).unwrap_or(Value::Null);
        common.emit(&value)?;
    } else if !common.quiet {
        print(&format!(
            "{} done ({} bytes), {} unchanged, {} skipped, {} failed, {} pending\n",
            sum.done,
            sum.bytes,
            sum.unchanged,
            sum.skipped,
            sum.failed + sum.authentication,
            sum.pending
        ))?;
    }
    Ok(match sum {
        sum if sum.authentication > 0 => Exit::Authentication,
        sum if sum.failed + sum.pending > 0 => Exit::Error,
        _ => Exit::Done,
    })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { path, source } => {
                Failure::io("cannot be used", &source).about(shown_name(&path))
            }
            Error::Usage(what) => Failure::usage(what),
            Error::Keyring(error) => error.into(),
            error => Failure::error(error),
        }
    }
}
