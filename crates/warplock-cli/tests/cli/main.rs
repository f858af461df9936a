//! The program as a whole: what it prints, writes, leaves and refuses.

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
mod prompts;
mod raw;
mod rewrap;
mod robust;
mod secrets;
mod vault;
mod vault_keys;
mod vault_system;
mod written;
