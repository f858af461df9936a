//! The program as a whole: what it prints, writes, leaves and refuses.

mod bench;
mod commands;
mod common;
mod descriptors;
mod files;
mod limits;
mod openssl;
mod raw;
mod robust;
mod secrets;
mod vault;
