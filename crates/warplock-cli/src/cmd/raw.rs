//! `warplock raw`: bare ciphers, for interoperability.

use std::io::{self, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::json;
use tempfile::SpooledTempFile;
use warplock::{AlgorithmInfo, Direction, Error, Key, Mode, hazmat};
use zeroize::Zeroizing;

use super::inputs::{gpu_shares, stdin_once};
use super::outputs::terminal_refused;
use crate::args::{Common, Pad, Raw, RawOptions};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Input, is_dash};
use crate::output::{Output, distinct};
use crate::progress::Progress;
use crate::pump::{End, pump};
use crate::transform::{Parameters, Transform};
use crate::value::{Bytes, Value};

/// Bytes of a piece: enough for all cores to share, small enough for the cache of most.
const PIECE: usize = 4 << 20;
/// IEEE 1619 allows at most 2^20 blocks in a unit.
const MAX_SECTOR: usize = 16 << 20;
/// Plaintext that has to be verified first waits in memory up to this size.
const SPOOL: usize = 8 << 20;

/// Runs the bare cipher over the input.
pub(super) fn run(raw: Raw, common: &Common) -> Result<Exit> {
    let (direction, options, equal_halves) = match raw {
        Raw::Encrypt(options) => (Direction::Encrypt, options, false),
        Raw::Decrypt(decrypt) => (Direction::Decrypt, decrypt.options, decrypt.equal_halves),
        Raw::Batch(batch) => return super::batch::raw(batch, common),
    };
    let started = Instant::now();
    let dash = Path::new("-");
    let input = options.input.as_deref().unwrap_or(dash);
    let from_stdin = |value: &Option<Value>| value.as_ref().is_some_and(Value::is_stdin);
    stdin_once(&[
        ("--key", options.key.is_stdin()),
        ("--iv", from_stdin(&options.iv)),
        ("--aad", from_stdin(&options.aad)),
        ("the input", is_dash(input)),
    ])?;
    let values = [
        Some(&options.key),
        options.iv.as_ref(),
        options.aad.as_ref(),
    ];
    let read = values.into_iter().flatten().filter_map(Value::file);
    distinct(options.output.as_deref(), read)?;
    let (key, parameters) = parameters(&options, direction, equal_halves)?;
    let engine = common.engine()?;

    let input = Input::open(input)?;
    let output = options.output.as_deref();
    let explicit = output.is_some();
    let output = Output::create(output.unwrap_or(dash), options.force, Some(&input))?;
    if direction == Direction::Encrypt && output.is_terminal() && !explicit {
        return Err(terminal_refused());
    }
    if let Some(len) = input.len {
        parameters
            .check_input_len(len)
            .map_err(|failure| failure.about(&input.name))?;
    }
    let transform = Transform::new(&engine, &key, parameters)?;
    let stays = transform.stays_on_cpu();
    // Named, not one of those that `auto` may use.
    if stays && engine.backend().starts_with("cuda") {
        common.warn(format_args!(
            "the CPU does the work: {} takes files in ctr and ecb, cbc decryption, and xts \
             with --sector, but no single long message of {} here",
            engine.backend(),
            options.algorithm
        ));
    }
    let (from, to) = (input.name.clone(), output.name.clone());
    let input_bytes = convert(transform, input, output, common)?;
    let seconds = started.elapsed().as_secs_f64().max(1e-9);
    common.note(format_args!(
        "{from}: to {to}: {input_bytes} bytes in {seconds:.3} s, {:.0} MB/s, by {}{}",
        input_bytes as f64 / seconds / 1e6,
        match stays {
            true => "the CPU".to_owned(),
            false => engine.backend(),
        },
        gpu_shares(&engine)
    ));
    if common.json {
        common.emit(&json!({ "file": from, "output": to, "input_bytes": input_bytes }))?;
    }
    Ok(Exit::Done)
}

