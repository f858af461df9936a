//! Random operations on one file, compared with a model after each (after Apple's fsx).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::harness::{Place, Random, SUBJECTS, Standing, Subject, limited, number};

/// The file stays shorter.
const LONGEST: u64 = 400_000;
/// Steps between remounts.
const REMOUNT: u64 = 1_500;

#[test]
fn random_operations_agree_with_the_model() {
    limited(|| {
        for subject in SUBJECTS {
            run(subject, number("WARPLOCK_FSX_OPERATIONS", 6_000));
        }
    });
}

#[test]
fn random_operations_on_large_blocks() {
    limited(|| {
        run(
            Subject::Vault(64 << 10),
            number("WARPLOCK_FSX_OPERATIONS", 3_000),
        )
    });
}

#[test]
#[ignore = "for long runs"]
fn random_operations_at_length() {
    limited(|| {
        let block_size = number("WARPLOCK_BLOCK_SIZE", 4096) as u32;
        run(
            Subject::Vault(block_size),
            number("WARPLOCK_FSX_OPERATIONS", 100_000),
        )
    });
}

fn run(subject: Subject, operations: u64) {
    let Some(place) = Place::new(subject) else {
        return;
    };
    let mut random = Random::seeded();
    let mut model: Vec<u8> = Vec::new();
    let mut standing = Some(place.mount());
    let mut file = open(standing.as_ref().unwrap());
    for step in 0..operations {
        if step % REMOUNT == REMOUNT - 1 {
            drop(file);
            standing.take().unwrap().end();
            standing = Some(place.mount());
            file = open(standing.as_ref().unwrap());
            whole(
                &file,
                &model,
                &format!("{subject:?}, step {step}, mounted again"),
            );
        }
        let what = one(
            &mut random,
            &mut file,
            &mut model,
            standing.as_ref().unwrap(),
        );
        let len = file.metadata().unwrap().len();
        assert_eq!(
            len,
            model.len() as u64,
            "{subject:?}, step {step}: {what}: length"
        );
        if step % 64 == 0 {
            whole(&file, &model, &format!("{subject:?}, step {step}: {what}"));
        }
    }
    whole(&file, &model, "the end");
    drop(file);
    standing.take().unwrap().end();
}

fn open(standing: &Standing) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(standing.path("fsx"))
        .unwrap()
}

fn whole(file: &File, model: &[u8], what: &str) {
    let mut found = vec![0; model.len() + 1];
    let mut len = 0;
    while let n @ 1.. = file.read_at(&mut found[len..], len as u64).unwrap() {
        len += n;
    }
    same(&found[..len], model, what);
}

#[track_caller]
fn same(found: &[u8], wanted: &[u8], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}: length");
    if let Some(at) = found.iter().zip(wanted).position(|(a, b)| a != b) {
        panic!("{what}: byte {at} is {}, not {}", found[at], wanted[at]);
    }
}

fn grow(model: &mut Vec<u8>, len: u64) {
    if model.len() < len as usize {
        model.resize(len as usize, 0);
    }
}

