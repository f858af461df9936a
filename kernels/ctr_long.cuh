// CTR of one long piece under one key.
//
// As in ctr.cuh, but a warp takes two neighbouring rows of every 48 of its block's region: byte 15 of
// its counters never changes, so `near` is looked up once, and lookups come in 97 % of the cycles.
// Short pieces do not pay for it: what `far` costs is shared by 32 rows.
#pragma once
#include "counter.cuh"
#include "sliced.cuh"
#include "work.cuh"

// As CTR_THREADS.
constexpr uint32_t LONG_THREADS = 768;
constexpr uint32_t LONG_WARPS = LONG_THREADS / 32;
constexpr uint32_t LONG_STEP = 2 * LONG_WARPS; // rows from a warp's two to its next two
static_assert(32 * LONG_STEP % 256 == 0, "byte 15 comes round");
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
    const Range steps = share((work.units + LONG_STEP - 1) / LONG_STEP, blockIdx.x, gridDim.x);
    const uint64_t to = LONG_STEP * steps.to < work.units ? LONG_STEP * steps.to : work.units;
    uint64_t row = LONG_STEP * steps.from + 2 * warp;
    if (row >= to) return;

    // The counter of lane 0 in some row.
    const auto start = [&piece](uint64_t of) {
        return Counter::of(load(piece.iv)).plus(piece.before / 16 + 32 * of);
    };
    const Counter first = start(row);
    const uint32_t shift = shift_of(piece.input);
    const uint8_t* line = piece.input - shift + 512 * row + 16 * lane;
    uint8_t* output = piece.output + 512 * row + 16 * lane;
    const bool even = aligned(piece.input, 16) && aligned(piece.output, 16);
    const uint64_t whole = piece.len / 512 < to ? piece.len / 512 : to;
    uint32_t fast = 0; // steps with two whole rows and without a carry into bit 40
    if (row + 2 <= whole && until_carry(first) > 32 * (to - row))
        fast = uint32_t((whole - row - 2) / LONG_STEP + 1);
    row += uint64_t(fast) * LONG_STEP;
    if (fast > 0) {
        const uint32_t stash = SHARED_BASE + TABLES + warp * FAR_BYTES;
        uint4 near[2];
        uint32_t first_far[2]; // where `far` of the first step is: the lane, or its address
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t place = 32 * i + lane;
            near[i] = near_part(t, near_column(t, first.plus(place).block(), keys));
            // Counted from lane 0's group in the first row.
            const uint32_t group = (uint32_t(first.low & 255) + place) >> 8;
            first_far[i] = FAR_STORED ? stash + 16 * group : group;
        }
        Counter ahead = first.plus((lane >> 1) * 32 * LONG_STEP + (lane & 1) * 256);
        while (fast > 0) {
            __syncwarp();
            const uint4 made = far_part(t, ahead.block(), keys);
            if (FAR_STORED) store_shared(stash + 16 * lane, made);
            ahead = ahead.plus(FAR_STEPS * 32 * LONG_STEP);
            __syncwarp();
            uint32_t count = fast < FAR_STEPS ? fast : FAR_STEPS;
            fast -= count;
            uint32_t far[2] = {first_far[0], first_far[1]};
#pragma unroll 1
            for (; count > 0; count--) {
                uint4 rows[2];
#pragma unroll
                for (uint32_t i = 0; i < 2; i++) {
                    rows[i] = near[i] ^ (FAR_STORED ? load_shared(far[i]) : shuffle(made, far[i]));
                    far[i] += FAR_STORED ? 32 : 2;
                }
                // Not after the lookups: the next ones would wait for it.
                uint4 text[2] = {load_aligned(line), load_aligned(line + 512)};
                if (!even) {
                    const uint32_t next = shift ? 16 : 0;
                    text[0] = across(text[0], load_aligned(line + next), shift);
                    text[1] = across(text[1], load_aligned(line + 512 + next), shift);
                }
                if constexpr (SLICED) {
                    rounds_of_two<false, ROUNDS, 3>(t, rows[0], rows[1], keys);
                } else {
                    rows[0] = rounds_from<false, ROUNDS, 3>(t, rows[0], keys);
                    rows[1] = rounds_from<false, ROUNDS, 3>(t, rows[1], keys);
                }
                rows[0] = rows[0] ^ text[0];
                rows[1] = rows[1] ^ text[1];
                if (even) {
                    store_aligned(output, rows[0]);
                    store_aligned(output + 512, rows[1]);
                } else {
                    store_rows(output, rows);
                }
                line += 512 * LONG_STEP;
                output += 512 * LONG_STEP;
            }
        }
    }
#pragma unroll 1
    for (; row < to; row += LONG_STEP) {
#pragma unroll 1
        for (uint64_t i = row; i < row + 2 && i < to; i++) {
            const uint64_t at = 512 * i + 16 * lane;
            const uint4 stream = cipher<false, ROUNDS>(t, start(i).plus(lane).block(), keys);
            const uint32_t len = at < piece.len ? block_len(piece.len, at) : 0;
            const uint4 text = len ? load(piece.input + at, len) : make_uint4(0, 0, 0, 0);
            store_row(piece.output + at, text ^ stream, len, lane > 0);
        }
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