/// Reads all values and checks them against the algorithm, before any file is touched.
fn parameters(
    options: &RawOptions,
    direction: Direction,
    equal_halves: bool,
) -> Result<(Key, Parameters)> {
    let info = options.algorithm.info();
    if equal_halves && info.mode != Mode::Xts {
        return Err(not_for(info, "--equal-halves", "xts"));
    }
    let key = read_key(info, &options.key, direction, equal_halves)?;
    let iv = read_iv(info, options.iv.as_ref(), options.sector.is_some())?;
    let aad = match &options.aad {
        Some(_) if !info.algorithm.is_aead() => {
            return Err(not_for(
                info,
                "--aad",
                "authenticated algorithms such as aes-256-gcm",
            ));
        }
        Some(aad) => aad.read("--aad")?.bytes,
        None => Zeroizing::default(),
    };
    let blocks = matches!(info.mode, Mode::Cbc | Mode::Ecb);
    let pad = match options.pad {
        Some(Pad::Pkcs7) if !blocks => return Err(not_for(info, "--pad pkcs7", "cbc and ecb")),
        pad => blocks && pad != Some(Pad::None),
    };
    match options.sector {
        Some(_) if info.mode != Mode::Xts => return Err(not_for(info, "--sector", "xts")),
        Some(len) if !(16..=MAX_SECTOR).contains(&len) => {
            return Err(Failure::usage(format_args!(
                "--sector: a unit has 16 to {MAX_SECTOR} bytes, not {len}"
            )));
        }
        _ => {}
    }
    let tag_len = match options.tag_len {
        Some(_) if !info.algorithm.is_aead() => {
            return Err(not_for(info, "--tag-len", "authenticated algorithms"));
        }
        len => len.unwrap_or(16),
    };
    if info.algorithm.is_aead() && !info.accepts_tag_len(direction, tag_len) {
        return Err(Failure::usage(format_args!(
            "--tag-len: for {} {}, not {tag_len}",
            info.name,
            info.tag_rule()
        )));
    }
    let algorithm = info.algorithm;
    let sector = options.sector;
    Ok((
        key,
        Parameters {
            algorithm,
            direction,
            iv,
            aad,
            pad,
            sector,
            tag_len,
        },
    ))
}

fn not_for(info: &AlgorithmInfo, option: &str, proper: &str) -> Failure {
    Failure::usage(format_args!(
        "{option} is for {proper}, not for {}",
        info.name
    ))
}

fn read_key(
    info: &AlgorithmInfo,
    value: &Value,
    direction: Direction,
    equal_halves: bool,
) -> Result<Key> {
    let key = value.read("--key")?;
    if key.bytes.len() != info.key_len {
        return Err(Failure::usage(format_args!(
            "--key: {} needs a key of {} bytes, not {}{}",
            info.name,
            info.key_len,
            key.bytes.len(),
            key.hint()
        )));
    }
    let made = match equal_halves {
        true => hazmat::xts_key_with_equal_halves(info.algorithm, &key.bytes),
        false => Key::new(info.algorithm, &key.bytes),
    };
    made.map_err(|error| match (&error, direction) {
        (Error::EqualHalves { .. }, Direction::Encrypt) => {
            Failure::usage(format_args!("--key: {error}"))
        }
        (Error::EqualHalves { .. }, Direction::Decrypt) => Failure::usage(format_args!(
            "--key: {error}, or add --equal-halves to read old data of such a key"
        )),
        _ => error.into(),
    })
}

fn read_iv(
    info: &AlgorithmInfo,
    value: Option<&Value>,
    sectors: bool,
) -> Result<Zeroizing<Vec<u8>>> {
    let iv = match value {
        Some(value) => value.read("--iv")?,
        // The first sector of a disk.
        None if sectors && info.mode == Mode::Xts => Bytes::zeros(16),
        None if info.accepts_iv_len(0) => Bytes::zeros(0),
        None => {
            return Err(Failure::usage(format_args!(
                "{} needs {}: give it with --iv",
                info.name,
                info.iv_rule()
            )));
        }
    };
    if !info.accepts_iv_len(iv.bytes.len()) {
        return Err(Failure::usage(format_args!(
            "--iv: {} needs {}, not {} bytes{}",
            info.name,
            info.iv_rule(),
            iv.bytes.len(),
            iv.hint()
        )));
    }
    Ok(iv.bytes)
}

/// Runs the input through the cipher to the output; returns the input's length.
fn convert(transform: Transform<'_>, input: Input, output: Output, common: &Common) -> Result<u64> {
    let done = Arc::new(AtomicU64::new(0));
    let wanted = !common.quiet && !output.is_terminal();
    let progress = {
        let done = done.clone();
        Progress::start(
            &input.name,
            input.len,
            move || done.load(Ordering::Relaxed),
            wanted,
        )
    };
    let piece_len = transform.piece_len(PIECE);
    // What cannot be withdrawn must be verified before it is written.
    let must_wait = transform.must_wait() && output.is_direct();
    let from = End {
        file: input.file,
        name: &input.name,
    };
    let writing = |error: io::Error| Failure::writing(&error).about(&output.name);
    if must_wait {
        let spool = End {
            file: SpooledTempFile::new(SPOOL),
            name: "temporary file in TMPDIR",
        };
        let mut verified = pump(transform, from, spool, piece_len, &done)?;
        verified.rewind().map_err(writing)?;
        io::copy(&mut verified, &mut output.file()).map_err(writing)?;
    } else {
        let file = output.file().try_clone().map_err(writing)?;
        pump(
            transform,
            from,
            End {
                file,
                name: &output.name,
            },
            piece_len,
            &done,
        )?;
    }
    drop(progress);
    output.publish()?;
    Ok(done.load(Ordering::Relaxed))
}
