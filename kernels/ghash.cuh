// GHASH (SP 800-38D, 6.4) of many blocks on the tensor cores.
//
// Multiplying by a fixed power of H is a product with a matrix of bits; the sum over many blocks
// is a product of longer matrices, of whose sums only the parity counts. That is what `mma .b1
// .and.popc` computes. The code here minimises both the products and the work around them: GCM is
// limited by the board's power, not by a unit.
//
// The matrix. Let t(a) be the coefficient of x^127 in a. If a product z is wanted as the bits
// y_i = t(z x^i), then the matrix of a power P is y_i = sum of x_j t(P x^(i+j)): every entry stands
// in one string of 255 bits, s_k = t(P x^k), at i + j. No matrix lies in memory: 32 neighbouring
// entries of a column are a run of that string. And y is nearly z itself, read backwards: x^m has
// a coefficient of x^127 only for m = 127, 248, 253 and 254, so y_i = z_(127-i) up to i = 120, and
// seven more bits take a sum or three (`dual`, which is its own inverse).
//
// Three products instead of four. With halves of 64 bits, y = (A x0 + B x1, B x0 + C x1), whose
// parts A, B, C are such matrices again; it is ((A+B) x0 + B (x0+x1), B (x0+x1) + (B+C) x1). So a
// power is three strings of 127 bits.
//
// Operands: the ciphertext that warps have just made, a block a lane, of four rows of 32 blocks (a
// quad). Row g of the matrix takes the blocks of lanes 4g..4g+3 (group g) of the first and the
// third row, row g + 8 those of the second and the fourth. Lane t of a group multiplies by
// H^(64 (P - p) - t) in pair p of a batch of P pairs of rows: then a running value, added to lane
// 0's block of the next batch's first pair, comes to be multiplied by H^(64 P), as it must. All
// sums are too high by a power of H, which `join_groups` takes away again.
#pragma once
#include "gf128.cuh"

// The strings of a batch of `QUADS` quads: words [quad][product][half of the string][lane][4], of
// the first pair's string and of the second's in turn.
template <int QUADS>
constexpr uint32_t STRING_BYTES = QUADS * 3 * 1024 + 16;

// From z to the bits t(z x^i), and back.
__device__ __forceinline__ uint4 dual(uint4 z) {
    const uint32_t first = __brev(z.w);
    return make_uint4(first, __brev(z.z), __brev(z.y),
                      __brev(z.x) ^ first << 25 ^ first << 30 ^ first << 31);
}

// The same from the bits t(z x^i) to GCM's stored bytes, where the bits of each byte stand in
// reverse: what is left is to swap bytes.
__device__ __forceinline__ uint4 stored_of_dual(uint4 y) {
    const uint32_t last = y.w ^ y.x << 25 ^ y.x << 30 ^ y.x << 31;
    return make_uint4(swap_bytes(last), swap_bytes(y.z), swap_bytes(y.y), swap_bytes(y.x));
}

