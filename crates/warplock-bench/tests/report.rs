//! The report of a suite: its table, its JSON, its plot.

use warplock::Algorithm;
use warplock_bench::suite::FileSizes;
use warplock_bench::{Context, Plan, Report, Suite};

fn run(algorithm: Algorithm, sizes: &[usize]) -> Report {
    let suite = FileSizes {
        algorithm,
        sizes: sizes.to_vec(),
    };
    let context = Context {
        plan: Plan::quick(),
        ..Context::default()
    };
    suite.run(&context).unwrap()
}

#[test]
fn json_has_what_a_machine_needs() {
    let json = run(Algorithm::Aes128Ctr, &[1_028, 102_800]).json();
    assert_eq!(json["suite"], "file-sizes");
    for key in ["cpu", "backend", "date", "warplock", "kernel", "os"] {
        assert!(!json["machine"][key].as_str().unwrap().is_empty(), "{key}");
    }
    for key in ["cores", "threads", "memory_bytes"] {
        assert!(json["machine"][key].as_u64().unwrap() > 0, "{key}");
    }
    assert!(!json["machine"]["command"].as_array().unwrap().is_empty());
    let columns = json["columns"].as_array().unwrap();
    let rows = json["rows"].as_array().unwrap();
    let groups = if json["machine"]["gpus"].as_array().unwrap().is_empty() {
        5
    } else {
        7
    };
    assert_eq!((columns.len(), rows.len()), (6 + 3 * groups, 2));
    for row in rows {
        for column in columns {
            assert!(row.get(column["key"].as_str().unwrap()).is_some());
        }
        for measured in ["portable_1_encrypt", "best_1_decrypt", "best_all_encrypt"] {
            let measured = &row[measured];
            let value = |name: &str| measured[name].as_f64().unwrap();
            assert!(0.0 < value("min") && value("min") <= value("median"));
            assert!(value("median") <= value("max") && value("runs") >= 1.0);
        }
    }
    // The published numbers, and that they are not ours.
    assert_eq!(rows[0]["their_cpu_encrypt"], 0.00093);
    assert_eq!(rows[1]["their_gpu_decrypt"], 0.001653);
    let quoted = |key: &str| {
        let column = columns.iter().find(|column| column["key"] == key).unwrap();
        column["quoted_from"].is_string()
    };
    assert!(quoted("their_gpu_total") && !quoted("best_1_total"));
}

#[test]
fn all_published_sizes_by_default() {
    let sizes = FileSizes::default().sizes;
    assert_eq!(sizes.len(), 27);
    assert_eq!((sizes[0], sizes[26]), (1_028, 102_800_000));
    assert!(sizes.is_sorted());
}

#[test]
fn every_algorithm_takes_every_size() {
    for algorithm in Algorithm::all() {
        let report = run(algorithm, &[20, 1_028]);
        let table = report.table();
        assert!(table.contains(algorithm.name()));
        let pads = ["ecb", "cbc"]
            .iter()
            .any(|mode| algorithm.name().contains(mode));
        assert_eq!(table.contains("rounded up to 16"), pads);
        assert!(report.svg().unwrap().contains("<circle"));
    }
}
