//! Results as one self-contained HTML page: images, histograms, scatter of neighbours, tables.

use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plotters::prelude::*;

use crate::correlation::{Direction, sample};
use crate::data::{Data, Error};
use crate::report::Report;
use crate::test::Test;

/// Points of a scatter plot.
const POINTS: usize = 1500;
/// Larger images would make the page too large for a browser.
const LARGEST_IMAGE: usize = 16 << 20;
const SIZE: (u32, u32) = (420, 320);
/// Of a single channel, and of red, green, blue and alpha.
const GREY: RGBColor = RGBColor(60, 60, 60);
const COLOURS: [RGBColor; 4] = [
    RGBColor(213, 60, 0),
    RGBColor(0, 140, 90),
    RGBColor(0, 90, 190),
    RGBColor(150, 150, 150),
];

/// One plaintext or ciphertext.
#[derive(Debug)]
pub struct Section<'a> {
    /// The heading.
    pub title: String,
    /// What was analysed.
    pub data: &'a Data<'a>,
    /// Its statistics.
    pub report: &'a Report,
    /// Further tables: a heading, a sentence, and results, each with the name of its channel.
    pub tables: Vec<Table<'a>>,
}

/// Results under a heading.
#[derive(Debug)]
pub struct Table<'a> {
    /// The heading.
    pub title: String,
    /// What was measured, and what that means.
    pub text: String,
    /// Each result with the name of its channel.
    pub tests: Vec<(&'a str, &'a Test)>,
}

/// Draws the page; `text` comes after the title.
///
/// # Errors
/// [`Error::Image`], [`Error::Plot`].
pub fn page(title: &str, text: &str, sections: &[Section<'_>]) -> Result<String, Error> {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\
         <style>{STYLE}</style></head><body><h1>{0}</h1><p>{1}</p>\n",
        escaped(title),
        escaped(text)
    );
    for section in sections {
        let _ = write!(
            page,
            "<h2>{}</h2>\n<div class=\"figures\">",
            escaped(&section.title)
        );
        if section.data.as_bytes().len() <= LARGEST_IMAGE && !section.data.as_bytes().is_empty() {
            let png = STANDARD.encode(section.data.encode_png()?);
            let _ = write!(
                page,
                "<img alt=\"image\" src=\"data:image/png;base64,{png}\">"
            );
        }
        page += &histograms(section.report)?;
        page += &scatter(section.data)?;
        page += "</div>\n";
        let channels = section.report.channels.iter();
        let tests = channels
            .flat_map(|channel| channel.tests.iter().map(|test| (channel.name, test)))
            .chain(section.report.tests.iter().map(|test| ("", test)));
        table(&mut page, tests);
        for one in &section.tables {
            let (title, text) = (escaped(&one.title), escaped(&one.text));
            let _ = writeln!(page, "<h3>{title}</h3><p>{text}</p>");
            table(&mut page, one.tests.iter().copied());
        }
    }
    page += "</body></html>\n";
    Ok(page)
}

const STYLE: &str = "body{font:15px/1.4 sans-serif;max-width:1360px;margin:2em auto;padding:0 1em}\
    table{border-collapse:collapse}td,th{padding:.2em .6em;text-align:right;border-bottom:1px solid \
    #ddd;vertical-align:top}td.text,th.text{text-align:left}.flagged{background:#fde3d3}\
    .figures{display:flex;flex-wrap:wrap;gap:12px;margin-bottom:1em}\
    .figures img{max-height:320px;max-width:420px;image-rendering:pixelated}";

