//! Every suite's figure, drawn from recorded results (those with a GPU: an H200's, of which the longest
//! runs were stopped before their end): no text overlaps another or leaves the figure.

use super::*;
use crate::plot::overlap::{overlaps, texts};

/// Results by name, `-gpu` where a suite has more columns with a GPU.
const RECORDED: [(&str, &str); 17] = [
    ("aead-batch", include_str!("recorded/aead-batch.json")),
    (
        "aead-batch-gpu",
        include_str!("recorded/aead-batch-gpu.json"),
    ),
    ("calls", include_str!("recorded/calls.json")),
    ("cbc-batch", include_str!("recorded/cbc-batch.json")),
    ("cbc-batch-gpu", include_str!("recorded/cbc-batch-gpu.json")),
    ("entries", include_str!("recorded/entries.json")),
    ("file-sizes", include_str!("recorded/file-sizes.json")),
    (
        "file-sizes-gpu",
        include_str!("recorded/file-sizes-gpu.json"),
    ),
    ("files", include_str!("recorded/files.json")),
    ("fs", include_str!("recorded/fs.json")),
    ("host", include_str!("recorded/host.json")),
    ("kernels", include_str!("recorded/kernels.json")),
    ("peers", include_str!("recorded/peers.json")),
    ("questions", include_str!("recorded/questions.json")),
    ("questions-gpu", include_str!("recorded/questions-gpu.json")),
    ("sizes", include_str!("recorded/sizes.json")),
    ("sizes-gpu", include_str!("recorded/sizes-gpu.json")),
];

fn report(json: &str) -> Report {
    Report::from_json(&serde_json::from_str(json).unwrap()).unwrap()
}

#[test]
fn no_text_overlaps_in_the_figure_of_any_suite() {
    // To look at them: FIGURES=folder.
    let folder = std::env::var_os("FIGURES").map(std::path::PathBuf::from);
    for (name, json) in RECORDED {
        let svg = report(json).svg().unwrap();
        if let Some(folder) = &folder {
            std::fs::write(folder.join(format!("{name}.svg")), &svg).unwrap();
        }
        assert_eq!(overlaps(&svg), Vec::<String>::new(), "{name}");
        let texts = texts(&svg);
        let has = |part: &str| texts.iter().any(|text| text.text.contains(part));
        assert!(
            has("warplock 0.1") && has("2026-11-29"),
            "{name}: its origin"
        );
    }
}

#[cfg(feature = "png")]
#[test]
fn every_figure_is_drawn_as_png() {
    let folder = std::env::var_os("FIGURES").map(std::path::PathBuf::from);
    for (name, json) in RECORDED {
        let bytes = report(json).png().unwrap();
        if let Some(folder) = &folder {
            std::fs::write(folder.join(format!("{name}.png")), &bytes).unwrap();
        }
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert!(info.width == 1920 && info.height >= 300, "{name}");
        // A line of text at the top and one in the caption.
        let rows: Vec<_> = pixels.chunks(3 * info.width as usize).collect();
        let is_dark = |row: &&[u8]| row.iter().any(|&value| value < 128);
        assert!(rows[32..80].iter().any(is_dark), "{name}");
        assert!(rows[rows.len() - 80..].iter().any(is_dark), "{name}");
    }
}

#[test]
fn a_report_survives_its_json() {
    for (name, json) in RECORDED {
        let first = report(json);
        let again = Report::from_json(&first.json()).unwrap();
        assert_eq!(first.table(), again.table(), "{name}");
        assert_eq!(first.svg().unwrap(), again.svg().unwrap(), "{name}");
    }
}

#[test]
fn tables_have_at_most_100_columns() {
    for (name, json) in RECORDED {
        let table = report(json).table();
        let widest = table
            .lines()
            .map(|line| line.chars().count())
            .max()
            .unwrap();
        assert!(widest <= 100, "{name}: {widest}\n{table}");
    }
}

#[test]
fn the_start_of_a_run_is_drawn_as_such() {
    for (name, json) in RECORDED {
        let mut report = report(json);
        report.rows.truncate(3);
        report.stopped = true;
        // The copy alone, which the others are compared with, makes no figure.
        if let Ok(svg) = report.svg() {
            assert!(svg.contains("stopped before its end"), "{name}");
            assert_eq!(overlaps(&svg), Vec::<String>::new(), "{name}");
        }
    }
}
