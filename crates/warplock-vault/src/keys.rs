//! The vault's keys, all derived from the master key, and small sealed records under them.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::sync::Arc;

use warplock::{Aad, Algorithm, Batch, Engine, Ivs, Key, Keys as BatchKeys, Tags, Text};
use warplock_keyring::{MasterKey, derive};
use zeroize::Zeroizing;

use crate::error::Result;
use crate::layout::{NONCE_LEN, OVERHEAD, TAG_LEN};
use crate::names::NameCipher;

/// 16 random bytes that name a file or a folder for ever.
pub(crate) type Id = [u8; 16];

/// What the whole vault shares.
pub(crate) struct VaultKeys {
    /// Of this, each file's keys are derived.
    files: MasterKey,
    /// Names of entries and of extended attributes.
    pub(crate) names: NameCipher,
    /// Records of folders.
    pub(crate) folders: Key,
    /// Symlinks.
    pub(crate) symlinks: Key,
    /// Values of extended attributes.
    pub(crate) xattrs: Key,
    /// The witness file.
    pub(crate) witness: Key,
    /// What contents are encrypted with.
    algorithm: Algorithm,
    pub(crate) engines: Engines,
}

/// Where batches run.
pub(crate) struct Engines {
    /// The engine for contents.
    pub(crate) bulk: Arc<Engine>,
    /// Whether that is the processor alone: then the calling thread does the work itself. Requests
    /// come from several threads, and handing one on takes longer than a part of it.
    inline: bool,
    /// The processor, on the calling thread: for records and short runs, which are not worth
    /// a trip to another thread or device.
    pub(crate) small: Engine,
}

/// The keys of one file.
pub(crate) struct FileKeys {
    /// Its blocks.
    pub(crate) content: Key,
    /// Its headers, pages and journal.
    pub(crate) header: Key,
}

impl Engines {
    pub(crate) fn new(bulk: Arc<Engine>) -> Result<Self> {
        let name = bulk.backend();
        // The same instruction set; beside a GPU that stands alone, the best.
        let cpu = name.split('+').find(|name| name.starts_with("cpu:"));
        let choice = cpu.unwrap_or("cpu");
        let small = Engine::builder()
            .backend(choice.parse()?)
            .threads(NonZeroUsize::MIN)
            .build()?;
        let inline = !bulk.may_use_gpu();
        Ok(Engines {
            bulk,
            inline,
            small,
        })
    }

    /// How many bytes of a longer run to work on at a time: on the processor as few as stay
    /// in its first caches between reading and opening, which made reads a tenth faster than 256 KiB
    /// where two threads share a core.
    pub(crate) fn step(&self) -> usize {
        match self.inline {
            true => 32 << 10,
            false => usize::MAX,
        }
    }

    /// The engine for a run of `len` bytes.
    pub(crate) fn for_len(&self, len: usize) -> &Engine {
        if self.inline || len < 64 << 10 {
            &self.small
        } else {
            &self.bulk
        }
    }

    /// Seals a record: nonce, ciphertext, tag.
    pub(crate) fn seal(&self, key: &Key, aad: &[u8], plaintext: &[u8]) -> Result<Vec<u8>> {
        let mut sealed = vec![0; plaintext.len() + OVERHEAD];
        sealed[NONCE_LEN..][..plaintext.len()].copy_from_slice(plaintext);
        self.seal_in_place(key, aad, &mut sealed)?;
        Ok(sealed)
    }

    /// Seals a record that stands in `room` with space for nonce and tag around it.
    pub(crate) fn seal_in_place(&self, key: &Key, aad: &[u8], room: &mut [u8]) -> Result<()> {
        let nonce: [u8; NONCE_LEN] = random()?;
        let (front, rest) = room.split_at_mut(NONCE_LEN);
        front.copy_from_slice(&nonce);
        let (body, tag) = rest.split_at_mut(rest.len() - TAG_LEN);
        let batch = Batch::seal(BatchKeys::One(key), Text::in_place(body));
        self.small.run(
            batch
                .ivs(Ivs::Each(&nonce))
                .aad(Aad::Shared(aad))
                .tags(Tags::Apart(tag)),
        )?;
        Ok(())
    }