fn table<'a>(page: &mut String, tests: impl Iterator<Item = (&'a str, &'a Test)>) {
    *page += "<table><tr><th class=\"text\">channel</th><th class=\"text\">statistic</th>\
              <th>value</th><th>expected</th><th>bounds at 5 %</th><th>p</th>\
              <th class=\"text\">meaning</th></tr>\n";
    for (channel, test) in tests {
        let class = match test.is_flagged(0.001) {
            true => " class=\"flagged\"",
            false => "",
        };
        let side = |side: Option<f64>| side.map(|value| format!("{value:.4}")).unwrap_or_default();
        let _ = writeln!(
            page,
            "<tr{class}><td class=\"text\">{channel}</td><td class=\"text\">{}</td><td>{:.4}</td>\
             <td>{:.4}</td><td>{} .. {}</td><td>{:.4}</td><td class=\"text\">{}</td></tr>",
            escaped(test.title),
            test.value,
            test.expected,
            side(test.bounds[0].low),
            side(test.bounds[0].high),
            test.p_value,
            escaped(&test.sentence),
        );
    }
    *page += "</table>\n";
}

fn colours(channels: usize) -> &'static [RGBColor] {
    match channels {
        1 | 2 => &[GREY, COLOURS[3]],
        _ => &COLOURS,
    }
}

/// The counts of all channels in one plot.
fn histograms(report: &Report) -> Result<String, Error> {
    let counts = report.channels.iter().flat_map(|one| one.histogram.counts);
    let highest = counts.max().unwrap_or(0).max(1) as f64 * 1.05;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .caption("histogram", ("sans-serif", 15))
            .margin(8)
            .x_label_area_size(28)
            .y_label_area_size(56)
            .build_cartesian_2d(0f64..256f64, 0f64..highest)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .x_labels(9)
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| format!("{value:.0}"))
            .draw()
            .map_err(failed)?;
        let colours = colours(report.channels.len());
        for (channel, colour) in report.channels.iter().zip(colours) {
            let counts = (0u32..).zip(channel.histogram.counts);
            // Steps, so that a single count is not a spike without width.
            let steps = counts.flat_map(|(value, count)| {
                let value = f64::from(value);
                [(value, count as f64), (value + 1.0, count as f64)]
            });
            chart
                .draw_series(LineSeries::new(steps, colour))
                .map_err(failed)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Bytes against their right neighbours.
fn scatter(data: &Data<'_>) -> Result<String, Error> {
    let planes = data.planes();
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .caption("horizontal neighbours", ("sans-serif", 15))
            .margin(8)
            .x_label_area_size(28)
            .y_label_area_size(56)
            .build_cartesian_2d(0f64..256f64, 0f64..256f64)
            .map_err(failed)?;
        let label = |value: &f64| format!("{value:.0}");
        chart
            .configure_mesh()
            .disable_mesh()
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .draw()
            .map_err(failed)?;
        let colours = colours(planes.len());
        let points = POINTS / planes.len();
        for ((_, plane), colour) in planes.iter().zip(colours) {
            let Some(pairs) = sample(plane, Direction::Horizontal, points, 0) else {
                continue;
            };
            let dot = |(x, y)| Circle::new((f64::from(x), f64::from(y)), 1, colour.filled());
            chart.draw_series(pairs.map(dot)).map_err(failed)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Plot(error.to_string())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Shape;
    use crate::pictures::Picture;
    use crate::report::{Options, analyze};

    #[test]
    fn a_page_holds_all_it_shows_and_escapes_names() {
        for channels in 1..=4 {
            let shape = Shape {
                width: 100,
                height: 80,
                channels,
            };
            let data = Picture::Photograph.draw(shape, 1);
            let report = analyze(&data, &Options::default());
            let section = Section {
                title: "<script>&\"".to_owned(),
                data: &data,
                report: &report,
                tables: Vec::new(),
            };
            let page = page("title", "text", &[section]).unwrap();
            assert!(page.contains("<h2>&lt;script&gt;&amp;&quot;</h2>"));
            assert!(page.contains("data:image/png;base64,"));
            assert_eq!(page.matches("<svg").count(), 2);
            assert!(!page.contains("<script"));
            // A name space is the only address.
            let links = page.matches("http").count();
            assert_eq!(links, page.matches("http://www.w3.org/2000/svg").count());
            assert_eq!(page.matches("<tr").count(), report.tests().count() + 1);
        }
    }
}
