//! Encrypted files and streams: whole, in part, damaged, and as others read them.

mod access;
mod common;
mod damage;
mod document;
mod envelope;
mod files;
mod io;
mod nonsense;
mod ram_disk;
mod round_trip;
mod salvage;
mod wycheproof;
