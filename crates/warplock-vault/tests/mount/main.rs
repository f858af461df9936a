//! Vaults through real mounts: needs root and /dev/fuse; without them every test says "skipped".
//!
//! Each mount is served by a process of its own, as in real use, which unmounts when the test
//! ends, however it ends. Longer runs, by hand, with `--nocapture` (seeds, memory) and best on a
//! RAM disk (`TMPDIR`); WARPLOCK_TEST_SECONDS is how long one test may take:
//!
//! | variable | of the test |
//! |---|---|
//! | `WARPLOCK_FSX_OPERATIONS`, `WARPLOCK_BLOCK_SIZE`, `WARPLOCK_SEED` | `random_operations_at_length` |
//! | `WARPLOCK_KILLS` | `crash::` |
//! | `WARPLOCK_GIGABYTES` | `memory_stays_small` |
//! | `WARPLOCK_STRESS_SECONDS` | `many_processes_for_long` |
//! | `WARPLOCK_MANY_FILES` | `many_files_in_a_folder` |
//! | `PJDFSTEST` | `pjdfstest`: where that program is |

mod changed_below;
#[path = "../common/mod.rs"]
mod common;
mod crash;
mod failing;
mod fsx;
mod harness;
mod limits;
mod memory;
mod names;
mod others;
mod posix;
mod stress;
mod times;
mod unmounted;
