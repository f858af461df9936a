//! The master key on paper: with it, `warplock.vault` can be made again.
//!
//! Five lines of 12 bytes in hexadecimal, each with its number and a checksum, so that an error in typing
//! is found in its line: a format number (1), the algorithm (1: AES-256-GCM, 2: AES-128-GCM), the binary
//! logarithm of the block size, a zero; the vault's id (16); the master key (32); and a checksum over all
//! of them (8).

use std::ffi::OsStr;
use std::path::Path;

use sha2::{Digest, Sha256};
use warplock::Algorithm;
use warplock_keyring::{MasterKey, Recipients};
use zeroize::Zeroizing;

use super::text::File;
use super::{CONFIG, Config, FORMAT, KDF, mac, open_store, read};
use crate::core::{hex, is_missing};
use crate::error::{Error, Result};
use crate::store::storage::{At, Storage};
use crate::tree::folder::is_root_record;

const LABEL: &[u8] = b"warplock-vault recovery key";
const VERSION: u8 = 1;
const LINES: usize = 5;
/// Bytes of a line without its checksum.
const LINE: usize = 12;
/// Bytes of a line's checksum.
const CHECK: usize = 2;
/// What comes before the checksum over all.
const CONTENT: usize = 52;
const ID: usize = 4;
const KEY: usize = 20;
const ALL: usize = LINES * LINE;

/// The master key of the vault in the folder `path` and what else its `warplock.vault` cannot be
/// made without, to be printed. Anyone with this can read and change the vault, even after all
/// its keys were changed.
///
/// # Errors
/// [`Error::Altered`] if the key is not the vault's.
pub fn export_key(path: &Path, master: &MasterKey) -> Result<Zeroizing<String>> {
    let (_, config) = read(path)?;
    config.verify(master)?;
    let mut all = Zeroizing::new([0; ALL]);
    all[0] = VERSION;
    all[1] = match config.algorithm {
        Algorithm::Aes128Gcm => 2,
        _ => 1,
    };
    all[2] = config.block_size.trailing_zeros() as u8;
    for (byte, digits) in all[ID..KEY]
        .iter_mut()
        .zip(config.file.id.as_bytes().chunks(2))
    {
        *byte = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .ok_or_else(|| super::broken("its id is not 32 hexadecimal digits"))?;
    }
    all[KEY..CONTENT].copy_from_slice(master.as_bytes());
    let sum = checksum(&all[..CONTENT]);
    all[CONTENT..].copy_from_slice(&sum[..ALL - CONTENT]);
    // Allocated in full length, so that no copy is left behind.
    let mut text = Zeroizing::new(String::with_capacity(64 * LINES));
    for (number, line) in (1..).zip(all.chunks_exact(LINE)) {
        text.push_str(&format!("{number}:"));
        for (at, byte) in line.iter().enumerate() {
            if at % 2 == 0 {
                text.push(' ');
            }
            push_hex(&mut text, *byte);
        }
        text.push_str("  ");
        line_checksum(number, line)
            .iter()
            .for_each(|byte| push_hex(&mut text, *byte));
        text.push('\n');
    }
    Ok(text)
}

fn push_hex(text: &mut String, byte: u8) {
    for half in [byte >> 4, byte & 15] {
        // Not by a table, which a key would index.
        let letters = (i16::from(half) - 10) >> 8;
        let digit = i16::from(half) + 87 + (letters & -39);
        text.push(digit as u8 as char);
    }
}

fn checksum(bytes: &[u8]) -> Zeroizing<[u8; 32]> {
    let hash = Sha256::new().chain_update(LABEL).chain_update(bytes);
    Zeroizing::new(hash.finalize().into())
}

fn line_checksum(number: u8, line: &[u8]) -> [u8; CHECK] {
    let hash = Sha256::new()
        .chain_update(LABEL)
        .chain_update([number])
        .chain_update(line);
    *hash.finalize().first_chunk().expect("it is longer")
}

