//! Every length comes back, whichever way it goes; the result is one and the same format.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use crate::common::*;
use warplock_container::{
    Envelope, InputKey, Pipeline, Sink, Source, Suite, Writer, open, open_bytes, seal, seal_bytes,
    sealed_len, verify,
};

#[test]
fn every_length_comes_back_along_every_way() {
    let (key, pipeline) = (key(), pipeline());
    for len in lengths() {
        let plain = pattern(len);
        for way in WAYS {
            let (result, sealed) = along(way, &plain, |from, to| seal(from, to, &key, &pipeline));
            assert_eq!(result.unwrap(), sealed.len() as u64, "{len} {way:?}");
            assert_eq!(Some(sealed.len() as u64), sealed_len(len as u64));
            for way in WAYS {
                let (result, opened) =
                    along(way, &sealed, |from, to| open(from, to, &key, &pipeline));
                assert_eq!(result.unwrap(), len as u64);
                assert!(opened == plain, "{len} {way:?}");
            }
            assert_eq!(
                verify(Source::bytes(&sealed), &key, &pipeline).unwrap(),
                len as u64
            );
        }
    }
}

#[test]
fn default_sizes_serve_several_segments_and_one_worker_serves_alone() {
    let plain = Random(1).bytes(3 * 16 * CHUNK + 5);
    for pipeline in [Pipeline::new().unwrap(), pipeline_of(1)] {
        for way in WAYS {
            let (_, sealed) = along(way, &plain, |from, to| seal(from, to, &key(), &pipeline));
            let (result, opened) =
                along(way, &sealed, |from, to| open(from, to, &key(), &pipeline));
            result.unwrap();
            assert!(opened == plain);
        }
        // Twice sealed, twice opened; opening counts the header too.
        let done = pipeline.monitor().done();
        assert_eq!(
            done,
            4 * (plain.len() as u64 + sealed_len(plain.len() as u64).unwrap())
        );
    }
}

#[test]
fn memory_writer_pipeline_and_cobblestone_open_each_other_with_context() {
    let mut random = Random(2);
    let engine = engine();
    for len in lengths() {
        let plain = random.bytes(len);
        for context in [&b""[..], b"a context of some length"] {
            for suite in [Suite::Cobblestone128, Suite::Cobblestone256] {
                let bytes = random.bytes(suite.key_len());
                let key = InputKey::new(suite, &bytes).unwrap().with_context(context);
                let theirs = Theirs::new(&bytes);

                assert!(open_all(&theirs.encrypt(context, &plain), &key).unwrap() == plain);
                let ours = seal_all(&plain, &key);
                assert!(theirs.decrypt(context, &ours) == plain);

                let sealed = seal_bytes(&plain, &key, &engine).unwrap();
                assert!(theirs.decrypt(context, &sealed) == plain);
                assert!(open_bytes(&ours, &key, &engine).unwrap() == plain);

                let mut writer = Writer::new(Vec::new(), &key, engine.clone()).unwrap();
                let cut = random.below(len + 1);
                writer.write_all(&plain[..cut]).unwrap();
                writer.flush().unwrap();
                writer.write_all(&plain[cut..]).unwrap();
                assert!(theirs.decrypt(context, &writer.finish().unwrap()) == plain);
            }
        }
    }
}

/// The crate `cobblestone`, another implementation of the format.
enum Theirs {
    Short(cobblestone::Key),
    Long(cobblestone::Key256),
}

impl Theirs {
    fn new(bytes: &[u8]) -> Self {
        match bytes.try_into() {
            Ok(bytes) => Theirs::Short(cobblestone::Key::from_bytes(bytes)),
            Err(_) => Theirs::Long(cobblestone::Key256::from_bytes(bytes.try_into().unwrap())),
        }
    }

    fn encrypt(&self, context: &[u8], plain: &[u8]) -> Vec<u8> {
        match self {
            Theirs::Short(key) => cobblestone::encrypt(key, context, plain).unwrap(),
            Theirs::Long(key) => cobblestone::encrypt(key, context, plain).unwrap(),
        }
    }

    fn decrypt(&self, context: &[u8], sealed: &[u8]) -> Vec<u8> {
        match self {
            Theirs::Short(key) => cobblestone::decrypt(key, context, sealed).unwrap(),
            Theirs::Long(key) => cobblestone::decrypt(key, context, sealed).unwrap(),
        }
    }
}

/// A writer gathers 16 chunks; at the end of a stream they may all be full, and the last chunk, an
/// empty one, comes besides.
#[test]
fn a_writer_ends_after_full_runs() {
    let (key, engine) = (key(), engine());
    for chunks in [15, 16, 17, 32] {
        let plain = pattern(chunks * CHUNK);
        let mut writer = Writer::new(Vec::new(), &key, engine.clone()).unwrap();
        writer.write_all(&plain).unwrap();
        let sealed = writer.finish().unwrap();
        assert!(open_all(&sealed, &key).unwrap() == plain, "{chunks} chunks");
    }
}

