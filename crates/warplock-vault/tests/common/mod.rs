//! Shared by the tests: a store that can crash, a vault in it, and short ways to use it.
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod mem;
pub(crate) mod rng;

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock};

use mem::Mem;
use warplock::Engine;
use warplock_keyring::{MasterKey, NewIdentity, NoPrompt, Recipients};
use warplock_vault::fs::{
    Access, Attributes, Caller, Changes, FileSystem, NewNode, Node, ROOT, Result,
};
use warplock_vault::{OpenFile, Options, Settings, Storage, Vault, init_on};

pub(crate) const FILE: NewNode = NewNode {
    caller: Caller { uid: 0, gid: 0 },
    mode: 0o100_644,
    umask: 0o022,
};
pub(crate) const FOLDER: NewNode = NewNode {
    mode: 0o40_755,
    ..FILE
};
pub(crate) const WRITE: Access = Access {
    write: true,
    truncate: false,
    sync: false,
};

/// What a vault told its user.
pub(crate) type Told = Arc<Mutex<Vec<String>>>;

/// One engine for all tests.
pub(crate) fn engine() -> Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    Arc::clone(ENGINE.get_or_init(|| {
        let engine = Engine::builder().threads(NonZeroUsize::MIN).build();
        Arc::new(engine.unwrap())
    }))
}

pub(crate) fn recipients() -> Recipients {
    let mut to = Recipients::new(Arc::new(NoPrompt));
    to.add(&NewIdentity::generate().recipient()).unwrap();
    to
}

/// A new vault in memory.
pub(crate) fn new_vault(settings: &Settings) -> (Mem, MasterKey) {
    let mem = Mem::new();
    let key = init_on(&mem, settings, "test", &recipients()).unwrap();
    (mem, key)
}

pub(crate) fn options(told: &Told) -> Options {
    let told = Arc::clone(told);
    Options {
        engine: Some(engine()),
        trouble: Some(Arc::new(move |text: &str| {
            told.lock().unwrap().push(text.to_owned());
        })),
        ..Options::default()
    }
}

pub(crate) fn open<S: Storage>(store: S, key: &MasterKey) -> Vault<S> {
    Vault::open_on(store, key, options(&Told::default())).unwrap()
}

/// Short ways to use a vault, by names in the topmost folder.
pub(crate) trait Short {
    type Store: Storage;
    fn node(&self, name: &str) -> Result<Attributes>;
    fn new_file(&self, name: &str) -> OpenFile<Self::Store>;
    fn file(&self, name: &str) -> Result<OpenFile<Self::Store>>;
    fn put(&self, name: &str, data: &[u8]);
    fn get(&self, name: &str) -> Result<Vec<u8>>;
    fn resize(&self, file: &OpenFile<Self::Store>, node: Node, len: u64) -> Result<()>;
}

impl<S: Storage> Short for Vault<S> {
    type Store = S;

    fn node(&self, name: &str) -> Result<Attributes> {
        let mut at = None;
        for part in name.split('/') {
            let parent = at.map_or(ROOT, |at: Attributes| at.node);
            at = Some(self.lookup(parent, OsStr::new(part))?);
        }
        Ok(at.unwrap())
    }

    fn new_file(&self, name: &str) -> OpenFile<S> {
        self.create(ROOT, OsStr::new(name), FILE, WRITE, true)
            .unwrap()
            .1
    }

    fn file(&self, name: &str) -> Result<OpenFile<S>> {
        self.open(self.node(name)?.node, WRITE)
    }

    fn put(&self, name: &str, data: &[u8]) {
        let file = self.new_file(name);
        self.write(&file, 0, data, false).unwrap();
        self.fsync(&file, false).unwrap();
    }

    fn get(&self, name: &str) -> Result<Vec<u8>> {
        let node = self.node(name)?;
        let file = self.open(node.node, Access::default())?;
        let node = self.attributes(node.node, Some(&file))?;
        let mut data = vec![0; node.size as usize + 1];
        let len = self.read(&file, 0, &mut data)?;
        data.truncate(len);
        Ok(data)
    }

    fn resize(&self, file: &OpenFile<S>, node: Node, len: u64) -> Result<()> {
        let changes = Changes {
            size: Some(len),
            ..Changes::default()
        };
        self.change(node, Some(file), &changes).map(drop)
    }
}
