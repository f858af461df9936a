//! Requests to valgrind (its `valgrind.h` and `memcheck.h`): a sequence of instructions that does
//! nothing on a real CPU.

/// Asks for `request`; 0 if this does not run under valgrind.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn ask(request: usize, first: usize, second: usize) -> usize {
    let arguments = [request, first, second, 0, 0, 0];
    let mut answer = 0usize;
    // SAFETY: the rotations add up to 128 bits, and a register is exchanged with itself. Valgrind
    // reads the arguments and changes its records about memory, not memory.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") answer,
            out("rdi") _,
            options(nostack),
        );
    }
    answer
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn ask(_: usize, _: usize, _: usize) -> usize {
    0
}

/// The prefix of memcheck's requests.
const MEMCHECK: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16;

pub(super) fn is_running() -> bool {
    ask(0x1001, 0, 0) != 0
}

/// How many errors it has found so far.
pub(super) fn errors() -> usize {
    ask(0x1201, 0, 0)
}

/// Marks bytes as a secret: data may depend on them, branches and addresses may not.
pub(super) fn classify(bytes: &[u8]) {
    ask(MEMCHECK + 1, bytes.as_ptr().addr(), bytes.len());
}

/// Marks bytes as public.
pub(super) fn publish(bytes: &[u8]) {
    ask(MEMCHECK + 2, bytes.as_ptr().addr(), bytes.len());
}

/// A value that is public from here on.
pub(super) fn defined(value: u8) -> u8 {
    let mut place = [value];
    // Stored before it is marked, then read back: a register would not be marked.
    let place = std::hint::black_box(&mut place);
    publish(place);
    std::hint::black_box(place)[0]
}
