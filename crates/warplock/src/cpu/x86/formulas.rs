//! Formulas that registers of all widths have in common. The file of each register imports its
//! intrinsics under the names that are used here: a function generic over them could not be compiled
//! for their instructions.

/// Runs intrinsics, those of memory on what a reference holds.
macro_rules! op {
    ($e:expr) => {
        // SAFETY: a value of the register type exists, so the machine has the instructions.
        unsafe { $e }
    };
}

/// Methods of [`Lanes`](crate::cpu::body::Lanes) that are the same for each width. `broadcast` puts
/// 128 bits into every lane.
macro_rules! lanes_formulas {
    ($register:ident) => {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: by the trait's contract.
            $register(unsafe { loadu(from.cast()) })
        }
        #[inline(always)]
        unsafe fn splat(block: &[u8; 16]) -> Self {
            // SAFETY: the reference holds 16 bytes; the rest by the trait's contract.
            $register(unsafe { broadcast(_mm_loadu_si128(block.as_ptr().cast())) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: by the trait's contract.
            unsafe { storeu(to.cast(), self.0) }
        }
        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            $register(op!(xor(self.0, other.0)))
        }
        #[inline(always)]
        fn encrypt_round(self, key: Self) -> Self {
            $register(op!(aesenc(self.0, key.0)))
        }
        #[inline(always)]
        fn encrypt_last(self, key: Self) -> Self {
            $register(op!(aesenclast(self.0, key.0)))
        }
        #[inline(always)]
        fn decrypt_round(self, key: Self) -> Self {
            $register(op!(aesdec(self.0, key.0)))
        }
        #[inline(always)]
        fn decrypt_last(self, key: Self) -> Self {
            $register(op!(aesdeclast(self.0, key.0)))
        }
        #[inline(always)]
        fn reverse(self) -> Self {
            op!({
                let order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
                $register(shuffle8(self.0, broadcast(order)))
            })
        }
        #[inline(always)]
        fn add64(self, n: u64) -> Self {
            let n = op!(broadcast(_mm_set_epi64x(0, n as i64)));
            $register(op!(add64(self.0, n)))
        }
        #[inline(always)]
        fn add32(self, n: u32) -> Self {
            let n = op!(broadcast(_mm_set_epi32(0, 0, 0, n as i32)));
            $register(op!(add32(self.0, n)))
        }
        #[inline(always)]
        fn rotated_last_word(self) -> Self {
            let order = op!(broadcast(_mm_set1_epi32(0x0C_0F_0E_0D)));
            $register(op!(shuffle8(self.0, order)))
        }
        #[inline(always)]
        fn last_word(self) -> Self {
            $register(op!(shuffle32::<0xFF>(self.0)))
        }
        #[inline(always)]
        fn sum_words_before(self) -> Self {
            // Within each half by a shift, which runs on other ports than shuffles; then the lower
            // half's XOR is added to the upper half.
            op!({
                let halves = xor(self.0, slli64::<32>(self.0));
                let order = _mm_set_epi8(7, 6, 5, 4, 7, 6, 5, 4, -1, -1, -1, -1, -1, -1, -1, -1);
                $register(xor(halves, shuffle8(halves, broadcast(order))))
            })
        }
        #[inline(always)]
        fn fold(self) -> Self {
            // x^63 + x^62 + x^57, the polynomial's upper terms seen from x^64.
            op!({
                let terms = broadcast(_mm_set_epi64x(0, 0xC2 << 56));
                let swapped = shuffle32::<0b01_00_11_10>(self.0);
                $register(xor(swapped, clmul::<0x00>(self.0, terms)))
            })
        }
        #[inline(always)]
        fn hash_products(self, [low, high]: [Self; 2]) -> [Self; 2] {
            op!({
                let below = xor(clmul::<0x00>(self.0, low.0), clmul::<0x01>(self.0, high.0));
                let above = xor(clmul::<0x10>(self.0, low.0), clmul::<0x11>(self.0, high.0));
                [$register(below), $register(above)]
            })
        }
    };
}

/// Products in XTS's field (IEEE 1619, 5.2), of registers with several lanes. Only shuffles and
/// carry-less products, which leave the port free that the rounds need: shifts of bits would wait
/// for the rounds before them.
macro_rules! xts_products {
    ($register:ident) => {
        impl $register {
            /// Each lane times a number below 2^32, seen as a polynomial.
            #[inline(always)]
            fn xts_times(self, by: [u64; Self::N]) -> Self {
                op!({
                    let by = low64(by);
                    let low = clmul::<0x00>(self.0, by);
                    let high = clmul::<0x01>(self.0, by);
                    let wrapped = clmul::<0x01>(high, broadcast(_mm_set1_epi64x(0x87)));
                    $register(xor3(low, bslli::<8>(high), wrapped))
                })
            }
            /// Each lane times x^(8 `UP`), plus `other`; `DOWN` is 16 - `UP`, and `UP` at most 8.
            #[inline(always)]
            fn xts_bytes<const UP: i32, const DOWN: i32>(self, other: Self) -> Self {
                const { assert!(UP + DOWN == 16 && UP <= 8) };
                op!({
                    let fallen = bsrli::<DOWN>(self.0);
                    let wrapped = clmul::<0x00>(fallen, broadcast(_mm_set1_epi64x(0x87)));
                    $register(xor3(bslli::<UP>(self.0), other.0, wrapped))
                })
            }
        }
    };
}

/// Methods of [`Wide`](crate::cpu::acorn::Wide) that are the same for each width.
macro_rules! acorn_formulas {
    () => {
        #[inline(always)]
        unsafe fn splat(number: u32) -> Self {
            // SAFETY: by the trait's contract; likewise below.
            Self(unsafe { set1(number as i32) })
        }
        #[inline(always)]
        unsafe fn numbers(numbers: &[u32; MOST]) -> Self {
            // SAFETY: as above; there are at least as many numbers as lanes.
            Self(unsafe { loadu(numbers.as_ptr().cast()) })
        }
        #[inline(always)]
        fn fetch(from: *const u8) {
            // Into the L2 cache: the L1 cache has no room for what many messages need.
            // SAFETY: nothing happens where there is no memory; the instruction is SSE's.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            Self(op!(add32(self.0, other.0)))
        }
        #[inline(always)]
        fn at_or_after(self, place: Self) -> Self {
            op!({
                let before = max32(sub32(self.0, place.0), set1(0));
                let bits = slli32::<3>(min32(before, set1(4)));
                Self(sllv32(set1(-1), bits))
            })
        }
        #[inline(always)]
        fn first_bit(self, place: Self) -> Self {
            op!({
                // A place before the word is a huge number without its sign.
                let before = minu32(sub32(self.0, place.0), set1(4));
                Self(sllv32(set1(1), slli32::<3>(before)))
            })
        }
    };
}

pub(super) use {acorn_formulas, lanes_formulas, op, xts_products};
