//! The tasks: typical work of programs with files.

use std::fs::{self, OpenOptions};
use std::hash::Hasher;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

use super::tree::{Tree, run};
use crate::error::Result;
use crate::report::Unit;
use crate::{Error, random, size};

/// A sequential read or write.
pub(super) const CHUNK: usize = 1 << 20;
/// A random read or write.
const BLOCK: usize = 4096;
/// Random reads or writes in one run.
const RANDOM: usize = 40_000;
/// Threads that read or write at random.
const THREADS: usize = 4;

/// One task.
pub(super) struct Task {
    /// Name in JSON.
    pub(super) key: String,
    /// Heading.
    pub(super) title: String,
    /// What is shown.
    pub(super) unit: Unit,
    work: Work,
}

/// What a task does in a folder; the seconds it took.
type Work = Box<dyn Fn(&Path, &File, &Tree) -> Result<f64>>;

type Plain = fn(&Path, &File, &Tree) -> Result<f64>;

/// All tasks, in this order: each starts with the files that those before it left. Large files are
/// written and read by requests of these sizes, by these numbers of threads with a file each.
pub(super) fn tasks(requests: &[usize], jobs: &[usize]) -> Vec<Task> {
    use Unit::{BytesPerSecond, PerSecond, Seconds};
    let mut tasks = Vec::new();
    for &jobs in jobs {
        for &request in requests {
            let size = size::name(request as u64);
            let (suffix, files) = match (jobs, request) {
                (1, CHUNK) => (String::new(), String::new()),
                (1, _) => (format!("_{request}"), String::new()),
                _ => (format!("_{request}_{jobs}"), format!("\n{jobs} files")),
            };
            let task = |name: &str, work| Task {
                key: format!("{name}{suffix}"),
                title: format!("{name}\n{size}{files}"),
                unit: BytesPerSecond,
                work,
            };
            let write: Work = Box::new(move |folder, file, _| write(folder, file, request, jobs));
            let read: Work = Box::new(move |folder, file, _| read(folder, file, request, jobs));
            tasks.extend([task("write", write), task("read", read)]);
        }
    }
    let fixed: [(&str, &str, Unit, Plain); 9] = [
        ("cp", "cp", BytesPerSecond, copy),
        (
            "random_read",
            "random\n4 KiB\nreads",
            PerSecond,
            random_read,
        ),
        (
            "random_write",
            "random\n4 KiB\nwrites",
            PerSecond,
            random_write,
        ),
        (
            "write_photos",
            "write\nphotos",
            BytesPerSecond,
            write_photos,
        ),
        ("read_photos", "read\nphotos", BytesPerSecond, read_photos),
        ("untar", "untar", Seconds, untar),
        ("list", "ls -lR", Seconds, list),
        ("checksum", "read\nall", Seconds, read_all),
        ("remove", "rm -r", Seconds, remove),
    ];
    tasks.extend(fixed.map(|(key, title, unit, work)| Task {
        key: key.to_owned(),
        title: title.to_owned(),
        unit,
        work: Box::new(work),
    }));
    tasks
}

impl Task {
    /// Does it in `folder`; the seconds it took.
    pub(super) fn run(&self, folder: &Path, file: &File, tree: &Tree) -> Result<f64> {
        (self.work)(folder, file, tree)
    }

    /// What is shown for `seconds`.
    pub(super) fn value(&self, seconds: f64, file: &File) -> f64 {
        match self.unit {
            Unit::BytesPerSecond if self.key.ends_with("photos") => photos_len() as f64 / seconds,
            Unit::BytesPerSecond => file.len() as f64 / seconds,
            Unit::PerSecond => file.places.len() as f64 / seconds,
            _ => seconds,
        }
    }
}

/// The content of the large file: one random piece again and again, which differs at each place
/// by where it starts.
pub(super) struct File {
    piece: Vec<u8>,
    chunks: usize,
    /// Blocks in random order.
    places: Vec<u64>,
}

impl File {
    pub(super) fn new(len: u64) -> Result<Self> {
        let chunks = usize::try_from(len / CHUNK as u64).unwrap_or(0).max(1);
        let blocks = chunks * (CHUNK / BLOCK);
        let mut places: Vec<u64> = (0..blocks as u64).collect();
        // Fisher and Yates.
        for last in (1..places.len()).rev() {
            let other = random::number()? % (last as u64 + 1);
            places.swap(last, other as usize);
        }
        places.truncate(RANDOM);
        Ok(File {
            piece: random::bytes(2 * CHUNK)?,
            chunks,
            places,
        })
    }

