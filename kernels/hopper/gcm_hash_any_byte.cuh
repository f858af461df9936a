// A group of four warps that hashes text at any byte, where gcm_hash_group.cuh needs multiples of 16.
//
// Lines of 16 bytes are copied as they lie in memory, and lanes make blocks of two neighbouring ones.
// In four steps, a round, lane t of four takes neighbouring blocks, 4t to 4t + 3 of 16: so it loads
// five lines for them, the last of which is another lane's first one. For the last block of a stretch
// that is a line more than the ring has room for: it is copied to where the stretch's result will be.
#pragma once
#include "gcm_hash_group.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The same interface as HashGroup, for hash_group.
template <bool DECRYPT>
struct AnyByteGroup {
    static constexpr uint32_t ROUND_BYTES = 4 * RING_STEP;

    // Two rows' neighbouring lines.
    struct Texts {
        uint4 x[2], y[2];
    };

    uint32_t batches, usual; // of a stretch
    uint32_t to;             // where this lane copies to
    uint32_t from, beyond;   // where it finds its first and fifth line of the first round
    Row rows[4] = {};        // that it copies
    uint32_t ends;           // see `end_of`
    bool more;               // whether there is a tile
    // Of the two rows that it hashes: the bytes of zeros before the text, from this lane's first block
    // of the batch on; in the lowest four bits, how far into its line the text begins.
    int32_t places[2];

    // Rarely needed, so not kept in registers.
    static __device__ __forceinline__ uint32_t lane() { return thread_anew() & 31; }
    static __device__ __forceinline__ uint32_t first_row() { return thread_anew() / 32 * 16; }

    // Each half of a round has 128 bytes of a row. Line j of lane t lies in half t / 2, in one of eight
    // slots: no bank conflicts when lanes load. (When they copy, too, pairs of lines stay together:
    // with their halves apart, each line took a cycle of its own.)
    static __device__ __forceinline__ uint32_t slot(uint32_t row, uint32_t lane4, uint32_t line) {
        return 4 * (lane4 & 1) + line ^ lane4 & 2 ^ row & 1;
    }

    __device__ __forceinline__ explicit AnyByteGroup(uint32_t usual)
        : batches(usual), usual(usual), ends(0) {
        const uint32_t row = lane() >> 2, lane4 = lane() & 3, copied = lane() >> 3;
        const uint32_t ring = SHARED_BASE + RING_AT + first_row() / 64 * RING_BYTES +
                              first_row() % 64 * 128;
        to = ring + 128 * copied + 16 * slot(copied, lane() >> 2 & 1, lane4);
        const auto first_line = [=](uint32_t lane4) {
            return ring + 128 * row + 2 * RING_STEP * (lane4 >> 1) + 16 * slot(row, lane4, 0);
        };
        from = first_line(lane4);
        beyond = lane4 < 3 ? first_line(lane4 + 1) : first_line(0) + ROUND_BYTES;
    }

    static __device__ __forceinline__ uint32_t block_of(uint32_t step, uint32_t lane4) {
        return 16 * (step / 4) + 4 * lane4 + step % 4;
    }

    static __device__ __forceinline__ uint32_t result_of(uint32_t row) {
        return SHARED_BASE + RESULTS_AT + 16 * (first_row() + row);
    }

    // The bytes of a stretch from the start of the line on in which its last block begins, 1 to 31.
    static __device__ __forceinline__ uint32_t end_of(uint64_t stretch) {
        const uint32_t len = uint32_t(len_of(stretch));
        return len > 0 ? (uint32_t(stretch) & 15) + (len - 1 & 15) + 1 : 0;
    }

    __device__ __forceinline__ uint64_t stretch_of_row(uint32_t row) {
        const uint32_t at = SHARED_BASE + STRETCHES_AT + 8 * (first_row() + row);
        uint64_t stretch;
        asm volatile("ld.shared.u64 %0, [%1];" : "=l"(stretch) : "r"(at) : "memory");
        if (!DECRYPT) batches = stretch >> 63 ? SHORT_BATCHES : usual;
        return stretch;
    }

