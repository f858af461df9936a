//! Many processes at the same time.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Place, SUBJECTS, Standing, Subject, limited, number};

/// What each process does in its own folder, again and again, and in one that all share.
const SCRIPT: &str = r#"
set -e
cd "$1"; me=$2; rounds=$3
mkdir "$me"
i=0
while [ $i -lt $rounds ]; do
    head -c $((i * 7919 % 200000)) /dev/urandom > "$me/data"
    cp "$me/data" "$me/copy"
    cmp "$me/data" "$me/copy"
    ln "$me/copy" "$me/link $i"
    mv "$me/link $i" "shared/$me $i"
    cmp "$me/data" "shared/$me $i"
    mkdir -p "$me/a/b/c"
    mv "$me/a/b" "$me/d"
    ls -lR "$me" shared > /dev/null
    rm -r "$me/a" "$me/d" "$me/copy"
    i=$((i + 1))
done
"#;

#[test]
fn many_processes() {
    limited(|| {
        for subject in SUBJECTS {
            let Some(place) = Place::new(subject) else {
                return;
            };
            let rounds = number("WARPLOCK_STRESS_ROUNDS", 10);
            let standing = place.mount();
            fs::create_dir(standing.path("shared")).unwrap();
            all_at_the_same_time(&standing, rounds);
            assert_eq!(count(&standing), 8 * rounds);
            standing.end();
            let standing = place.mount();
            assert_eq!(count(&standing), 8 * rounds);
            standing.end();
        }
    });
}

fn count(standing: &Standing) -> u64 {
    fs::read_dir(standing.path("shared")).unwrap().count() as u64
}

/// Eight processes, each of which runs the script.
fn all_at_the_same_time(standing: &Standing, rounds: u64) {
    let processes: Vec<_> = (0..8)
        .map(|number| {
            Command::new("sh")
                .args(["-c", SCRIPT, "sh"])
                .arg(standing.root())
                .arg(format!("process {number}"))
                .arg(rounds.to_string())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
}

/// The serving process does not grow.
#[test]
#[ignore = "takes an hour unless WARPLOCK_STRESS_SECONDS says otherwise"]
fn many_processes_for_long() {
    limited(|| {
        let Some(place) = Place::new(Subject::Vault(4096)) else {
            return;
        };
        let limit = Duration::from_secs(number("WARPLOCK_STRESS_SECONDS", 3600));
        let standing = place.mount();
        let start = Instant::now();
        let mut at_first = None;
        let mut passes = 0;
        while start.elapsed() < limit {
            fs::create_dir(standing.path("shared")).unwrap();
            all_at_the_same_time(&standing, 10);
            assert_eq!(count(&standing), 80);
            for entry in fs::read_dir(standing.root()).unwrap() {
                fs::remove_dir_all(entry.unwrap().path()).unwrap();
            }
            passes += 1;
            if passes == 3 || passes % 100 == 0 {
                let now = standing.memory();
                at_first.get_or_insert(now);
                println!("{:?}, pass {passes}: {now:?}", start.elapsed());
            }
        }
        let now = standing.memory();
        let at_first = at_first.unwrap_or(now);
        println!("{passes} passes: {at_first:?} then {now:?}");
        assert!(now.resident < at_first.resident + (16 << 20), "it grew");
        standing.end();
    });
}
