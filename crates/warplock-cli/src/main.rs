//! The command line of Warplock.

fn main() {}
