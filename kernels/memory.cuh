// Blocks to and from memory, at any alignment and of any length.
#pragma once
#include "abi.cuh"

__device__ __forceinline__ uint32_t swap_bytes(uint32_t a) { return __byte_perm(a, 0, 0x0123); }

__device__ __forceinline__ bool aligned(const void* at, uint32_t to) {
    return (reinterpret_cast<uintptr_t>(at) & (to - 1)) == 0;
}

// Texts lie in global memory, never in shared memory: stated here because pointers do not say it.
__device__ __forceinline__ uint4 load_aligned(const uint8_t* at) {
    uint4 block;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(block.x), "=r"(block.y), "=r"(block.z), "=r"(block.w)
                 : "l"(at)
                 : "memory");
    return block;
}

__device__ __forceinline__ void store_aligned(uint8_t* at, uint4 block) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(block.x), "r"(block.y),
                 "r"(block.z), "r"(block.w)
                 : "memory");
}

__device__ __forceinline__ uint32_t load_byte(const uint8_t* at) {
    uint32_t byte;
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(byte) : "l"(at) : "memory");
    return byte;
}

// Any alignment, any length up to 16. Loops, not calls: a call would take registers from the code
// that rarely gets here.
__device__ __forceinline__ uint4 load_slowly(const uint8_t* at, uint32_t len) {
    uint4 block = make_uint4(0, 0, 0, 0);
#pragma unroll 1
    for (uint32_t i = 0; i < len; i++) {
        const uint32_t byte = uint32_t(at[i]) << 8 * (i & 3);
        block.x |= i < 4 ? byte : 0;
        block.y |= i >> 2 == 1 ? byte : 0;
        block.z |= i >> 2 == 2 ? byte : 0;
        block.w |= i >> 2 == 3 ? byte : 0;
    }
    return block;
}

// How the L2 cache is told of text that is not needed again: evict it first.
__device__ __forceinline__ uint64_t used_once() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ uint4 load_aligned(const uint8_t* at, uint64_t policy) {
    uint4 block;
    asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(block.x), "=r"(block.y), "=r"(block.z), "=r"(block.w)
                 : "l"(at), "l"(policy)
                 : "memory");
    return block;
}

// The 16 bytes from byte `shift` (0 to 15) of two neighbouring lines on.
__device__ __forceinline__ uint4 across(uint4 a, uint4 b, uint32_t shift) {
    if (shift & 8) a = make_uint4(a.z, a.w, b.x, b.y), b.x = b.z, b.y = b.w;
    if (shift & 4) a = make_uint4(a.y, a.z, a.w, b.x), b.x = b.y;
    const uint32_t bits = 8 * (shift & 3);
    return make_uint4(__funnelshift_r(a.x, a.y, bits), __funnelshift_r(a.y, a.z, bits),
                      __funnelshift_r(a.z, a.w, bits), __funnelshift_r(a.w, b.x, bits));
}

// How far into its line of 16 bytes something lies. An address, so never secret.
__device__ __forceinline__ uint32_t shift_of(const void* at) {
    return uint32_t(reinterpret_cast<uintptr_t>(at)) & 15;
}

// A whole block, wherever it lies. Both lines have bytes of it, so both may be read; the second load
// hits the first cache, as the neighbouring lane asks for the same line.
__device__ __forceinline__ uint4 load_across(const uint8_t* at) {
    const uint32_t shift = shift_of(at);
    const uint8_t* line = at - shift;
    return across(load_aligned(line), load_aligned(line + (shift ? 16 : 0)), shift);
}

// The first `len` bytes of a block, 1 to 16, and whatever follows them in their lines.
__device__ __forceinline__ uint4 load_lines(const uint8_t* at, uint32_t len) {
    const uint32_t shift = shift_of(at);
    const uint8_t* line = at - shift;
    return across(load_aligned(line), load_aligned(line + (shift + len > 16 ? 16 : 0)), shift);
}

