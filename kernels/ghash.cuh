// GHASH (SP 800-38D, 6.4) of many blocks on the tensor cores.
//
// Multiplying by a fixed power of H is a product with a matrix of bits; the sum over many blocks
// is a product of longer matrices, of whose sums only the parity counts. That is what
// `mma .b1 .and.popc` computes. Without the reduction modulo the field's polynomial, row k of the
// matrix of a power P is P shifted by k: column n takes coefficient n - k. So what a lane must
// hold for column n is a run of 32 consecutive coefficients of P, and for all columns they are
// runs of one string, which fits five registers. No matrix lies in memory: the shared memory that
// AES is bound by carries 5 words for a row of 32 blocks instead of 32. The sums are reduced once
// for many rows.
//
// A operand: the ciphertext that a warp has just made, a block a lane, of two rows of 32 blocks.
// Row g of the matrix takes word 0 of the blocks of lanes 4g..4g+3 (group g), row g + 8 their
// word 1; a second product with the same B takes words 2 and 3. Lane t of a group multiplies by
// H^(32 (R - r) - t) in row r of a batch of R: then the running value of group g, added to lane
// 0's block of the next batch's first row, comes to be multiplied by H^(32 R), as it must. All
// sums are too high by a power of H, which `join_groups` takes away again.
#pragma once
#include "gf128.cuh"

// The strings of a batch of `ROWS` rows, for two rows side by side: words [row / 2][k][lane][2].
template <int ROWS>
constexpr uint32_t STRING_BYTES = ROWS * 5 * 32 * 4 + 16;

// Fills the strings; all threads take part, a barrier must follow.
template <int ROWS>
__device__ inline void fill_strings(uint8_t* at, const GcmPowers* powers) {
    uint32_t* words = reinterpret_cast<uint32_t*>(at);
    for (uint32_t i = threadIdx.x; i < ROWS * 32; i += blockDim.x) {
        const uint32_t row = i / 32, lane = i % 32, group = lane / 4, turn = lane % 4;
        const uint32_t exponent = 32 * (ROWS - row) - turn;
        const uint4 h = powers->powers[exponent >> 8][exponent >> 8 ? 1 : exponent];
        // Column 8 j + g takes coefficients 8 j + g - 31 and on: with the string moved up by
        // 31 - g, those from bit 8 j on.
        const uint32_t up = 31 - group;
        const uint32_t string[5] = {h.x << up, __funnelshift_l(h.x, h.y, up),
                                    __funnelshift_l(h.y, h.z, up), __funnelshift_l(h.z, h.w, up),
                                    __funnelshift_l(h.w, 0, up)};
        // Text is stored with the first coefficient in the highest bit of a byte, so that a run
        // must stand in reverse; reversed bytes make every run a funnel shift of two words.
        for (uint32_t k = 0; k < 5; k++)
            words[((row / 2 * 5 + k) * 32 + lane) * 2 + row % 2] = swap_bytes(string[k]);
    }
    if (threadIdx.x == 0) words[ROWS * 5 * 32] = 0;
}

__device__ __forceinline__ uint4 shuffle_xor(uint4 a, uint32_t mask) {
    return make_uint4(__shfl_xor_sync(~0u, a.x, mask), __shfl_xor_sync(~0u, a.y, mask),
                      __shfl_xor_sync(~0u, a.z, mask), __shfl_xor_sync(~0u, a.w, mask));
}

// The strings' address again, in a way that the compiler cannot see through: it would load all
// strings once for all batches, and spill them.
template <int ROWS>
__device__ __forceinline__ uint32_t strings_anew(uint32_t address, uint32_t lane) {
    uint32_t zero;
    asm volatile("ld.volatile.shared.u32 %0, [%1];"
                 : "=r"(zero)
                 : "r"(address - 8 * lane + ROWS * 5 * 128));
    return address + zero;
}

struct Sums {
    int32_t of[4]; // of row g: columns 2t, 2t + 1; of row g + 8: the same
};