    __device__ __forceinline__ void next_rows() {
        wait_at(GIVEN + first_row() / 64, 256);
        const uint32_t first = lane() >> 3, lane8 = lane() & 7;
        // The lines after the last batch. Scouts have read the results before.
        if (lane8 == 0) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t end = ends >> 8 * i & 255;
                fetch(result_of(first + 4 * i), reinterpret_cast<const uint8_t*>(rows[i].at),
                      end > 16 ? end - 16 : 0);
            }
        }
        ends = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint64_t stretch = stretch_of_row(first + 4 * i);
            rows[i] = Row(stretch, batches, lane8);
            ends |= end_of(stretch) << 8 * i;
            more = stretch != 0;
        }
    }

    // Half a round.
    template <int HALF>
    __device__ __forceinline__ void copy(bool last) const {
        if (HALF == 7 && last && (lane() & 7) == 7) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t end = ends >> 8 * i & 255;
                rows[i].template copy<HALF>(copy_to<HALF>(i), end < 16 ? end : 16);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++)
                rows[i].template copy<HALF, DECRYPT>(copy_to<HALF>(i));
        }
        end_group();
    }
    template <int HALF>
    __device__ __forceinline__ uint32_t copy_to(int i) const {
        return (HALF % 2 ? to ^ 32 : to) + 512 * i + 2 * RING_STEP * HALF;
    }

    __device__ __forceinline__ void to_next_batch() {
#pragma unroll
        for (int i = 0; i < 4; i++) rows[i].at += BATCH_BYTES, rows[i].zeros -= BATCH_BYTES;
        places[0] -= BATCH_BYTES, places[1] -= BATCH_BYTES;
    }

    __device__ __forceinline__ uint32_t line(uint32_t j) const { return from ^ 16 * j; }

    // Of one of two rows, the lines of a step's block, one of which may be there already.
    template <int STEP>
    __device__ __forceinline__ void load(uint4 (&lines)[2], int which, uint32_t left) const {
        constexpr uint32_t LINE = STEP % 4;
        const uint32_t further = STEP / 4 * ROUND_BYTES + 1024 * which;
        if (LINE == 0) lines[0] = load_shared(line(0) + further);
        else lines[0] = lines[1];
        uint32_t second = (LINE < 3 ? line(LINE + 1) : beyond) + further;
        // The next batch's first line, or that after the stretch.
        if (STEP == HASH_STEPS - 1 && (lane() & 3) == 3)
            second = left > 1 ? second - HASH_STEPS * RING_STEP
                              : result_of((lane() >> 2) + 8 * which);
        lines[1] = load_shared(second);
    }
    template <int STEP>
    __device__ __forceinline__ void load(Texts& next, uint32_t left) const {
        load<STEP>(next.x, 0, left), load<STEP>(next.y, 1, left);
    }
    __device__ __forceinline__ void load_first(Texts& next) {
        await_fetches<6>();
        begin_round<0>(2);
        load<0>(next, 2);
    }

    // Once a round's lines have arrived: the last block of zeros must not have bytes before the text.
    template <int ROUND>
    __device__ __forceinline__ void begin_round(uint32_t left) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int32_t place = places[i] - 16 * 16 * ROUND;
            if (ROUND == HASH_STEPS / 4 && left == 1) place = place_of(i);
            if (uint32_t(place) < 64 && (place & 15) != 0) {
                const uint32_t at = line(place >> 4) + ROUND % 4 * ROUND_BYTES + 1024 * i;
#pragma unroll 1
                for (uint32_t byte = 0; byte < (place & 15); byte++)
                    asm volatile("st.shared.u8 [%0], %1;" ::"r"(at + byte), "r"(0) : "memory");
            }
        }
        __syncwarp();
    }

    // The blocks whose lines were loaded.
    __device__ __forceinline__ Blocks blocks(const Texts& next) const {
        return {across(next.x[0], next.x[1], places[0] & 15),
                across(next.y[0], next.y[1], places[1] & 15)};
    }

    // As in HashGroup, but a round at a time.
    template <int STEP>
    __device__ __forceinline__ void go_on(Texts& next, uint32_t left) {
        if (STEP % 4 == 1) {
            await_fetches<4>();
            begin_round<STEP / 4 + 1>(left);
        }
        // The operands of a round's last step are made, and all of its lines loaded.
        if (STEP % 4 == 2) __syncwarp();
        if constexpr (STEP < HASH_STEPS - 1) load<(STEP + 2) % HASH_STEPS>(next, left);
        if constexpr (STEP % 4 >= 2) copy<STEP / 4 * 2 + STEP % 2>(left == 2);
    }

    // After a tile, while scouts do not yet write over its successor's stretches.
    __device__ __forceinline__ int32_t place_of(int which) {
        const uint64_t stretch = stretch_of_row((lane() >> 2) + 8 * which);
        int32_t front = BATCH_BYTES * batches - (len_of(stretch) + 15 & ~15);
        // Without zeros there is no border to clear: never reached.
        if (front == 0) front = -int32_t(UNIT_BYTES);
        return front - 64 * int32_t(lane() & 3) | int32_t(stretch) & 15;
    }
    __device__ __forceinline__ void next_texts() {
        places[0] = place_of(0), places[1] = place_of(1);
    }

    __device__ __forceinline__ bool has_running() const { return (lane() & 3) == 0; }
    __device__ __forceinline__ uint32_t result() const { return result_of(lane() >> 2); }
};

#endif
