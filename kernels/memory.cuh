// Blocks to and from memory, at any alignment and of any length.
#pragma once
#include "abi.cuh"

__device__ __forceinline__ uint32_t swap_bytes(uint32_t a) { return __byte_perm(a, 0, 0x0123); }

__device__ __forceinline__ bool aligned(const void* at, uint32_t to) {
    return (reinterpret_cast<uintptr_t>(at) & (to - 1)) == 0;
}

// Texts lie in global memory, never in shared: said here, because a pointer does not say it.
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

__device__ __noinline__ uint4 load_slowly(const uint8_t* at, uint32_t len) {
    uint32_t words[4];
    if (len == 16 && aligned(at, 4)) {
        for (int i = 0; i < 4; i++) words[i] = reinterpret_cast<const uint32_t*>(at)[i];
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            words[i] = 0;
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (4 * i + k < len) words[i] |= uint32_t(at[4 * i + k]) << 8 * k;
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// A block, or its first `len` bytes and zeros.
__device__ __forceinline__ uint4 load(const uint8_t* at, uint32_t len = 16) {
    if (len >= 16 && aligned(at, 16)) return load_aligned(at);
    return load_slowly(at, len);
}

__device__ __noinline__ void store_slowly(uint8_t* at, uint4 block, uint32_t len) {
    const uint32_t words[4] = {block.x, block.y, block.z, block.w};
    if (len == 16 && aligned(at, 4)) {
        for (int i = 0; i < 4; i++) reinterpret_cast<uint32_t*>(at)[i] = words[i];
    } else {
#pragma unroll
        for (int i = 0; i < 16; i++)
            if (i < len) at[i] = uint8_t(words[i / 4] >> 8 * (i % 4));
    }
}

__device__ __forceinline__ void store(uint8_t* at, uint4 block, uint32_t len = 16) {
    if (len >= 16 && aligned(at, 16))
        store_aligned(at, block);
    else
        store_slowly(at, block, len);
}

// What is left of `len` from `offset` on, at most a block.
__device__ __forceinline__ uint32_t block_len(uint64_t len, uint64_t offset) {
    return len - offset < 16 ? uint32_t(len - offset) : 16;
}

// A block with zeros behind its first `len` bytes.
__device__ __forceinline__ uint4 first_bytes(uint4 block, uint32_t len) {
    const uint32_t bits = 8 * len;
    const auto kept = [bits](uint32_t word, uint32_t at) {
        return bits >= at + 32 ? word : bits <= at ? 0 : word & (1u << (bits - at)) - 1;
    };
    return make_uint4(kept(block.x, 0), kept(block.y, 32), kept(block.z, 64), kept(block.w, 96));
}
