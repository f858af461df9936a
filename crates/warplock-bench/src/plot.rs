//! Plots of reports, as SVG.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::Error;
use crate::error::Result;
use crate::table::scaled;

/// The scale of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// Each step multiplies; all values are above zero.
    Log,
    /// From zero on.
    Linear,
    /// The values 0, 1, 2, ... stand for these names.
    Names(Vec<String>),
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// x and y.
    pub points: Vec<(f64, f64)>,
    /// Published numbers of others: drawn pale.
    pub quoted: bool,
}

/// What to draw.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Above the plot.
    pub title: String,
    /// What x is.
    pub x_label: String,
    /// How x runs.
    pub x: Axis,
    /// What y is.
    pub y_label: String,
    /// The scale of y; not by names.
    pub y: Axis,
    /// The data.
    pub series: Vec<Series>,
}

const SIZE: (u32, u32) = (960, 600);
const FONT: (&str, u32) = ("sans-serif", 14);

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

impl Plot {
    /// Draws the plot.
    ///
    /// # Errors
    /// [`Error::Plot`] if there are no points, or points that a logarithmic axis cannot show.
    pub fn svg(&self) -> Result<String> {
        let x = self.extent(&self.x, |point| point.0)?;
        let y = self.extent(&self.y, |point| point.1)?;
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        match (&self.x, &self.y) {
            (Axis::Log, Axis::Log) => self.draw(&area, x.log_scale(), y.log_scale()),
            (Axis::Log, _) => self.draw(&area, x.log_scale(), y),
            (_, Axis::Log) => self.draw(&area, x, y.log_scale()),
            _ => self.draw(&area, x, y),
        }?;
        drop(area);
        Ok(text)
    }

    /// The range of an axis.
    fn extent(&self, axis: &Axis, of: impl Fn(&(f64, f64)) -> f64) -> Result<Range<f64>> {
        let values = || {
            self.series
                .iter()
                .flat_map(|series| &series.points)
                .map(&of)
        };
        let (min, max) = (
            values().fold(f64::INFINITY, f64::min),
            values().fold(f64::NEG_INFINITY, f64::max),
        );
        if !(min.is_finite() && max.is_finite()) {
            return Err(Error::Plot("there are no numbers".to_owned()));
        }
        match axis {
            Axis::Log if min > 0.0 => Ok(min / 1.3..max * 1.3),
            Axis::Log => Err(Error::Plot(format!(
                "{min} cannot be shown on a logarithmic axis"
            ))),
            Axis::Linear => Ok(0.0..(max * 1.1).max(f64::MIN_POSITIVE)),
            Axis::Names(names) => Ok(-0.5..names.len() as f64 - 0.5),
        }
    }

    fn draw<'a, X, Y>(&self, area: &DrawingArea<SVGBackend<'a>, Shift>, x: X, y: Y) -> Result<()>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    {
        let failed = |error: DrawingAreaErrorKind<_>| Error::Plot(error.to_string());
        area.fill(&WHITE).map_err(failed)?;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        let x_name = |value: &f64| match &self.x {
            Axis::Names(names) => names
                .get(value.round() as usize)
                .filter(|_| (value - value.round()).abs() < 0.01)
                .cloned()
                .unwrap_or_default(),
            _ => scaled(*value, ""),
        };
        let y_name = |value: &f64| scaled(*value, "");
        let x_labels = match &self.x {
            Axis::Names(names) => 2 * names.len() + 1,
            _ => 10,
        };
        chart
            .configure_mesh()
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .x_labels(x_labels)
            .x_label_formatter(&x_name)
            .y_label_formatter(&y_name)
            .label_style(FONT)
            .light_line_style(WHITE.mix(0.0))
            .draw()
            .map_err(failed)?;
        for (number, series) in self.series.iter().enumerate() {
            let opacity = if series.quoted { 0.45 } else { 1.0 };
            let colour = COLOURS[number % COLOURS.len()].mix(opacity);
            let line = colour.stroke_width(2);
            if !matches!(self.x, Axis::Names(_)) {
                chart
                    .draw_series(LineSeries::new(series.points.iter().copied(), line))
                    .map_err(failed)?;
            }
            let dot = |&point: &(f64, f64)| Circle::new(point, 3, colour.filled());
            chart
                .draw_series(series.points.iter().map(dot))
                .map_err(failed)?
                .label(&series.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], line));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font(FONT)
            .draw()
            .map_err(failed)?;
        area.present().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(x: Axis, y: Axis, points: Vec<(f64, f64)>) -> Plot {
        Plot {
            title: "speed".to_owned(),
            x_label: "size".to_owned(),
            x,
            y_label: "seconds".to_owned(),
            y,
            series: vec![Series {
                name: "first & last".to_owned(),
                points,
                quoted: false,
            }],
        }
    }

    #[test]
    fn every_kind_of_axis_draws_every_point() {
        let names = Axis::Names(vec!["one".to_owned(), "two".to_owned()]);
        for x in [Axis::Log, Axis::Linear, names] {
            for y in [Axis::Log, Axis::Linear] {
                let points = vec![(0.5, 1e-6), (1.0, 2.0)];
                let svg = plot(x.clone(), y, points).svg().unwrap();
                assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
                assert_eq!(svg.matches("<circle").count(), 2, "{x:?}");
                assert!(svg.contains("first &amp; last"));
            }
        }
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        assert!(plot(Axis::Log, Axis::Log, vec![]).svg().is_err());
        let zero = plot(Axis::Log, Axis::Log, vec![(0.0, 1.0)]).svg();
        assert!(zero.unwrap_err().to_string().contains("logarithmic"));
    }
}
