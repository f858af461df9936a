// CTR (SP 800-38A, 6.5), one key, rows of 32 blocks.
#pragma once
#include "counter.cuh"
#include "sliced.cuh"
#include "work.cuh"

// 80 registers a thread: with 1,024 threads and 64, what rows at any byte carry on would spill.
constexpr uint32_t CTR_THREADS = 768;

// A warp's walk over rows of 32 counters. What the first two rounds make of all bytes but byte 15 is
// the same for a group of 256 counters; the lanes hold it for the next 32 groups.
template <class Start>
struct CtrWalk {
    Start start; // the counter of lane 0 in the first row, plus a number of blocks
    uint4 far, far_ahead;
    uint32_t column, column_ahead; // column 0 after the first round, without byte 15's term
    uint32_t position;             // this lane's place, counted from the start of the first group
    uint32_t group = ~0u;          // that `far` and `column` belong to
    uint32_t held = 1;             // the group that lane 0 looks ahead to; 1: none yet

    __device__ __forceinline__ CtrWalk(Lane t, const Start& start)
        : start(start), position(uint32_t(start(0).low & 255) + t.number()) {}

    __device__ __forceinline__ bool has_begun() const { return group != ~0u; }

    // This lane's state after two rounds, in one row after the other.
    __device__ __forceinline__ uint4 next(Lane t, const RoundKeys& keys) {
        const uint32_t now = position >> 8;
        if (__any_sync(~0u, now != group)) {
            if (__any_sync(~0u, now - held > 31)) {
                held = __shfl_sync(~0u, now, 0);
                const uint4 block = start(uint64_t(held + t.number()) << 8).block();
                far_ahead = far_part(t, block, keys);
                column_ahead =
                    near_column(t, block, keys) ^ look<3, 3>(t, block.w ^ keys.round[0].w);
            }
            far = shuffle(far_ahead, now - held);
            column = __shfl_sync(~0u, column_ahead, now - held);
            group = now;
        }
        const uint32_t last = position ^ keys.round[0].w >> 24;
        position += 32;
        return near_part(t, column ^ look<3, 0>(t, last)) ^ far;
    }
};

// Rows of whole blocks, one directly after the other, that are a text XORed with a key stream. Where
// text and result lie alike, the key stream is shifted instead of the text: blocks begin `shift` (1 to
// 15) bytes into the lines that are loaded and stored.
struct Joined {
    uint4 last;        // in the last lane, its key stream of the row before
    bool first = true; // there is none

    // `from`, `to`: of this lane's line. All lanes take part.
    __device__ __forceinline__ void store(const uint8_t* from, uint8_t* to, uint4 stream,
                                          uint32_t shift) {
        const uint32_t lane = threadIdx.x & 31;
        const uint4 text = load_aligned(from);
        const uint4 below = shuffle(lane == 31 ? last : stream, lane - 1 & 31);
        last = stream;
        const uint4 made = text ^ across(below, stream, 16 - shift);
        if (first && lane == 0)
            store_end(to + shift, across(made, make_uint4(0, 0, 0, 0), shift));
        else store_aligned(to, made);
        first = false;
    }

    // After the last row, with its lines.
    __device__ __forceinline__ void end(const uint8_t* from, uint8_t* to, uint32_t shift) const {
        if ((threadIdx.x & 31) == 31)
            store_start(to + 16, load_aligned(from + 16) ^ carried(last, shift), shift);
    }
};

// `rows` rows of a piece, from row `from` on, two at a time.
template <int ROUNDS>
__device__ __forceinline__ void ctr_rows(Lane t, const Piece& piece, uint64_t from, uint32_t rows,
                                         const RoundKeys& keys) {
    const uint32_t lane = t.number();
    const auto start = [&piece, from](uint64_t blocks) {
        return Counter::of(load(piece.iv)).plus(piece.before / 16 + 32 * from + blocks);
    };
    CtrWalk walk(t, start);
    [[maybe_unused]] Joined joined;
    const uint8_t* input = piece.input + 512 * from + 16 * lane;
    uint8_t* output = piece.output + 512 * from + 16 * lane;
    uint64_t left = piece.len - 512 * from;
    const uint32_t shift = shift_of(piece.output);
    const bool alike = shift_of(piece.input) == shift;
#pragma unroll 1
    while (rows > 0) {
        uint4 made[2];
        if (rows == 1 && !walk.has_begun()) { // looking ahead would not pay
            made[0] = cipher<false, ROUNDS>(t, start(lane).block(), keys);
        } else {
            made[0] = walk.next(t, keys);
            made[1] = walk.next(t, keys);
            if constexpr (SLICED) {
                rounds_of_two<false, ROUNDS, 3>(t, made[0], made[1], keys);
            } else {
                made[0] = rounds_from<false, ROUNDS, 3>(t, made[0], keys);
                made[1] = rounds_from<false, ROUNDS, 3>(t, made[1], keys);
            }
        }
        if (rows < 2 || left < 1024) {
#pragma unroll 1
            for (uint32_t i = 0; i < 2; i++) {
                const uint64_t at = 512 * i + 16 * lane;
                const uint32_t len = i < rows && at < left ? block_len(left, at) : 0;
                const uint4 text =
                    len ? load_lines(input + 512 * i, len) : make_uint4(0, 0, 0, 0);
                store_row(output + 512 * i, text ^ (i == 0 ? made[0] : made[1]), len, lane > 0);
            }
            return;
        }
        if (!alike) {
            made[0] = made[0] ^ load_across(input);
            made[1] = made[1] ^ load_across(input + 512);
            store_rows(output, made);
        } else if (shift == 0) {
            const uint4 first = load_aligned(input), second = load_aligned(input + 512);
            store_aligned(output, first ^ made[0]);
            store_aligned(output + 512, second ^ made[1]);
        } else {
            const uint8_t* line = input - shift;
            joined.store(line, output - shift, made[0], shift);
            joined.store(line + 512, output - shift + 512, made[1], shift);
            if (rows < 4 || left < 2048) joined.end(line + 512, output - shift + 512, shift);
        }
        input += 1024, output += 1024, left -= 1024, rows -= 2;
    }
}

template <int ROUNDS>
__device__ __forceinline__ void ctr(const Work& work, const RoundKeys& keys) {
    fill_tables<false>();
    const Lane t = Lane::here();
    each_portion(work, 2, warp_number(), warp_count(), [&](const Portion& portion) {
        ctr_rows<ROUNDS>(t, work.pieces[portion.number], portion.from, portion.rows, keys);
    });
}

#define WARPLOCK_CTR(SIZE, ROUNDS)                                                          \
    extern "C" __global__ void __launch_bounds__(CTR_THREADS, 1)                            \
        ctr_##SIZE(const __grid_constant__ Work work, const __grid_constant__ RoundKeys keys) { \
        ctr<ROUNDS>(work, keys);                                                            \
    }
WARPLOCK_CTR(128, 10)
WARPLOCK_CTR(192, 12)
WARPLOCK_CTR(256, 14)
WARPLOCK_SHARED(ctr, TABLES);
