//! Every suite's figure.
