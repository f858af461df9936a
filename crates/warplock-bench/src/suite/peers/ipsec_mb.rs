//! libipsec-mb, Intel's multi-buffer library, loaded where installed: GCM through its direct
//! functions, the rest through jobs. It has no XTS.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::rc::Rc;

use libloading::{Library, Symbol};
use warplock::Mode;

use super::task::{Message, Task, Texts, Work};
use super::{Found, Held, Peer};

/// Expands a key for encryption and decryption.
type ExpandKey = unsafe extern "C" fn(*const u8, *mut Keys, *mut Keys);
/// Prepares a GCM key.
type PrepareGcm = unsafe extern "C" fn(*const u8, *mut GcmKey);
/// Key, context, output, input, length, 12-byte IV, AD and its length, tag and its length.
type Gcm = unsafe extern "C" fn(
    *const GcmKey,
    *mut GcmContext,
    *mut u8,
    *const u8,
    u64,
    *const u8,
    *const u8,
    u64,
    *mut u8,
    u64,
);
/// Takes or returns a job.
type NextJob = unsafe extern "C" fn(*mut Manager) -> *mut Job;

/// The start of `IMB_MGR`, as version 1 has it (its ABI is fixed by the library's name; later
/// releases add at the end).
#[repr(C)]
struct Manager {
    before: [u64; 8],
    get_next_job: NextJob,
    submit_job: NextJob,
    submit_job_nocheck: NextJob,
    get_completed_job: NextJob,
    flush_job: NextJob,
    queue_size: *const c_void,
    expand_key: [ExpandKey; 3],
    others: [*const c_void; 15],
    gcm_encrypt: [Gcm; 3],
    more: [*const c_void; 21],
    prepare_gcm: [PrepareGcm; 3],
}

const _: () = {
    assert!(std::mem::offset_of!(Manager, get_next_job) == 64);
    assert!(std::mem::offset_of!(Manager, gcm_encrypt) == 256);
    assert!(std::mem::offset_of!(Manager, prepare_gcm) == 448);
};

/// The parts of `IMB_JOB` that ciphers take; the library allocates jobs.
#[repr(C)]
struct Job {
    encrypt_keys: *const Keys,
    decrypt_keys: *const Keys,
    key_len: u64,
    src: *const u8,
    dst: *mut u8,
    cipher_offset: u64,
    cipher_len: u64,
    hash_offset: u64,
    hash_len: u64,
    iv: *const u8,
    iv_len: u64,
    tag: *mut u8,
    tag_len: u64,
    hash_fields: [u64; 3],
    status: u32,
    cipher_mode: u32,
    cipher_direction: u32,
    hash: u32,
    order: u32,
}

const _: () = {
    assert!(std::mem::offset_of!(Job, iv) == 72);
    assert!(std::mem::offset_of!(Job, status) == 128);
};

/// Round keys.
#[derive(Clone)]
#[repr(C, align(64))]
struct Keys([u8; 16 * 15]);

/// `struct gcm_key_data`: 1008 bytes, aligned.
#[repr(C, align(64))]
struct GcmKey([u8; 1024]);

/// `struct gcm_context_data`: 88 bytes.
#[repr(C, align(64))]
struct GcmContext([u8; 128]);

/// A manager, set up for this CPU.
struct Instance {
    manager: *mut Manager,
    free: unsafe extern "C" fn(*mut Manager),
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: the manager is this value's own.
        unsafe { (self.free)(self.manager) };
    }
}

struct IpsecMb {
    instance: Rc<Instance>,
    version: String,
}

/// `IMB_FLAG_GFNI_OFF`: without GFNI, it uses code without VAES.
const NO_GFNI: u64 = 1 << 2;

pub(super) fn load(held: Held) -> Found {
    if !cfg!(target_arch = "x86_64") {
        return Err("libipsec-mb: left out, for x86-64 alone".to_owned());
    }
    let load = || -> Result<IpsecMb, libloading::Error> {
        // SAFETY: the types are those of intel-ipsec-mb.h of version 1, which is in the name.
        unsafe {
            let library: &Library = Box::leak(Box::new(Library::new("libIPSec_MB.so.1")?));
            let version: Symbol<'_, unsafe extern "C" fn() -> *const c_char> =
                library.get(c"imb_get_version_str")?;
            let new: Symbol<'_, unsafe extern "C" fn(u64) -> *mut Manager> =
                library.get(c"alloc_mb_mgr")?;
            let init: Symbol<'_, unsafe extern "C" fn(*mut Manager, *mut c_void)> =
                library.get(c"init_mb_mgr_auto")?;
            let free = *library.get(c"free_mb_mgr")?;
            let manager = new(if held.is_held() { NO_GFNI } else { 0 });
            init(manager, null_mut());
            Ok(IpsecMb {
                instance: Rc::new(Instance { manager, free }),
                version: CStr::from_ptr(version()).to_string_lossy().into_owned(),
            })
        }
    };
    match load() {
        Ok(library) => Ok(Box::new(library)),
        Err(error) => Err(format!("libipsec-mb: left out, not installed ({error})")),
    }
}

