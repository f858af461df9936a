//! Reports as one HTML page that needs nothing else: tables, figures, notes.

use std::fmt::Write;

use crate::report::{Column, Report, Role, Unit, Value};
use crate::table;

/// A part of a page.
#[derive(Clone, Debug)]
pub enum Section {
    /// A suite's results.
    Report(Box<Report>),
    /// A suite that could not run.
    Skipped {
        /// Its name.
        suite: String,
        /// Why, and what would be needed.
        why: String,
    },
}

const STYLE: &str = "\
body{font:15px/1.5 sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#111;\
background:#fff}
h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2.5em;border-top:1px solid #ccc;padding-top:1em}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;margin:1em 0}
th,td{padding:2px 8px;text-align:right;white-space:nowrap}th{vertical-align:bottom;white-space:pre-line;\
border-bottom:1px solid #888}td.text,th.text{text-align:left}tbody tr:nth-child(even){\
background:#f4f4f4}.quoted{color:#777;font-style:italic}.spread{color:#a40;font-size:11px}
.warning{color:#a40}.notes{font-size:13px;color:#444}svg{max-width:100%;height:auto}";

/// The page of some sections.
pub fn page(sections: &[Section]) -> String {
    let reports = || {
        sections.iter().filter_map(|section| match section {
            Section::Report(report) => Some(report),
            Section::Skipped { .. } => None,
        })
    };
    let machine = reports().next().map(|report| report.machine.caption());
    let mut text =
        String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    text.push_str("<meta name=\"viewport\" content=\"width=device-width\">\n");
    let _ = write!(
        text,
        "<title>Warplock on this machine</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n\
         <h1>What Warplock does on a machine</h1>\n<p>{}</p>\n<ul>\n",
        escaped(machine.as_deref().unwrap_or("nothing was measured"))
    );
    for section in sections {
        let _ = match section {
            Section::Report(report) => {
                let (name, title) = (escaped(&report.suite), escaped(&report.title));
                writeln!(text, "<li><a href=\"#{name}\">{title}</a></li>")
            }
            Section::Skipped { suite, why } => {
                writeln!(text, "<li>{}: {}</li>", escaped(suite), escaped(why))
            }
        };
    }
    text.push_str("</ul>\n");
    reports().for_each(|report| one(&mut text, report));
    text.push_str("</body>\n</html>\n");
    text
}

fn one(text: &mut String, report: &Report) {
    let (name, title) = (escaped(&report.suite), escaped(&report.title));
    let _ = writeln!(text, "<section id=\"{name}\">\n<h2>{title}</h2>");
    let mut warnings = Vec::new();
    if report.stopped {
        warnings.push("Stopped before its end: these rows were measured until then.".to_owned());
    }
    if report.machine.is_busy() {
        let load = report.machine.load.unwrap_or_default();
        warnings.push(format!(
            "The machine was busy (load {load:.2} before the run)."
        ));
    }
    for warning in warnings {
        let _ = writeln!(text, "<p class=\"warning\">{warning}</p>");
    }
    // The start of a run may have nothing to draw.
    if let Ok(svg) = report.svg() {
        text.push_str(&svg);
    }
    for (heading, rows) in table::tables(&report.columns, &report.rows) {
        if let Some(heading) = heading {
            let _ = writeln!(text, "<h3>{}</h3>", escaped(&heading));
        }
        rows_of(text, &report.columns, &rows);
    }
    text.push_str("<div class=\"notes\">\n");
    for note in report.machine.lines().iter().chain(&report.notes) {
        let _ = writeln!(text, "<p>{}</p>", escaped(note));
    }
    text.push_str("</div>\n</section>\n");
}

fn rows_of(text: &mut String, columns: &[Column], rows: &[&Vec<Value>]) {
    let is_used = |place: &usize| {
        let has_value = rows.iter().any(|row| row[*place] != Value::None);
        columns[*place].role != Role::Table && has_value
    };
    let used: Vec<usize> = (0..columns.len()).filter(is_used).collect();
    let class = |place: usize| {
        let kind = if columns[place].unit == Unit::Text {
            "text"
        } else {
            "number"
        };
        match columns[place].source {
            Some(_) => format!("{kind} quoted"),
            None => kind.to_owned(),
        }
    };
    text.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    for &place in &used {
        let title = escaped(&columns[place].title);
        let _ = write!(text, "<th class=\"{}\">{title}</th>", class(place));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        text.push_str("<tr>");
        for &place in &used {
            let (number, spread) = table::format(&row[place], columns[place].unit);
            let _ = write!(text, "<td class=\"{}\">{}", class(place), escaped(&number));
            if !spread.is_empty() {
                let _ = write!(text, "<span class=\"spread\">{}</span>", escaped(&spread));
            }
            text.push_str("</td>");
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table></div>\n");
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
