//! Many processes at once.

use std::fs;
use std::process::{Command, Stdio};

use crate::harness::{Place, SUBJECTS, limited, number};

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
                assert!(process.wait().unwrap().success(), "{subject:?}");
            }
            let count = |standing: &crate::harness::Standing| {
                fs::read_dir(standing.path("shared")).unwrap().count() as u64
            };
            assert_eq!(count(&standing), 8 * rounds);
            standing.end();
            let standing = place.mount();
            assert_eq!(count(&standing), 8 * rounds);
            standing.end();
        }
    });
}
