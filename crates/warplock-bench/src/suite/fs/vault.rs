//! Warplock's vault.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use warplock::{BackendChoice, Engine, InstructionSet};
use warplock_keyring::{MasterKey, NewIdentity, NoPrompt, Recipients};
use warplock_vault::{Options, Settings, Vault, init};

use super::contender::{Contender, Held, here};
use crate::error::Result;
use crate::{Context, Error};

/// A vault in its default settings, on one backend.
pub(super) struct VaultMount {
    name: String,
    engine: Arc<Engine>,
    /// Of the vault made last.
    key: Mutex<Option<MasterKey>>,
}

impl VaultMount {
    pub(super) fn new(
        context: &Context<'_>,
        choice: Option<BackendChoice>,
        set: Option<InstructionSet>,
    ) -> Result<Self> {
        let engine = context.other(choice, set)?;
        // A start takes as long as many of the requests here.
        engine.wake();
        Ok(VaultMount {
            name: format!("warplock {}", engine.backend()),
            engine: Arc::new(engine),
            key: Mutex::default(),
        })
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Input(error.to_string())
}

impl Contender for VaultMount {
    fn name(&self) -> &str {
        &self.name
    }

    fn make(&self, store: &Path) -> Result<()> {
        let mut recipients = Recipients::new(Arc::new(NoPrompt));
        let identity = NewIdentity::generate();
        recipients.add(&identity.recipient()).map_err(failed)?;
        let key = init(store, &Settings::default(), "main", &recipients).map_err(failed)?;
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
        Ok(())
    }

    fn on_gpus(&self) -> Option<u64> {
        let shares = self.engine.gpu_bytes();
        (!shares.is_empty()).then(|| shares.iter().map(|share| share.bytes).sum())
    }

    fn mount(&self, store: &Path, point: &Path) -> Result<Held> {
        let options = Options {
            engine: Some(self.engine.clone()),
            ..Options::default()
        };
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key.as_ref().expect("the vault was made before");
        let vault = Vault::open(store, key, options).map_err(failed)?;
        here(Arc::new(vault), point)
    }
}