// A block, or its first `len` bytes and zeros.
__device__ __forceinline__ uint4 load(const uint8_t* at, uint32_t len = 16) {
    if (len < 16) return load_slowly(at, len);
    return aligned(at, 16) ? load_aligned(at) : load_across(at);
}

__device__ __forceinline__ void store_slowly(uint8_t* at, uint4 block, uint32_t len) {
#pragma unroll 1
    for (uint32_t i = 0; i < len; i++) {
        const uint32_t word = i < 4 ? block.x : i < 8 ? block.y : i < 12 ? block.z : block.w;
        at[i] = uint8_t(word >> 8 * (i & 3));
    }
}

// The first `len` bytes, fewer than 16, at the start of a line.
__device__ __forceinline__ void store_start(uint8_t* at, uint4 block, uint32_t len) {
    if (len & 8) {
        *reinterpret_cast<uint2*>(at) = make_uint2(block.x, block.y);
        block.x = block.z, block.y = block.w, at += 8;
    }
    if (len & 4) {
        *reinterpret_cast<uint32_t*>(at) = block.x;
        block.x = block.y, at += 4;
    }
    if (len & 2) {
        *reinterpret_cast<uint16_t*>(at) = uint16_t(block.x);
        block.x >>= 16, at += 2;
    }
    if (len & 1) *at = uint8_t(block.x);
}

// The first bytes of a block, as many as there are to the end of the line.
__device__ __forceinline__ void store_end(uint8_t* at, uint4 block) {
    const uint4 zeros = make_uint4(0, 0, 0, 0);
    const uint32_t len = 16 - shift_of(at);
    if (len & 1) {
        *at = uint8_t(block.x);
        block = across(block, zeros, 1), at += 1;
    }
    if (len & 2) {
        *reinterpret_cast<uint16_t*>(at) = uint16_t(block.x);
        block = across(block, zeros, 2), at += 2;
    }
    if (len & 4) {
        *reinterpret_cast<uint32_t*>(at) = block.x;
        block = across(block, zeros, 4), at += 4;
    }
    if (len & 8) *reinterpret_cast<uint2*>(at) = make_uint2(block.x, block.y);
}

// The part of a block that lies in the line after the one in which it begins: `shift` bytes.
__device__ __forceinline__ uint4 carried(uint4 block, uint32_t shift) {
    return across(block, make_uint4(0, 0, 0, 0), 16 - shift);
}

// The bytes of a line from `from` to before `to`, 16 at most, if there are any.
__device__ __forceinline__ void store_part(uint8_t* line, uint4 block, uint32_t from, uint32_t to) {
    if (from >= to) return;
    if (from == 0 && to == 16) {
        store_aligned(line, block);
    } else if (from == 0) {
        store_start(line, block, to);
    } else {
        const uint4 rest = across(block, make_uint4(0, 0, 0, 0), from);
        if (to == 16) store_end(line + from, rest);
        else store_slowly(line + from, rest, to - from);
    }
}

// A block, or its first `len` bytes, by this lane alone.
__device__ __forceinline__ void store(uint8_t* at, uint4 block, uint32_t len = 16) {
    const uint32_t shift = shift_of(at);
    if (len < 16) {
        store_slowly(at, block, len);
    } else if (shift == 0) {
        store_aligned(at, block);
    } else {
        store_end(at, block);
        store_start(at + 16 - shift, carried(block, shift), shift);
    }
}

// The same two in words or bytes: slower for odd places, but with fewer registers.
__device__ __forceinline__ uint4 load_in_words(const uint8_t* at, uint32_t len = 16) {
    if (len >= 16 && aligned(at, 16)) return load_aligned(at);
    if (len >= 16 && aligned(at, 4)) {
        const uint32_t* words = reinterpret_cast<const uint32_t*>(at);
        return make_uint4(words[0], words[1], words[2], words[3]);
    }
    return load_slowly(at, len < 16 ? len : 16);
}

