//! Texts, lines and marks at pixels, in SVG or in a bitmap.

use std::cell::RefCell;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Error;
use crate::error::Result;

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) right: i32,
    pub(super) bottom: i32,
}

/// Which end of a text is at its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Width of lines with data.
pub(super) const LINE: u32 = 2;

/// A character is at most this wide on average, in ems, in the usual fonts without serifs.
pub(super) const EM: f64 = 0.57;

/// Pixels of a text's width, at most.
pub(super) fn width(text: &str, size: f64) -> i32 {
    (text.chars().count() as f64 * EM * size).ceil() as i32
}

/// Characters that fit into a width.
pub(super) fn fit(width: i32, size: f64) -> usize {
    (f64::from(width.max(0)) / (EM * size)) as usize
}

/// A text that fits, with an ellipsis if it is cut.
pub(super) fn cut(text: &str, width: i32, size: f64) -> String {
    let room = fit(width, size);
    match text.chars().count() <= room {
        true => text.to_owned(),
        false => {
            let start = text.chars().take(room.saturating_sub(1));
            start.chain(['…']).collect()
        }
    }
}

/// Pixels of a line of text.
pub(super) fn height(size: f64) -> i32 {
    (1.3 * size).ceil() as i32
}

/// Distinguishable with impaired colour vision, too (Okabe and Ito's palette).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

const GREY: RGBColor = RGBColor(96, 96, 96);

/// From a text's upper edge to the middle of its digits.
pub(super) fn middle(size: f64) -> i32 {
    (0.4 * size).round() as i32
}

/// The colour of the series with a number; pale for published numbers of others.
pub(super) fn colour(number: usize, quoted: bool) -> RGBAColor {
    COLOURS[number % COLOURS.len()].mix(if quoted { 0.45 } else { 1.0 })
}

/// What is drawn on. All sizes and places are multiplied by the scale.
pub(super) struct Canvas<DB: DrawingBackend> {
    area: DrawingArea<DB, Shift>,
    scale: i32,
    /// Texts for a backend that has no fonts: they are drawn afterwards.
    texts: Option<RefCell<Vec<Label>>>,
}

/// A text to be drawn, at its place without scale.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "png"),
    allow(dead_code, reason = "bitmaps alone draw them afterwards")
)]
pub(super) struct Label {
    pub(super) at: (i32, i32),
    pub(super) anchor: Anchor,
    pub(super) size: f64,
    pub(super) text: String,
    pub(super) colour: RGBColor,
}

fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> Error {
    Error::Plot(error.to_string())
}

impl<DB: DrawingBackend> Canvas<DB> {
    pub(super) fn new(backend: DB) -> Result<Self> {
        let area = backend.into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        Ok(Canvas {
            area,
            scale: 1,
            texts: None,
        })
    }

    /// One that gives the texts back at its end.
    #[cfg(feature = "png")]
    pub(super) fn without_fonts(backend: DB, scale: i32) -> Result<Self> {
        Ok(Canvas {
            scale,
            texts: Some(RefCell::default()),
            ..Canvas::new(backend)?
        })
    }

    /// The texts that were not drawn.
    pub(super) fn end(self) -> Result<Vec<Label>> {
        self.area.present().map_err(failed)?;
        Ok(self.texts.map(RefCell::into_inner).unwrap_or_default())
    }

    fn scaled(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x * self.scale, y * self.scale)
    }

    /// A text whose upper edge is at `y`.
    pub(super) fn text(&self, at: (i32, i32), anchor: Anchor, size: f64, text: &str) -> Result<()> {
        self.write(at, anchor, size, text, &BLACK)
    }

    pub(super) fn pale_text(&self, at: (i32, i32), size: f64, text: &str) -> Result<()> {
        self.write(at, Anchor::Start, size, text, &GREY)
    }

    fn write(
        &self,
        at: (i32, i32),
        anchor: Anchor,
        size: f64,
        text: &str,
        colour: &RGBColor,
    ) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if let Some(texts) = &self.texts {
            texts.borrow_mut().push(Label {
                at,
                anchor,
                size,
                text: text.to_owned(),
                colour: *colour,
            });
            return Ok(());
        }
        let horizontal = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        // The SVG backend divides sizes by this.
        let style = TextStyle::from(("sans-serif", size * 1.24).into_font())
            .pos(Pos::new(horizontal, VPos::Top))
            .color(colour);
        self.area.draw_text(text, &style, at).map_err(failed)
    }

    pub(super) fn line(&self, points: &[(i32, i32)], colour: &RGBAColor, width: u32) -> Result<()> {
        let points: Vec<_> = points.iter().map(|&at| self.scaled(at)).collect();
        let width = width * self.scale.unsigned_abs();
        let line = PathElement::new(points, colour.stroke_width(width));
        self.area.draw(&line).map_err(failed)
    }

    /// A line of a grid or of an axis.
    pub(super) fn rule(&self, (from, to): ((i32, i32), (i32, i32)), strong: bool) -> Result<()> {
        let colour = GREY.mix(if strong { 0.9 } else { 0.2 });
        self.line(&[from, to], &colour, 1)
    }

    /// A limit: dashes along a level or an upright line.
    pub(super) fn dashes(&self, ((x, y), (x_end, y_end)): ((i32, i32), (i32, i32))) -> Result<()> {
        let long = (x_end - x).max(y_end - y);
        for start in (0..long).step_by(9) {
            let end = (start + 5).min(long);
            let (from, to) = match x_end > x {
                true => ((x + start, y), (x + end, y)),
                false => ((x, y + start), (x, y + end)),
            };
            self.line(&[from, to], &BLACK.mix(0.8), 1)?;
        }
        Ok(())
    }

    /// A point: circles first, then rings and squares, where colours repeat.
    pub(super) fn mark(&self, at: (i32, i32), number: usize, colour: &RGBAColor) -> Result<()> {
        let (x, y) = self.scaled(at);
        let scale = self.scale;
        let ring = colour.stroke_width(2 * scale.unsigned_abs());
        let half = 3 * scale;
        let corners = [(x - half, y - half), (x + half, y + half)];
        match number / COLOURS.len() {
            0 => self.area.draw(&Circle::new((x, y), half, colour.filled())),
            1 => self.area.draw(&Circle::new((x, y), 4 * scale, ring)),
            _ => self.area.draw(&Rectangle::new(corners, colour.filled())),
        }
        .map_err(failed)
    }

    pub(super) fn bar(&self, area: &Area, colour: &RGBAColor) -> Result<()> {
        let corners = [(area.left, area.top), (area.right, area.bottom)];
        let corners = corners.map(|corner| self.scaled(corner));
        let bar = Rectangle::new(corners, colour.filled());
        self.area.draw(&bar).map_err(failed)
    }
}
