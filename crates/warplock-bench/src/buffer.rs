//! Buffers on page boundaries, which direct I/O needs and copies prefer.

/// Alignment of direct I/O that every file system and disk accepts.
pub(crate) const PAGE: usize = 4096;

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// Bytes that begin on a page boundary; allocated once and reused.
pub(crate) struct Buffer(Vec<Page>);

impl Buffer {
    /// Zeros; `len` is rounded up to whole pages.
    pub(crate) fn new(len: usize) -> Self {
        Buffer(vec![Page([0; PAGE]); len.div_ceil(PAGE)])
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let len = self.0.len() * PAGE;
        // SAFETY: a page is `PAGE` bytes without padding, and pages in a vector are contiguous.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), len) }
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.0.len() * PAGE;
        // SAFETY: as above; any byte may be written.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }
}
