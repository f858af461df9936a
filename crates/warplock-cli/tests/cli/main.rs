//! The program as a whole: what it prints, writes, leaves and refuses.

mod age;
#[cfg(feature = "analyze")]
mod analyze;
mod attacks;
mod batch;
mod bench;
mod bulk;
mod bulk_edges;
mod commands;
mod common;
mod descriptors;
mod drafts;
mod files;
mod json;
mod limits;
mod lists;
mod man;
mod mounts;
mod nonsense;
mod openssl;
mod overwrites;
mod parquet;
mod passphrases;
mod prompts;
mod raw;
mod recipes;
#[cfg(feature = "research")]
mod research;
mod restored;
mod rewrap;
mod robust;
mod secrets;
mod vault;
mod vault_keys;
mod vault_places;
mod vault_system;
mod written;
