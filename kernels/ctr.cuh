// CTR (SP 800-38A, 6.5), one key, rows of 32 blocks.
#pragma once
#include "counter.cuh"
#include "work.cuh"

// 128 registers a thread: 32 hold `near`, and the compiler issues all lookups of a round before it
// waits for the first. With 640 threads and 96 registers it did not: 871 instead of 929 GB/s.
constexpr uint32_t CTR_THREADS = 512;

// Rows of whole blocks, one directly after the other, that are a text XORed with a key stream. Text
// comes in the lines that results go to; blocks begin `shift` (1 to 15) bytes into them.
struct Joined {
    uint4 last;        // in the last lane, its key stream of the row before
    bool first = true; // there is none

    // `line`: of this lane. All lanes take part.
    __device__ __forceinline__ void store(uint8_t* line, uint4 text, uint4 stream,
                                          uint32_t shift) {
        const uint32_t lane = threadIdx.x & 31;
        const uint4 below = shuffle(lane == 31 ? last : stream, lane - 1 & 31);
        last = stream;
        const uint4 made = text ^ across(below, stream, 16 - shift);
        if (first && lane == 0)
            store_end(line + shift, across(made, make_uint4(0, 0, 0, 0), shift));
        else store_aligned(line, made);
        first = false;
    }

    // After the last row; the lines of this lane's next blocks would be these.
    __device__ __forceinline__ void end(const uint8_t* input, uint8_t* output,
                                        uint32_t shift) const {
        if (first || (threadIdx.x & 31) != 31) return;
        const uint4 text = load_slowly(input - 512 + 16, shift);
        store_start(output - 512 + 16, text ^ carried(last, shift), shift);
    }
};

// Rows [from, to) of a piece.
template <int ROUNDS>
__device__ __forceinline__ void ctr_rows(Lane t, const Piece& piece, uint64_t from, uint64_t to,
                                         const RoundKeys& keys) {
    const uint32_t lane = t.number();
    const auto start = [&piece, from](uint64_t blocks) {
        return Counter::of(load(piece.iv)).plus(piece.before / 16 + 32 * from + blocks);
    };
    const uint8_t* input = piece.input + 512 * from + 16 * lane;
    uint8_t* output = piece.output + 512 * from + 16 * lane;

    const uint32_t shift = shift_of(piece.output);
    const bool alike = shift_of(piece.input) == shift;
    const uint64_t whole = alike ? (piece.len / 512 < to ? piece.len / 512 : to) : from;
    // Cycles of whole rows without a carry into bit 40.
    uint32_t cycles = 0;
    if (whole > from && until_carry(start(0)) > 32 * (to - from))
        cycles = uint32_t(whole - from < 1u << 31 ? whole - from : 1u << 31) / CYCLE;
    uint64_t row = from + uint64_t(cycles) * CYCLE;
    if (cycles > 0) {
        Groups groups(t, start, keys);
        uint4 near[CYCLE];
#pragma unroll
        for (uint32_t i = 0; i < CYCLE; i++) {
            Counter c = start(0);
            c.low = c.low & ~255ull | (groups.position + 32 * i & 255);
            near[i] = near_part(t, near_column(t, c.block(), keys));
        }
        // Where input and output lie alike, the key stream is shifted instead of the text: so a row
        // takes the registers of an aligned one.
        const auto run = [&](auto is_even) {
            [[maybe_unused]] Joined joined;
            input -= shift, output -= shift;
#pragma unroll 1
            for (; cycles > 0; cycles--) {
                groups.start_cycle(t, keys);
#pragma unroll
                for (uint32_t i = 0; i < CYCLE; i++) {
                    const uint4 text = load_aligned(input + 512 * i);
                    groups.enter(i);
                    groups.position += 32;
                    const uint4 stream =
                        rounds_from<false, ROUNDS, 3>(t, near[i] ^ groups.far, keys);
                    if constexpr (is_even.value) store_aligned(output + 512 * i, text ^ stream);
                    else joined.store(output + 512 * i, text, stream, shift);
                }
                input += 512 * CYCLE;
                output += 512 * CYCLE;
            }
            if constexpr (!is_even.value) joined.end(input, output, shift);
            input += shift, output += shift;
        };
        if (shift == 0) run(Constant<true>{});
        else run(Constant<false>{});
    }
#pragma unroll 1
    for (; row < to; row++) {
        const uint64_t at = 512 * row + 16 * lane;
        const uint4 block = start(32 * (row - from) + lane).block();
        const uint4 stream = cipher<false, ROUNDS>(t, block, keys);
        const uint32_t len = at < piece.len ? block_len(piece.len, at) : 0;
        const uint4 text = len ? load(input, len) : make_uint4(0, 0, 0, 0);
        store_row(output, text ^ stream, len, lane > 0);
        input += 512;
        output += 512;
    }
}

template <int ROUNDS>
__device__ __forceinline__ void ctr(const Work& work, const RoundKeys& keys) {
    fill_tables<false>();
    const Lane t = Lane::here();
    each_portion(work, 1, warp_number(), warp_count(), [&](const Portion& portion) {
        ctr_rows<ROUNDS>(t, work.pieces[portion.number], portion.from,
                         portion.from + portion.rows, keys);
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
