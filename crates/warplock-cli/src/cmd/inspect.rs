//! `warplock inspect`.

use std::path::Path;

use serde_json::json;
use warplock_container::{Format, Inspection, Length, StreamInfo};

use super::{each, print};
use crate::args::{Common, Inspect};
use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped};
use crate::input::{Input, or_stdin};

/// Tells about each input what shows without a key.
pub(super) fn run(options: &Inspect, common: &Common) -> Result<Exit> {
    let inputs = or_stdin(&options.input);
    Ok(each(&inputs, |input| inspect(input, common)))
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
    if common.json {
        let object = json!({
            "file": input.name,
            "size": found.size,
            "format": if stanzas.is_some() { "warplock/1" } else { "perhaps a bare stream" },
            "opens_with": stanzas,
            "stream_offset": stream.offset,
            "chunks": stream.chunks,
            "content_bytes": stream.plain_len,
            "complete": stream.length == Length::Plausible,
        });
        print(&format!("{object}\n"))?;
    } else {
        let format = match &stanzas {
            Some(stanzas) => format!(
                "warplock/1: an age file with the key, then a Cobblestone-256 stream\n  \
                 opens with  {}",
                stanzas.join(", ")
            ),
            None => "unknown; perhaps a bare stream, which --key-file opens".to_owned(),
        };
        print(&format!(
            "{}\n  format      {format}\n  size        {} bytes\n  content     {} bytes in {} chunks\n",
            escaped(&input.name),
            found.size,
            stream.plain_len,
            stream.chunks
        ))?;
    }
    match stream.length {
        Length::Plausible => Ok(()),
        Length::HeaderCut => Err(cut("it ends inside the stream's header")),
        Length::LastChunkMissing => Err(cut("its last chunk is missing")),
        Length::TagCut => Err(cut("it ends inside a tag")),
    }
    .map_err(named)
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

fn cut(how: &str) -> Failure {
    Failure::authentication(format_args!(
        "the file was cut short: {how}; fetch it again"
    ))
}
