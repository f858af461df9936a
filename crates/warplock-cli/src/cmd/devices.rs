//! `warplock devices`: the backends of this machine.

use std::fmt::Write;
use std::fs;
use std::thread::available_parallelism;

use serde_json::{Value, json};
use warplock::cuda::{self, Gpu};
use warplock::{Algorithm, Calibration, Error, InstructionSet};

use crate::args::{Common, Devices};
use crate::console::print;
use crate::exit::Exit;
use crate::failure::Result;

/// Prints the devices, or the algorithm table.
pub(super) fn run(options: &Devices, common: &Common) -> Result<Exit> {
    match (options.algorithms, common.json) {
        (true, true) => Algorithm::all().try_for_each(|one| common.emit(&algorithm_json(one)))?,
        (true, false) => print(&algorithms_text())?,
        (false, json) => {
            // Fails where the machine cannot do what was asked for.
            let chosen = common.engine()?.backend();
            if json {
                common.emit(&devices_json(&chosen))?;
            } else {
                print(&devices_text(&chosen))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn devices_text(chosen: &str) -> String {
    let sets = InstructionSet::all().map(|set| match set.is_available() {
        true => format!("cpu:{}", set.name()),
        false => format!("cpu:{} (not on this machine)", set.name()),
    });
    format!(
        "CPU       {}\n\
         cores     {} usable\n\
         backends  {}\n\
         chosen    {chosen}\n\
         {}{}",
        cpu_model(),
        cores(),
        sets.collect::<Vec<_>>().join(", "),
        gpus_text(),
        calibration_text(),
    )
}

/// The model that `auto` uses.
fn calibration_text() -> String {
    let lines = match Calibration::load() {
        Ok(Some(calibration)) => calibration.lines(),
        Ok(None) => {
            vec!["none; `warplock calibrate` makes one, until then auto guesses".to_owned()]
        }
        Err(reason) => vec![reason],
    };
    let mut text = String::new();
    for (place, line) in lines.iter().enumerate() {
        let label = if place == 0 { "measured" } else { "" };
        let _ = writeln!(text, "{label:<8}  {line}");
    }
    text
}

/// The GPUs, one per line, or why there are none.
fn gpus_text() -> String {
    let found = match cuda::devices() {
        Ok(found) => found,
        Err(error) => return format!("GPUs      none: {}\n", no_gpu(error)),
    };
    let mut text = String::new();
    for gpu in &found.gpus {
        let label = if gpu.number == 0 { "GPUs" } else { "" };
        let _ = writeln!(
            text,
            "{label:<8}  cuda:{}: {}, compute capability {}, {:.1} GiB, {} multiprocessors, driver \
             for CUDA {}",
            gpu.number,
            gpu.name,
            capability(gpu),
            gpu.memory as f64 / f64::from(1 << 30),
            gpu.multiprocessors,
            found.driver,
        );
    }
    text
}

fn capability(gpu: &Gpu) -> String {
    format!("{}.{}", gpu.capability.0, gpu.capability.1)
}

/// Only the reason: the rest of the sentence is printed before it.
fn no_gpu(error: Error) -> String {
    match error {
        Error::NoBackend { reason, .. } => reason,
        other => other.to_string(),
    }
}

fn devices_json(chosen: &str) -> Value {
    let sets: Vec<_> = InstructionSet::all()
        .map(|set| json!({"name": format!("cpu:{}", set.name()), "available": set.is_available()}))
        .collect();
    let (gpus, driver, reason) = match cuda::devices() {
        Ok(found) => (found.gpus, Some(found.driver), None),
        Err(error) => (Vec::new(), None, Some(no_gpu(error))),
    };
    let gpus: Vec<_> = gpus
        .iter()
        .map(|gpu| {
            json!({
                "name": format!("cuda:{}", gpu.number),
                "model": gpu.name,
                "compute_capability": capability(gpu),
                "memory_bytes": gpu.memory,
                "multiprocessors": gpu.multiprocessors,
            })
        })
        .collect();
    json!({
        "cpu": cpu_model(),
        "cores": cores(),
        "backends": sets,
        "chosen": chosen,
        "gpus": gpus,
        "cuda_driver": driver,
        "no_gpu": reason,
        "calibrated": matches!(Calibration::load(), Ok(Some(_))),
    })
}

fn algorithms_text() -> String {
    let mut text = format!("{:<12}  {:>9}  {}\n", "name", "key bytes", "takes");
    for row in Algorithm::all().map(Algorithm::info) {
        let aead = if row.algorithm.is_aead() {
            ", associated data; authenticated"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "{:<12}  {:>9}  {}{aead}",
            row.name,
            row.key_len,
            row.iv_rule()
        );
    }
    text
}

fn algorithm_json(algorithm: Algorithm) -> Value {
    let row = algorithm.info();
    json!({
        "name": row.name,
        "key_bytes": row.key_len,
        "iv": row.iv_rule(),
        "text": row.text_rule(),
        "authenticated": algorithm.is_aead(),
    })
}

fn cores() -> usize {
    available_parallelism().map_or(1, Into::into)
}

/// The CPU's name in the system's words.
fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        (field.trim() == "model name").then(|| value.trim().to_owned())
    });
    model.unwrap_or_else(|| format!("unnamed {} processor", std::env::consts::ARCH))
}
