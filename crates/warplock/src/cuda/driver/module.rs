//! The compiled kernels, found by name.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys;

use super::api::{Context, Failure, RawStream, check};
use crate::lock::lock;

/// Machine code for several architectures, and intermediate code for later ones.
static FATBIN: &[u8] = include_bytes!(env!("WARPLOCK_KERNELS"));

/// Bytes of shared memory that a block may use without a special attribute.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// Kernels with the same table layout, and so the same need for shared memory: the module's constant
/// with the bytes of dynamic shared memory per block, if they need any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Family(Option<&'static str>);

impl Family {
    pub(crate) const FLAT: Family = Family(Some("shared_flat"));
    pub(crate) const CTR: Family = Family(Some("shared_ctr"));
    pub(crate) const LONG: Family = Family(Some("shared_long"));
    pub(crate) const CBC: Family = Family(Some("shared_cbc"));
    pub(crate) const GCM: Family = Family(Some("shared_gcm"));
    pub(crate) const GCM_LONG: Family = Family(Some("shared_gcm_long"));
    pub(crate) const GCM_SPLIT: Family = Family(Some("shared_gcm_split"));
    pub(crate) const SMALL: Family = Family(Some("shared_small"));
    pub(crate) const EACH: Family = Family(Some("shared_each"));
    pub(crate) const ACORN: Family = Family(Some("shared_acorn"));
    pub(crate) const PLAIN: Family = Family(None);
}

/// A kernel that can be launched.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    function: sys::CUfunction,
    /// The most threads of a block, which is also the usual number.
    pub(crate) threads: u32,
    /// Bytes of dynamic shared memory.
    shared: u32,
}

// SAFETY: functions may be used from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above; launches do not change them.
unsafe impl Sync for Kernel {}

/// The kernels on one device.
pub(crate) struct Module {
    handle: sys::CUmodule,
    found: Mutex<HashMap<String, Kernel>>,
    context: Arc<Context>,
}

// SAFETY: modules and functions may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above; a lock guards the table.
unsafe impl Sync for Module {}

impl Module {
    /// Loads the kernels. The context is bound.
    pub(crate) fn load(context: &Arc<Context>) -> Result<Self, Failure> {
        // SAFETY: the image is a whole fatbin.
        unsafe { Module::load_image(context, FATBIN) }
    }

    /// Loads kernels. The context is bound.
    ///
    /// # Safety
    /// The image is a whole fatbin (it contains its length).
    pub(crate) unsafe fn load_image(context: &Arc<Context>, image: &[u8]) -> Result<Self, Failure> {
        let mut handle = null_mut();
        // SAFETY: a context is bound; the image by this function's contract.
        let code = unsafe { sys::cuModuleLoadData(&raw mut handle, image.as_ptr().cast()) };
        check(code, || "loading the kernels")?;
        Ok(Module {
            handle,
            found: Mutex::default(),
            context: Arc::clone(context),
        })
    }

    /// Finds a kernel, and prepares it at the first call. The context is bound.
    pub(crate) fn kernel(&self, name: &str, family: Family) -> Result<Kernel, Failure> {
        let mut found = lock(&self.found);
        if let Some(kernel) = found.get(name) {
            return Ok(*kernel);
        }
        let kernel = self.find(name, family)?;
        found.insert(name.to_owned(), kernel);
        Ok(kernel)
    }

    fn find(&self, name: &str, family: Family) -> Result<Kernel, Failure> {
        use sys::CUfunction_attribute_enum as Attribute;
        let shared = family.0.map_or(Ok(0), |name| self.constant(name))?;
        let symbol = c_name(name);
        let (mut function, mut threads) = (null_mut(), 0);
        // SAFETY: a context is bound, the module lives, and pointers are of local variables.
        unsafe {
            let code = sys::cuModuleGetFunction(&raw mut function, self.handle, symbol.as_ptr());
            check(code, || format!("looking for the kernel {name}"))?;
            let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
            let code = sys::cuFuncGetAttribute(&raw mut threads, most, function);
            check(code, || format!("asking for the threads of {name}"))?;
            if shared > SHARED_WITHOUT_ASKING {
                let limit = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                let code = sys::cuFuncSetAttribute(function, limit, shared as i32);
                check(code, || {
                    format!("asking for {shared} bytes of shared memory for {name}")
                })?;
            }
        }
        Ok(Kernel {
            function,
            threads: threads.max(1) as u32,
            shared,
        })
    }

    /// The value of a constant of the module.
    fn constant(&self, name: &str) -> Result<u32, Failure> {
        let symbol = c_name(name);
        let (mut address, mut size) = (0, 0);
        let mut value = 0_u32;
        let doing = || format!("reading the constant {name} of the kernels");
        // SAFETY: a context is bound, the module lives, and the pointers are to local variables;
        // the copy has the size of both sides, or does not happen.
        unsafe {
            let code = sys::cuModuleGetGlobal_v2(
                &raw mut address,
                &raw mut size,
                self.handle,
                symbol.as_ptr(),
            );
            check(code, doing)?;
            let size = size.min(size_of::<u32>());
            check(
                sys::cuMemcpyDtoH_v2((&raw mut value).cast(), address, size),
                doing,
            )?;
        }
        Ok(value)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _bound = self.context.bind();
        // SAFETY: loaded in `load`; the owner of launched kernels keeps the module until they are
        // done.
        let _ = unsafe { sys::cuModuleUnload(self.handle) };
    }
}

fn c_name(name: &str) -> CString {
    CString::new(name).expect("kernels have plain names")
}

/// A parameter of a kernel, as the driver copies it.
pub(crate) type Argument = *mut c_void;

/// The address of a parameter.
pub(crate) fn argument<T: ?Sized>(value: &T) -> Argument {
    std::ptr::from_ref(value).cast_mut().cast()
}

impl Kernel {
    /// Queues a launch of `grid` blocks with `threads` threads each; the driver copies the
    /// parameters before this returns.
    ///
    /// # Safety
    /// The arguments point to what the kernel's definition asks for, in its order and types, and
    /// all device memory that they name is valid until the stream has passed this point.
    pub(crate) unsafe fn launch(
        self,
        name: &str,
        stream: &RawStream,
        grid: u32,
        threads: u32,
        arguments: &mut [Argument],
    ) -> Result<(), Failure> {
        // SAFETY: by this function's contract; the function belongs to the bound context.
        let code = unsafe {
            sys::cuLaunchKernel(
                self.function,
                grid,
                1,
                1,
                threads,
                1,
                1,
                self.shared,
                stream.handle,
                arguments.as_mut_ptr(),
                null_mut(),
            )
        };
        check(code, || format!("launching the kernel {name}"))
    }
}