#[test]
fn python_and_we_open_each_other() {
    const SCRIPT: &str = "
import sys
from cryptography.cobblestone import Cobblestone256Decryptor as D, Cobblestone256Encryptor as E
work = sys.argv[1]
read = lambda name: open(work + '/' + name, 'rb').read()
d = D(bytes([7]) * 32, b'ctx')
open(work + '/opened', 'wb').write(d.update(read('sealed')) + d.finalize())
e = E(bytes([7]) * 32, b'ctx')
open(work + '/theirs', 'wb').write(e.update(read('plain')) + e.finalize())
";
    let Some(python) = python() else { return };
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| work.path().join(name);
    let key = key().with_context(b"ctx");
    for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * SEGMENT, 300_001] {
        let plain = Random(len as u64).bytes(len);
        std::fs::write(at("plain"), &plain).unwrap();
        std::fs::write(at("sealed"), seal_all(&plain, &key)).unwrap();
        let run = std::process::Command::new(&python)
            .args(["-c", SCRIPT])
            .arg(work.path())
            .output();
        let run = run.unwrap();
        assert!(
            run.status.success(),
            "{}",
            String::from_utf8_lossy(&run.stderr)
        );
        assert!(std::fs::read(at("opened")).unwrap() == plain);
        assert!(open_all(&std::fs::read(at("theirs")).unwrap(), &key).unwrap() == plain);
    }
}

#[test]
fn files_start_at_their_position_and_carry_an_envelope() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("file");
    let plain = pattern(2 * SEGMENT + 77);
    let envelope = Envelope::new(b"age-encryption.org/v1\n...".to_vec()).unwrap();

    let mut input = tempfile::tempfile().unwrap();
    input.write_all(b"not this").unwrap();
    input.write_all(&plain).unwrap();
    input.seek(SeekFrom::Start(8)).unwrap();
    let output = File::create(&path).unwrap();
    let mut sink = Sink::file(&output).unwrap();
    envelope.write(&mut sink).unwrap();
    seal(Source::file(&input).unwrap(), sink, &key(), &pipeline()).unwrap();
    let len = std::fs::metadata(&path).unwrap().len();
    assert_eq!(
        len,
        envelope.encoded_len() + sealed_len(plain.len() as u64).unwrap()
    );

    let sealed = File::open(&path).unwrap();
    let mut opened = tempfile::tempfile().unwrap();
    let mut source = Source::file(&sealed).unwrap();
    assert_eq!(Envelope::read(&mut source).unwrap(), envelope);
    open(source, Sink::file(&opened).unwrap(), &key(), &pipeline()).unwrap();
    let mut bytes = Vec::new();
    opened.rewind().unwrap();
    opened.read_to_end(&mut bytes).unwrap();
    assert!(bytes == plain);
}

#[test]
fn a_file_opened_to_append_is_written_in_order_after_its_content() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("file");
    std::fs::write(&path, b"before").unwrap();
    let append = File::options().append(true).open(&path).unwrap();
    let plain = pattern(4 * SEGMENT);
    seal(
        Source::bytes(&plain),
        Sink::file(&append).unwrap(),
        &key(),
        &pipeline(),
    )
    .unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(&bytes[..6], b"before");
    assert!(open_all(&bytes[6..], &key()).unwrap() == plain);
}

#[test]
fn a_file_that_claims_to_be_empty_is_read_to_its_end() {
    let Ok(file) = File::open("/proc/self/cmdline") else {
        eprintln!("skipped: no /proc here");
        return;
    };
    let mut sealed = Vec::new();
    seal(
        Source::file(&file).unwrap(),
        Sink::sequential(&mut sealed),
        &key(),
        &pipeline(),
    )
    .unwrap();
    let opened = open_all(&sealed, &key()).unwrap();
    assert_eq!(opened, std::fs::read("/proc/self/cmdline").unwrap());
    assert!(!opened.is_empty());
}

#[test]
fn two_streams_of_one_key_share_nothing() {
    let (one, two) = (seal_all(&[0; 100], &key()), seal_all(&[0; 100], &key()));
    assert_ne!(one[..24], two[..24]);
    assert_ne!(one[24..56], two[24..56]);
    assert_ne!(one[56..], two[56..]);
}

#[test]
fn keys_have_one_length_and_print_nothing() {
    for (suite, wrong) in [(Suite::Cobblestone128, 32), (Suite::Cobblestone256, 16)] {
        let error = InputKey::new(suite, &vec![0xab; wrong]).unwrap_err();
        assert!(error.to_string().contains(&suite.key_len().to_string()));
        let key = InputKey::new(suite, &vec![0xab; suite.key_len()]).unwrap();
        let shown = format!("{key:?}");
        assert!(!shown.contains("ab") && !shown.contains("171"), "{shown}");
    }
    let _: Arc<dyn Send> = Arc::new(key());
}
