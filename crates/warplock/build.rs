//! Chooses which instruction sets are compiled, and with the feature `cuda` embeds the compiled GPU
//! kernels, after a check that they belong to their sources.

#[cfg(feature = "cuda")]
#[path = "build/kernels.rs"]
mod kernels;

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    choose_instruction_sets();
    #[cfg(feature = "cuda")]
    kernels::embed();
}

/// Leaves vector code out of builds without optimization: there every temporary of its inlined
/// bodies has its own place on the stack, which comes to 6 MiB, and a thread has 2.
fn choose_instruction_sets() {
    println!(r#"cargo:rustc-check-cfg=cfg(vectors, values("x86", "arm"))"#);
    let variable = |name| env::var(name).unwrap_or_default();
    if variable("OPT_LEVEL") == "0" {
        return;
    }
    match variable("CARGO_CFG_TARGET_ARCH").as_str() {
        "x86_64" => println!(r#"cargo:rustc-cfg=vectors="x86""#),
        "aarch64" => println!(r#"cargo:rustc-cfg=vectors="arm""#),
        _ => {}
    }
}
