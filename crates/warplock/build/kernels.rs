//! The compiled GPU kernels: checked against the sums of their sources, then embedded.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Tells the compiler where the kernels are.
pub(crate) fn embed() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // A link to the workspace's folder, so that a package has them as a folder of its own. Checkouts
    // without links (Windows) have a file there.
    let kernels = match here.join("kernels") {
        own if own.is_dir() => own,
        _ => here.join("../../kernels"),
    };
    if let Err(problem) = check(&kernels) {
        panic!("{problem}: run scripts/build-kernels (it needs no GPU)");
    }
    let fatbin = kernels.join("prebuilt/kernels.fatbin");
    let fatbin = fatbin.canonicalize().expect("it was read just now");
    println!("cargo:rustc-env=WARPLOCK_KERNELS={}", fatbin.display());
}

/// Compares the sources and the result with the sums written when they were compiled.
fn check(kernels: &Path) -> Result<(), String> {
    println!("cargo:rerun-if-changed={}", kernels.display());
    let list = kernels.join("prebuilt/SOURCES.sha256");
    let sums = read(&list)?;
    let sums = String::from_utf8_lossy(&sums);
    let mut listed = BTreeSet::new();
    for line in sums.lines().filter(|line| !line.starts_with('#')) {
        let (sum, name) = line
            .split_once("  ")
            .ok_or_else(|| format!("{} has a line that is no sum: '{line}'", list.display()))?;
        let path = match name {
            "kernels.fatbin" => kernels.join("prebuilt").join(name),
            _ => kernels.join(name),
        };
        let found: String = Sha256::digest(read(&path)?)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if found != sum {
            return Err(format!(
                "{} is not what the GPU kernels in {} were compiled from",
                path.display(),
                list.display()
            ));
        }
        listed.insert(PathBuf::from(name));
    }
    for folder in ["", "hopper"] {
        let path = kernels.join(folder);
        for entry in fs::read_dir(&path).map_err(|error| no_access(&path, &error))? {
            let entry = entry.map_err(|error| no_access(&path, &error))?;
            let name = Path::new(folder).join(entry.file_name());
            let source = name
                .extension()
                .is_some_and(|end| end == "cu" || end == "cuh");
            if source && !listed.contains(&name) {
                return Err(format!(
                    "{} is not listed in {}",
                    name.display(),
                    list.display()
                ));
            }
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| no_access(path, &error))
}

fn no_access(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {} ({error})", path.display())
}