impl Peer for IpsecMb {
    fn name(&self) -> &'static str {
        "libipsec-mb"
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn prepare(&self, task: &Task, texts: &Texts) -> Option<Work> {
        let instance = Rc::clone(&self.instance);
        match task.mode() {
            Mode::Xts | Mode::Acorn => None,
            Mode::Gcm => Some(gcm(instance, task, texts)),
            Mode::Ecb | Mode::Cbc | Mode::Ctr => Some(jobs(instance, *task, texts)),
        }
    }
}

fn gcm(instance: Rc<Instance>, task: &Task, texts: &Texts) -> Work {
    let which = (task.bits() - 128) / 64;
    let own_keys = task.own_keys;
    let mut key = Box::new(GcmKey([0; 1024]));
    let mut context = Box::new(GcmContext([0; 128]));
    // SAFETY: the manager lives as long as the instance.
    let (prepare, encrypt) = unsafe {
        let manager = &*instance.manager;
        (manager.prepare_gcm[which], manager.gcm_encrypt[which])
    };
    // SAFETY: the key has the cipher's length.
    unsafe { prepare(texts.keys.as_ptr(), &mut *key) };
    Box::new(move |texts| {
        let _alive = &instance;
        for message in texts.messages() {
            let Message { iv, text, tag, .. } = message;
            // SAFETY: keys, IVs and tags have the lengths told; in place is allowed.
            unsafe {
                if own_keys {
                    prepare(message.key.as_ptr(), &mut *key);
                }
                let (pointer, len) = (text.as_mut_ptr(), text.len() as u64);
                let tag_len = tag.len() as u64;
                encrypt(
                    &*key,
                    &mut *context,
                    pointer,
                    pointer,
                    len,
                    iv.as_ptr(),
                    null(),
                    0,
                    tag.as_mut_ptr(),
                    tag_len,
                );
            }
        }
    })
}

/// Round keys in both directions.
#[derive(Clone)]
struct Schedule {
    encrypt: Keys,
    decrypt: Keys,
}

fn jobs(instance: Rc<Instance>, task: Task, texts: &Texts) -> Work {
    // SAFETY: the manager lives as long as the instance.
    let expand = unsafe { (&(*instance.manager).expand_key)[(task.bits() - 128) / 64] };
    let empty = Schedule {
        encrypt: Keys([0; 240]),
        decrypt: Keys([0; 240]),
    };
    // With a key each, a job's schedule must live until it is done.
    let mut schedules = vec![empty; texts.keys.len() / task.algorithm.key_len()];
    let set = move |schedule: &mut Schedule, key: &[u8]| {
        // SAFETY: the key has the cipher's length, and a schedule fits in 15 blocks.
        unsafe { expand(key.as_ptr(), &mut schedule.encrypt, &mut schedule.decrypt) };
    };
    if !task.own_keys {
        set(&mut schedules[0], &texts.keys);
    }
    Box::new(move |texts| {
        let manager = instance.manager;
        for (number, message) in texts.messages().enumerate() {
            let schedule = &mut schedules[if task.own_keys { number } else { 0 }];
            if task.own_keys {
                set(schedule, message.key);
            }
            // SAFETY: a job from the manager, filled in as for a cipher without a hash, is given
            // back to it; everything that it points to lives until the queue is flushed.
            unsafe {
                let job = &mut *((*manager).get_next_job)(manager);
                fill(job, &task, schedule, message);
                ((*manager).submit_job)(manager);
            }
        }
        // SAFETY: flushing gives back what is still under way, then null.
        unsafe { while !((*manager).flush_job)(manager).is_null() {} }
    })
}

fn fill(job: &mut Job, task: &Task, schedule: &Schedule, message: Message<'_>) {
    /// `IMB_CIPHER_*`, `IMB_DIR_*`, `IMB_AUTH_NULL`, `IMB_ORDER_*`.
    const CBC: u32 = 1;
    const COUNTER: u32 = 2;
    const ECB: u32 = 12;
    const ENCRYPT: u32 = 1;
    const DECRYPT: u32 = 2;
    const NO_HASH: u32 = 8;
    const CIPHER_FIRST: u32 = 1;
    const CIPHER_LAST: u32 = 2;

    let Message { iv, text, .. } = message;
    job.encrypt_keys = &schedule.encrypt;
    job.decrypt_keys = &schedule.decrypt;
    job.key_len = task.bits() as u64 / 8;
    job.src = text.as_ptr();
    job.dst = text.as_mut_ptr();
    job.cipher_offset = 0;
    job.cipher_len = text.len() as u64;
    job.hash_offset = 0;
    job.hash_len = 0;
    job.iv = if iv.is_empty() { null() } else { iv.as_ptr() };
    job.iv_len = iv.len() as u64;
    job.tag = null_mut();
    job.tag_len = 0;
    job.cipher_mode = match task.mode() {
        Mode::Cbc => CBC,
        Mode::Ctr => COUNTER,
        _ => ECB,
    };
    (job.cipher_direction, job.order) = match task.is_encrypting() {
        true => (ENCRYPT, CIPHER_FIRST),
        false => (DECRYPT, CIPHER_LAST),
    };
    job.hash = NO_HASH;
}
