//! What the rows say together.

use std::cmp::Ordering;

use warplock::Algorithm;

use super::rows::{Place, Row};
use crate::table::{grouped, scaled};

/// All sentences.
pub(super) fn all(rows: &[Row]) -> Vec<String> {
    let mut answers: Vec<_> = fastest(rows);
    if rows.iter().any(|row| row.seconds(Place::Gpu).is_some()) {
        answers.extend(crossings(rows));
        answers.push(auto(rows));
    }
    answers.extend(rows.iter().filter_map(together));
    answers
}

/// All together, against each alone, and against the limit of the memory.
fn together(row: &Row) -> Option<String> {
    let rate = |place| Some(row.bytes as f64 / row.seconds(place)?.median);
    let (cpu, gpu) = (rate(Place::CpuAllPinned)?, rate(Place::GpuStreams)?);
    let (auto, copies) = (rate(Place::AutoPinned)?, rate(Place::Copies)?);
    Some(format!(
        "{} {}, {}, pinned: auto {}, CPU {}, GPU {}: {:.2} of the better, {:.2} of \
         their sum. The memory's bound, the same bytes copied without a cipher by all threads and \
         over the link at the same time: {}, {:.2} of that sum; auto reaches {:.2} of it.",
        row.algorithm,
        row.way(),
        bytes(row.bytes),
        scaled(auto, "B/s"),
        scaled(cpu, "B/s"),
        scaled(gpu, "B/s"),
        auto / cpu.max(gpu),
        auto / (cpu + gpu),
        scaled(copies, "B/s"),
        copies / (cpu + gpu),
        auto / copies,
    ))
}

fn name(place: Place) -> String {
    place.title().replace('\n', ", ")
}

fn bytes(bytes: usize) -> String {
    format!("{} bytes", grouped(bytes as u64))
}

/// The algorithms of single messages, in order.
fn algorithms(rows: &[Row]) -> Vec<Algorithm> {
    let mut found: Vec<Algorithm> = Vec::new();
    for row in rows.iter().filter(|row| row.count == 1) {
        if !found.contains(&row.algorithm) {
            found.push(row.algorithm);
        }
    }
    found
}

/// A line for each pair of places: from which measured size on the first is faster, for each
/// algorithm. Both directions count.
fn crossings(rows: &[Row]) -> Vec<String> {
    let pairs = [
        (Place::GpuStreams, Place::PortableOne),
        (Place::GpuStreams, Place::CpuOne),
        (Place::GpuStreams, Place::CpuAllPinned),
        (Place::Gpu, Place::CpuOne),
        (Place::Gpu, Place::CpuAll),
        (Place::GpuStreams, Place::GpuOneStream),
    ];
    let line = |(own, other): (Place, Place)| {
        let each = algorithms(rows).into_iter().filter_map(|algorithm| {
            let own_rows = rows
                .iter()
                .filter(|row| row.algorithm == algorithm && row.count == 1);
            let ranks: Vec<_> = own_rows
                .filter_map(|row| Some((row.bytes, row.rank(own, other)?)))
                .collect();
            let from = match (crossing(&ranks), ranks.is_empty()) {
                (_, true) => return None,
                (Some(from), _) => format!("from {}", bytes(from)),
                (None, _) => "never".to_owned(),
            };
            Some(format!("{algorithm} {from}"))
        });
        let each: Vec<_> = each.collect();
        (!each.is_empty()).then(|| {
            format!(
                "[{}] beats [{}]: {}.",
                name(own),
                name(other),
                each.join(", ")
            )
        })
    };
    pairs.into_iter().filter_map(line).collect()
}

/// From which size on the first of a pair is faster, and never slower at a larger size. Differences
/// within the runs' variation count as neither.
fn crossing(ranks: &[(usize, Ordering)]) -> Option<usize> {
    let last_slower = ranks
        .iter()
        .filter(|(_, rank)| *rank == Ordering::Less)
        .map(|(size, _)| *size)
        .max();
    let faster = ranks.iter().filter(|(_, rank)| *rank == Ordering::Greater);
    let sizes = faster.map(|(size, _)| *size);
    sizes.filter(|size| Some(*size) > last_slower).min()
}

/// Which place is the fastest to encrypt, a line for each algorithm. The simplest stays until
/// another is faster beyond the variation of both.
fn fastest(rows: &[Row]) -> Vec<String> {
    use Place::{CpuAll, CpuAllPinned, CpuOne, Gpu, GpuStreams, PortableAll, PortableOne};
    // From simple to complex; `auto` is one of these, data in GPU memory another question.
    let places = [
        PortableOne,
        CpuOne,
        PortableAll,
        CpuAll,
        CpuAllPinned,
        Gpu,
        GpuStreams,
    ];
    let mut lines = Vec::new();
    for algorithm in algorithms(rows) {
        let mut changes: Vec<String> = Vec::new();
        let mut last: Option<Place> = None;
        let own = rows
            .iter()
            .filter(|row| row.algorithm == algorithm && row.count == 1 && row.way() == "encrypt");
        for row in own {
            let there = || {
                places
                    .into_iter()
                    .filter(|&place| row.seconds(place).is_some())
            };
            let is_beaten =
                |own: Place| there().any(|other| row.rank(other, own) == Some(Ordering::Greater));
            let stays = last.filter(|&place| row.seconds(place).is_some() && !is_beaten(place));
            let Some(place) = stays.or_else(|| there().find(|&place| !is_beaten(place))) else {
                continue;
            };
            if last != Some(place) {
                let rate = row
                    .seconds(place)
                    .map(|sample| row.bytes as f64 / sample.median);
                changes.push(format!(
                    "from {} [{}] ({})",
                    bytes(row.bytes),
                    name(place),
                    scaled(rate.unwrap_or_default(), "B/s")
                ));
                last = Some(place);
            }
        }
        if !changes.is_empty() {
            lines.push(format!("Fastest, {algorithm}: {}.", changes.join(", ")));
        }
    }
    lines
}

