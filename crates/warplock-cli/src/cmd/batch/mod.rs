//! `warplock entries` and `warplock raw batch`: many messages of one length from packed files.

mod streams;
mod work;

use std::iter;
use std::path::Path;
use std::time::Instant;

use serde_json::json;
use warplock::{Algorithm, Direction, Engine, Key};

use self::streams::{Part, Streams};
use self::work::Task;
use super::inputs::{gpu_shares, stdin_once};
use super::outputs::terminal_refused;
use crate::args::{Common, Entries, RawBatch};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Input, is_dash};
use crate::output::{Output, distinct};
use crate::value::Value;

/// Bytes of a block.
const BLOCK: usize = 16;

/// `entries`: a key for each block.
pub(super) fn entries(command: Entries, common: &Common) -> Result<Exit> {
    let direction = match &command {
        Entries::Encrypt(_) => Direction::Encrypt,
        Entries::Decrypt(_) => Direction::Decrypt,
    };
    let options = command.options();
    let algorithm: Algorithm = options.algorithm.into();
    let dash = Path::new("-");
    let input = options.input.as_deref().unwrap_or(dash);
    stdin_once(&[
        ("--keys", is_dash(&options.keys)),
        ("the input", is_dash(input)),
    ])?;
    distinct(options.output.as_deref(), [&*options.keys])?;
    let text = Input::open(input)?;
    let keys = Input::open(&options.keys)?;
    let output = output(options.output.as_deref(), options.force, &text)?;
    let streams = Streams::new(vec![
        Part::new("keys", algorithm.key_len(), keys)?,
        Part::new("blocks", BLOCK, text)?,
    ])?;
    let task = Task {
        algorithm,
        direction,
        key: None,
        aad_len: 0,
    };
    run(&task, streams, output, None, common)
}

/// `raw batch`: messages with IVs, associated data and tags.
pub(super) fn raw(command: RawBatch, common: &Common) -> Result<Exit> {
    let direction = match &command {
        RawBatch::Encrypt(_) => Direction::Encrypt,
        RawBatch::Decrypt(_) => Direction::Decrypt,
    };
    let options = command.options();
    let info = options.algorithm.info();
    let aead = info.algorithm.is_aead();
    let usage = |what: &str| Err(Failure::usage(format_args!("{}: {what}", info.name)));
    let iv_len = info.iv_len();
    match (iv_len, &options.ivs) {
        (0, Some(_)) => return usage("takes no --ivs"),
        (1.., None) => return usage("needs --ivs, one for each message"),
        _ => {}
    }
    match (aead, &options.tags) {
        (true, None) => return usage("needs --tags, a file of 16 bytes for each message"),
        (false, Some(_)) => return usage("has no tags"),
        _ => {}
    }
    if !aead && options.aad.is_some() {
        return usage("takes no --aad");
    }
    if !info.accepts_text_len(options.len as u64) {
        return usage(&format!("takes {}, not {}", info.text_rule(), options.len));
    }
    let dash = Path::new("-");
    let input = options.input.as_deref().unwrap_or(dash);
    let is_stdin = |path: &Option<std::path::PathBuf>| path.as_deref().is_some_and(is_dash);
    stdin_once(&[
        ("--key", options.key.as_ref().is_some_and(Value::is_stdin)),
        ("--keys", is_stdin(&options.keys)),
        ("--ivs", is_stdin(&options.ivs)),
        ("--aad", is_stdin(&options.aad)),
        ("--tags", is_stdin(&options.tags)),
        ("the input", is_dash(input)),
    ])?;
    let (tags_out, tags_in) = match direction {
        Direction::Encrypt => (options.tags.as_deref(), None),
        Direction::Decrypt => (None, options.tags.as_deref()),
    };
    let output_path = options.output.as_deref().unwrap_or(dash);
    let parts = [&options.keys, &options.ivs, &options.aad];
    let read = parts.into_iter().filter_map(|path| path.as_deref());
    let key = options.key.as_ref().and_then(Value::file);
    distinct(
        iter::once(output_path).chain(tags_out),
        read.chain(key).chain(tags_in),
    )?;
    distinct(tags_out, [input])?;
    let key = match &options.key {
        Some(value) => Some(read_key(options.algorithm, value)?),
        None => None,
    };
    let mut parts = Vec::new();
    let mut add = |name, item, path: &Option<std::path::PathBuf>| -> Result<()> {
        if let Some(path) = path {
            parts.push(Part::new(name, item, Input::open(path)?)?);
        }
        Ok(())
    };
    add("keys", info.key_len, &options.keys)?;
    add("IVs", iv_len, &options.ivs)?;
    add(
        "associated data",
        options.aad_len.unwrap_or(0),
        &options.aad,
    )?;
    if direction == Direction::Decrypt {
        add("tags", work::TAG, &options.tags)?;
    }
    add("messages", options.len, &Some(input.to_owned()))?;
    let tags = match (direction, &options.tags) {
        (Direction::Encrypt, Some(path)) => Some(Output::create(path, options.force, None)?),
        _ => None,
    };
    let text = parts.last().expect("the messages were added").input();
    let output = output(options.output.as_deref(), options.force, text)?;
    let task = Task {
        algorithm: options.algorithm,
        direction,
        key,
        aad_len: options.aad_len.unwrap_or(0),
    };
    run(&task, Streams::new(parts)?, output, tags, common)
}

fn read_key(algorithm: Algorithm, value: &Value) -> Result<Key> {
    let key = value.read("--key")?;
    if key.bytes.len() != algorithm.key_len() {
        return Err(Failure::usage(format_args!(
            "--key: {algorithm} needs a key of {} bytes, not {}{}",
            algorithm.key_len(),
            key.bytes.len(),
            key.hint()
        )));
    }
    Ok(Key::new(algorithm, &key.bytes)?)
}

/// The output for `text`.
fn output(path: Option<&Path>, force: bool, text: &Input) -> Result<Output> {
    let explicit = path.is_some();
    let output = Output::create(path.unwrap_or(Path::new("-")), force, Some(text))?;
    match output.is_terminal() && !explicit {
        true => Err(terminal_refused()),
        false => Ok(output),
    }
}

fn run(
    task: &Task,
    streams: Streams,
    output: Output,
    tags: Option<Output>,
    common: &Common,
) -> Result<Exit> {
    let started = Instant::now();
    let engine: Engine = common.engine()?;
    let name = output.name.clone();
    let done = work::run(task, streams, &output, tags.as_ref(), &engine, common)?;
    output.publish()?;
    if let Some(tags) = tags {
        tags.publish()?;
    }
    let seconds = started.elapsed().as_secs_f64().max(1e-9);
    common.note(format_args!(
        "{name}: {} messages, {} bytes in {seconds:.3} s, {:.0} MB/s, {:.1} million a second, by \
         {}{}",
        done.messages,
        done.bytes,
        done.bytes as f64 / seconds / 1e6,
        done.messages as f64 / seconds / 1e6,
        engine.backend(),
        gpu_shares(&engine)
    ));
    if common.json {
        common.emit(&json!({
            "output": name,
            "messages": done.messages,
            "output_bytes": done.bytes,
        }))?;
    }
    Ok(Exit::Done)
}