    fn len(&self) -> u64 {
        (self.chunks * CHUNK) as u64
    }

    fn chunk(&self, number: usize) -> &[u8] {
        &self.piece[number * 8 % CHUNK..][..CHUNK]
    }

    fn block(&self, number: u64) -> &[u8] {
        let each = CHUNK / BLOCK;
        let (chunk, block) = (number as usize / each, number as usize % each);
        &self.chunk(chunk)[block * BLOCK..][..BLOCK]
    }
}

const NAME: &str = "large file";

fn open(folder: &Path, options: &mut OpenOptions) -> Result<fs::File> {
    let path = folder.join(NAME);
    options.open(&path).map_err(Error::file("open", &path))
}

/// The name of a job's file: the first is the large file of all tasks.
fn part(job: usize) -> String {
    match job {
        0 => NAME.to_owned(),
        job => format!("{NAME} {job}"),
    }
}

/// Seconds until all of some threads have done their work, each with its own number.
fn in_threads(jobs: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<f64> {
    let start = Instant::now();
    thread::scope(|scope| {
        let work = &work;
        let start = |job| {
            let thread = thread::Builder::new().spawn_scoped(scope, move || work(job));
            thread.map_err(Error::NoThread)
        };
        let threads = (0..jobs).map(start).collect::<Result<Vec<_>>>()?;
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .map_err(|_| Error::Wrong("a thread panicked".to_owned()))?
        })
    })?;
    Ok(start.elapsed().as_secs_f64())
}

/// The megabytes of a job.
fn share(content: &File, job: usize, jobs: usize) -> std::ops::Range<usize> {
    let edge = |job: usize| content.chunks * job / jobs;
    edge(job)..edge(job + 1)
}

fn write(folder: &Path, content: &File, request: usize, jobs: usize) -> Result<f64> {
    // Of an earlier request size.
    for job in 0..jobs {
        let _ = fs::remove_file(folder.join(part(job)));
    }
    in_threads(jobs, |job| {
        let path = folder.join(part(job));
        let failed = || Error::file("write", &path);
        let mut file = fs::File::create_new(&path).map_err(failed())?;
        for number in share(content, job, jobs) {
            for piece in content.chunk(number).chunks(request) {
                file.write_all(piece).map_err(failed())?;
            }
        }
        file.sync_all().map_err(failed())
    })
}

fn read(folder: &Path, content: &File, request: usize, jobs: usize) -> Result<f64> {
    let open = |job| {
        let path = folder.join(part(job));
        fs::File::open(&path).map_err(Error::file("open", &path))
    };
    let failed = |job| {
        let path = folder.join(part(job));
        move |error| Error::file("read", &path)(error)
    };
    let seconds = in_threads(jobs, |job| {
        let mut file = open(job)?;
        let mut buffer = vec![0; request];
        let mut left = share(content, job, jobs).len() * CHUNK;
        while left > 0 {
            let piece = &mut buffer[..request.min(left)];
            file.read_exact(piece).map_err(failed(job))?;
            left -= piece.len();
        }
        Ok(())
    })?;
    // Now from the kernel's cache.
    for job in 0..jobs {
        let file = open(job)?;
        let mut buffer = vec![0; CHUNK];
        for (place, number) in share(content, job, jobs).enumerate() {
            file.read_exact_at(&mut buffer, (place * CHUNK) as u64)
                .map_err(failed(job))?;
            if buffer != content.chunk(number) {
                return Err(Error::Wrong(format!("megabyte {number} was read wrongly")));
            }
        }
    }
    if jobs > 1 {
        // The following tasks find one file with all.
        for job in 0..jobs {
            let path = folder.join(part(job));
            fs::remove_file(&path).map_err(Error::file("remove", &path))?;
        }
        write(folder, content, CHUNK, 1)?;
    }
    Ok(seconds)
}

/// Within the mount, by the program.
fn copy(folder: &Path, _: &File, _: &Tree) -> Result<f64> {
    let (from, to) = (folder.join(NAME), folder.join("copy"));
    let seconds = timed(Command::new("cp").arg(&from).arg(&to))?;
    fs::remove_file(&to).map_err(Error::file("remove", &to))?;
    Ok(seconds)
}

/// Files as cameras make previews: 64 to 256 KiB, a file written and read in one request, several
/// files at a time.
const PHOTOS: usize = 240;
const PHOTO_LENGTHS: [usize; 4] = [64 << 10, 112 << 10, 176 << 10, 256 << 10];

