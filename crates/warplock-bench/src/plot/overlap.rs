//! For tests: the texts of a figure, and which of them overlap or leave it.

use super::canvas::{EM, height};

/// A text and its box.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) text: String,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// All texts of an SVG document as plotters writes it.
pub(crate) fn texts(svg: &str) -> Vec<Text> {
    let attribute = |tag: &str, name: &str| {
        let start = tag
            .find(&format!(" {name}=\""))
            .map(|at| at + name.len() + 3)?;
        let len = tag[start..].find('"')?;
        Some(tag[start..start + len].to_owned())
    };
    let number = |tag: &str, name: &str| {
        let text = attribute(tag, name).unwrap_or_default();
        text.parse::<f64>()
            .unwrap_or_else(|_| panic!("{name} in {tag}"))
    };
    svg.split("<text")
        .skip(1)
        .map(|rest| {
            let (tag, rest) = rest.split_once('>').unwrap();
            let content = rest.split_once("</text>").unwrap().0.trim();
            let content = content
                .replace("&amp;", "&")
                .replace("&lt;", "<")
                .replace("&gt;", ">");
            assert!(!tag.contains("rotate"), "only level texts: {tag}");
            let size = number(tag, "font-size");
            let width = content.chars().count() as f64 * EM * size;
            let x = number(tag, "x");
            let left = match attribute(tag, "text-anchor").as_deref() {
                Some("middle") => x - width / 2.0,
                Some("end") => x - width,
                _ => x,
            };
            let top = number(tag, "y");
            Text {
                text: content,
                left,
                right: left + width,
                top,
                bottom: top + size,
            }
        })
        .collect()
}

/// Pairs of texts that overlap, and texts that leave the document.
pub(crate) fn overlaps(svg: &str) -> Vec<String> {
    let texts = texts(svg);
    let size = |name: &str| {
        let start = svg.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
        let end = svg[start..].find('"').unwrap();
        svg[start..start + end].parse::<f64>().unwrap()
    };
    let (width, tall) = (size("width"), size("height"));
    let mut found = Vec::new();
    for (number, a) in texts.iter().enumerate() {
        if a.left < 0.0 || a.right > width || a.top < 0.0 || a.bottom > tall {
            found.push(format!("{a:?} leaves the figure"));
        }
        for b in &texts[number + 1..] {
            let apart =
                a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
            if !apart {
                found.push(format!("{a:?} overlaps {b:?}"));
            }
        }
    }
    found
}

#[test]
fn overlaps_are_found() {
    let text = |x: i32, text: &str| {
        format!(
            "<text x=\"{x}\" y=\"20\" text-anchor=\"start\" font-size=\"10\">\n{text}\n</text>\n"
        )
    };
    let document = |texts: String| {
        format!(
            "<svg width=\"200\" height=\"{}\">{texts}</svg>",
            height(40.0)
        )
    };
    assert!(overlaps(&document(text(5, "abc") + &text(60, "abc"))).is_empty());
    assert_eq!(
        overlaps(&document(text(5, "abcdefghijk") + &text(60, "abc"))).len(),
        1
    );
    assert_eq!(overlaps(&document(text(190, "abc"))).len(), 1);
}
