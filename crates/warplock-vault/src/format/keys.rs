//! The vault's keys, all derived from the master key, and small sealed records under them.

use std::num::NonZeroUsize;
use std::sync::Arc;

use warplock::{Aad, Algorithm, Batch, Engine, Ivs, Key, Keys as BatchKeys, Tags, Text};
use warplock_keyring::{MasterKey, derive};
use zeroize::Zeroizing;

use crate::error::Result;
use crate::format::layout::{NONCE_LEN, OVERHEAD, TAG_LEN};
use crate::format::names::NameCipher;

/// 16 random bytes that name a file or a folder forever.
pub(crate) type Id = [u8; 16];

/// What the whole vault shares.
pub(crate) struct VaultKeys {
    /// Each file's keys are derived from this.
    files: MasterKey,
    /// Names of entries and of extended attributes.
    pub(crate) names: NameCipher,
    /// Records of folders.
    pub(crate) folders: Key,
    /// Symlinks.
    pub(crate) symlinks: Key,
    /// Values of extended attributes.
    pub(crate) xattrs: Key,
    /// What the store tells of machines' memories.
    pub(crate) memory: Key,
    /// Authenticates a memory and tags states in it.
    pub(crate) memory_mac: Zeroizing<[u8; 32]>,
    /// What contents are encrypted with.
    algorithm: Algorithm,
    pub(crate) engines: Engines,
}

/// Where batches run.
pub(crate) struct Engines {
    /// The engine for contents.
    pub(crate) bulk: Arc<Engine>,
    /// Whether that is the CPU alone: then the calling thread does the work itself. Requests come
    /// from several threads, and handing one over takes longer than a share of it.
    inline: bool,
    /// The CPU, on the calling thread: for records and short runs, which are not worth a trip to
    /// another thread or device.
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
        // The same instruction set; with a GPU alone, the best.
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

    /// How many bytes of a longer run to work on at a time: on the CPU, few enough to stay in its
    /// first caches between reading and opening, which made reads a tenth faster than 256 KiB where
    /// two threads share a core.
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

    /// Opens `text` in place; false, and zeros, if nonce and tag do not fit.
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
            memory: record("warplock-vault/2 memory")?,
            memory_mac: derive::<32>(master, "warplock-vault/2 memory-mac", b""),
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

/// Fills `bytes` with random bytes. Nothing is kept between calls: a buffer would give the same
/// nonces to a forked child, and to virtual machines resumed from one snapshot.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<()> {
    Ok(warplock::fill_random(bytes)?)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::io::{Read, Write, pipe};

    use super::*;

    /// Forked children continue from one state, like virtual machines from one snapshot.
    #[test]
    fn a_thousand_forked_children_repeat_no_nonce() {
        let engine = Engine::builder().backend("cpu".parse().unwrap()).build();
        let engines = Engines::new(Arc::new(engine.unwrap())).unwrap();
        let key = Key::generate(Algorithm::Aes256Gcm).unwrap();
        let mut record = [7; 60 + OVERHEAD];
        let mut seal = || {
            engines.seal_in_place(&key, b"", &mut record).unwrap();
            *record.first_chunk::<NONCE_LEN>().unwrap()
        };
        let mut seen = HashSet::from([seal()]);
        for trial in 0..1000 {
            let (mut from_child, mut to_parent) = pipe().unwrap();
            // SAFETY: the child only uses memory it inherited, writes to a pipe and exits.
            match unsafe { libc::fork() } {
                0 => {
                    let failed = to_parent.write_all(&seal()).is_err();
                    // SAFETY: ends the child without delay; it has nothing to clean up.
                    unsafe { libc::_exit(i32::from(failed)) }
                }
                child => {
                    assert!(child > 0, "fork failed");
                    drop(to_parent);
                    if trial % 10 == 0 {
                        assert!(seen.insert(seal()), "trial {trial}");
                    }
                    let mut nonce = [0; NONCE_LEN];
                    from_child.read_exact(&mut nonce).unwrap();
                    assert!(seen.insert(nonce), "trial {trial}");
                    // SAFETY: nothing else waits for this child.
                    let ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                    assert_eq!(ended, child);
                }
            }
        }
    }
}
