//! Figures: lines and bars as SVG, with the legend outside of the data and the origin in the
//! caption.

mod axis;
mod bars;
#[cfg(feature = "png")]
mod bitmap;
mod canvas;
mod lines;
#[cfg(test)]
pub(crate) mod overlap;

use plotters::prelude::{DrawingBackend, SVGBackend};

pub(crate) use self::axis::{Axis, Numbers};
pub(crate) use self::bars::{Bar, Bars, Origin};
use self::canvas::{Anchor, Area, Canvas, LINE, colour};
pub(crate) use self::lines::{Lines, Point, Series};
use crate::Error;
use crate::error::Result;
use crate::table::wrapped;

/// A figure.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// Above all panels.
    pub(crate) title: String,
    /// Next to each other.
    pub(crate) panels: Vec<Panel>,
    /// Below: machine, date, commit, sources; a line each.
    pub(crate) caption: Vec<String>,
}

/// A part of a figure with axes of its own.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// Above it.
    pub(crate) title: String,
    pub(crate) chart: Chart,
}

impl Panel {
    /// Whether it shows published numbers of others.
    pub(crate) fn has_quoted(&self) -> bool {
        match &self.chart {
            Chart::Lines(lines) => lines.series.iter().any(|series| series.quoted),
            Chart::Bars(bars) => bars.bars.iter().any(|bar| bar.quoted),
        }
    }
}

/// How a panel shows its numbers.
#[derive(Clone, Debug)]
pub(crate) enum Chart {
    Lines(Lines),
    Bars(Bars),
}

/// Pixels of the document; bars make it as high as they need.
const WIDTH: i32 = 960;
const HEIGHT: i32 = 600;

const MARGIN: i32 = 16;
const LEGEND: i32 = 224;

const TITLE_SIZE: f64 = 19.0;
const TEXT: f64 = 13.0;
const CAPTION: f64 = 11.0;

impl Figure {
    /// Draws the figure as an SVG document.
    ///
    /// # Errors
    /// [`Error::Plot`] if there are no points, or points that a logarithmic axis cannot show.
    pub(crate) fn svg(&self) -> Result<String> {
        let layout = self.layout()?;
        let mut text = String::new();
        let size = (WIDTH as u32, layout.height as u32);
        let canvas = Canvas::new(SVGBackend::with_string(&mut text, size))?;
        self.draw(&canvas, &layout)?;
        canvas.end()?;
        Ok(text)
    }

    /// Draws the figure as a PNG file, at twice the size.
    ///
    /// # Errors
    /// As [`Figure::svg`].
    #[cfg(feature = "png")]
    pub(crate) fn png(&self) -> Result<Vec<u8>> {
        let layout = self.layout()?;
        bitmap::png((WIDTH, layout.height), |canvas| self.draw(canvas, &layout))
    }

    fn layout(&self) -> Result<Layout<'_>> {
        let is_empty = |panel: &&Panel| match &panel.chart {
            Chart::Lines(lines) => lines.is_empty(),
            Chart::Bars(bars) => bars.bars.is_empty(),
        };
        let panels: Vec<_> = self
            .panels
            .iter()
            .filter(|panel| !is_empty(panel))
            .collect();
        if panels.is_empty() {
            return Err(Error::Plot("there are no numbers".to_owned()));
        }
        let entries = legend(&panels);
        let fitting = |line: &str, size| wrapped(line, canvas::fit(WIDTH - 2 * MARGIN, size));
        let caption = self.caption.iter();
        let caption: Vec<_> = caption.flat_map(|line| fitting(line, CAPTION)).collect();
        let title = fitting(&self.title, TITLE_SIZE);
        let top = MARGIN + title.len() as i32 * canvas::height(TITLE_SIZE) + 8;
        let below = caption.len() as i32 * canvas::height(CAPTION) + MARGIN + 8;
        let right = if entries.is_empty() { 0 } else { LEGEND };
        let width = (WIDTH - 2 * MARGIN - right) / panels.len() as i32;
        // Few bars need less, many more.
        let heights = panels.iter().map(|panel| match &panel.chart {
            Chart::Bars(bars) => {
                let (least, most) = bars.heights(width);
                let title = canvas::height(TEXT) + 6;
                let around = top + below + title;
                HEIGHT.clamp(around + least, around + most)
            }
            Chart::Lines(_) => HEIGHT,
        });
        Ok(Layout {
            height: heights.max().unwrap_or(HEIGHT),
            panels,
            entries,
            caption,
            title,
            top,
            below,
            width,
        })
    }

    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<DB>, layout: &Layout<'_>) -> Result<()> {
        let &Layout {
            height,
            top,
            below,
            width,
            ..
        } = layout;
        for (number, line) in layout.title.iter().enumerate() {
            let y = MARGIN + number as i32 * canvas::height(TITLE_SIZE);
            canvas.text((MARGIN, y), Anchor::Start, TITLE_SIZE, line)?;
        }
        for (number, line) in layout.caption.iter().enumerate() {
            let y = height - below + 8 + number as i32 * canvas::height(CAPTION);
            canvas.pale_text((MARGIN, y), CAPTION, line)?;
        }
        for (number, panel) in layout.panels.iter().enumerate() {
            let left = MARGIN + number as i32 * width;
            let title_height = match panel.title.is_empty() {
                true => 0,
                false => canvas::height(TEXT) + 6,
            };
            let fitting = canvas::cut(&panel.title, width, TEXT);
            canvas.text((left, top), Anchor::Start, TEXT, &fitting)?;
            let area = Area {
                left,
                top: top + title_height,
                right: left + width - 12,
                bottom: height - below,
            };
            match &panel.chart {
                Chart::Lines(lines) => lines.draw(canvas, &area, &layout.entries)?,
                Chart::Bars(bars) => bars.draw(canvas, &area)?,
            }
        }
        let legend = (WIDTH - MARGIN - LEGEND + 8, top);
        draw_legend(canvas, legend, &layout.entries)
    }
}