__device__ __forceinline__ void store_in_words(uint8_t* at, uint4 block, uint32_t len = 16) {
    if (len >= 16 && aligned(at, 16)) {
        store_aligned(at, block);
    } else if (len >= 16 && aligned(at, 4)) {
        uint32_t* words = reinterpret_cast<uint32_t*>(at);
        words[0] = block.x, words[1] = block.y, words[2] = block.z, words[3] = block.w;
    } else {
        store_slowly(at, block, len < 16 ? len : 16);
    }
}

// What is left of `len` from `offset` on, at most a block.
__device__ __forceinline__ uint32_t block_len(uint64_t len, uint64_t offset) {
    return len - offset < 16 ? uint32_t(len - offset) : 16;
}

// Blocks in shared memory, by their 32-bit address.
__device__ __forceinline__ uint4 load_shared(uint32_t at) {
    uint4 a;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w)
                 : "r"(at)
                 : "memory");
    return a;
}

__device__ __forceinline__ void store_shared(uint32_t at, uint4 a) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a.x), "r"(a.y),
                 "r"(a.z), "r"(a.w)
                 : "memory");
}

// Asks for the line in which a block begins, without waiting.
__device__ __forceinline__ void prefetch(const uint8_t* at) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(at));
}

// Asynchronous copies of blocks to shared memory, from compute capability 8.0 on.
__device__ __forceinline__ void fetch(uint32_t to, const uint8_t* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#endif
}

// The first `len` bytes, and zeros.
__device__ __forceinline__ void fetch(uint32_t to, const uint8_t* from, uint32_t len) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(len)
                 : "memory");
#endif
}

__device__ __forceinline__ void end_group() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `LEFT` groups of fetches are under way.
template <int LEFT>
__device__ __forceinline__ void await_fetches() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

// The block of another lane.
__device__ __forceinline__ uint4 shuffle(uint4 a, uint32_t lane) {
    return make_uint4(__shfl_sync(~0u, a.x, lane), __shfl_sync(~0u, a.y, lane),
                      __shfl_sync(~0u, a.z, lane), __shfl_sync(~0u, a.w, lane));
}

// Word `index` modulo 4 of a block.
__device__ __forceinline__ uint32_t pick(const uint4& block, uint32_t index) {
    const uint32_t even = index & 2 ? block.z : block.x, odd = index & 2 ? block.w : block.y;
    return index & 1 ? odd : even;
}

// A block with zeros after its first `len` bytes.
__device__ __forceinline__ uint4 first_bytes(uint4 block, uint32_t len) {
    const uint32_t bits = 8 * len;
    const auto kept = [bits](uint32_t word, uint32_t at) {
        return bits >= at + 32 ? word : bits <= at ? 0 : word & (1u << (bits - at)) - 1;
    };
    return make_uint4(kept(block.x, 0), kept(block.y, 32), kept(block.z, 64), kept(block.w, 96));
}

// Stores a block for each lane, or its first `len` bytes, or nothing if that is 0. `joins`: the
// lane below stores a whole block right in front of this one. All lanes of the warp take part: of a
// line that two blocks share, the upper lane writes all, as bytes by themselves would take a
// transaction each.
__device__ __forceinline__ void store_row(uint8_t* at, uint4 block, uint32_t len, bool joins,
                                          uint32_t lane = threadIdx.x & 31) {
    const uint32_t shift = shift_of(at);
    if (__all_sync(~0u, shift == 0)) {
        if (len >= 16) store_aligned(at, block);
        else store_slowly(at, block, len);
        return;
    }
    const uint32_t joining = __ballot_sync(~0u, joins && len > 0);
    const uint4 below = shuffle(block, lane - 1 & 31);
    if (len == 0) return;
    uint8_t* line = at - shift;
    const uint32_t end = shift + len;
    const bool whole = shift == 0 || joining >> lane & 1;
    const uint4 made = shift == 0 ? block : across(below, block, 16 - shift);
    if (whole && end >= 16) store_aligned(line, made);
    else if (whole) store_start(line, made, end);
    else if (end >= 16) store_end(at, block);
    else store_slowly(at, block, len);
    const bool above = lane < 31 && joining >> (lane + 1) & 1;
    if (end > 16 && !above) store_start(line + 16, carried(block, shift), end - 16);
}

