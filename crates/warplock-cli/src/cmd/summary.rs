//! Progress of an encrypted or decrypted file, and a summary at its end.

use std::time::Instant;

use serde_json::{Value, json};
use warplock_container::Pipeline;

use super::inputs::gpu_shares;
use crate::args::Common;
use crate::failure::Result;
use crate::input::Input;
use crate::output::Output;
use crate::progress::Progress;

/// Shows progress while a file is worked on.
pub(super) struct Summary<'a> {
    verb: &'static str,
    input: String,
    common: &'a Common,
    progress: Progress,
    pipeline: &'a Pipeline,
    /// The pipeline's count at the start.
    before: u64,
    started: Instant,
}

impl<'a> Summary<'a> {
    pub(super) fn start(
        verb: &'static str,
        input: &Input,
        output: &Output,
        pipeline: &'a Pipeline,
        common: &'a Common,
    ) -> Self {
        let (monitor, before) = (pipeline.monitor().clone(), pipeline.monitor().done());
        let wanted = !common.quiet && !output.is_terminal();
        let done = move || monitor.done() - before;
        let progress = Progress::start(&input.name, input.len, done, wanted);
        let (input, started) = (input.name.clone(), Instant::now());
        Summary {
            verb,
            input,
            common,
            progress,
            pipeline,
            before,
            started,
        }
    }

    /// Bytes of input that are done.
    pub(super) fn done(&self) -> u64 {
        self.pipeline.monitor().done() - self.before
    }

    /// Publishes the output, which has `written` bytes; returns its name. `length` is for programs:
    /// the information from the input's length, if that was not verified.
    pub(super) fn finish(
        self,
        output: Output,
        content: u64,
        written: u64,
        length: Option<&str>,
    ) -> Result<String> {
        let name = output.name.clone();
        output.publish()?;
        drop(self.progress);
        let seconds = self.started.elapsed().as_secs_f64();
        let Summary {
            verb,
            input,
            common,
            pipeline,
            ..
        } = self;
        common.note(format_args!(
            "{input}: {verb} to {name}: {content} bytes of content in {seconds:.3} s, {:.0} MB/s, \
             by {}{}",
            content as f64 / seconds / 1e6,
            pipeline.engine().backend(),
            gpu_shares(pipeline.engine())
        ));
        if common.json {
            let mut object = json!({
                "file": input,
                "output": name,
                "content_bytes": content,
                "output_bytes": written,
                "seconds": seconds,
            });
            if let Some(length) = length {
                object["length"] = Value::from(length);
            }
            common.emit(&object)?;
        }
        Ok(name)
    }
}