/// Where everything is.
struct Layout<'a> {
    height: i32,
    panels: Vec<&'a Panel>,
    entries: Vec<Entry>,
    caption: Vec<String>,
    title: Vec<String>,
    /// The upper edge of the panels, and their distance from the lower edge of the figure.
    top: i32,
    below: i32,
    /// Of a panel.
    width: i32,
}

/// A line of the legend: the same for a series of the same name in all panels.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    name: String,
    quoted: bool,
    limit: bool,
}

fn legend(panels: &[&Panel]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for panel in panels {
        let Chart::Lines(lines) = &panel.chart else {
            continue;
        };
        for entry in lines.entries() {
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
    }
    entries
}

fn draw_legend<DB: DrawingBackend>(
    canvas: &Canvas<DB>,
    (left, top): (i32, i32),
    entries: &[Entry],
) -> Result<()> {
    let mut y = top + canvas::height(TEXT);
    for (number, entry) in entries.iter().enumerate() {
        let middle = y + canvas::middle(TEXT);
        let colour = colour(number, entry.quoted);
        match entry.limit {
            true => canvas.dashes(((left, middle), (left + 22, middle)))?,
            false => {
                canvas.line(&[(left, middle), (left + 22, middle)], &colour, LINE)?;
                canvas.mark((left + 11, middle), number, &colour)?;
            }
        }
        let name = match entry.quoted {
            true => format!("{} (quoted)", entry.name),
            false => entry.name.clone(),
        };
        for line in wrapped(&name, canvas::fit(LEGEND - 42, TEXT)) {
            canvas.text((left + 30, y), Anchor::Start, TEXT, &line)?;
            y += canvas::height(TEXT);
        }
        y += 5;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn lines(x: Axis, y: Axis, points: &[(f64, f64)]) -> Figure {
        Figure {
            title: "speed".to_owned(),
            caption: vec!["a machine, a day, a commit".to_owned()],
            panels: vec![Panel {
                title: "encrypt".to_owned(),
                chart: Chart::Lines(Lines {
                    x,
                    y,
                    series: vec![Series {
                        name: "first & last".to_owned(),
                        points: points.iter().map(|&(x, y)| Point::new(x, y)).collect(),
                        quoted: false,
                    }],
                    limits: vec![("a copy".to_owned(), 1.5)],
                    marks: Vec::new(),
                }),
            }],
        }
    }

    #[test]
    fn every_kind_of_axis_draws_every_point() {
        for numbers in [Numbers::Bytes, Numbers::Plain] {
            let (x, y) = (
                Axis::new("size", numbers),
                Axis::new("GB/s", Numbers::Plain),
            );
            let svg = lines(x, y, &[(64.0, 1e-3), (1024.0, 2.0)]).svg().unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            // Two points, and one in the legend.
            assert_eq!(svg.matches("<circle").count(), 3, "{numbers:?}");
            assert!(svg.contains("first &amp; last") && svg.contains("a copy"));
            assert_eq!(overlap::overlaps(&svg), Vec::<String>::new());
        }
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        let log = || Axis::new("", Numbers::Plain);
        assert!(lines(log(), log(), &[]).svg().is_err());
        let zero = lines(log(), log(), &[(0.0, 1.0)]).svg();
        assert!(zero.unwrap_err().to_string().contains("logarithmic"));
    }

    #[test]
    fn an_axis_of_less_than_a_decade_has_numbers() {
        let svg = lines(
            Axis::new("n", Numbers::Plain),
            Axis::new("seconds", Numbers::Plain),
            &[(1.0, 0.21), (2.0, 0.43)],
        );
        let svg = svg.svg().unwrap();
        let texts = overlap::texts(&svg);
        for number in ["0.2", "0.5"] {
            assert!(
                texts.iter().any(|text| text.text == number),
                "{number}: {texts:?}"
            );
        }
    }

    #[test]
    fn bars_have_their_names_and_numbers() {
        let bar = |group: &str, name: &str, value| Bar {
            group: group.to_owned(),
            name: name.to_owned(),
            value: Point::new(0.0, value),
            quoted: false,
        };
        for (count, origin) in [3, 43, 90]
            .into_iter()
            .flat_map(|count| [(count, Origin::Zero), (count, Origin::One)])
        {
            let bars = (0..count).map(|n| {
                bar(
                    &format!("mode {}", n / 6),
                    &format!("algorithm {n}, 16,384 x 64 KiB"),
                    f64::from(n) + 0.5,
                )
            });
            let figure = Figure {
                title: "bars".to_owned(),
                caption: Vec::new(),
                panels: vec![Panel {
                    title: "GB/s".to_owned(),
                    chart: Chart::Bars(Bars {
                        bars: bars.collect(),
                        origin,
                        limit: Some(("a copy".to_owned(), 50.0)),
                    }),
                }],
            };
            let svg = figure.svg().unwrap();
            for number in 0..count {
                assert!(svg.contains(&format!("algorithm {number},")), "{number}");
            }
            assert_eq!(overlap::overlaps(&svg), Vec::<String>::new(), "{count}");
        }
    }
}
