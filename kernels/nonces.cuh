// Nonces from a counter in GPU memory: a prefix, then a number of eight bytes, big-endian.
#pragma once
#include "abi.cuh"

// Takes the next `count` numbers, so that launches on several streams never share one.
extern "C" __global__ void __launch_bounds__(32)
    take_nonces(unsigned long long* next, uint64_t count, unsigned long long* first) {
    if (threadIdx.x == 0) *first = atomicAdd(next, count);
}

// Writes `count` nonces of `len` bytes, with the numbers from `*first` on. A thread a nonce.
extern "C" __global__ void __launch_bounds__(256)
    write_nonces(const uint64_t* first, uint64_t prefix, uint32_t len, uint64_t count, uint8_t* nonces) {
    const uint64_t at = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= count) return;
    const uint64_t number = *first + at;
    uint8_t* to = nonces + at * len;
    for (uint32_t i = 0; i < len - 8; i++) to[i] = uint8_t(prefix >> 8 * i);
    for (uint32_t i = 0; i < 8; i++) to[len - 8 + i] = uint8_t(number >> (56 - 8 * i));
}
