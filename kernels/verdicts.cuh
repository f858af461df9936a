// What a call says of the messages that it opened.
#pragma once
#include "abi.cuh"

// Copies verdicts, `stride` bytes apart, into an array, and adds the number of refused messages to a
// word; either may be missing. A thread a message.
extern "C" __global__ void __launch_bounds__(256)
    give_verdicts(const uint8_t* first, uint64_t stride, uint64_t count, uint32_t* each,
                  uint32_t* refused) {
    const uint64_t number = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    uint32_t verdict = 0;
    if (number < count) {
        verdict = *reinterpret_cast<const uint32_t*>(first + number * stride);
        if (each) each[number] = verdict;
    }
    const uint32_t wrong = __popc(__ballot_sync(~0u, verdict != 0));
    if (refused && wrong > 0 && (threadIdx.x & 31) == 0) atomicAdd(refused, wrong);
}
