//! The paper's questions, answered from the rows.

use warplock::Algorithm;

use super::rows::{Place, Row};
use crate::table::{grouped, scaled};

/// A ratio below this is within the variation between runs.
const CLEARLY: f64 = 1.05;

/// All answers, and the crossing points.
pub(super) fn all(rows: &[Row]) -> Vec<String> {
    let mut answers = questions(rows);
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

fn questions(rows: &[Row]) -> Vec<String> {
    vec![
        against(
            rows,
            "RQ1a: does the GPU outperform the single-core CPU?",
            &[
                (Place::GpuStreams, Place::PortableOne),
                (Place::GpuStreams, Place::CpuOne),
                (Place::Gpu, Place::CpuOne),
            ],
        ),
        against(
            rows,
            "RQ1b: does the GPU perform better than a multi-core CPU?",
            &[
                (Place::GpuStreams, Place::PortablePinned),
                (Place::GpuStreams, Place::CpuAllPinned),
                (Place::Gpu, Place::CpuAll),
            ],
        ),
        against(
            rows,
            "RQ2: do streams improve it?",
            &[(Place::GpuStreams, Place::GpuOneStream)],
        ),
        fastest(rows),
        "Granularity (1, 2, 4, 8 blocks per thread): these kernels have no such setting. A launch \
         has as many threads as the GPU holds at a time; a warp takes rows of 32 blocks, one block \
         for each of its threads, so a thread does bytes / 16 / threads blocks, as many as there \
         are rows for its warp."
            .to_owned(),
        auto(rows),
    ]
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

/// How much faster one place is than another, by size; both directions.
fn ratios(rows: &[Row], algorithm: Algorithm, pair: (Place, Place)) -> Vec<(usize, f64)> {
    let own = rows
        .iter()
        .filter(|row| row.algorithm == algorithm && row.count == 1);
    let ratio = |row: &Row| {
        let (this, other) = (row.seconds(pair.0)?, row.seconds(pair.1)?);
        Some((row.bytes, other.median / this.median))
    };
    own.filter_map(ratio).collect()
}

/// From which measured size on the first of a pair is faster, at that and at every larger one.
fn crossing(ratios: &[(usize, f64)]) -> Option<usize> {
    let slower = |&&(_, ratio): &&(usize, f64)| ratio < 1.0;
    let last_slower = ratios.iter().filter(slower).map(|(size, _)| *size).max();
    let sizes = ratios.iter().map(|(size, _)| *size);
    sizes.filter(|size| Some(*size) > last_slower).min()
}

fn against(rows: &[Row], question: &str, pairs: &[(Place, Place)]) -> String {
    let mut sentences = Vec::new();
    for &pair in pairs {
        let mut parts = Vec::new();
        for algorithm in algorithms(rows) {
            let ratios = ratios(rows, algorithm, pair);
            let best = ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1));
            let Some(&(size, most)) = best else {
                continue;
            };
            parts.push(match crossing(&ratios) {
                Some(from) => format!(
                    "{algorithm} from {} on (at most {most:.2} times, at {})",
                    bytes(from),
                    bytes(size)
                ),
                None if most >= CLEARLY => format!(
                    "{algorithm} at some sizes ({most:.2} times at {}), not at the largest",
                    bytes(size)
                ),
                None => format!("{algorithm} at no size (at most {most:.2} times)"),
            });
        }
        if !parts.is_empty() {
            let (this, other) = (name(pair.0), name(pair.1));
            sentences.push(format!("[{this}] beats [{other}]: {}.", parts.join("; ")));
        }
    }
    match sentences.is_empty() {
        true => format!("{question} Not measured: no GPU."),
        false => format!("{question} {}", sentences.join(" ")),
    }
}

fn fastest(rows: &[Row]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for algorithm in algorithms(rows) {
        // Where it changes, from small to large; encryption stands for both.
        let mut changes: Vec<(usize, Place, f64)> = Vec::new();
        let own = rows
            .iter()
            .filter(|row| row.algorithm == algorithm && row.way() == "encrypt");
        for row in own {
            // Data in GPU memory is another question, and copies encrypt nothing.
            let places = Place::ALL
                .into_iter()
                .filter(|place| !matches!(place, Place::Resident | Place::Copies));
            let times = places.filter_map(|place| Some((place, row.seconds(place)?.median)));
            let Some((place, seconds)) = times.min_by(|a, b| a.1.total_cmp(&b.1)) else {
                continue;
            };
            if changes.last().is_none_or(|last| last.1 != place) {
                changes.push((row.bytes, place, row.bytes as f64 / seconds));
            }
        }
        let each = changes.iter().map(|&(size, place, rate)| {
            format!(
                "from {} [{}] ({})",
                bytes(size),
                name(place),
                scaled(rate, "B/s")
            )
        });
        parts.push(format!(
            "{algorithm}: {}",
            each.collect::<Vec<_>>().join(", ")
        ));
    }
    format!(
        "RQ3: which implementation is the fastest (encryption)? {}.",
        parts.join("; ")
    )
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
                (Place::GpuStreams, gpu),
                (Place::Auto, cpu),
            ];
            Row::made_up(Algorithm::Aes128Ctr, bytes, &seconds)
        })
        .into()
    }

    #[test]
    fn a_crossing_point_holds_for_all_larger_sizes() {
        let found = ratios(
            &rows(),
            Algorithm::Aes128Ctr,
            (Place::GpuStreams, Place::CpuOne),
        );
        assert_eq!(crossing(&found), Some(16384));
        assert_eq!(crossing(&[(64, 0.5)]), None);
        assert_eq!(crossing(&[(64, 2.0), (128, 3.0)]), Some(64));
        assert_eq!(crossing(&[(64, 2.0), (128, 0.9)]), None);
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
        // Without a cipher, none is the fastest to encrypt.
        let said = fastest(&[row]);
        assert!(said.contains("[auto, pinned]"), "{said}");
    }

    #[test]
    fn answers_come_from_the_rows() {
        let answers = all(&rows());
        let one = "[GPU, pinned, 4 streams] beats [CPU, 1 thread]: aes-128-ctr from 16,384 \
                   bytes on (at most 9.00 times, at 65,536 bytes).";
        assert!(answers[0].contains(one), "{}", answers[0]);
        assert!(answers[1].ends_with("Not measured: no GPU."));
        assert!(
            answers[3].contains("from 64 bytes [CPU, 1 thread]"),
            "{}",
            answers[3]
        );
        assert!(answers[3].contains("from 16,384 bytes [GPU, pinned, 4 streams]"));
        assert!(
            answers[5].contains("[auto] at least 1.00"),
            "{}",
            answers[5]
        );
        assert!(answers[5].contains("below 0.95 in 0 of 5 rows"));
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