/// Does one thing to the file and to the model; says what.
fn one(random: &mut Random, file: &mut File, model: &mut Vec<u8>, standing: &Standing) -> String {
    // Short and long ranges, at round and at odd places.
    let len = match random.below(4) {
        0 => random.below(200),
        1 => random.below(5_000),
        2 => random.below(70_000),
        _ => 4096 * random.below(10),
    };
    let mut offset = random.below(LONGEST - len);
    if random.below(3) == 0 {
        offset &= !4095;
    }
    let end = offset + len;
    let range = offset as usize..end as usize;
    match random.below(15) {
        0..=3 => {
            let data = random.bytes(len as usize);
            file.write_all_at(&data, offset).unwrap();
            if len > 0 {
                grow(model, end);
                model[range].copy_from_slice(&data);
            }
            format!("write {offset}+{len}")
        }
        4..=6 => {
            let mut data = vec![0; len as usize];
            let mut done = 0;
            while let n @ 1.. = file
                .read_at(&mut data[done..], offset + done as u64)
                .unwrap()
            {
                done += n;
            }
            let from = (offset as usize).min(model.len());
            let to = (end as usize).min(model.len());
            let what = format!("read {offset}+{len}");
            same(&data[..done], &model[from..to], &what);
            what
        }
        7 => {
            file.set_len(offset).unwrap();
            model.resize(offset as usize, 0);
            format!("truncate {offset}")
        }
        8 if len > 0 => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match fallocate(&*file, flags, offset, len) {
                Ok(()) => {
                    let to = (end as usize).min(model.len());
                    let from = (offset as usize).min(to);
                    model[from..to].fill(0);
                }
                Err(error) => assert_eq!(error, rustix::io::Errno::OPNOTSUPP),
            }
            format!("punch {offset}+{len}")
        }
        9 if len > 0 => {
            match fallocate(&*file, FallocateFlags::empty(), offset, len) {
                Ok(()) => grow(model, end),
                Err(error) => assert_eq!(error, rustix::io::Errno::OPNOTSUPP),
            }
            format!("allocate {offset}+{len}")
        }
        10 if len > 0 => {
            match fallocate(&*file, FallocateFlags::ZERO_RANGE, offset, len) {
                Ok(()) => {
                    grow(model, end);
                    model[range].fill(0);
                }
                Err(error) => assert_eq!(error, rustix::io::Errno::OPNOTSUPP),
            }
            format!("zero {offset}+{len}")
        }
        11 if !model.is_empty() => {
            let write = random.below(2) == 0;
            mapped(random, file, model, write)
        }
        12 => {
            match random.below(3) {
                0 => file.sync_all().unwrap(),
                1 => file.sync_data().unwrap(),
                _ => *file = open(standing),
            }
            "sync or open".to_owned()
        }
        13 => seek(file, model, offset),
        _ => {
            let kept = standing.path("kept");
            std::fs::rename(standing.path("fsx"), &kept).unwrap();
            std::fs::rename(&kept, standing.path("fsx")).unwrap();
            "rename".to_owned()
        }
    }
}

/// Reads or writes a piece through a shared mapping of the whole file.
fn mapped(random: &mut Random, file: &File, model: &mut [u8], write: bool) -> String {
    let len = model.len();
    let from = random.below(len as u64) as usize;
    let to = (from + 1 + random.below(20_000) as usize).min(len);
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, which nothing else uses; the file is not cut while it exists.
    let address = unsafe {
        mmap(
            std::ptr::null_mut(),
            len,
            protection,
            MapFlags::SHARED,
            file,
            0,
        )
        .unwrap()
    };
    // SAFETY: the mapping is `len` bytes long, readable and writable, and ends below.
    let bytes = unsafe { std::slice::from_raw_parts_mut(address.cast::<u8>(), len) };
    let what = format!("map {from}..{to}, write: {write}");
    if write {
        let data = random.bytes(to - from);
        bytes[from..to].copy_from_slice(&data);
        model[from..to].copy_from_slice(&data);
    } else {
        same(&bytes[from..to], &model[from..to], &what);
    }
    // SAFETY: `bytes` is not used any more.
    unsafe { munmap(address, len).unwrap() };
    what
}

/// What is said to be a hole must be zero.
fn seek(file: &File, model: &[u8], offset: u64) -> String {
    let what = format!("seek {offset}");
    let len = model.len() as u64;
    if offset >= len {
        return what;
    }
    let data = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) => data,
        Err(rustix::io::Errno::NXIO) => len,
        Err(error) => panic!("{what}: {error}"),
    };
    assert!((offset..=len).contains(&data), "{what}: data at {data}");
    let hole = &model[offset as usize..data as usize];
    assert!(
        hole.iter().all(|&byte| byte == 0),
        "{what}: data before {data}"
    );
    let hole = rustix::fs::seek(file, SeekFrom::Hole(offset)).unwrap();
    assert!((offset..=len).contains(&hole), "{what}: hole at {hole}");
    what
}
