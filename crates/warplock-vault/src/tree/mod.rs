//! Nodes, their names and places, and their attributes.

pub(crate) mod attributes;
pub(crate) mod conflict;
pub(crate) mod edit;
pub(crate) mod folder;
pub(crate) mod foreign;
pub(crate) mod links;
pub(crate) mod listings;
pub(crate) mod lost;
pub(crate) mod node;
pub(crate) mod owners;
pub(crate) mod places;
pub(crate) mod rename;
pub(crate) mod standing;
pub(crate) mod symlink;
pub(crate) mod xattr;
