//! Lines over an axis of numbers.

use plotters::prelude::DrawingBackend;

use super::axis::Axis;
use super::canvas::{self, Anchor, Area, Canvas, LINE, colour};
use super::{Entry, TEXT};
use crate::error::Result;
use crate::report::Value;

/// A point, with the extent of its runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Point {
    pub(crate) fn new(x: f64, y: f64) -> Self {
        Point {
            x,
            y,
            low: y,
            high: y,
        }
    }

    /// The point of a table's cell, in another unit; none where the cell has no number.
    pub(crate) fn of(x: f64, value: &Value, unit: impl Fn(f64) -> f64) -> Option<Self> {
        match value {
            Value::Measured(sample) => {
                let sample = sample.map(&unit);
                Some(Point {
                    x,
                    y: sample.median,
                    low: sample.low,
                    high: sample.high,
                })
            }
            other => Some(Point::new(x, unit(other.number()?))),
        }
    }
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Its name in the legend.
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
    /// Published numbers of others: drawn pale.
    pub(crate) quoted: bool,
}

/// A panel of lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Levels that cannot be passed.
    pub(crate) limits: Vec<(String, f64)>,
    /// Values of x that mean something, with a short name.
    pub(crate) marks: Vec<(String, f64)>,
}

/// Room for the numbers of the upright axis, and below the level one for numbers and label.
const LEFT: i32 = 58;
const BOTTOM: i32 = 48;

impl Lines {
    pub(super) fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let with_points = self
            .series
            .iter()
            .filter(|series| !series.points.is_empty());
        let series = with_points.map(|series| Entry {
            name: series.name.clone(),
            quoted: series.quoted,
            limit: false,
        });
        let limits = self.limits.iter().map(|(name, _)| Entry {
            name: name.clone(),
            quoted: false,
            limit: true,
        });
        series.chain(limits).collect()
    }

    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        canvas: &Canvas<DB>,
        area: &Area,
        entries: &[Entry],
    ) -> Result<()> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let xs: Vec<f64> = points().map(|point| point.x).collect();
        let mut ys: Vec<f64> = points().map(|point| point.y).collect();
        ys.extend(self.limits.iter().map(|limit| limit.1));
        let (x_scale, y_scale) = (self.x.scale(&xs)?, self.y.scale(&ys)?);
        let line = canvas::height(TEXT);
        // The label of the upright axis stands above it, and marks next to that.
        let inner = Area {
            left: area.left + LEFT,
            top: area.top + line + 4 + if self.marks.is_empty() { 0 } else { line },
            right: area.right - 8,
            bottom: area.bottom - BOTTOM,
        };
        let (width, height) = (inner.right - inner.left, inner.bottom - inner.top);
        let x_of =
            |value: f64| inner.left + (x_scale.place(value) * f64::from(width)).round() as i32;
        let y_of = |value: f64| {
            let place = y_scale.place(value).clamp(-0.02, 1.02);
            inner.bottom - (place * f64::from(height)).round() as i32
        };

        let label = canvas::cut(&self.y.label, area.right - area.left, TEXT);
        canvas.text((area.left, area.top), Anchor::Start, TEXT, &label)?;
        for (value, name) in y_scale.ticks((height / 40).max(2) as usize) {
            let y = y_of(value);
            canvas.rule(((inner.left, y), (inner.right, y)), false)?;
            canvas.text(
                (inner.left - 6, y - canvas::middle(TEXT)),
                Anchor::End,
                TEXT,
                &name,
            )?;
        }
        let mut free_from = area.left;
        for (value, name) in x_scale.ticks((width / 70).max(2) as usize) {
            let (x, half) = (x_of(value), canvas::width(&name, TEXT) / 2 + 4);
            canvas.rule(((x, inner.top), (x, inner.bottom)), false)?;
            if x - half >= free_from && x + half <= area.right + 12 {
                canvas.text((x, inner.bottom + 6), Anchor::Middle, TEXT, &name)?;
                free_from = x + half;
            }
        }
        let middle = (inner.left + inner.right) / 2;
        let label = canvas::cut(&self.x.label, area.right - area.left, TEXT);
        canvas.text(
            (middle, inner.bottom + 8 + line),
            Anchor::Middle,
            TEXT,
            &label,
        )?;
        canvas.rule(((inner.left, inner.top), (inner.left, inner.bottom)), true)?;
        canvas.rule(
            ((inner.left, inner.bottom), (inner.right, inner.bottom)),
            true,
        )?;

        let mut free_from = area.left;
        for (name, value) in &self.marks {
            let (x, half) = (x_of(*value), canvas::width(name, TEXT) / 2 + 4);
            canvas.dashes(((x, inner.top), (x, inner.bottom)))?;
            // Within the panel, and after the mark before.
            let x = x.clamp(free_from + half, (area.right - half).max(free_from + half));
            if x + half <= area.right {
                canvas.text((x, inner.top - line - 2), Anchor::Middle, TEXT, name)?;
                free_from = x + half;
            }
        }
        for (_, value) in &self.limits {
            let y = y_of(*value);
            canvas.dashes(((inner.left, y), (inner.right, y)))?;
        }
        for series in &self.series {
            let own = |entry: &Entry| entry.name == series.name && entry.quoted == series.quoted;
            let number = entries.iter().position(own).unwrap_or(0);
            let colour = colour(number, series.quoted);
            let place = |point: &super::Point| (x_of(point.x), y_of(point.y));
            let places: Vec<_> = series.points.iter().map(place).collect();
            canvas.line(&places, &colour, LINE)?;
            for (point, &(x, y)) in series.points.iter().zip(&places) {
                if (point.high - point.low) / point.y > 0.05 {
                    let low = point.low.max(point.y / 1e3);
                    canvas.line(&[(x, y_of(low)), (x, y_of(point.high))], &colour, 1)?;
                }
                canvas.mark((x, y), number, &colour)?;
            }
        }
        Ok(())
    }
}