// Fills the strings; all threads take part, a barrier must follow.
template <int QUADS>
__device__ inline void fill_strings(uint8_t* at, const GcmPowers* powers) {
    uint32_t* words = reinterpret_cast<uint32_t*>(at);
    for (uint32_t i = threadIdx.x; i < 2 * QUADS * 32; i += blockDim.x) {
        const uint32_t pair = i / 32, lane = i % 32, group = lane / 4, turn = lane % 4;
        const uint32_t exponent = 64 * (2 * QUADS - pair) - turn;
        const uint4 h = powers->powers[exponent >> 8][exponent >> 8 ? 1 : exponent];
        const uint4 low = dual(h), high = dual(reduce(make_uint4(0, 0, 0, 0), h));
        const uint32_t s[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        for (uint32_t product = 0; product < 3; product++) {
            uint32_t string[5] = {};
            for (uint32_t k = 0; k < 4; k++)
                string[k] = s[k + 2] ^ (product == 1 ? s[k] : product == 2 ? s[k + 4 & 7] : 0);
            // Column 8 j + g takes the run from bit 8 j + g on: with the string moved down by g,
            // that from byte j on. Text has the first coefficient in the highest bit of a byte.
            for (uint32_t k = 0; k < 4; k++)
                words[(((pair / 2 * 3 + product) * 2 + k / 2) * 32 + lane) * 4 + k % 2 * 2 +
                      pair % 2] = reflect(__funnelshift_r(string[k], string[k + 1], group));
        }
    }
    if (threadIdx.x == 0) words[QUADS * 3 * 256] = 0;
}

__device__ __forceinline__ uint4 shuffle_xor(uint4 a, uint32_t mask) {
    return make_uint4(__shfl_xor_sync(~0u, a.x, mask), __shfl_xor_sync(~0u, a.y, mask),
                      __shfl_xor_sync(~0u, a.z, mask), __shfl_xor_sync(~0u, a.w, mask));
}

// The strings' address, made opaque to the compiler, which would otherwise load all strings once
// for all batches, and spill them.
template <int QUADS>
__device__ __forceinline__ uint32_t strings_anew(uint32_t address, uint32_t lane) {
    uint32_t zero;
    asm volatile("ld.volatile.shared.u32 %0, [%1];"
                 : "=r"(zero)
                 : "r"(address - 16 * lane + QUADS * 3 * 1024));
    return address + zero;
}

struct Sums {
    int32_t of[4]; // of row g: columns 2t, 2t + 1; of row g + 8: the same
};

// Whether tensor cores multiply bits. Kernels that need it are not selected elsewhere.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool HASHES = false;
#else
constexpr bool HASHES = true;
#endif

__device__ __forceinline__ void mma(Sums& c, uint4 a, uint2 b) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c.of[0]), "+r"(c.of[1]), "+r"(c.of[2]), "+r"(c.of[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
#endif
}

__device__ __forceinline__ uint4 string_words(uint32_t address) {
    uint4 words;
    asm("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
        : "r"(address));
    return words;
}

// The lowest bytes of 64 columns' sums, in which their parities are, for both rows.
struct LowBytes {
    uint32_t of[2][2][2]; // [row][word of the result][column 2t or 2t + 1]: a byte for each tile

    __device__ __forceinline__ explicit LowBytes(const Sums (&c)[8]) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int row = i >> 2, word = i >> 1 & 1, column = i & 1, at = 2 * row + column;
            const Sums* tiles = c + 4 * word;
            // Two multiply-adds, on a unit that is idle, and a permutation.
            of[row][word][column] = __byte_perm(tiles[0].of[at] + tiles[2].of[at] * 65536u,
                                                tiles[1].of[at] + tiles[3].of[at] * 65536u, 0x6240);
        }
    }

    __device__ __forceinline__ void add(const LowBytes& other) {
#pragma unroll
        for (int i = 0; i < 8; i++) of[i >> 2][i >> 1 & 1][i & 1] ^= other.of[i >> 2][i >> 1 & 1][i & 1];
    }

    // This lane's columns of a row's result: two bits of each byte of its four words, those of
    // word w from bit 2w on. `high` has the last two words.
    template <int ROW>
    __device__ __forceinline__ uint32_t columns(const LowBytes& high) const {
        // Multiplications shift, on that unit, too. Bits that are not chosen are of no use.
        const auto word = [](const uint32_t (&c)[2]) { return choose<0x01010101>(c[0], c[1] * 2u); };
        const uint32_t first = choose<0x03030303>(word(of[ROW][0]), word(of[ROW][1]) * 4u);
        const uint32_t second =
            choose<0x03030303>(word(high.of[ROW][0]), word(high.of[ROW][1]) * 4u);
        return choose<0x0f0f0f0f>(first, second * 16u);
    }
};

// The four words of a row's result, in lane 0 of each group, from the parts in each of its lanes.
__device__ __forceinline__ uint4 gather(uint32_t columns) {
    // A four by four matrix of pairs of bits, in each byte: transposed.
    const uint32_t a = columns, b = __shfl_down_sync(~0u, columns, 1),
                   c = __shfl_down_sync(~0u, columns, 2), d = __shfl_down_sync(~0u, columns, 3);
    const uint32_t even_ab = choose<0x33333333>(a, b * 4u), odd_ab = choose<0x33333333>(a >> 2, b);
    const uint32_t even_cd = choose<0x33333333>(c, d * 4u), odd_cd = choose<0x33333333>(c >> 2, d);
    return make_uint4(choose<0x0f0f0f0f>(even_ab, even_cd * 16u),
                      choose<0x0f0f0f0f>(odd_ab, odd_cd * 16u),
                      choose<0x0f0f0f0f>(even_ab >> 4, even_cd),
                      choose<0x0f0f0f0f>(odd_ab >> 4, odd_cd));
}

// The same words in registers of their own: an operand of `mma` takes four neighbouring registers
// and a store takes four others, and otherwise the compiler would copy the words again for each
// product. Copied by a multiplication by one, on an idle unit; the compiler must not see that it is
// one.
__device__ __forceinline__ uint4 apart(uint4 a, uint32_t one) {
    return make_uint4(a.x * one, a.y * one, a.z * one, a.w * one);
}

// The running values of a group's two rows, in stored bit order, in its lane 0.
struct Running {
    uint4 first, second;
};

// Four rows' blocks of this lane, as operands of `mma`: word by word.
struct Quad {
    uint4 words[4];

    Quad() = default;
    __device__ __forceinline__ explicit Quad(const uint4 (&rows)[4])
        : words{make_uint4(rows[0].x, rows[1].x, rows[2].x, rows[3].x),
                make_uint4(rows[0].y, rows[1].y, rows[2].y, rows[3].y),
                make_uint4(rows[0].z, rows[1].z, rows[2].z, rows[3].z),
                make_uint4(rows[0].w, rows[1].w, rows[2].w, rows[3].w)} {}

