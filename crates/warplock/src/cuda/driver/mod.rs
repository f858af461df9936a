//! A thin layer over the CUDA driver, which is loaded at run time where there is one.

pub(super) mod api;
pub(super) mod devices;
pub(super) mod link_rates;
pub(super) mod memory;
pub(super) mod module;
pub(super) mod numa;
pub(super) mod rows;