/// Makes the `warplock.vault` of the vault in the folder `path` again, from what [`export_key`] gave, with
/// one key called `key_name`. Lines without a number and a colon are left out.
///
/// # Errors
/// [`Error::Usage`] if there is such a file already, or the text has errors: in which line. What it says
/// belongs to another vault: [`Error::Altered`].
pub fn recover(path: &Path, text: &str, key_name: &str, recipients: &Recipients) -> Result<()> {
    let all = parse(text)?;
    let algorithm = match all[1] {
        1 => Algorithm::Aes256Gcm,
        2 => Algorithm::Aes128Gcm,
        _ => return Err(wrong("it is of a newer Warplock, which has to read it")),
    };
    if all[0] != VERSION || !(12..=20).contains(&all[2]) {
        return Err(wrong("it is of a newer Warplock, which has to read it"));
    }
    let storage = open_store(path)?;
    let root = storage.root()?;
    match storage.attributes(At::Name(&root, OsStr::new(CONFIG))) {
        Err(error) if is_missing(&error) => {}
        Err(error) => return Err(error.into()),
        Ok(_) => {
            return Err(Error::Usage(format!(
                "there is a {CONFIG} already; change its keys with `warplock vault passwd`, or, if it \
                 cannot be used, move it away and keep it"
            )));
        }
    }
    let mut key = Zeroizing::new([0; CONTENT - KEY]);
    key.copy_from_slice(&all[KEY..CONTENT]);
    let master = MasterKey::from_bytes(&key);
    if !is_root_record(&storage, &root, &master)? {
        return Err(Error::altered(
            "the topmost folder's record",
            "it does not verify under this recovery key: the key is another vault's, or warplock.dir \
             has to be restored from a backup first",
        ));
    }
    let mut file = File {
        format: FORMAT,
        id: hex(&all[ID..KEY]),
        algorithm: algorithm.name().into(),
        block_size: 1 << all[2],
        kdf: KDF.into(),
        mac: String::new(),
        keys_mac: String::new(),
        keys: Vec::new(),
    };
    file.mac = mac(&master, &file);
    let mut config = Config {
        algorithm,
        block_size: file.block_size,
        file,
    };
    config.add_key(&master, key_name, recipients)?;
    config.sign_keys(&master);
    config.write(&storage, &root, None)
}

fn parse(text: &str) -> Result<Zeroizing<[u8; ALL]>> {
    let mut all = Zeroizing::new([0; ALL]);
    for number in 1..=LINES as u8 {
        let line = text.lines().find_map(|line| {
            let (found, rest) = line.split_once(':')?;
            (found.trim() == number.to_string()).then_some(rest)
        });
        let line = line.ok_or_else(|| wrong(format!("line {number} is missing")))?;
        let mut digits = Zeroizing::new(Vec::with_capacity(2 * (LINE + CHECK)));
        digits.extend(
            line.chars()
                .filter(|c| !c.is_whitespace())
                .map_while(|c| c.to_digit(16)),
        );
        let typed = line.chars().filter(|c| !c.is_whitespace()).count();
        if digits.len() != typed || typed != 2 * (LINE + CHECK) {
            return Err(wrong(format!(
                "line {number} has to have {} groups of 4 digits (0-9, a-f)",
                (LINE + CHECK) / 2
            )));
        }
        let mut bytes = Zeroizing::new([0; LINE + CHECK]);
        for (byte, digits) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (digits[0] << 4 | digits[1]) as u8;
        }
        if line_checksum(number, &bytes[..LINE]) != bytes[LINE..] {
            return Err(wrong(format!("line {number} has a wrong digit")));
        }
        all[(usize::from(number) - 1) * LINE..][..LINE].copy_from_slice(&bytes[..LINE]);
    }
    if checksum(&all[..CONTENT])[..ALL - CONTENT] != all[CONTENT..] {
        return Err(wrong("its lines do not belong together"));
    }
    Ok(all)
}

fn wrong(why: impl std::fmt::Display) -> Error {
    Error::Usage(format!("the recovery key cannot be used: {why}"))
}
