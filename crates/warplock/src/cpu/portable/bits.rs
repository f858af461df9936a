//! Operations on bit planes that both cores share, in addition to the S-box: transposition, and
//! AES's doubling.

/// Three steps of a transposition: how far bits move in each, and which.
pub(super) struct Squares {
    shifts: [u32; 3],
    masks: [u64; 3],
}

/// The steps that move bits within a byte.
pub(super) const IN_BYTES: Squares = Squares {
    shifts: [4, 2, 1],
    masks: [
        0x0f0f_0f0f_0f0f_0f0f,
        0x3333_3333_3333_3333,
        0x5555_5555_5555_5555,
    ],
};

/// The steps that move bytes within a word.
pub(super) const OF_BYTES: Squares = Squares {
    shifts: [32, 16, 8],
    masks: [
        0x0000_0000_ffff_ffff,
        0x0000_ffff_0000_ffff,
        0x00ff_00ff_00ff_00ff,
    ],
};

/// Swaps squares across the diagonal of 8 rows: in each step the masked bits of a row trade places
/// with those shifted out of the row 4, 2 or 1 before it.
#[inline(always)]
pub(super) fn swap_squares(mut rows: [u64; 8], squares: &Squares) -> [u64; 8] {
    // Pairs are spelt out because the compiler does not vectorise loops over computed ones.
    const PAIRS: [[(usize, usize); 4]; 3] = [
        [(0, 4), (1, 5), (2, 6), (3, 7)],
        [(0, 2), (1, 3), (4, 6), (5, 7)],
        [(0, 1), (2, 3), (4, 5), (6, 7)],
    ];
    for step in 0..3 {
        let (shift, mask) = (squares.shifts[step], squares.masks[step]);
        for (i, j) in PAIRS[step] {
            let swap = ((rows[i] >> shift) ^ rows[j]) & mask;
            rows[j] ^= swap;
            rows[i] ^= swap << shift;
        }
    }
    rows
}

/// Multiplies bytes, given as planes, by x modulo x^8 + x^4 + x^3 + x + 1.
#[inline(always)]
pub(super) fn double(a: [u64; 8]) -> [u64; 8] {
    [
        a[7],
        a[0] ^ a[7],
        a[1],
        a[2] ^ a[7],
        a[3] ^ a[7],
        a[4],
        a[5],
        a[6],
    ]
}

/// Data that vector code works on in memory, aligned to a cache line: otherwise it could begin
/// anywhere on the stack, and half of all wide loads and stores would touch two lines.
#[repr(align(64))]
pub(super) struct InLines<T>(pub(super) T);

/// A function whose loop over lanes the compiler is to vectorise, never inlined. On x86-64 it is
/// compiled twice, the second time for machines with AVX2: the same operations on wider vectors,
/// and no copies for what the next one would overwrite (CTR 1.6 to 1.8 times as fast). GHASH's
/// multiplications gain nothing so; they have a loop of their own for AVX2. Generic parameters
/// stand in brackets, then how they are passed on.
macro_rules! vectorised {
    (
        fn $name:ident[$($generics:tt)*][$($passed:tt)*]($($arg:ident: $kind:ty),* $(,)?)
        $(-> $result:ty)? $body:block
    ) => {
        #[inline(always)]
        fn $name<$($generics)*>($($arg: $kind),*) $(-> $result)? {
            #[inline(always)]
            fn body<$($generics)*>($($arg: $kind),*) $(-> $result)? $body

            #[inline(never)]
            fn baseline<$($generics)*>($($arg: $kind),*) $(-> $result)? {
                body::<$($passed)*>($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            {
                #[inline(never)]
                #[target_feature(enable = "avx2")]
                fn wider<$($generics)*>($($arg: $kind),*) $(-> $result)? {
                    // Makes the compiler align the whole frame. Otherwise it does not align its own
                    // temporaries, and where these lie across two pages, everything takes half as
                    // long again.
                    std::hint::black_box(&mut $crate::cpu::portable::bits::InLines(0_u8));
                    body::<$($passed)*>($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: this machine has the instructions.
                    return unsafe { wider::<$($passed)*>($($arg),*) };
                }
            }
            baseline::<$($passed)*>($($arg),*)
        }
    };
}

pub(super) use vectorised;
