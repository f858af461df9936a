//! The engine through its public interface: against the standards' vectors, against another
//! author's code, and against misuse. Everything runs on every instruction set of this machine.

mod common;

mod acorn;
mod counters;
mod differential;
mod forgeries;
mod monte_carlo;
mod nist;
mod nonces;
mod nonsense;
mod refusals;
mod secrets;
mod streams;
mod vectors;
mod wycheproof;
