//! Messages about a GPU that cannot work.

use std::process::Command;

use cudarc::driver::sys;
use warplock::{Algorithm, Batch, Engine, Error, Ivs, Key, Keys, Text};

use crate::gpu;

#[test]
fn a_gpu_that_is_not_there_is_refused() {
    if gpu().is_none() {
        return;
    }
    let choice = "cuda:99".parse().unwrap();
    let refused = Engine::builder().backend(choice).build().err().unwrap();
    let text = refused.to_string();
    assert!(matches!(refused, Error::NoBackend { .. }), "{text}");
    assert!(
        text.contains("'cuda:99'") && text.contains("cuda:0"),
        "{text}"
    );
}

/// The test runs itself with the variable set.
#[test]
fn the_variable_names_the_backend() {
    if gpu().is_none() {
        return;
    }
    if std::env::var(warplock::BACKEND_VARIABLE).as_deref() == Ok("cuda") {
        assert_eq!(Engine::new().unwrap().backend(), "cuda:0");
        return;
    }
    let test = "failures::the_variable_names_the_backend";
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(warplock::BACKEND_VARIABLE, "cuda")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("1 passed"), "{text}");
}

fn encrypt(engine: &Engine, text: &mut [u8]) -> Result<(), Error> {
    let key = Key::new(Algorithm::Aes128Ctr, &[1; 16]).unwrap();
    let batch = Batch::encrypt(Keys::One(&key), Text::in_place(text));
    engine.run(batch.ivs(Ivs::Each(&[2; 16])))
}

/// Takes GPU memory until there is none; returns it back when dropped.
struct Glutton {
    device: sys::CUdevice,
    taken: Vec<sys::CUdeviceptr>,
}

impl Glutton {
    fn new() -> Self {
        let mut device = 0;
        let mut context = std::ptr::null_mut();
        let mut taken = Vec::new();
        // SAFETY: an engine on this GPU exists, so the driver is loaded and started; pointers are
        // of local variables.
        unsafe {
            let _ = sys::cuDeviceGet(&raw mut device, 0);
            let code = sys::cuDevicePrimaryCtxRetain(&raw mut context, device);
            assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
            let _ = sys::cuCtxSetCurrent(context);
            let mut size = 8_usize << 30;
            while size >= 64 << 10 {
                let mut address = 0;
                match sys::cuMemAlloc_v2(&raw mut address, size) {
                    sys::CUresult::CUDA_SUCCESS => taken.push(address),
                    _ => size /= 2,
                }
            }
        }
        Glutton { device, taken }
    }
}

impl Drop for Glutton {
    fn drop(&mut self) {
        // SAFETY: allocated and retained in `new`, on the same thread.
        unsafe {
            for &address in &self.taken {
                let _ = sys::cuMemFree_v2(address);
            }
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.device);
        }
    }
}

#[test]
#[ignore = "takes all memory of the GPU"]
fn without_memory_the_error_says_so_and_later_jobs_run() {
    let Some(engine) = gpu() else {
        return;
    };
    let mut text = vec![0; 300 << 20];
    // What else takes memory is there before.
    encrypt(&engine, &mut [0; 100]).unwrap();
    let glutton = Glutton::new();
    let failed = encrypt(&engine, &mut text).unwrap_err();
    drop(glutton);
    let words = failed.to_string();
    assert!(matches!(failed, Error::Backend { .. }), "{words}");
    assert!(words.contains("GPU memory"), "{words}");
    assert!(words.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{words}");

    // What the failed run left in the buffer is invalid.
    text.fill(0);
    encrypt(&engine, &mut text).unwrap();
    encrypt(&crate::cpu(), &mut text).unwrap();
    assert!(
        text.iter().all(|&byte| byte == 0),
        "not inverse to the CPU's"
    );
}