/// The limit for `auto`.
const LEAST_SHARE: f64 = 0.95;

fn auto(rows: &[Row]) -> String {
    let parts = [Place::Auto, Place::AutoPinned, Place::AutoPortable].map(|place| {
        let said = least_share(rows, place, "the best single one")?;
        Some(format!("[{}] {said}", name(place)))
    });
    let mut parts: Vec<_> = parts.into_iter().flatten().collect();
    let alike = [(Place::CpuAgain, ""), (Place::CpuAgainPinned, " pinned")];
    for (place, memory) in alike {
        if let Some(said) = least_share(rows, place, "the other") {
            parts.push(format!(
                "for comparison, one of two engines alike{memory} {said}"
            ));
        }
    }
    format!("Auto: {}.", parts.join("; "))
}

fn least_share(rows: &[Row], place: Place, of: &str) -> Option<String> {
    let shares = rows
        .iter()
        .filter_map(|row| Some((row.against_best(place)?, row)));
    let shares: Vec<_> = shares.collect();
    let below = shares.iter().filter(|(share, _)| *share < LEAST_SHARE);
    let (share, row) = shares.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!(
        "at least {share:.2} of {of} ({} {}, {}{}), below {LEAST_SHARE} in {} of {} rows",
        row.algorithm,
        row.way(),
        bytes(row.bytes),
        match row.count {
            1 => String::new(),
            count => format!(" in {} messages", grouped(count as u64)),
        },
        below.count(),
        shares.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        [
            (64, 1.0, 4.0),
            (1024, 2.0, 1.0),
            (4096, 2.0, 4.0),
            (16384, 9.0, 3.0),
            (65536, 9.0, 1.0),
        ]
        .map(|(bytes, cpu, gpu)| {
            let seconds = [
                (Place::CpuOne, cpu),
                (Place::Gpu, 9.5),
                (Place::GpuStreams, gpu),
                (Place::Auto, cpu),
            ];
            Row::made_up(Algorithm::Aes128Ctr, bytes, &seconds)
        })
        .into()
    }

    #[test]
    fn a_crossing_point_holds_for_all_larger_sizes() {
        use Ordering::{Equal, Greater, Less};
        assert_eq!(crossing(&[(64, Less)]), None);
        assert_eq!(crossing(&[(64, Greater), (128, Greater)]), Some(64));
        assert_eq!(crossing(&[(64, Greater), (128, Less)]), None);
        assert_eq!(
            crossing(&[(64, Less), (128, Equal), (256, Greater)]),
            Some(256)
        );
        // A tie at one size does not move it.
        assert_eq!(
            crossing(&[(64, Greater), (128, Equal), (256, Greater)]),
            Some(64)
        );
    }

    #[test]
    fn noise_does_not_change_the_fastest() {
        // Three places that run the same code, with another one lowest at each size.
        let all = [Place::CpuOne, Place::CpuAll, Place::CpuAllPinned];
        let rows: Vec<_> = (0..3)
            .map(|number: usize| {
                let seconds = |place: usize| if place == number { 0.9 } else { 1.0 };
                let mut row = Row::made_up(Algorithm::Aes128Ctr, 64 << (2 * number), &[]);
                row.runs = (0..3)
                    .map(|place| (all[place], vec![seconds(place), 0.95, 1.1]))
                    .collect();
                row
            })
            .collect();
        let said = fastest(&rows);
        assert_eq!(said.len(), 1);
        assert!(
            said[0].contains("from 64 bytes [CPU, 1 thread]"),
            "{said:?}"
        );
        assert_eq!(said[0].matches("from").count(), 1, "{said:?}");
    }

    #[test]
    fn the_memory_bounds_what_all_do_together() {
        let seconds = [
            (Place::CpuAllPinned, 2.0),
            (Place::GpuStreams, 2.0),
            (Place::AutoPinned, 1.25),
            (Place::Copies, 1.0),
        ];
        let row = Row::made_up(Algorithm::Aes256Gcm, 1 << 20, &seconds);
        let said = together(&row).unwrap();
        assert!(
            said.contains("1.60 of the better, 0.80 of their sum"),
            "{said}"
        );
        assert!(
            said.contains("1.00 of that sum; auto reaches 0.80 of it"),
            "{said}"
        );
    }

    #[test]
    fn answers_come_from_the_rows() {
        let answers = all(&rows());
        assert_eq!(
            answers[0],
            "Fastest, aes-128-ctr: from 64 bytes [CPU, 1 thread] (64.0 B/s), from 1,024 bytes [GPU, \
             pinned, 4 streams] (1.02 kB/s), from 4,096 bytes [CPU, 1 thread] (2.05 kB/s), from \
             16,384 bytes [GPU, pinned, 4 streams] (5.46 kB/s)."
        );
        assert_eq!(
            answers[1],
            "[GPU, pinned, 4 streams] beats [CPU, 1 thread]: aes-128-ctr from 16,384 bytes."
        );
        assert_eq!(
            answers[2],
            "[GPU, pageable memory] beats [CPU, 1 thread]: aes-128-ctr never."
        );
        assert!(
            answers[3].contains("below 0.95 in 0 of 5 rows"),
            "{answers:?}"
        );
        let mut rows = rows();
        rows[2].runs.push((Place::CpuAll, vec![1.0]));
        rows[2].runs.push((Place::CpuAgain, vec![1.25]));
        let said = auto(&rows);
        assert!(
            said.contains("alike at least 0.80 of the other") && said.contains("1 of 1 rows"),
            "{said}"
        );
    }
}
