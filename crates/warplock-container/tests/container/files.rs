//! Whole files by their names: nothing is replaced, nothing unverified or incomplete appears.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use warplock_container::{
    Error, ErrorKind, OutputFile, Pipeline, decrypt_file, encrypt_file, verify_file,
};
use warplock_keyring::{Identities, NewIdentity, NoPrompt, Recipients};

fn pair() -> (Recipients, Identities) {
    let me = NewIdentity::generate();
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    recipients.add(&me.recipient()).unwrap();
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities.add("me", me.file_text().as_bytes()).unwrap();
    (recipients, identities)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn files_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (recipients, identities) = pair();
    let pipeline = Pipeline::new().unwrap();
    for len in [0, 1, 16_383, 16_384, 1_000_000] {
        let text: Vec<u8> = (0..len).map(|i: u32| (i % 251) as u8).collect();
        fs::write(path("a"), &text).unwrap();
        fs::set_permissions(path("a"), fs::Permissions::from_mode(0o440)).unwrap();
        let when = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
        File::open(path("a")).unwrap().set_modified(when).unwrap();
        let sealed = encrypt_file(path("a"), path("a.wl"), &recipients, &pipeline).unwrap();
        let verified = verify_file(path("a.wl"), &identities, &pipeline).unwrap();
        let opened = decrypt_file(path("a.wl"), path("b"), &identities, &pipeline).unwrap();
        assert_eq!([sealed, verified, opened], [u64::from(len); 3]);
        assert_eq!(fs::read(path("b")).unwrap(), text);
        let found = fs::metadata(path("b")).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o440);
        assert_eq!(found.modified().unwrap(), when);
        fs::remove_file(path("a")).unwrap();
        fs::remove_file(path("a.wl")).unwrap();
        fs::remove_file(path("b")).unwrap();
    }
}

#[test]
fn nothing_is_replaced_and_nothing_unverified_appears() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (recipients, identities) = pair();
    let pipeline = Pipeline::new().unwrap();
    fs::write(path("a"), [7; 100_000]).unwrap();
    encrypt_file(path("a"), path("a.wl"), &recipients, &pipeline).unwrap();
    let sealed = fs::read(path("a.wl")).unwrap();

    let exists = encrypt_file(path("a"), path("a.wl"), &recipients, &pipeline).unwrap_err();
    assert!(matches!(exists, Error::OutputExists), "{exists}");
    let exists = decrypt_file(path("a.wl"), path("a"), &identities, &pipeline).unwrap_err();
    assert!(matches!(exists, Error::OutputExists), "{exists}");
    let into_folder = decrypt_file(path("a.wl"), folder.path(), &identities, &pipeline);
    assert!(matches!(into_folder, Err(Error::OutputUnusable(_))));
    let nowhere = decrypt_file(path("a.wl"), path("no/b"), &identities, &pipeline);
    assert!(matches!(nowhere, Err(Error::Create(_))));

    for at in [0, 20, 300, sealed.len() - 50_000, sealed.len() - 1] {
        let mut altered = sealed.clone();
        altered[at] ^= 1;
        fs::write(path("bad.wl"), &altered).unwrap();
        decrypt_file(path("bad.wl"), path("b"), &identities, &pipeline).unwrap_err();
        verify_file(path("bad.wl"), &identities, &pipeline).unwrap_err();
    }
    let (_, stranger) = pair();
    let wrong = decrypt_file(path("a.wl"), path("b"), &stranger, &pipeline).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Authentication);
    assert_eq!(names(folder.path()), ["a", "a.wl", "bad.wl"]);
    assert_eq!(fs::read(path("a.wl")).unwrap(), sealed);
}

#[test]
fn a_pipe_is_no_output_file() {
    let pipe = OutputFile::create("/dev/null", true, warplock_container::Access::Usual);
    assert!(matches!(pipe, Err(Error::OutputUnusable(_))));
}

/// What a program needs to decide what to do about a file.
#[test]
fn programs_can_tell_failures_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (recipients, identities) = pair();
    let pipeline = Pipeline::new().unwrap();
    fs::write(path("a"), [7; 100_000]).unwrap();
    encrypt_file(path("a"), path("a.wl"), &recipients, &pipeline).unwrap();
    let sealed = fs::read(path("a.wl")).unwrap();
    let stream = sealed.len() - warplock_container::sealed_len(100_000).unwrap() as usize;
    let mut altered = sealed.clone();
    altered[stream + 56 + 20_000] ^= 1;
    let extended = [&sealed[..], b"more"].concat();
    let class = |error: &Error| match error {
        Error::Keyring(warplock_keyring::Error::NoMatch { .. }) | Error::WrongKey => "wrong key",
        Error::Chunk { .. } | Error::Misplaced { .. } | Error::TrailingData { .. } => "altered",
        Error::EnvelopeCut | Error::HeaderCut { .. } | Error::LastChunkMissing { .. } => "cut",
        Error::LastChunk { .. } => "cut or altered",
        Error::Empty | Error::NotWarplock { .. } => "not encrypted",
        error if error.io_kind() == Some(io::ErrorKind::NotFound) => "missing",
        _ => "something else",
    };
    let (_, others) = pair();
    for (content, keys, expected) in [
        (Some(&sealed[..]), &others, "wrong key"),
        (Some(&altered), &identities, "altered"),
        (Some(&extended), &identities, "altered"),
        (Some(&sealed[..20]), &identities, "cut"),
        (Some(&sealed[..stream + 30]), &identities, "cut"),
        (Some(&sealed[..stream + 56 + 16_400]), &identities, "cut"),
        (
            Some(&sealed[..sealed.len() - 1]),
            &identities,
            "cut or altered",
        ),
        (Some(b""), &identities, "not encrypted"),
        (Some(b"PK\x03\x04 an archive"), &identities, "not encrypted"),
        (None, &identities, "missing"),
    ] {
        let _ = fs::remove_file(path("b.wl"));
        if let Some(content) = content {
            fs::write(path("b.wl"), content).unwrap();
        }
        let error = decrypt_file(path("b.wl"), path("b"), keys, &pipeline).unwrap_err();
        assert_eq!(class(&error), expected, "{error}");
    }
}