// A number that is the same in all lanes, in a way that the compiler sees: branches by it need no
// barrier of the warp.
__device__ __forceinline__ uint32_t uniform(uint32_t number) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(~0u, number);
#else
    return number;
#endif
}

// Turns `N` neighbouring rows of blocks into the lines of memory in which they lie, if they begin
// `4 * WORDS` bytes and `bits` bits after the start of a line. Lane 0's first line has the last
// bytes of the rows, then the first ones.
template <uint32_t WORDS, uint32_t N>
__device__ __forceinline__ void to_lines_of(uint4 (&rows)[N], uint32_t bits, uint32_t lane) {
    constexpr uint32_t FROM = 3 - WORDS; // the first word of the block below that a line needs
    uint32_t words[N][8];                // of the block below, and the block
#pragma unroll
    for (uint32_t i = 0; i < N; i++)
        words[i][4] = rows[i].x, words[i][5] = rows[i].y, words[i][6] = rows[i].z,
        words[i][7] = rows[i].w;
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        const auto& before = words[i > 0 ? i - 1 : N - 1];
#pragma unroll
        for (uint32_t k = FROM; k < 4; k++)
            words[i][k] =
                __shfl_sync(~0u, lane == 31 ? before[4 + k] : words[i][4 + k], lane - 1 & 31);
        const auto word = [&](uint32_t k) {
            return __funnelshift_l(words[i][FROM + k], words[i][FROM + k + 1], bits);
        };
        rows[i] = make_uint4(word(0), word(1), word(2), word(3));
    }
}

// The same for any `shift`. With a branch instead of choosing each word, AES-128-GCM at any byte is
// 7 % faster.
template <uint32_t N>
__device__ __forceinline__ void to_lines(uint4 (&rows)[N], uint32_t shift, uint32_t lane) {
    const uint32_t bits = 8 * (shift & 3);
    if (shift < 4) to_lines_of<0>(rows, bits, lane);
    else if (shift < 8) to_lines_of<1>(rows, bits, lane);
    else if (shift < 12) to_lines_of<2>(rows, bits, lane);
    else to_lines_of<3>(rows, bits, lane);
}

// The first line of such rows and the one after the last are ours in part, 16 bytes together. Each of
// the first 16 lanes stores one: its offset from this lane's first line, and its value.
__device__ __forceinline__ int32_t end_of_rows(uint32_t rows, uint32_t shift, uint32_t lane) {
    return (lane < shift ? 512 * int32_t(rows) : 0) - 15 * int32_t(lane);
}
__device__ __forceinline__ uint32_t end_byte(uint4 first, uint32_t lane) {
    return pick(shuffle(first, 0), lane >> 2) >> 8 * (lane & 3);
}

// Stores `N` neighbouring rows of whole blocks. All lanes take part.
template <uint32_t N>
__device__ __forceinline__ void store_rows(uint8_t* at, const uint4 (&rows)[N]) {
    const uint32_t lane = threadIdx.x & 31, shift = uniform(shift_of(at));
    uint4 lines[N];
#pragma unroll
    for (uint32_t i = 0; i < N; i++) lines[i] = rows[i];
    if (shift != 0) to_lines(lines, shift, lane);
    uint8_t* line = at - shift;
#pragma unroll
    for (uint32_t i = 0; i < N; i++)
        if (i > 0 || lane > 0 || shift == 0) store_aligned(line + 512 * i, lines[i]);
    if (shift == 0) return;
    const uint32_t byte = end_byte(lines[0], lane);
    if (lane < 16) line[end_of_rows(N, shift, lane)] = uint8_t(byte);
}

// A constant that a lambda takes.
template <bool VALUE>
struct Constant {
    static constexpr bool value = VALUE;
};
