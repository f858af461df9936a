//! `warplock vault check`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use warplock_vault::{
    CONFIG, CheckOptions, Class, Finding, Options, Report, Unlocked, Vault, check,
};

use super::{in_use, memory, one_line, refuse_used, unlock};
use crate::args::{Common, VaultCheck};
use crate::console::{print, say};
use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped};

/// Checks, prints what is wrong, and returns the exit code for the worst finding.
pub(super) fn run(options: &VaultCheck, common: &Common) -> Result<Exit> {
    let named = |error: warplock_vault::Error| Failure::from(error).about(options.dir.display());
    let memory = memory::place(&options.memory, common)?;
    let engine = Arc::new(common.engine()?);
    refuse_used(&options.dir, !options.repair)?;
    let Unlocked {
        master, altered, ..
    } = unlock(&options.dir, &options.unlock, common)?;
    // Warnings about the vault as a whole; its files are in the report.
    let opening = Arc::new(AtomicBool::new(!options.repair));
    let told = opening.clone();
    let trouble = move |sentence: &str| {
        if told.load(Ordering::Relaxed) {
            say(format_args!("warplock: {}", one_line(sentence)));
        }
    };
    let open = Options {
        engine: Some(engine),
        read_only: !options.repair,
        memory,
        id: options.id.clone(),
        accept: false,
        tidy: false,
        trouble: Some(Arc::new(trouble)),
        log: None,
    };
    let vault = Vault::open(&options.dir, &master, open)
        .map_err(|error| in_use(&options.dir, error).about(options.dir.display()))?;
    opening.store(false, Ordering::Relaxed);
    drop(master);
    let asked = CheckOptions {
        quick: options.quick,
        repair: options.repair,
    };
    let mut last = Instant::now();
    let mut progress = |path: &Path| {
        if common.verbose && last.elapsed() > Duration::from_secs(2) {
            last = Instant::now();
            say(format_args!("warplock: at {}", path.display()));
        }
    };
    let mut report = check(&vault, asked, &mut progress).map_err(named)?;
    report.findings.extend(altered.into_iter().map(altered_key));
    vault.close().map_err(named)?;
    show(&report, options, common)?;
    Ok(exit(&report))
}

/// The severity of all findings, even repaired ones: if a repair runs every night, its owner must
/// hear that something was altered, which a repair does not bring back.
fn exit(report: &Report) -> Exit {
    let found = |class| {
        report
            .findings
            .iter()
            .any(move |found| found.class == class)
    };
    let left = |class| {
        let mut findings = report.findings.iter();
        findings.any(move |found| found.class == class && !found.repaired)
    };
    if found(Class::Altered) {
        Exit::Authentication
    } else if left(Class::Unread) || left(Class::Crash) {
        Exit::Error
    } else {
        Exit::Done
    }
}

/// The name of a finding's class, in text and in JSON.
fn called(class: Class) -> (&'static str, &'static str) {
    match class {
        Class::Altered => ("altered", "altered"),
        Class::Crash => ("after a crash", "crash"),
        Class::Unread => ("not read", "unread"),
        Class::Note => ("note", "note"),
    }
}

/// A finding about a wrapped key. Only the owner knows which keys there should be.
fn altered_key(problem: String) -> Finding {
    Finding {
        path: CONFIG.into(),
        problem,
        action: "nothing was done".into(),
        class: Class::Altered,
        repaired: false,
    }
}

fn show(report: &Report, options: &VaultCheck, common: &Common) -> Result<()> {
    if common.json {
        for finding in &report.findings {
            common.emit(&json!({
                "type": "finding",
                "path": finding.path.display().to_string(),
                "problem": finding.problem,
                "action": finding.action,
                "class": called(finding.class).1,
                "repaired": finding.repaired,
            }))?;
        }
        return common.emit(&json!({
            "type": "summary",
            "vault": options.dir.display().to_string(),
            "files": report.files,
            "folders": report.folders,
            "others": report.others,
            "bytes": report.bytes,
            "first_seen": report.first_seen,
            "findings": report.findings.len(),
        }));
    }
    for finding in &report.findings {
        let cause = called(finding.class).0;
        let line = format!(
            "{} ({cause}): {}; {}",
            finding.path.display(),
            finding.problem,
            finding.action
        );
        print(&format!("{}\n", one_line(&line)))?;
    }
    if common.quiet {
        return Ok(());
    }
    if report.first_seen > 0 {
        print(&format!(
            "{}: {} objects were not known to this machine, and are from now on\n",
            escaped(&options.dir.to_string_lossy()),
            report.first_seen
        ))?;
    }
    let notes = |found: &&Finding| found.class != Class::Note;
    let result = match report.findings.iter().filter(notes).count() {
        0 => "nothing wrong".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    print(&format!(
        "{}: {} files, {} folders, {} others, {} bytes read: {result}\n",
        escaped(&options.dir.to_string_lossy()),
        report.files,
        report.folders,
        report.others,
        report.bytes
    ))
}
