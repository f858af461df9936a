//! Wrapped keys: which name belongs to which, and which of them belong to the vault.
//!
//! A wrapped key opens to the master key or does not, but that says nothing about the name next to
//! it, and a name is what decides which key is removed. So each name is bound to its key, and the
//! list as a whole to its order, by MACs that only a holder of the master key can make.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use warplock_keyring::{
    Identities, MasterKey, Recipients, StanzaKind, derive, from_armor, inspect_wrapped, to_armor,
    unwrap_any, wrap,
};

use super::text::{MAX_KEYS, is_name};
use super::{CONFIG, Config, broken};
use crate::core::hex;
use crate::error::{Error, Result};

/// One `[[key]]`.
#[derive(Clone, Debug)]
pub(super) struct WrappedKey {
    pub(super) name: String,
    /// Binds the name to the wrapped key.
    pub(super) mac: String,
    /// An age file in ASCII armor.
    pub(super) age: String,
}

/// What [`unlock`](super::unlock) returns.
#[derive(Debug)]
pub struct Unlocked {
    /// The master key.
    pub master: MasterKey,
    /// The name of the wrapped key that opened to it.
    pub key: String,
    /// Changes to wrapped keys that were made without the master key, a sentence each.
    pub altered: Vec<String>,
}

impl WrappedKey {
    /// The age file; empty if the armor is damaged.
    fn age_file(&self) -> Vec<u8> {
        from_armor(&self.age).unwrap_or_default()
    }

    /// What opens it; nothing if that cannot be read.
    pub(super) fn kinds(&self) -> Vec<StanzaKind> {
        inspect_wrapped(&self.age_file()).unwrap_or_default()
    }

    fn right_mac(&self, binding: &Binding<'_>) -> String {
        let digest = Sha256::digest(self.age_file());
        binding.mac(b"key", [self.name.as_bytes(), &digest])
    }

    fn verifies(&self, binding: &Binding<'_>) -> bool {
        is_equal(&self.mac, &self.right_mac(binding))
    }
}

fn is_equal(found: &str, right: &str) -> bool {
    found.as_bytes().ct_eq(right.as_bytes()).into()
}

/// What binds wrapped keys to a vault.
struct Binding<'a> {
    master: &'a MasterKey,
    id: &'a str,
}

impl Binding<'_> {
    /// The MAC of the vault's id and `parts`, each after its length. Each purpose has its own key.
    fn mac<'b>(&self, purpose: &[u8], parts: impl IntoIterator<Item = &'b [u8]>) -> String {
        let key = derive::<32>(self.master, "warplock-vault/2 wrapped keys", purpose);
        let mut mac = Hmac::<Sha256>::new_from_slice(&key[..]).expect("HMAC takes any key");
        let mut add = |part: &[u8]| {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        };
        add(self.id.as_bytes());
        parts.into_iter().for_each(add);
        hex(&mac.finalize().into_bytes())
    }

    /// The MAC over all keys' MACs, in order.
    fn list_mac(&self, keys: &[WrappedKey]) -> String {
        self.mac(b"list", keys.iter().map(|key| key.mac.as_bytes()))
    }
}

impl Config {
    fn binding<'a>(&'a self, master: &'a MasterKey) -> Binding<'a> {
        let id = &self.file.id;
        Binding { master, id }
    }

    /// The master key, from the first wrapped key that opens, is this vault's, and still has its
    /// name.
    pub(super) fn unlock(&self, identities: &Identities) -> Result<Unlocked> {
        let files: Vec<_> = self.file.keys.iter().map(WrappedKey::age_file).collect();
        if files.is_empty() {
            return Err(broken("it holds no key; restore the file from a backup"));
        }
        let mut refused = None;
        let opened = unwrap_any(&files, identities, |number, master| {
            let key = &self.file.keys[number];
            if let Err(error) = self.verify(&master) {
                refused.get_or_insert(error);
            } else if !key.verifies(&self.binding(&master)) {
                refused = Some(Error::altered(CONFIG, not_bound(&key.name)));
            } else {
                return Some((key.name.clone(), master));
            }
            None
        });
        match (opened, refused) {
            (Ok((key, master)), _) => {
                let altered = self.altered(&master);
                Ok(Unlocked {
                    master,
                    key,
                    altered,
                })
            }
            (Err(_), Some(refused)) => Err(refused),
            (Err(error), None) => Err(error.into()),
        }
    }

