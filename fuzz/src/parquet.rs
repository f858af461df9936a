//! Encrypted Parquet files from nobody, and from an author with the key: arbitrary bytes; real files
//! with changes; and changes of a footer that is signed again, and of a plain file that is
//! encrypted, so that what lies behind the verification is reached.

use std::num::NonZeroUsize;
use std::sync::OnceLock;

use warplock::{Aad, Algorithm, Batch, Engine, Ivs, Key, Keys, Tags, Text};
use warplock_parquet::{
    Encryption, GivenKeys, LazyFile, Options, Result, WriteKey, decrypt_slice, encrypt_slice,
};

use super::changes::change;

const KEY: &[u8; 16] = b"0123456789012345";

/// Written by the reference implementation in Java.
const SEALED: [&[u8]; 2] = [
    include_bytes!("../../tests/vectors/parquet/uniform_encryption.parquet"),
    include_bytes!("../../tests/vectors/parquet/encrypt_columns_and_footer_ctr.parquet"),
];
const SIGNED: &[u8] =
    include_bytes!("../../tests/vectors/parquet/encrypt_columns_plaintext_footer.parquet");

struct Fixed {
    engine: Engine,
    key: Key,
    /// The plain file of the first of [`SEALED`].
    plain: Vec<u8>,
}

fn fixed() -> &'static Fixed {
    static FIXED: OnceLock<Fixed> = OnceLock::new();
    FIXED.get_or_init(|| {
        let builder = Engine::builder().backend("cpu".parse().expect("a backend"));
        let engine = builder.threads(NonZeroUsize::MIN).build();
        let engine = engine.expect("some instruction set runs everywhere");
        Fixed {
            plain: opened(SEALED[0], &engine).expect("a file of the tests"),
            key: Key::new(Algorithm::Aes128Gcm, KEY).expect("16 bytes are a key"),
            engine,
        }
    })
}

/// What a file is decrypted to; a lazy file must have the same bytes, or fail as well.
fn opened(file: &[u8], engine: &Engine) -> Result<Vec<u8>> {
    let options = Options::default();
    let mut out = Vec::new();
    let done = decrypt_slice(file, &mut out, &mut keys(), &options, engine);
    let lazy = LazyFile::open(file, &mut keys(), &options, engine).and_then(|lazy| {
        let mut found = vec![0; lazy.len() as usize];
        // In two parts, so that one page is opened for either.
        let (first, second) = found.split_at_mut(lazy.len() as usize / 3);
        lazy.read(file, 0, first, engine)?;
        lazy.read(file, first.len() as u64, second, engine)?;
        Ok(found)
    });
    match (&done, &lazy) {
        (Ok(_), Ok(found)) => assert!(*found == out, "a lazy file has other bytes"),
        (done, lazy) => assert_eq!(done.is_ok(), lazy.is_ok(), "{done:?}"),
    }
    done.map(|_| out)
}

fn keys() -> GivenKeys {
    let mut keys = GivenKeys {
        footer: Some(KEY.to_vec().into()),
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

/// [`SIGNED`] with changes of its footer, which is signed again.
fn signed_again(changes: &[u8], fixed: &Fixed) -> Vec<u8> {
    let end = SIGNED.len() - 8;
    let len = u32::from_le_bytes(*SIGNED[end..].first_chunk().expect("eight bytes"));
    let (start, signature) = (end - len as usize, end - 28);
    let mut footer = SIGNED[start..signature].to_vec();
    // The file's identifier lies near the end of the footer, as field 2 of 8 bytes.
    let id = footer.windows(2).rposition(|two| two == [0x28, 8]);
    let id = id.expect("the file has an identifier") + 2;
    let aad = [&footer[id..id + 8], &[0]].concat();
    let nonce = &SIGNED[signature..signature + 12];
    change(&mut footer, changes, 8);
    let (mut text, mut tag) = (footer.clone(), [0; 16]);
    let batch = Batch::seal(Keys::One(&fixed.key), Text::in_place(&mut text));
    let batch = batch.ivs(Ivs::Each(nonce)).aad(Aad::Shared(&aad));
    let batch = batch.tags(Tags::Apart(&mut tag));
    fixed.engine.run(batch).expect("a short text can be signed");
    let len = (footer.len() as u32 + 28).to_le_bytes();
    [&SIGNED[..start], &footer, nonce, &tag, &len, b"PAR1"].concat()
}

/// Whether any of the inputs made of the bytes was decrypted or encrypted.
pub(crate) fn check(data: &[u8]) -> bool {
    let fixed = fixed();
    let engine = &fixed.engine;
    let _ = opened(data, engine);
    let _ = encrypted(data, engine);
    let Some((&kind, changes)) = data.split_first() else {
        return false;
    };
    match kind % 4 {
        kind @ (0 | 1) => {
            let mut file = SEALED[usize::from(kind)].to_vec();
            change(&mut file, changes, 8);
            let found = opened(&file, engine);
            // What is stored to find keys is not authenticated, and pages of CTR are not.
            if let (0, Ok(found)) = (kind, &found) {
                assert_eq!(*found, fixed.plain, "a changed file was taken");
            }
            found.is_ok()
        }
        2 => opened(&signed_again(changes, fixed), engine).is_ok(),
        _ => {
            let mut plain = fixed.plain.clone();
            change(&mut plain, changes, 8);
            let Ok(sealed) = encrypted(&plain, engine) else {
                return false;
            };
            opened(&sealed, engine).expect("what was encrypted can be decrypted");
            true
        }
    }
}

fn encrypted(plain: &[u8], engine: &Engine) -> Result<Vec<u8>> {
    let how = Encryption {
        footer: WriteKey {
            bytes: KEY.to_vec().into(),
            metadata: None,
        },
        ..Encryption::default()
    };
    let mut sealed = Vec::new();
    encrypt_slice(plain, &mut sealed, &how, engine)?;
    Ok(sealed)
}