    // Adds the running values, in lane 0 of each group.
    __device__ __forceinline__ void add(const Running& running) {
        const uint32_t first_lane = (threadIdx.x & 3) == 0 ? ~0u : 0;
        const uint4 first = running.first & first_lane, second = running.second & first_lane;
        words[0].x ^= first.x, words[1].x ^= first.y, words[2].x ^= first.z, words[3].x ^= first.w;
        words[0].y ^= second.x, words[1].y ^= second.y, words[2].y ^= second.z,
            words[3].y ^= second.w;
    }
};

// Strings in shared memory, from `address` on for this lane.
struct StringsAt {
    uint32_t address;
    __device__ __forceinline__ uint4 words(uint32_t half) const {
        return string_words(address + 512 * half);
    }
};

// The same in registers.
template <int QUADS>
struct StringsHeld {
    uint4 held[QUADS * 6];
    __device__ __forceinline__ explicit StringsHeld(uint32_t address) {
#pragma unroll
        for (uint32_t i = 0; i < QUADS * 6; i++) held[i] = load_shared(address + 512 * i);
    }
    __device__ __forceinline__ uint4 words(uint32_t half) const { return held[half]; }
};

// Adds the product of a quad's two words and the string with this number.
template <class Strings>
__device__ __forceinline__ void multiply_add(Sums (&c)[8], const Strings& strings, uint32_t number,
                                             uint4 first, uint4 second) {
    const uint4 low = strings.words(2 * number), high = strings.words(2 * number + 1);
    const uint2 words[4] = {make_uint2(low.x, low.y), make_uint2(low.z, low.w),
                            make_uint2(high.x, high.y), make_uint2(high.z, high.w)};
#pragma unroll
    for (uint32_t at = 0; at < 12; at++) {
        uint2 run = words[at / 4]; // from byte `at` on
        if (at % 4) {
            run.x = __funnelshift_r(run.x, words[at / 4 + 1].x, 8 * (at % 4));
            run.y = __funnelshift_r(run.y, words[at / 4 + 1].y, 8 * (at % 4));
        }
        if (at < 8) mma(c[at], first, run);
        if (at >= 4) mma(c[at - 4], second, run);
    }
}

// The new running values after a batch of quads, to which the old ones have been added.
template <int QUADS, class Strings>
__device__ __forceinline__ Running ghash_rows(const Strings& strings, const Quad (&quads)[QUADS]) {
    Sums sums[8] = {};
#pragma unroll
    for (uint32_t i = 0; i < QUADS; i++) {
        const uint4(&words)[4] = quads[i].words;
        multiply_add(sums, strings, 3 * i, words[0] ^ words[2], words[1] ^ words[3]);
    }
    const LowBytes both(sums);
#pragma unroll
    for (uint32_t i = 0; i < QUADS; i++)
        multiply_add(sums, strings, 3 * i + 1, quads[i].words[0], quads[i].words[1]);
    const LowBytes low(sums);
#pragma unroll
    for (int i = 0; i < 8; i++) sums[i] = {};
#pragma unroll
    for (uint32_t i = 0; i < QUADS; i++)
        multiply_add(sums, strings, 3 * i + 2, quads[i].words[2], quads[i].words[3]);
    LowBytes high(sums);
    high.add(both);
    return {stored_of_dual(gather(low.columns<0>(high))),
            stored_of_dual(gather(low.columns<1>(high)))};
}

// The sum over all groups at the end of a run of rows with `after` blocks of the message after it,
// each weighted by its place: the sum of X_b * H^(n + after - b) over the run's n blocks; in lane
// 0. `beyond` blocks of zeros were hashed after the run.
__device__ __forceinline__ uint4 join_groups(const Running& running, uint32_t beyond,
                                             uint64_t after, const GcmPowers* powers) {
    // Lane 0 of a group takes its first row's value, lane 1 its second row's. Group g's first
    // block stands 64 - 4g blocks before the end of a pair and was given H^64; in the second row,
    // 32 less.
    const uint32_t turn = threadIdx.x & 3;
    const uint4 second = shuffle(running.second, threadIdx.x & 28);
    uint4 sum = reflect(turn == 0 ? running.first : second) & (turn < 2 ? ~0u : 0);
    uint4 factor = powers->inverse[(threadIdx.x & 28) + 32 * (turn & 1) + beyond];
    uint32_t digit = 0;
#pragma unroll 1
    for (bool joined = false;;) {
        sum = multiply_here(sum, factor);
        if (!joined) {
            sum = sum ^ shuffle_xor(sum, 1);
            sum = sum ^ shuffle_xor(sum, 4);
            sum = sum ^ shuffle_xor(sum, 8);
            sum = sum ^ shuffle_xor(sum, 16);
            joined = true;
        }
        for (; after > 0 && (after & 255) == 0; after >>= 8) digit++;
        if (after == 0) return sum;
        factor = powers->powers[digit++][after & 255];
        after >>= 8;
    }
}
