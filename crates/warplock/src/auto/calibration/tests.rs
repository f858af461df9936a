//! Calibrations that are saved, damaged or foreign.

use super::*;

fn folder(name: &str) -> PathBuf {
    let unique = format!("warplock-{name}-{}", std::process::id());
    std::env::temp_dir().join(unique)
}

#[test]
fn a_saved_calibration_can_be_loaded() {
    let folder = folder("saved");
    let path = folder.join("deep").join("calibration");
    assert_eq!(Calibration::load_from(&path), Ok(None));
    for gpu in [Calibration::guessed().gpu, None] {
        let calibration = Calibration {
            gpu,
            ..Calibration::guessed()
        };
        calibration.save_to(&path).unwrap();
        let loaded = Calibration::load_from(&path).unwrap().unwrap();
        assert_eq!(loaded, calibration);
        let model = loaded.model(InstructionSet::best(), 2);
        assert_eq!(model.cpu.wake, 12_345.5);
        assert!(!loaded.lines().is_empty() && loaded.values().len() > 30);
    }
    let left = fs::read_dir(folder.join("deep")).unwrap().count();
    assert_eq!(left, 1, "no draft is left");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn damaged_and_foreign_files_are_refused_with_a_reason() {
    let good = Calibration::guessed().text();
    assert_eq!(
        Calibration::parse(&good, Machine::here()),
        Ok(Calibration::guessed())
    );
    let line = good.lines().find(|line| line.starts_with("cpu ")).unwrap();
    let numbered = |count| {
        let lines: String = (0..count).map(|number| format!("{number}\n")).collect();
        format!("{TITLE}\n{lines}")
    };
    let cores = good
        .lines()
        .find(|line| line.starts_with("cores "))
        .unwrap();
    let wrong = [
        (String::new(), "understands"),
        (
            good.replace("calibration 2", "calibration 1"),
            "understands",
        ),
        (good[..good.len() - 20].to_owned(), ""),
        (good.trim_end().to_owned(), "cut off"),
        (good.replace(cores, "cores 999"), "another cores"),
        (good.replace(line, "cpu NaN 1 1 1"), "make sense"),
        (good.replace(line, "cpu 1e99 1 1 1"), "make sense"),
        (good.replace(line, "cpu -1 1 1 1"), "make sense"),
        (good.replace(line, "cpu 1 2 3"), "make sense"),
        (good.replace(line, "cpu 1 2 3 4 5"), "make sense"),
        (good.replace(line, "other 1"), "no line 'cpu'"),
        (format!("{good}{line}\n"), "twice"),
        (format!("{good}more 1\n"), "unknown line"),
        (
            good.replace(line, &format!("cpu{}", " 1".repeat(100_000))),
            "make sense",
        ),
        (
            good.replace(line, &format!("cpu {} 1 1 1", "9".repeat(100_000))),
            "make sense",
        ),
        (
            good.replace(cores, &format!("cores {}", "\x1b9".repeat(100_000))),
            "another cores",
        ),
        (
            format!("{good}{}\n", "\x1b9".repeat(100_000)),
            "unknown line",
        ),
        (format!("{good}{}", "\x1b9\n".repeat(2)), "twice"),
        (numbered(100_000), "more than 4096 lines"),
    ];
    for (text, reason) in wrong {
        let refused = Calibration::parse(&text, Machine::here()).unwrap_err();
        assert!(refused.contains(reason), "{refused} ({reason})");
        let plain = !refused.contains(char::is_control);
        assert!(plain && refused.len() < 300, "{refused}");
    }
    let folder = folder("damaged");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("calibration");
    fs::write(&path, [0xff; 1000]).unwrap();
    let refused = Calibration::load_from(&path).unwrap_err();
    assert!(refused.contains("cannot be read"), "{refused}");
    // Longer than the limit, with no newline at the limit.
    fs::write(
        &path,
        format!("{TITLE}\n{}", "9".repeat(2 * LONGEST as usize)),
    )
    .unwrap();
    let refused = Calibration::load_from(&path).unwrap_err();
    assert!(refused.contains("cut off"), "{refused}");
    for other in ["/dev/zero", "/", folder.to_str().unwrap()] {
        let refused = Calibration::load_from(Path::new(other)).unwrap_err();
        assert!(refused.contains("not a regular file"), "{refused}");
    }
    fs::remove_dir_all(folder).unwrap();
}
