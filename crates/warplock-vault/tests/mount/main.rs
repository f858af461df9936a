//! Vaults through real mounts: needs root and /dev/fuse; without them every test says "skipped".
//!
//! Each mount is served by a process of its own, as in real use, which unmounts when the test
//! ends, however it ends. Longer runs, by hand:
//!
//! ```text
//! WARPLOCK_FSX_OPERATIONS=10000000 WARPLOCK_KILLS=1000 WARPLOCK_TEST_SECONDS=86400 \
//!     cargo test -p warplock-vault --release --test mount
//! ```

mod crash;
mod fsx;
mod harness;
mod limits;
mod names;
mod posix;
mod stress;
