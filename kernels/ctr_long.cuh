// CTR of one long piece under one key.
//
// As in ctr.cuh, but a warp takes every 24th row of its block's region (32nd, where the last round
// takes tables): byte 15 of its counters never changes, so `near` is looked up once, and lookups come
// in 97 % of the cycles. Short pieces do not pay for it: what `far` costs is shared by 16 rows.
#pragma once
#include "counter.cuh"
#include "sliced.cuh"
#include "work.cuh"

// Multiples of 256, after which byte 15 comes round.
constexpr uint32_t LONG_THREADS = SLICED ? 768 : 1024;
constexpr uint32_t LONG_WARPS = LONG_THREADS / 32;
constexpr uint32_t STRIDE = 512 * LONG_WARPS; // from a warp's row to its next
constexpr uint32_t FAR_STEPS = 16; // steps whose `far` lies ready: two groups each
// Where shared memory has no room next to the tables, the lanes keep `far` in registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool FAR_STORED = false;
#else
constexpr bool FAR_STORED = true;
#endif
constexpr uint32_t FAR_BYTES = FAR_STORED ? 32 * 16 : 0; // of a warp

template <int ROUNDS>
__device__ __forceinline__ void ctr_long(const Work& work, const RoundKeys& keys) {
    fill_tables<false>();
    const Lane t = Lane::here();
    const uint32_t lane = t.number(), warp = threadIdx.x >> 5;
    const Piece& piece = work.pieces[0];
    const Range steps = share((work.units + LONG_WARPS - 1) / LONG_WARPS, blockIdx.x, gridDim.x);
    const uint64_t to = LONG_WARPS * steps.to < work.units ? LONG_WARPS * steps.to : work.units;
    uint64_t row = LONG_WARPS * steps.from + warp;
    if (row >= to) return;

    // The counter of lane 0 in some row.
    const auto start = [&piece](uint64_t of) {
        return Counter::of(load(piece.iv)).plus(piece.before / 16 + 32 * of);
    };
    const Counter first = start(row);
    const uint8_t* input = piece.input + 512 * row + 16 * lane;
    uint8_t* output = piece.output + 512 * row + 16 * lane;
    const bool even = aligned(piece.input, 16) && aligned(piece.output, 16);
    const uint64_t whole = even ? (piece.len / 512 < to ? piece.len / 512 : to) : 0;
    uint32_t fast = 0; // steps with a whole row and without a carry into bit 40
    if (row < whole && until_carry(first) > 32 * (to - row))
        fast = uint32_t((whole - row + LONG_WARPS - 1) / LONG_WARPS);
    row += uint64_t(fast) * LONG_WARPS;
    if (fast > 0) {
        const uint4 near = near_part(t, near_column(t, first.plus(lane).block(), keys));
        const uint32_t stash = SHARED_BASE + TABLES + warp * FAR_BYTES;
        // This lane's group, counted from lane 0's.
        const uint32_t group = (uint32_t(first.low & 255) + lane) >> 8;
        Counter ahead = first.plus((lane >> 1) * 32 * LONG_WARPS + (lane & 1) * 256);
        while (fast > 0) {
            __syncwarp();
            const uint4 made = far_part(t, ahead.block(), keys);
            if (FAR_STORED) store_shared(stash + 16 * lane, made);
            ahead = ahead.plus(FAR_STEPS * 32 * LONG_WARPS);
            __syncwarp();
            const uint32_t count = fast < FAR_STEPS ? fast : FAR_STEPS;
            fast -= count;
            const auto begin = [&](uint32_t step) {
                const uint32_t place = 2 * step + group;
                return near ^ (FAR_STORED ? load_shared(stash + 16 * place) : shuffle(made, place));
            };
            uint32_t i = 0;
            if constexpr (SLICED) {
#pragma unroll 1
                for (; i + 2 <= count; i += 2) {
                    const uint4 first = load_aligned(input), second = load_aligned(input + STRIDE);
                    uint4 a = begin(i), b = begin(i + 1);
                    rounds_of_two<false, ROUNDS, 3>(t, a, b, keys);
                    store_aligned(output, first ^ a);
                    store_aligned(output + STRIDE, second ^ b);
                    input += 2 * STRIDE;
                    output += 2 * STRIDE;
                }
            }
#pragma unroll 1
            for (; i < count; i++) {
                const uint4 text = load_aligned(input);
                store_aligned(output, text ^ rounds_from<false, ROUNDS, 3>(t, begin(i), keys));
                input += STRIDE;
                output += STRIDE;
            }
        }
    }
#pragma unroll 1
    for (; row < to; row += LONG_WARPS) {
        const uint64_t at = 512 * row + 16 * lane;
        const uint4 stream = cipher<false, ROUNDS>(t, start(row).plus(lane).block(), keys);
        const uint32_t len = at < piece.len ? block_len(piece.len, at) : 0;
        const uint4 text = len ? load(piece.input + at, len) : make_uint4(0, 0, 0, 0);
        store_row(piece.output + at, text ^ stream, len, lane > 0);
    }
}

#define WARPLOCK_CTR_LONG(SIZE, ROUNDS)                                                        \
    extern "C" __global__ void __launch_bounds__(LONG_THREADS, 1) ctr_long_##SIZE(             \
        const __grid_constant__ Work work, const __grid_constant__ RoundKeys keys) {           \
        ctr_long<ROUNDS>(work, keys);                                                          \
    }
WARPLOCK_CTR_LONG(128, 10)
WARPLOCK_CTR_LONG(192, 12)
WARPLOCK_CTR_LONG(256, 14)
WARPLOCK_SHARED(long, TABLES + LONG_WARPS * FAR_BYTES);
