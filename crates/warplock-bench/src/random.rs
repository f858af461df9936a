//! Random inputs.

use std::num::NonZeroUsize;

use warplock::{Algorithm, BackendChoice, Batch, Engine, Error, Ivs, Key, Keys, Text};

use crate::error::Result;

/// Random bytes: a short seed from the system, the rest by AES-CTR, which is faster.
pub(crate) fn bytes(len: usize) -> Result<Vec<u8>> {
    let mut buffer = vec![0; len];
    let key = Key::generate(Algorithm::Aes128Ctr)?;
    let text = Text::in_place(&mut buffer);
    let engine = Engine::builder()
        .backend(BackendChoice::Cpu(None))
        .threads(NonZeroUsize::MIN)
        .build()?;
    engine.run(Batch::encrypt(Keys::One(&key), text).ivs(Ivs::Each(&[0; 16])))?;
    Ok(buffer)
}

/// A random number.
pub(crate) fn number() -> Result<u64> {
    Ok(getrandom::u64().map_err(|_| Error::Randomness)?)
}
