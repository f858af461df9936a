//! The program as a whole: what it prints, writes, leaves and refuses.

#[cfg(feature = "analyze")]
mod analyze;
mod batch;
mod bench;
mod bulk;
mod commands;
mod common;
mod descriptors;
mod drafts;
mod files;
mod json;
mod limits;
mod mounts;
mod nonsense;
mod openssl;
mod parquet;
mod prompts;
mod raw;
#[cfg(feature = "research")]
mod research;
mod rewrap;
mod robust;
mod secrets;
mod vault;
mod written;