    /// Changes to the wrapped keys that were made without the master key.
    fn altered(&self, master: &MasterKey) -> Vec<String> {
        let binding = self.binding(master);
        let wrong = self.file.keys.iter().filter(|key| !key.verifies(&binding));
        let mut altered: Vec<_> = wrong.map(|key| not_bound(&key.name)).collect();
        if !is_equal(&self.file.keys_mac, &binding.list_mac(&self.file.keys)) {
            altered.push(
                "its list of keys was changed without the vault's key: one was removed, added, \
                 moved or brought back; compare the names that `warplock vault info` shows with \
                 those that should be there. The next `warplock vault passwd` accepts the list"
                    .into(),
            );
        }
        altered
    }

    pub(super) fn sign_keys(&mut self, master: &MasterKey) {
        self.file.keys_mac = self.binding(master).list_mac(&self.file.keys);
    }

    pub(super) fn add_key(
        &mut self,
        master: &MasterKey,
        name: &str,
        to: &Recipients,
    ) -> Result<()> {
        if !is_name(name) {
            return Err(Error::Usage(
                "a key's name is 1 to 64 bytes of text on one line".into(),
            ));
        }
        if self.file.keys.iter().any(|key| key.name == name) {
            return Err(Error::Usage(format!(
                "there is a key '{name}' already; choose another name, or replace it"
            )));
        }
        if self.file.keys.len() == MAX_KEYS {
            return Err(Error::Usage(format!("a vault has at most {MAX_KEYS} keys")));
        }
        let mut key = WrappedKey {
            name: name.into(),
            mac: String::new(),
            age: to_armor(&wrap(master, to)?),
        };
        key.mac = key.right_mac(&self.binding(master));
        self.file.keys.push(key);
        Ok(())
    }

    /// Removes a key, and returns what opened it.
    pub(super) fn take_key(&mut self, master: &MasterKey, name: &str) -> Result<Vec<StanzaKind>> {
        let named = |key: &&WrappedKey| key.name == name;
        let found: Vec<_> = self.file.keys.iter().filter(named).collect();
        let Some(first) = found.first() else {
            let names: Vec<_> = self.file.keys.iter().map(|key| &*key.name).collect();
            return Err(Error::Usage(format!(
                "there is no key '{name}'; this vault's keys are called: {}",
                names.join(", ")
            )));
        };
        let binding = self.binding(master);
        if !found.iter().all(|key| key.verifies(&binding)) {
            return Err(Error::altered(CONFIG, not_bound(name)));
        }
        let kinds = first.kinds();
        self.file.keys.retain(|key| key.name != name);
        Ok(kinds)
    }

    /// Removes keys that do not belong to the vault, and returns their names.
    pub(super) fn take_altered(&mut self, master: &MasterKey) -> Vec<String> {
        let binding = self.binding(master);
        let (kept, altered): (Vec<_>, Vec<_>) =
            (self.file.keys.clone().into_iter()).partition(|key| key.verifies(&binding));
        self.file.keys = kept;
        altered.into_iter().map(|key| key.name).collect()
    }

    /// Whether any wrapped key is known to open this vault.
    pub(super) fn has_key(&self, master: &MasterKey) -> bool {
        let binding = self.binding(master);
        self.file.keys.iter().any(|key| key.verifies(&binding))
    }
}

fn not_bound(name: &str) -> String {
    format!(
        "its key '{name}' was renamed, changed or put there without the vault's key, and is not \
         used; restore the file from a backup, or take such keys out with `warplock vault passwd \
         --remove-altered`"
    )
}
