// What a call says of the messages that it opened.
#pragma once
#include "abi.cuh"

// Writes a message's verdict into an array, and adds the number of refused messages to a word; either
// may be missing. A thread a message, and whole warps.
__device__ __forceinline__ void tell_verdict(uint32_t verdict, uint64_t number, uint64_t count,
                                             uint32_t* each, uint32_t* refused) {
    if (each && number < count) each[number] = verdict;
    const uint32_t wrong = __popc(__ballot_sync(~0u, verdict != 0));
    if (refused && wrong > 0 && (threadIdx.x & 31) == 0) atomicAdd(refused, wrong);
}

// For messages whose last kernel does not: their verdicts are `stride` bytes apart.
extern "C" __global__ void __launch_bounds__(256)
    give_verdicts(const uint8_t* first, uint64_t stride, uint64_t count, uint32_t* each,
                  uint32_t* refused) {
    const uint64_t number = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const bool active = number < count;
    const uint32_t verdict =
        active ? *reinterpret_cast<const uint32_t*>(first + number * stride) : 0;
    tell_verdict(verdict, number, count, each, refused);
}
