//! Changed files: refused, in bounded memory, without a panic.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Cursor;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use warplock::{Aad, Algorithm, Batch, Engine, Ivs, Key, Keys, Tags, Text};
use warplock_parquet::{
    Encryption, Error, GivenKeys, Options, WriteKey, decrypt, decrypt_into, encrypt_slice,
};

/// Counts what is allocated, and the most of it at any time.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(
            NOW.fetch_add(layout.size(), Relaxed) + layout.size(),
            Relaxed,
        );
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Mutations of each file.
const CHANGES: u64 = 20_000;

/// A generator with a period that is long enough (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % end as u64) as usize
    }

    /// Changes, cuts, repeats or moves some bytes from `start` on.
    fn change(&mut self, bytes: &mut Vec<u8>, start: usize) {
        for _ in 0..=self.below(3) {
            let at = start + self.below(bytes.len() - start);
            let len = 1 + self.below(40.min(bytes.len() - at));
            match self.below(6) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.below(256) as u8,
                2 => bytes[at] = [0, 0x7f, 0x80, 0xff][self.below(4)],
                3 => drop(bytes.drain(at..at + len)),
                4 => {
                    let some = bytes[at..at + len].to_vec();
                    let to = start + self.below(bytes.len() - start);
                    bytes.splice(to..to, some);
                }
                _ => bytes[at..at + len].fill(0xff),
            }
            if bytes.len() <= start {
                bytes.push(0);
            }
        }
    }
}

fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/parquet");
    std::fs::read(folder.join(name)).unwrap()
}

const FOOTER_KEY: &[u8; 16] = b"0123456789012345";

fn keys() -> GivenKeys {
    let mut keys = GivenKeys {
        footer: Some(FOOTER_KEY.to_vec().into()),
        ..GivenKeys::default()
    };
    for (name, key) in [
        ("double_field", b"1234567890123450"),
        ("float_field", b"1234567890123451"),
    ] {
        keys.columns.insert(name.to_owned(), key.to_vec().into());
    }
    keys
}

fn decrypted(engine: &Engine, file: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    let options = Options::default();
    let streamed = decrypt(Cursor::new(file), &mut out, &mut keys(), &options, engine);
    let mut memory = vec![0; file.len()];
    match decrypt_into(file, &mut memory, &mut keys(), &options, engine) {
        Ok(len) => assert!(memory[..len] == out),
        // A file from an author with the key may be longer.
        Err(Error::Write(_)) => {}
        Err(error) => {
            let found = streamed.as_ref().err().map(Error::to_string);
            assert_eq!(found, Some(error.to_string()));
        }
    }
    streamed.map(|_| out)
}

fn engine() -> Engine {
    let builder = Engine::builder().backend("cpu".parse().unwrap());
    builder.threads(1.try_into().unwrap()).build().unwrap()
}

/// The most memory that `work` has at any time, beyond what there was before.
fn most(work: impl FnOnce()) -> usize {
    // Other tests' memory would count too.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    work();
    MOST.load(Relaxed).saturating_sub(before)
}

#[test]
fn a_changed_file_is_refused_or_gives_the_same() {
    let engine = engine();
    // The first has columns that are not encrypted, which may be anything.
    for (name, uniform) in [
        ("encrypt_columns_and_footer.parquet", false),
        ("uniform_encryption.parquet", true),
    ] {
        let whole = file(name);
        let wanted = decrypted(&engine, &whole).unwrap();
        let mut random = Random(1);
        let mut same = 0;
        let memory = most(|| {
            for number in 0..CHANGES {
                let mut changed = whole.clone();
                random.change(&mut changed, 0);
                if let Ok(found) = decrypted(&engine, &changed) {
                    assert!(found == wanted || !uniform, "change {number}");
                    same += 1;
                }
            }
        });
        // What key metadata says is up to the source of keys.
        assert!(same < CHANGES / 20 || !uniform, "{same}");
        assert!(memory < 16 << 20, "{memory}");
    }
}

/// Footers from an author with the key: the signature covers everything.
#[test]
fn signed_nonsense_is_survived() {
    let engine = engine();
    let whole = file("encrypt_columns_plaintext_footer.parquet");
    decrypted(&engine, &whole).unwrap();
    let end = whole.len() - 8;
    let len = u32::from_le_bytes(whole[end..end + 4].try_into().unwrap()) as usize;
    let (start, signature) = (end - len, end - 28);
    let key = Key::new(Algorithm::Aes128Gcm, FOOTER_KEY).unwrap();
    let nonce = &whole[signature..signature + 12];
    // The file's identifier lies near the end of the footer, as field 2 of 8 bytes.
    let footer = &whole[start..signature];
    let id = footer.windows(2).rposition(|two| two == [0x28, 8]).unwrap() + 2;
    let aad = [&footer[id..id + 8], &[0]].concat();
    let sign = |footer: &[u8]| {
        let (mut text, mut tag) = (footer.to_vec(), [0; 16]);
        let text = Text::in_place(&mut text);
        let batch = Batch::seal(Keys::One(&key), text).ivs(Ivs::Each(nonce));
        let batch = batch.aad(Aad::Shared(&aad)).tags(Tags::Apart(&mut tag));
        engine.run(batch).unwrap();
        [footer, nonce, &tag].concat()
    };
    assert_eq!(sign(footer), whole[start..end], "the signature's own test");
    let mut random = Random(2);
    let mut passed = 0;
    let mut reasons = std::collections::BTreeSet::new();
    let memory = most(|| {
        for _ in 0..CHANGES {
            let mut changed = footer.to_vec();
            random.change(&mut changed, 0);
            let signed = sign(&changed);
            let len = (signed.len() as u32).to_le_bytes();
            let changed = [&whole[..start], &signed, &len, b"PAR1"].concat();
            match decrypted(&engine, &changed) {
                Ok(_) => passed += 1,
                Err(error) => drop(reasons.insert(error.to_string())),
            }
        }
    });
    // Names, statistics and the like may be anything.
    assert!(passed > CHANGES / 100, "{passed}");
    assert!(reasons.len() > 30, "{reasons:#?}");
    assert!(memory < 64 << 20, "{memory}");
}

/// What is encrypted at all can be decrypted.
#[test]
fn changed_plain_files_are_refused_or_come_back() {
    let engine = engine();
    let how = Encryption {
        footer: WriteKey {
            bytes: FOOTER_KEY.to_vec().into(),
            metadata: None,
        },
        ..Encryption::default()
    };
    let whole = decrypted(&engine, &file("uniform_encryption.parquet")).unwrap();
    let footer = u32::from_le_bytes(*whole[..whole.len() - 4].last_chunk().unwrap()) as usize;
    let start = whole.len() - 8 - footer;
    let mut random = Random(3);
    let mut passed = 0;
    let memory = most(|| {
        for number in 0..CHANGES {
            // Half of the changes are in the footer, which stays as long as it says.
            let mut changed = whole[..whole.len() - 8].to_vec();
            let from = if number % 2 == 0 { 4 } else { start };
            random.change(&mut changed, from);
            let len = changed.len().saturating_sub(start) as u32;
            changed.extend(len.to_le_bytes());
            changed.extend(b"PAR1");
            let mut sealed = Vec::new();
            if encrypt_slice(&changed, &mut sealed, &how, &engine).is_ok() {
                passed += 1;
                let plain = decrypted(&engine, &sealed);
                assert!(plain.is_ok(), "{number}: {plain:?}");
            }
        }
    });
    assert!(passed > CHANGES / 100, "{passed}");
    assert!(memory < 64 << 20, "{memory}");
}
