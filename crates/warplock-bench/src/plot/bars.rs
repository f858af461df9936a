//! Level bars with names at their left and numbers at their right.

use plotters::prelude::DrawingBackend;

use super::canvas::{self, Anchor, Area, Canvas, colour};
use super::{Point, TEXT};
use crate::error::Result;
use crate::table::{grouped, three_digits};

/// A bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Bars of one group stand together under its name; an empty name is not written.
    pub(crate) group: String,
    pub(crate) name: String,
    /// Its x has no meaning.
    pub(crate) value: Point,
    /// A published number of others: drawn pale.
    pub(crate) quoted: bool,
}

/// Where bars start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Origin {
    /// All have the same scale.
    Zero,
    /// Factors, to the left if below 1; each step of the scale multiplies, so that a tenth is as far
    /// from 1 as ten.
    One,
}

/// A panel of bars.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) bars: Vec<Bar>,
    pub(crate) origin: Origin,
    /// A value that cannot be passed.
    pub(crate) limit: Option<(String, f64)>,
}

/// Text in rows that are close together.
const SMALL: f64 = 11.0;

/// Pixels of a row: as they should be, and at least.
const ROW: i32 = 40;
const LEAST_ROW: i32 = 16;

/// From this many rows on, there are two columns.
const MANY: usize = 22;

/// All colours but black, which whiskers have.
const BAR_COLOURS: usize = 6;

/// A line of a column.
enum Row<'a> {
    Group(&'a str),
    Bar(usize, &'a Bar),
}

impl Bars {
    fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        let mut group = "";
        for (number, bar) in self.bars.iter().enumerate() {
            if bar.group != group {
                group = &bar.group;
                rows.push(Row::Group(group));
            }
            rows.push(Row::Bar(number, bar));
        }
        rows
    }

    fn columns(&self, width: i32) -> usize {
        if self.rows().len() >= MANY && width > 700 {
            2
        } else {
            1
        }
    }

    /// The rows of each column; groups stay together.
    fn layout(&self, width: i32) -> Vec<Vec<Row<'_>>> {
        let rows = self.rows();
        let columns = self.columns(width);
        let each = rows.len().div_ceil(columns);
        let group = |bar: &Bar| {
            self.bars
                .iter()
                .filter(|own| own.group == bar.group)
                .count()
        };
        let mut all: Vec<Vec<Row<'_>>> = vec![Vec::new()];
        for row in rows {
            let last = all.last().map_or(0, Vec::len);
            let ends_here = match &row {
                // More than half of it would be in the next column.
                Row::Group(name) => {
                    let own = self.bars.iter().find(|bar| bar.group == *name);
                    last + own.map_or(0, group) / 2 >= each
                }
                Row::Bar(_, bar) => bar.group.is_empty() && last >= each,
            };
            if all.len() < columns && ends_here {
                all.push(Vec::new());
            }
            all.last_mut().expect("there is one").push(row);
        }
        all
    }

    /// Pixels that the rows need at least in a panel of this width, and can use.
    pub(super) fn heights(&self, width: i32) -> (i32, i32) {
        let rows = self.layout(width).iter().map(Vec::len).max().unwrap_or(0) as i32;
        let rest = canvas::height(TEXT) + 8;
        (rows * LEAST_ROW + rest, rows * ROW + rest)
    }

    pub(super) fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<DB>, area: &Area) -> Result<()> {
        let columns = self.layout(area.right - area.left + 12);
        let rows = columns.iter().map(Vec::len).max().unwrap_or(1).max(1) as i32;
        let top = area.top + canvas::height(TEXT) + 4;
        let row = ((area.bottom - top) / rows).clamp(LEAST_ROW, ROW);
        let size = if row >= 20 { TEXT } else { SMALL };
        let numbers = self.bars.iter().map(|bar| number(bar.value.y));
        let right = numbers
            .map(|text| canvas::width(&text, size))
            .max()
            .unwrap_or(0)
            + 10;
        let width = (area.right - area.left) / columns.len() as i32;
        let names = self.bars.iter().flat_map(|bar| [&bar.name, &bar.group]);
        let names = names.map(|name| canvas::width(name, size));
        let left = names.max().unwrap_or(0).min(width / 2 - right) + 10;
        let room = width - left - right - 14;
        let values = self.bars.iter().map(|bar| bar.value.y);
        let most = values
            .clone()
            .chain(self.limit.iter().map(|limit| limit.1))
            .fold(f64::MIN_POSITIVE, f64::max);
        let least = values.fold(1.0, f64::min).max(f64::MIN_POSITIVE);
        let extent = (most.max(1.0) / least).ln().max(f64::MIN_POSITIVE);
        let share = |value: f64| match self.origin {
            Origin::Zero => value / most,
            Origin::One => (value.max(least) / least).ln() / extent,
        };
        let long = |value: f64| (share(value) * f64::from(room)).round() as i32;
        let origin = match self.origin {
            Origin::Zero => 0,
            Origin::One => long(1.0),
        };
        for (place, column) in columns.iter().enumerate() {
            let start = area.left + place as i32 * width + left;
            let end = top + column.len() as i32 * row;
            canvas.rule(((start, top), (start, end)), true)?;
            for (place, line) in column.iter().enumerate() {
                let y = top + place as i32 * row;
                let text_y = y + row / 2 - canvas::middle(size);
                let (number, bar) = match line {
                    Row::Group(name) => {
                        let name = canvas::cut(name, width - 20, size);
                        canvas.pale_text((start - left, text_y), size, &name)?;
                        continue;
                    }
                    Row::Bar(number, bar) => (number, bar),
                };
                let name = canvas::cut(&bar.name, left - 10, size);
                canvas.text((start - 6, text_y), Anchor::End, size, &name)?;
                // One colour for each group.
                let groups = self.groups_before(*number);
                let end = long(bar.value.y);
                let bar_end = start + origin.max(end).max(1);
                let shape = Area {
                    left: start + origin.min(end),
                    top: y + row / 6,
                    right: bar_end,
                    bottom: y + row - row / 6,
                };
                canvas.bar(&shape, &colour(groups % BAR_COLOURS, bar.quoted))?;
                let (low, high) = (bar.value.low, bar.value.high);
                let mut text_x = bar_end;
                if (high - low) / bar.value.y > 0.05 {
                    let whisker_end = start + long(high.min(most));
                    let middle = y + row / 2;
                    let ends = [(start + long(low), middle), (whisker_end, middle)];
                    canvas.line(&ends, &colour(6, false), 1)?;
                    text_x = text_x.max(whisker_end);
                }
                canvas.text(
                    (text_x + 5, text_y),
                    Anchor::Start,
                    size,
                    &self::number(bar.value.y),
                )?;
            }
            if let Some((name, value)) = &self.limit {
                let x = start + long(*value);
                canvas.dashes(((x, top), (x, end)))?;
                let label = format!("{name} {}", self::number(*value));
                let label = canvas::cut(&label, width - 20, TEXT);
                let edge = start - left + width - 14;
                canvas.text((x.min(edge), area.top), Anchor::End, TEXT, &label)?;
            }
        }
        Ok(())
    }

    fn groups_before(&self, number: usize) -> usize {
        let groups: Vec<_> = self.bars[..=number]
            .windows(2)
            .map(|pair| pair[0].group != pair[1].group)
            .collect();
        groups.into_iter().filter(|&changed| changed).count()
    }
}

/// Three digits that matter.
fn number(value: f64) -> String {
    match value >= 1000.0 {
        true => grouped(value.round() as u64),
        false => three_digits(value),
    }
}
