//! Encrypted files from nobody: arbitrary bytes, and a real file with arbitrary changes.

use warplock::Engine;
use warplock_container::{Envelope, InputKey, Source, Suite, inspect, open_bytes, seal_bytes};

/// Two chunks and some: the first byte of `data` chooses what happens to them.
const PLAIN_LEN: usize = 2 * 16384 + 100;

/// Whether the input got past the first check of its format.
pub(crate) fn check(data: &[u8]) -> bool {
    let engine = Engine::builder()
        .threads(std::num::NonZeroUsize::MIN)
        .build()
        .expect("some backend runs everywhere");
    let key = InputKey::new(Suite::Cobblestone256, &[7; 32]).expect("32 bytes are a key");
    let Some((&choice, rest)) = data.split_first() else {
        return false;
    };
    if choice % 2 == 0 {
        let inspected = inspect(Source::bytes(rest)).is_ok();
        let enveloped = Envelope::read(&mut &*rest).is_ok();
        assert!(
            open_bytes(rest, &key, &engine).is_err(),
            "a file sealed by nobody opened"
        );
        return inspected || enveloped;
    }
    let plain = vec![choice; PLAIN_LEN];
    let good = seal_bytes(&plain, &key, &engine).expect("a short text can be sealed");
    let mut changed = good.clone();
    // Four bytes a change: a place, a kind, a value.
    for change in rest.chunks_exact(4).take(8) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
        match change[2] % 4 {
            0 => changed[place] ^= change[3],
            1 => changed.truncate(place.max(1)),
            2 => changed.insert(place, change[3]),
            _ => {
                let copied = changed[place..].to_vec();
                changed.extend_from_slice(&copied);
            }
        }
    }
    match open_bytes(&changed, &key, &engine) {
        Ok(opened) => assert!(changed == good && opened == plain, "a changed file opened"),
        Err(_) => assert_ne!(changed, good, "an unchanged file did not open"),
    }
    true
}