__device__ __forceinline__ void mma(Sums& c, uint4 a, uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c.of[0]), "+r"(c.of[1]), "+r"(c.of[2]), "+r"(c.of[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
#endif
}

__device__ __forceinline__ uint2 string_words(uint32_t address, uint32_t pair, uint32_t k) {
    uint2 words;
    asm("ld.shared.v2.u32 {%0, %1}, [%2];"
        : "=r"(words.x), "=r"(words.y)
        : "r"(address + (pair * 5 + k) * 256));
    return words;
}

// The parities of four tiles' sums in one row, as this lane's bits of a word of the product.
__device__ __forceinline__ uint32_t parities(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    // Sums stay below 2^16: two share a word. Multiply-adds shift on a unit that is idle.
    const uint32_t even = (a + c * 65536u) & 0x00010001, odd = (b + d * 65536u) & 0x00010001;
    return even + odd * 256u;
}

// A word of the product, this lane's part of it: row g's from sums 0 and 1, row g + 8's from 2, 3.
template <int ROW>
__device__ __forceinline__ uint32_t word_of(const Sums (&s)[4], uint32_t shift) {
    constexpr int EVEN = 2 * ROW, ODD = 2 * ROW + 1;
    return (parities(s[0].of[EVEN], s[1].of[EVEN], s[2].of[EVEN], s[3].of[EVEN]) +
            2 * parities(s[0].of[ODD], s[1].of[ODD], s[2].of[ODD], s[3].of[ODD])) *
           shift;
}

// The same words in registers of their own: an operand of `mma` takes four neighbouring ones, a
// store four others, and the compiler would copy them again for each of the 40 products.
// A multiplication by one, on a unit that is idle; that it is one, the compiler must not see.
__device__ __forceinline__ uint4 apart(uint4 a, uint32_t one) {
    return make_uint4(a.x * one, a.y * one, a.z * one, a.w * one);
}

// Two rows' blocks of this lane, as operands of `mma`: their words 0 and 1, their words 2 and 3.
struct Pair {
    uint4 low, high;

    Pair() = default;
    __device__ __forceinline__ Pair(uint4 a, uint4 b)
        : low(make_uint4(a.x, a.y, b.x, b.y)), high(make_uint4(a.z, a.w, b.z, b.w)) {}

    // Adds to the first row's block.
    __device__ __forceinline__ void add_first(uint4 block) {
        low.x ^= block.x, low.y ^= block.y, high.x ^= block.z, high.y ^= block.w;
    }
};

// The product of a batch of rows and the strings, word by word.
template <int PAIRS, int FIRST>
struct Product {
    uint32_t words[8] = {};
    uint2 next[PAIRS]; // the strings' words that the next step begins with

    __device__ __forceinline__ explicit Product(uint32_t address) {
#pragma unroll
        for (uint32_t pair = 0; pair < PAIRS; pair++)
            next[pair] = string_words(address, FIRST + pair, 0);
    }

    // Step `K` of 5. `pairs` are rows 2 `FIRST` and on of a batch.
    template <int K>
    __device__ __forceinline__ void step(uint32_t address, const Pair (&pairs)[PAIRS]) {
        const uint32_t shift = 1u << 2 * (threadIdx.x & 3);
        Sums low[4] = {}, high[4] = {};
#pragma unroll
        for (uint32_t pair = 0; pair < PAIRS; pair++) {
            const Pair& rows = pairs[pair];
            const uint2 here = next[pair];
            const uint2 above =
                K < 4 ? string_words(address, FIRST + pair, K + 1) : make_uint2(0, 0);
            next[pair] = above;
#pragma unroll
            for (uint32_t tile = 0; tile < 4; tile++) {
                const uint32_t b0 = __funnelshift_l(above.x, here.x, 8 * tile);
                const uint32_t b1 = __funnelshift_l(above.y, here.y, 8 * tile);
                mma(low[tile], rows.low, b0, b1);
                mma(high[tile], rows.high, b0, b1);
            }
        }
        words[K] ^= word_of<0>(low, shift);
        words[K + 1] ^= word_of<1>(low, shift);
        words[K + 2] ^= word_of<0>(high, shift);
        words[K + 3] ^= word_of<1>(high, shift);
    }

    // Each lane gets its group's new running value, in stored bit order.
    __device__ __forceinline__ uint4 value() const {
        uint4 sum = reduce(make_uint4(words[0], words[1], words[2], words[3]),
                           make_uint4(words[4], words[5], words[6], words[7]));
        // The group's four lanes hold a part each.
        sum = sum ^ shuffle_xor(sum, 1);
        return reflect(sum ^ shuffle_xor(sum, 2));
    }
};

// All steps at once.
template <int PAIRS, int FIRST>
__device__ __forceinline__ uint4 ghash_rows(uint32_t address, const Pair (&pairs)[PAIRS]) {
    Product<PAIRS, FIRST> product(address);
    product.template step<0>(address, pairs);
    product.template step<1>(address, pairs);
    product.template step<2>(address, pairs);
    product.template step<3>(address, pairs);
    product.template step<4>(address, pairs);
    return product.value();
}

// The sum over all groups at the end of a run of rows with `behind` blocks of the message behind
// it, each weighted by its place: the sum of X_b * H^(n + behind - b) over the run's n blocks; the
// same in all lanes. `beyond` blocks of zeros were hashed behind the run.
__device__ __forceinline__ uint4 join_groups(uint4 running, uint32_t beyond, uint64_t behind,
                                             const GcmPowers* powers) {
    uint4 sum = reflect(running);
    // Group g's first block stands 32 - 4g blocks before the row's end and was given H^32.
    uint4 factor = powers->inverse[(threadIdx.x & 28) + beyond];
    uint32_t digit = 0;
#pragma unroll 1
    for (bool joined = false;;) {
        sum = multiply_here(sum, factor);
        if (!joined) {
            sum = sum ^ shuffle_xor(sum, 4);
            sum = sum ^ shuffle_xor(sum, 8);
            sum = sum ^ shuffle_xor(sum, 16);
            joined = true;
        }
        for (; behind > 0 && (behind & 255) == 0; behind >>= 8) digit++;
        if (behind == 0) return sum;
        factor = powers->powers[digit++][behind & 255];
        behind >>= 8;
    }
}
