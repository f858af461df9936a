// A few bytes for GPU memory that travel with the launch: a copy would take its turn on the link,
// between long ones, and cost each of them some microseconds.
#pragma once
#include "abi.cuh"

struct FewBytes {
    uint4 blocks[FEW_BYTES / 16];
};

// `len` bytes to a multiple of 16.
extern "C" __global__ void __launch_bounds__(256)
    put(const __grid_constant__ FewBytes bytes, uint4* to, uint32_t len) {
    const uint32_t at = threadIdx.x;
    if (16 * at + 16 <= len) {
        to[at] = bytes.blocks[at];
    } else if (16 * at < len) {
        const uint8_t* from = reinterpret_cast<const uint8_t*>(&bytes.blocks[at]);
        for (uint32_t i = 0; i < len - 16 * at; i++)
            reinterpret_cast<uint8_t*>(to + at)[i] = from[i];
    }
}
