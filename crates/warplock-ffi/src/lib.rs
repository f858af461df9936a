//! `libwarplock`: the C interface. `include/warplock.h` is made from these files by
//! `scripts/c-header`, and their comments are its documentation.
//!
//! Each exported function does the same three things: it runs inside `fault::run`, which turns
//! errors and panics into a status and a sentence; it turns pointers into references with
//! `memory` and `handle`; and it calls the engine, the container or the keyring.

#![allow(non_camel_case_types, reason = "the types have their names of C")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the comments are C's documentation: each says what its pointers must be"
)]
#![allow(
    rustdoc::invalid_html_tags,
    reason = "the comments are C's documentation"
)]

pub mod algorithm;
pub mod batch;
pub mod cuda;
mod cuda_batch;
pub mod cuda_places;
pub mod engine;
pub mod fault;
pub mod files;
mod handle;
pub mod key;
mod memory;
pub mod message;
pub mod part;
pub mod reader;
pub mod secrets;
pub mod status;
pub mod version;

const _: () = assert!(
    usize::BITS == 64,
    "spans of 64-bit numbers are passed to the engine as they are"
);
