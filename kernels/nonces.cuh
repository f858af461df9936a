// Nonces from a counter in GPU memory: a prefix, then a number of eight bytes, big-endian.
#pragma once
#include "abi.cuh"

__device__ __forceinline__ void write_nonce(uint64_t prefix, uint64_t number, uint32_t len,
                                            uint8_t* to) {
    for (uint32_t i = 0; i < len - 8; i++) to[i] = uint8_t(prefix >> 8 * i);
    for (uint32_t i = 0; i < 8; i++) to[len - 8 + i] = uint8_t(number >> (56 - 8 * i));
}

constexpr uint32_t FIRST_NONCES = 1024;

// Takes the next `count` numbers, so that launches on several streams never share one, and writes the
// first nonces, of `len` bytes: mostly all. One block, a thread a nonce.
extern "C" __global__ void __launch_bounds__(FIRST_NONCES)
    take_nonces(unsigned long long* next, uint64_t* first, uint64_t prefix, uint32_t len,
                uint64_t count, uint8_t* nonces) {
    __shared__ uint64_t taken;
    if (threadIdx.x == 0) *first = taken = atomicAdd(next, count);
    __syncthreads();
    if (threadIdx.x < count)
        write_nonce(prefix, taken + threadIdx.x, len, nonces + uint64_t(threadIdx.x) * len);
}

// The nonces after those. A thread a nonce.
extern "C" __global__ void __launch_bounds__(256)
    write_nonces(const uint64_t* first, uint64_t prefix, uint32_t len, uint64_t count,
                 uint8_t* nonces) {
    const uint64_t at = FIRST_NONCES + uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < count) write_nonce(prefix, *first + at, len, nonces + at * len);
}