    /// Opens `text` in place; false, and zeros, if this nonce and tag are not its own.
    pub(crate) fn open_apart(
        &self,
        key: &Key,
        aad: &[u8],
        nonce: &[u8],
        tag: &[u8],
        text: &mut [u8],
    ) -> Result<bool> {
        let batch = Batch::open(BatchKeys::One(key), Text::in_place(text))
            .ivs(Ivs::Each(nonce))
            .aad(Aad::Shared(aad))
            .tags(Tags::Given(tag));
        match self.small.run(batch) {
            Ok(()) => Ok(true),
            Err(warplock::Error::Authentication { .. }) => Ok(false),
            Err(other) => Err(other.into()),
        }
    }

    /// Opens a record; `None` if it is not what [`seal`](Self::seal) made.
    pub(crate) fn open(
        &self,
        key: &Key,
        aad: &[u8],
        sealed: &[u8],
    ) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let Some(len) = sealed.len().checked_sub(OVERHEAD) else {
            return Ok(None);
        };
        let (nonce, rest) = sealed.split_at(NONCE_LEN);
        let (body, tag) = rest.split_at(len);
        let mut plaintext = Zeroizing::new(body.to_vec());
        debug_assert_eq!(tag.len(), TAG_LEN);
        let opened = self.open_apart(key, aad, nonce, tag, &mut plaintext)?;
        Ok(opened.then_some(plaintext))
    }
}

impl VaultKeys {
    pub(crate) fn new(
        master: &MasterKey,
        algorithm: Algorithm,
        engine: Arc<Engine>,
    ) -> Result<Self> {
        let record = |label| Key::new(Algorithm::Aes256Gcm, &derive::<32>(master, label, b"")[..]);
        Ok(VaultKeys {
            files: MasterKey::from_bytes(&derive::<32>(master, "warplock-vault/2 files", b"")),
            names: NameCipher::new(derive::<64>(master, "warplock-vault/2 names", b"")),
            folders: record("warplock-vault/2 folders")?,
            symlinks: record("warplock-vault/2 symlinks")?,
            xattrs: record("warplock-vault/2 xattrs")?,
            witness: record("warplock-vault/2 witness")?,
            algorithm,
            engines: Engines::new(engine)?,
        })
    }

    /// The keys of the file with this id.
    pub(crate) fn file(&self, id: &Id) -> Result<FileKeys> {
        let derived = derive::<64>(&self.files, "warplock-vault/2 file", id);
        let content = &derived[..self.algorithm.key_len()];
        Ok(FileKeys {
            content: Key::new(self.algorithm, content)?,
            header: Key::new(Algorithm::Aes256Gcm, &derived[32..])?,
        })
    }
}

/// Random bytes from the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    fill_random(&mut bytes)?;
    Ok(bytes)
}

/// Random bytes that a thread has fetched and not used yet: a system call for each nonce would take
/// longer than sealing a short block.
struct Fetched {
    bytes: [u8; 1536],
    used: usize,
}

thread_local! {
    static FETCHED: RefCell<Fetched> = const {
        RefCell::new(Fetched {
            bytes: [0; 1536],
            used: 1536,
        })
    };
}

/// Fills `bytes` at random, from the operating system.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<()> {
    let fill = |bytes: &mut [u8]| {
        getrandom::fill(bytes).map_err(|_| crate::Error::from(warplock::Error::Randomness))
    };
    FETCHED.with_borrow_mut(|fetched| {
        if bytes.len() > fetched.bytes.len() / 4 {
            return fill(bytes);
        }
        if fetched.bytes.len() - fetched.used < bytes.len() {
            fill(&mut fetched.bytes)?;
            fetched.used = 0;
        }
        let taken = &mut fetched.bytes[fetched.used..][..bytes.len()];
        bytes.copy_from_slice(taken);
        // Nothing is given out twice.
        taken.fill(0);
        fetched.used += bytes.len();
        Ok(())
    })
}
