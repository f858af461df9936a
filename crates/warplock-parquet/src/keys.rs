//! The keys of a file's footer and columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use warplock::{Algorithm, Key};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::module::TAG;

/// The secret bytes of a key: 16, 24 or 32.
pub type KeyBytes = Zeroizing<Vec<u8>>;

/// Which key is needed.
#[derive(Clone, Copy, Debug)]
pub struct KeyRequest<'a> {
    /// The column's path with dots, such as `a.list.element`; `None` for the footer's key, with
    /// which columns may be encrypted too.
    pub column: Option<&'a str>,
    /// What the writer stored in order to find the key again.
    pub metadata: Option<&'a [u8]>,
}

/// What a source of keys answers.
pub type KeyAnswer =
    std::result::Result<Option<KeyBytes>, Box<dyn std::error::Error + Send + Sync>>;

/// Finds keys: given ones ([`GivenKeys`]), or a closure that asks a key management service.
pub trait KeySource {
    /// The key, or `None` if there is none. Called once for each column and the footer.
    ///
    /// # Errors
    /// The source's own; it becomes [`Error::KeySource`].
    fn key(&mut self, request: KeyRequest<'_>) -> KeyAnswer;
}

impl<F> KeySource for F
where
    F: FnMut(
        KeyRequest<'_>,
    )
        -> std::result::Result<Option<KeyBytes>, Box<dyn std::error::Error + Send + Sync>>,
{
    fn key(&mut self, request: KeyRequest<'_>) -> KeyAnswer {
        self(request)
    }
}

/// Keys that the caller has.
#[derive(Clone, Default)]
pub struct GivenKeys {
    /// The footer's.
    pub footer: Option<KeyBytes>,
    /// The columns' by their paths with dots.
    pub columns: BTreeMap<String, KeyBytes>,
}

impl KeySource for GivenKeys {
    fn key(&mut self, request: KeyRequest<'_>) -> KeyAnswer {
        Ok(match request.column {
            Some(column) => self.columns.get(column).cloned(),
            None => self.footer.clone(),
        })
    }
}

/// One key as both of Parquet's ciphers take it.
pub(crate) struct ModuleKey {
    pub(crate) gcm: Key,
    /// Of pages, with AES_GCM_CTR_V1.
    pub(crate) ctr: Option<Key>,
}

impl ModuleKey {
    /// `column` is whose key it is, for errors.
    pub(crate) fn new(bytes: &[u8], ctr: bool, column: Option<String>) -> Result<Self> {
        let (gcm, pages) = match bytes.len() {
            16 => (Algorithm::Aes128Gcm, Algorithm::Aes128Ctr),
            24 => (Algorithm::Aes192Gcm, Algorithm::Aes192Ctr),
            32 => (Algorithm::Aes256Gcm, Algorithm::Aes256Ctr),
            found => return Err(Error::KeyLength { column, found }),
        };
        let ctr = ctr.then(|| Key::new(pages, bytes)).transpose()?;
        let gcm = Key::new(gcm, bytes)?;
        Ok(ModuleKey { gcm, ctr })
    }

    /// Bytes of a page's tag.
    pub(crate) fn page_tag(&self) -> usize {
        if self.ctr.is_some() { 0 } else { TAG }
    }
}

/// A column, or the footer, and the metadata stored with it.
type Owner = (Option<String>, Option<Vec<u8>>);

/// The keys found so far.
pub(crate) struct Keys<'a> {
    source: &'a mut dyn KeySource,
    /// Whether pages are encrypted in CTR mode.
    ctr: bool,
    found: BTreeMap<Owner, Arc<ModuleKey>>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(source: &'a mut dyn KeySource, ctr: bool) -> Self {
        Keys {
            source,
            ctr,
            found: BTreeMap::new(),
        }
    }

    pub(crate) fn find(&mut self, request: KeyRequest<'_>) -> Result<Arc<ModuleKey>> {
        let column = request.column.map(str::to_owned);
        let place = (column.clone(), request.metadata.map(<[u8]>::to_vec));
        if let Some(key) = self.found.get(&place) {
            return Ok(Arc::clone(key));
        }
        let bytes = match self.source.key(request) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(Error::NoKey { column }),
            Err(source) => return Err(Error::KeySource { column, source }),
        };
        let key = Arc::new(ModuleKey::new(&bytes, self.ctr, column)?);
        self.found.insert(place, Arc::clone(&key));
        Ok(key)
    }
}
