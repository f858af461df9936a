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

// A block, or its first `len` bytes and zeros.
__device__ __forceinline__ uint4 load(const uint8_t* at, uint32_t len = 16) {
    if (len >= 16 && aligned(at, 16)) return load_aligned(at);
    if (len >= 16 && aligned(at, 4)) {
        const uint32_t* words = reinterpret_cast<const uint32_t*>(at);
        return make_uint4(words[0], words[1], words[2], words[3]);
    }
    return load_slowly(at, len < 16 ? len : 16);
}

__device__ __forceinline__ void store_slowly(uint8_t* at, uint4 block, uint32_t len) {
#pragma unroll 1
    for (uint32_t i = 0; i < len; i++) {
        const uint32_t word = i < 4 ? block.x : i < 8 ? block.y : i < 12 ? block.z : block.w;
        at[i] = uint8_t(word >> 8 * (i & 3));
    }
}

__device__ __forceinline__ void store(uint8_t* at, uint4 block, uint32_t len = 16) {
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

// A block with zeros after its first `len` bytes.
__device__ __forceinline__ uint4 first_bytes(uint4 block, uint32_t len) {
    const uint32_t bits = 8 * len;
    const auto kept = [bits](uint32_t word, uint32_t at) {
        return bits >= at + 32 ? word : bits <= at ? 0 : word & (1u << (bits - at)) - 1;
    };
    return make_uint4(kept(block.x, 0), kept(block.y, 32), kept(block.z, 64), kept(block.w, 96));
}
