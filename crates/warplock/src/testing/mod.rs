//! Helpers of tests.

pub(crate) mod random_jobs;
