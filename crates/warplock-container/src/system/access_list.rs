//! Access lists of files on Windows.

use std::fs::File;
use std::io;
use std::iter;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::FromRawHandle;
use std::path::Path;
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::{
    ERROR_SUCCESS, GENERIC_READ, GENERIC_WRITE, INVALID_HANDLE_VALUE, LocalFree,
};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, GetNamedSecurityInfoW, SDDL_REVISION_1,
    SE_FILE_OBJECT, SetNamedSecurityInfoW,
};
use windows_sys::Win32::Security::{
    ACL, ACL_REVISION, DACL_SECURITY_INFORMATION, GetSecurityDescriptorControl,
    PROTECTED_DACL_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, SE_DACL_PROTECTED,
    SECURITY_ATTRIBUTES, UNPROTECTED_DACL_SECURITY_INFORMATION,
};
use windows_sys::Win32::Storage::FileSystem::{
    CREATE_NEW, CreateFileW, FILE_ATTRIBUTE_NORMAL, FILE_SHARE_DELETE, FILE_SHARE_READ,
    FILE_SHARE_WRITE,
};

/// All access for the owner alone, and nothing from the folder.
const OWNER_ALONE: &str = "D:P(A;;FA;;;OW)";

/// A descriptor that the system allocated.
struct Descriptor(PSECURITY_DESCRIPTOR);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the system says that it is to be freed so, and nothing else does.
        unsafe { LocalFree(self.0) };
    }
}

/// A new file that its owner alone can open, from the moment that it exists.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let (path, list) = (wide(path)?, wide(Path::new(OWNER_ALONE))?);
    let mut descriptor = null_mut();
    // SAFETY: the text ends with a zero, and the result has a place.
    let made = unsafe {
        ConvertStringSecurityDescriptorToSecurityDescriptorW(
            list.as_ptr(),
            SDDL_REVISION_1,
            &mut descriptor,
            null_mut(),
        )
    };
    if made == 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = Descriptor(descriptor);
    let attributes = SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: descriptor.0,
        bInheritHandle: 0,
    };
    // SAFETY: the name ends with a zero, and the descriptor lives until the end of the function.
    let handle = unsafe {
        CreateFileW(
            path.as_ptr(),
            GENERIC_READ | GENERIC_WRITE,
            FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
            &attributes,
            CREATE_NEW,
            FILE_ATTRIBUTE_NORMAL,
            null_mut(),
        )
    };
    if handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just opened, and nothing else has it.
    Ok(unsafe { File::from_raw_handle(handle) })
}

/// Gives the file `to` the list of the file `from`.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let from = wide(from)?;
    let (mut list, mut descriptor) = (null_mut(), null_mut());
    // SAFETY: the name ends with a zero, and the results have places.
    let found = unsafe {
        GetNamedSecurityInfoW(
            from.as_ptr(),
            SE_FILE_OBJECT,
            DACL_SECURITY_INFORMATION,
            null_mut(),
            null_mut(),
            &mut list,
            null_mut(),
            &mut descriptor,
        )
    };
    checked(found)?;
    let descriptor = Descriptor(descriptor);
    let (mut control, mut revision) = (0, 0);
    // SAFETY: the descriptor is the system's own, and the results have places.
    let known =
        unsafe { GetSecurityDescriptorControl(descriptor.0, &mut control, &mut revision) } != 0;
    let inherits = match known && control & SE_DACL_PROTECTED == 0 {
        true => UNPROTECTED_DACL_SECURITY_INFORMATION,
        false => PROTECTED_DACL_SECURITY_INFORMATION,
    };
    // SAFETY: the list is a part of the descriptor, which lives until the end of the function.
    unsafe { set(to, list, inherits) }
}

/// Gives a file the list that its folder hands down.
pub(crate) fn inherit(path: &Path) -> io::Result<()> {
    let empty = ACL {
        AclRevision: ACL_REVISION as u8,
        Sbz1: 0,
        AclSize: size_of::<ACL>() as u16,
        AceCount: 0,
        Sbz2: 0,
    };
    // SAFETY: it is a list without entries.
    unsafe { set(path, &empty, UNPROTECTED_DACL_SECURITY_INFORMATION) }
}

/// # Safety
/// `list` is a valid list, or null.
unsafe fn set(path: &Path, list: *const ACL, inherits: u32) -> io::Result<()> {
    // No list at all would mean that everyone has access.
    if list.is_null() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let path = wide(path)?;
    // SAFETY: the name ends with a zero, and the caller answers for the list.
    checked(unsafe {
        SetNamedSecurityInfoW(
            path.as_ptr(),
            SE_FILE_OBJECT,
            DACL_SECURITY_INFORMATION | inherits,
            null_mut(),
            null_mut(),
            list,
            null(),
        )
    })
}

fn checked(code: u32) -> io::Result<()> {
    match code {
        ERROR_SUCCESS => Ok(()),
        code => Err(io::Error::from_raw_os_error(code as i32)),
    }
}

/// A name in the system's form.
fn wide(path: &Path) -> io::Result<Vec<u16>> {
    let mut name: Vec<u16> = path.as_os_str().encode_wide().collect();
    if name.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    name.extend(iter::once(0));
    Ok(name)
}