fn photos_len() -> usize {
    (0..PHOTOS).map(|number| PHOTO_LENGTHS[number % 4]).sum()
}

/// Works on all photos in threads.
fn on_photos(
    folder: &Path,
    content: &File,
    work: impl Fn(&Path, &[u8]) -> Result<()> + Sync,
) -> Result<f64> {
    in_threads(THREADS, |job| {
        (job..PHOTOS).step_by(THREADS).try_for_each(|number| {
            let path = folder.join(format!("photos/photo {number}.jpg"));
            work(&path, &content.chunk(number)[..PHOTO_LENGTHS[number % 4]])
        })
    })
}

fn write_photos(folder: &Path, content: &File, _: &Tree) -> Result<f64> {
    let album = folder.join("photos");
    fs::create_dir(&album).map_err(Error::file("make", &album))?;
    on_photos(folder, content, |path, photo| {
        let failed = || Error::file("write", path);
        let mut file = fs::File::create_new(path).map_err(failed())?;
        file.write_all(photo).map_err(failed())?;
        file.sync_all().map_err(failed())
    })
}

fn read_photos(folder: &Path, content: &File, _: &Tree) -> Result<f64> {
    let seconds = on_photos(folder, content, |path, photo| {
        match fs::read(path).map_err(Error::file("read", path))? == photo {
            true => Ok(()),
            false => Err(Error::Wrong(format!("{} was read wrongly", path.display()))),
        }
    })?;
    let album = folder.join("photos");
    fs::remove_dir_all(&album).map_err(Error::file("remove", &album))?;
    Ok(seconds)
}

/// Seconds for `work` on all random blocks, by several threads.
fn at_random(content: &File, work: impl Fn(u64, &mut [u8]) -> Result<()> + Sync) -> Result<f64> {
    in_threads(THREADS, |job| {
        let mut buffer = [0; BLOCK];
        let places = content.places.iter().skip(job).step_by(THREADS);
        places
            .copied()
            .try_for_each(|place| work(place, &mut buffer))
    })
}

fn random_read(folder: &Path, content: &File, _: &Tree) -> Result<f64> {
    let file = open(folder, OpenOptions::new().read(true))?;
    // No read-ahead: only requested bytes are read.
    fadvise(&file, 0, None, Advice::Random)
        .map_err(|error| Error::file("read", &folder.join(NAME))(error.into()))?;
    at_random(content, |place, buffer| {
        file.read_exact_at(buffer, place * BLOCK as u64)
            .map_err(Error::file("read", &folder.join(NAME)))?;
        match &buffer[..] == content.block(place) {
            true => Ok(()),
            false => Err(Error::Wrong(format!("block {place} was read wrongly"))),
        }
    })
}

fn random_write(folder: &Path, content: &File, _: &Tree) -> Result<f64> {
    let file = open(folder, OpenOptions::new().write(true))?;
    let start = Instant::now();
    at_random(content, |place, _| {
        file.write_all_at(content.block(place), place * BLOCK as u64)
            .map_err(Error::file("write", &folder.join(NAME)))
    })?;
    file.sync_all()
        .map_err(Error::file("write", &folder.join(NAME)))?;
    let seconds = start.elapsed().as_secs_f64();
    drop(file);
    // Makes room for the small files.
    let path = folder.join(NAME);
    fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    Ok(seconds)
}

fn timed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    run(command)?;
    Ok(start.elapsed().as_secs_f64())
}

fn untar(folder: &Path, _: &File, tree: &Tree) -> Result<f64> {
    timed(
        Command::new("tar")
            .arg("-xf")
            .arg(tree.archive())
            .arg("-C")
            .arg(folder),
    )
}

fn list(folder: &Path, _: &File, _: &Tree) -> Result<f64> {
    timed(Command::new("ls").arg("-lR").arg(folder))
}

fn read_all(folder: &Path, _: &File, tree: &Tree) -> Result<f64> {
    let start = Instant::now();
    for (path, sum) in tree.files() {
        let path = folder.join(path);
        let content = fs::read(&path).map_err(Error::file("read", &path))?;
        if checksum(&content) != *sum {
            return Err(Error::Wrong(format!("{} was read wrongly", path.display())));
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

fn remove(folder: &Path, _: &File, _: &Tree) -> Result<f64> {
    timed(Command::new("rm").arg("-r").arg(folder.join("tree")))
}

/// Tells contents apart; no more.
pub(super) fn checksum(content: &[u8]) -> u64 {
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}
