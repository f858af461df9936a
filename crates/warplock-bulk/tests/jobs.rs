//! Jobs as a library: shards, logs, and which runs are refused. The command line's tests do the rest.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use warplock_bulk::{Error, Job, Keys, Operation, Plan, Report, Row, Shard, plan, report, run};
use warplock_container::Pipeline;
use warplock_keyring::{Identities, NewIdentity, NoPrompt};

struct Case {
    folder: TempDir,
    job: Job,
}

impl Case {
    /// Files of 0 to 99,000 bytes, planned to be encrypted.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("src")).unwrap();
        for index in 0..100 {
            fs::write(path(&format!("src/{index}")), vec![7; index * 1000]).unwrap();
        }
        let options = Plan {
            operation: Operation::Encrypt,
            source: path("src"),
            destination: Some(path("out")),
            recipients: vec![NewIdentity::generate().recipient()],
            include: vec![],
            exclude: vec![],
        };
        let job = plan(&options, &path("job")).unwrap();
        Case { folder, job }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, shard: Shard, ended: &(dyn Fn(&Row) + Sync)) -> Result<Report, Error> {
        run(
            &self.path("job"),
            &self.job,
            shard,
            &Keys {
                identities: None,
                prompt: Arc::new(NoPrompt),
            },
            false,
            &Pipeline::new().unwrap(),
            NonZeroUsize::new(3).unwrap(),
            &AtomicU64::new(0),
            ended,
        )
    }
}

#[test]
fn shards_share_the_bytes() {
    let case = Case::new();
    assert_eq!([case.job.units, case.job.bytes], [100, 4_950_000]);
    let seen = Mutex::new(Vec::new());
    for index in 0..7 {
        let shard = Shard { index, count: 7 };
        let ended = |row: &Row| seen.lock().unwrap().push(row.unit);
        let sum = case.run(shard, &ended).unwrap();
        assert!(sum.bytes.abs_diff(4_950_000 / 7) < 300_000, "{sum:?}");
        assert_eq!(sum.units, sum.done);
    }
    let mut seen = seen.into_inner().unwrap();
    seen.sort();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
}

/// The sum of the bytes may be wrong, or too large for its type with files of holes.
#[test]
fn each_unit_belongs_to_a_shard() {
    let mut case = Case::new();
    for bytes in [0, u64::MAX] {
        case.job.bytes = bytes;
        let mut units = 0;
        for index in 0..3 {
            let shard = Shard { index, count: 3 };
            units += case.run(shard, &|_| ()).unwrap().units;
        }
        assert_eq!(units, 100);
    }
}

#[test]
fn a_row_that_was_cut_is_no_row() {
    let case = Case::new();
    let first = Shard { index: 0, count: 2 };
    let done = case.run(first, &|_| ()).unwrap().units;
    let log = case.path("job/log-0of2.jsonl");
    let mut file = OpenOptions::new().append(true).open(&log).unwrap();
    file.write_all(br#"{"unit":99,"path":"x","sta"#).unwrap();
    let sum = report(&case.path("job"), &case.job, |_| ()).unwrap();
    assert_eq!([sum.done, sum.pending], [done, 100 - done]);
    let again = case.run(first, &|_| ()).unwrap();
    assert_eq!([again.done, again.unchanged], [0, done]);
    let sum = report(&case.path("job"), &case.job, |_| ()).unwrap();
    assert_eq!([sum.done, sum.pending], [done, 100 - done]);
}

#[test]
fn a_shard_has_one_process() {
    let case = Case::new();
    let nested = Mutex::new(None);
    let ended = |_: &Row| {
        let mut nested = nested.lock().unwrap();
        nested.get_or_insert_with(|| case.run(Shard::WHOLE, &|_| ()));
    };
    case.run(Shard::WHOLE, &ended).unwrap();
    let second = nested.into_inner().unwrap().unwrap();
    assert!(matches!(second, Err(Error::Usage(_))));
}

#[test]
fn an_incomplete_job_is_refused() {
    let case = Case::new();
    fs::remove_file(case.path("job/units-00000.jsonl")).unwrap();
    assert!(matches!(
        case.run(Shard::WHOLE, &|_| ()),
        Err(Error::Io { .. })
    ));
    fs::remove_file(case.path("job/job.json")).unwrap();
    assert!(matches!(
        Job::open(&case.path("job")),
        Err(Error::Io { .. })
    ));
    assert!(Job::open(Path::new("/nonexistent")).is_err());
}

/// Enough files for a table of the recipient; in folders that are left and entered again.
#[test]
fn many_files_come_back_with_their_modes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let me = NewIdentity::generate();
    let name = |index: u32| format!("{}/{}/{index}", index % 3, index % 2);
    for index in 0..1001 {
        let file = path("src").join(name(index));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, index.to_le_bytes()).unwrap();
        // More and less than what a usual umask leaves.
        let mode = [0o666, 0o400][index as usize % 2];
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    }
    for (operation, from, to) in [
        (Operation::Encrypt, "src", "sealed"),
        (Operation::Decrypt, "sealed", "plain"),
    ] {
        let options = Plan {
            operation,
            source: path(from),
            destination: Some(path(to)),
            recipients: match operation {
                Operation::Encrypt => vec![me.recipient()],
                _ => vec![],
            },
            include: vec![],
            exclude: vec![],
        };
        let job = path(&format!("job-{from}"));
        let planned = plan(&options, &job).unwrap();
        let mut identities = Identities::new(Arc::new(NoPrompt));
        identities.add("me", me.file_text().as_bytes()).unwrap();
        let keys = Keys {
            identities: Some(identities),
            prompt: Arc::new(NoPrompt),
        };
        let (pipeline, threads) = (Pipeline::new().unwrap(), NonZeroUsize::new(3).unwrap());
        let counter = AtomicU64::new(0);
        let sum = run(
            &job,
            &planned,
            Shard::WHOLE,
            &keys,
            false,
            &pipeline,
            threads,
            &counter,
            &|_| (),
        );
        assert_eq!(sum.unwrap().failed, 0);
    }
    for index in 0..1001 {
        let [source, plain] = ["src", "plain"].map(|root| path(root).join(name(index)));
        assert_eq!(fs::read(&plain).unwrap(), index.to_le_bytes());
        let [source, plain] = [source, plain].map(|file| fs::metadata(file).unwrap());
        assert_eq!(source.mode(), plain.mode());
        assert_eq!(source.modified().unwrap(), plain.modified().unwrap());
    }
}
