// How the units of a launch are divided, and which piece a unit belongs to.
#pragma once
#include "abi.cuh"

struct Range {
    uint64_t from, to;
};

// Share `number` of `count` equal shares of `total` units.
__device__ __forceinline__ Range share(uint64_t total, uint32_t number, uint32_t count) {
    const uint64_t each = total / count, rest = total % count;
    const uint64_t from = each * number + (number < rest ? number : rest);
    return {from, from + each + (number < rest ? 1 : 0)};
}

__device__ __forceinline__ uint64_t first_unit(const Work& work, uint64_t piece) {
    return work.starts ? work.starts[piece] : piece * work.each;
}

// All units; where the device made the sums, the host knows only a bound.
__device__ __forceinline__ uint64_t all_units(const Work& work) {
    if (!work.starts) return work.units;
    const uint64_t sum = work.starts[work.count];
    return sum < work.units ? sum : work.units;
}

// The piece that a unit belongs to. Needs unit < work.units.
__device__ inline uint64_t find_piece(const Work& work, uint64_t unit) {
    if (!work.starts) return unit / work.each;
    uint64_t low = 0, high = work.count;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (work.starts[middle] <= unit) low = middle;
        else high = middle;
    }
    return low;
}

// This warp's number among all of the grid, and how many there are.
__device__ __forceinline__ uint32_t warp_number() {
    return (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
}
__device__ __forceinline__ uint32_t warp_count() { return (gridDim.x * blockDim.x) >> 5; }

// Rows of one piece that a warp, or several warps together, work on without a break.
struct Portion {
    uint64_t number; // of the piece
    uint64_t from;   // row in the piece
    uint32_t rows;
};

// Calls `body` for each portion of share `number` of `count`, in order. Shares begin at multiples
// of `step` rows.
template <class Body>
__device__ __forceinline__ void each_portion(const Work& work, uint32_t step, uint32_t number,
                                             uint32_t count, const Body& body) {
    const uint64_t units = all_units(work);
    const Range steps = share((units + step - 1) / step, number, count);
    const uint64_t last = steps.to * step < units ? steps.to * step : units;
    uint64_t row = steps.from * step;
    if (row >= last) return;
    for (uint64_t piece = find_piece(work, row); row < last; piece++) {
        const uint64_t start = first_unit(work, piece), end = first_unit(work, piece + 1);
        const uint64_t to = end < last ? end : last;
        if (row < to) body(Portion{piece, row - start, uint32_t(to - row)});
        row = to > row ? to : row;
    }
}
