//! `warplock inspect`.

use std::path::Path;

use serde_json::json;
use warplock_container::{Format, Inspection, Length, StreamInfo};

use super::inputs::{each, file_object};
use crate::args::{Common, Inspect};
use crate::console::{print, report};
use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped};
use crate::input::{Input, or_stdin};

/// Prints what each input shows without a key.
pub(super) fn run(options: &Inspect, common: &Common) -> Result<Exit> {
    let inputs = or_stdin(&options.input);
    Ok(each(&inputs, common, file_object, |input| {
        inspect(input, common)
    }))
}

fn inspect(input: &Path, common: &Common) -> Result<()> {
    let input = Input::open(input)?;
    let named = |failure: Failure| failure.about(&input.name);
    let inspection = warplock_container::inspect(input.source()?);
    let found = inspection.map_err(|error| named(error.into()))?;
    let stream = stream(&found).map_err(named)?;
    let stanzas = match &found.format {
        Format::Envelope(wrapped) => Some(
            wrapped
                .stanzas
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
        ),
        _ => None,
    };
    let cut = cut(stream.length).map(|how| {
        let sentence = format_args!("the file was cut short: {how}; fetch it again");
        named(Failure::authentication(sentence).coded(length_name(stream.length)))
    });
    if common.json {
        let mut object = json!({
            "file": input.name,
            "size": found.size,
            "format": if stanzas.is_some() { "warplock/1" } else { "unknown" },
            "opens_with": stanzas,
            "stream_offset": stream.offset,
            "chunks": stream.chunks,
            "content_bytes": stream.plain_len,
            "length": length_name(stream.length),
        });
        if let (Some(cut), Some(fields)) = (&cut, object.as_object_mut()) {
            cut.describe(fields);
        }
        common.emit(&object)?;
    } else {
        let format = match &stanzas {
            Some(stanzas) => format!(
                "warplock/1: an age file with the key, then a Cobblestone-256 stream\n  \
                 opens with  {}",
                escaped(&stanzas.join(", "))
            ),
            None => "no Warplock header: a bare stream (--key-file), or something else".to_owned(),
        };
        print(&format!(
            "{}\n  format      {format}\n  size        {} bytes\n  content     {} bytes in {} {}, \
             judged by its length alone\n",
            escaped(&input.name),
            found.size,
            stream.plain_len,
            stream.chunks,
            if stream.chunks == 1 {
                "chunk"
            } else {
                "chunks"
            }
        ))?;
    }
    match cut {
        None => Ok(()),
        // Its JSON object is printed already.
        Some(cut) => Err(Failure::reported(report(&cut))),
    }
}

/// The JSON fields about a length.
pub(super) fn length_name(length: Length) -> &'static str {
    match length {
        Length::Plausible => "plausible",
        Length::HeaderCut => "header_cut",
        Length::LastChunkMissing => "last_chunk_missing",
        Length::TagCut => "tag_cut",
    }
}

/// How a stream of this length was cut.
pub(super) fn cut(length: Length) -> Option<&'static str> {
    match length {
        Length::Plausible => None,
        Length::HeaderCut => Some("it ends inside the stream's header"),
        Length::LastChunkMissing => Some("its last chunk is missing"),
        Length::TagCut => Some("it ends inside a tag"),
    }
}

/// The stream, or why there is none.
fn stream(found: &Inspection) -> Result<&StreamInfo> {
    match (&found.format, &found.stream) {
        (Format::Empty, _) => Err(warplock_container::Error::Empty.into()),
        (Format::Foreign(foreign), _) => {
            let looks_like = Some(*foreign);
            Err(warplock_container::Error::NotWarplock { looks_like }.into())
        }
        (Format::Envelope(_), Some(stream)) => Ok(stream),
        (Format::MaybeStream, Some(stream)) if stream.length == Length::Plausible => Ok(stream),
        (Format::Envelope(_) | Format::MaybeStream, _) => {
            Err(warplock_container::Error::NotWarplock { looks_like: None }.into())
        }
    }
}
