//! Random bytes, with no buffer between calls.

use zeroize::Zeroizing;

use crate::Error;
use crate::cpu::{AesKey, InstructionSet, Io};

/// Up to this many bytes come straight from the operating system. More are expanded with AES from a
/// seed drawn for the call: Linux takes 20 ns for a nonce of 12 bytes, AES less than 1 ns.
const DIRECT: usize = 64;

/// Fills `bytes` with random bytes, for nonces, ids or keys.
///
/// Each call draws from the operating system, and nothing is kept between calls. So a forked child
/// or a virtual machine resumed from a snapshot never repeats what its siblings got.
///
/// # Errors
/// [`Error::Randomness`] if the operating system's generator fails.
pub fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    let system = |bytes: &mut [u8]| getrandom::fill(bytes).map_err(|_| Error::Randomness);
    if bytes.len() <= DIRECT {
        return system(bytes);
    }
    let mut secret = Zeroizing::new([0; 32]);
    system(&mut secret[..])?;
    let kernels = InstructionSet::best().kernels();
    let kernels = kernels.expect("the best set is available");
    let mut key = AesKey::empty();
    kernels.expand(&secret[..], false, &mut key);
    bytes.fill(0);
    // SAFETY: the buffer is borrowed for this call.
    unsafe { kernels.ctr(&key, &mut [0; 16], Io::in_place(bytes)) };
    Ok(())
}
