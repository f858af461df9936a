//! The arguments of kernels, the launches that a piece of work takes, and every number that decides
//! how work is cut.

pub(super) mod abi;
pub(super) mod acorn;
pub(super) mod bound;
pub(super) mod cut;
pub(super) mod keys;
pub(super) mod link;
pub(super) mod parts;
pub(super) mod pieces;
pub(super) mod policy;
pub(super) mod selftest;
pub(super) mod sheet;
pub(super) mod spread;
pub(super) mod steps;
