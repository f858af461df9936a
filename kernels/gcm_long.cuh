// GCM (SP 800-38D) of long messages under one key, with a division of labour.
//
// In gcm.cuh a warp enciphers rows and then hashes them, and whichever of the two units it uses
// then, the other waits. Here four warps encipher and a fifth, beside them, hashes what they have
// made: a team. Ciphertext passes through shared memory, in steps of eight rows. Rows that a step
// does not have are zeros behind the message, whose power of H is taken away at the end.
//
// What binds is shared memory, and the clock: as soon as a multiprocessor uses its tensor cores, its
// neighbourhood slows down from 1.98 to 1.83 GHz, however few products it asks for (see
// docs/performance.md). On Hopper the hash warps take registers that cipher warps do not need, and
// keep their strings in them.
#pragma once
#include "gcm.cuh"

constexpr uint32_t TEAMS = 4, CIPHER_WARPS = 4; // of a team
constexpr uint32_t TEAM_WARPS = TEAMS * CIPHER_WARPS;
constexpr uint32_t GCM_LONG_THREADS = 32 * (TEAM_WARPS + TEAMS);
constexpr int STEP_ROWS = 8;
constexpr uint32_t ROWS_EACH = STEP_ROWS / CIPHER_WARPS;
constexpr uint32_t STEP_BYTES = 512 * STEP_ROWS;
constexpr uint32_t STRINGS_AT = TABLES;
constexpr uint32_t STEPS_AT = STRINGS_AT + (STRING_BYTES<STEP_ROWS / 4> + 127) / 128 * 128;
constexpr uint32_t FARS_AT = STEPS_AT + TEAMS * STEP_BYTES;
constexpr uint32_t GCM_LONG_SHARED = FARS_AT + TEAMS * 512;

// Barriers of a team: a step was written; a step was read.
__device__ __forceinline__ void wait_for(uint32_t barrier) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "n"(32 * (CIPHER_WARPS + 1))
                 : "memory");
}
__device__ __forceinline__ void signal(uint32_t barrier) {
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(barrier), "n"(32 * (CIPHER_WARPS + 1))
                 : "memory");
}

// The cipher warps of a team among themselves.
__device__ __forceinline__ void meet(uint32_t team) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(1 + 2 * TEAMS + team),
                 "n"(32 * CIPHER_WARPS)
                 : "memory");
}

// Registers pass from cipher warps to hash warps where the chip can do that.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool STRINGS_HELD = true;
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 80;");
}
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
}
#else
constexpr bool STRINGS_HELD = false;
__device__ __forceinline__ void give_registers() {}
__device__ __forceinline__ void take_registers() {}
#endif

// Two rows of a quad as the tensor cores take them, so that the hash warp need not move words
// about: [word][pair][lane][2].
__device__ __forceinline__ void store_pair(uint32_t at, const uint4 (&rows)[2]) {
    const auto store = [at](uint32_t word, uint32_t a, uint32_t b) {
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at + 512 * word), "r"(a), "r"(b)
                     : "memory");
    };
    store(0, rows[0].x, rows[1].x);
    store(1, rows[0].y, rows[1].y);
    store(2, rows[0].z, rows[1].z);
    store(3, rows[0].w, rows[1].w);
}

__device__ __forceinline__ Quad load_quad(uint32_t at) {
    Quad quad;
#pragma unroll
    for (uint32_t word = 0; word < 4; word++) {
        uint4& four = quad.words[word];
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%4];\n\tld.shared.v2.u32 {%2, %3}, [%4 + 256];"
                     : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
                     : "r"(at + 512 * word)
                     : "memory");
    }
    return quad;
}

// Brings a line into the first cache; nobody waits for it.
__device__ __forceinline__ void touch(const void* at) {
    [[maybe_unused]] uint32_t word;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(at));
}

// A team's portions.
template <class Body>
__device__ __forceinline__ void each_portion(const Work& work, uint32_t team, const Body& body) {
    each_portion(work, STEP_ROWS, blockIdx.x * TEAMS + team, gridDim.x * TEAMS, body);
}

template <int ROUNDS, bool DECRYPT>
__device__ __forceinline__ void encipher(const Work& work, const GcmMessage* messages,
                                         const RoundKeys& keys) {
    give_registers();
    const Lane t = Lane::here();
    const uint32_t lane = t.number(), warp = threadIdx.x >> 5;
    const uint32_t team = warp / CIPHER_WARPS, first = warp % CIPHER_WARPS * ROWS_EACH;
    const uint32_t fars = SHARED_BASE + FARS_AT + 512 * team;
    const uint32_t pair_at = SHARED_BASE + STEPS_AT + team * STEP_BYTES + first / 4 * 2048 +
                             first % 4 / 2 * 256 + 8 * lane;
    const uint32_t written = 1 + 2 * team, read = written + 1;

    each_portion(work, team, [&](const Portion& portion) {
        const Piece& piece = work.pieces[portion.number];
        const Counter start = Counter::of(messages[piece.message].counter)
                                  .plus32(1 + piece.before / 16 + 32 * portion.from);
        uint4 near[ROWS_EACH];
        uint32_t group[ROWS_EACH]; // of the first step, counted from that of the portion's start
#pragma unroll
        for (uint32_t i = 0; i < ROWS_EACH; i++) {
            const uint32_t place = 32 * (first + i) + lane;
            near[i] = near_part(t, near_column(t, start.plus32(place).block(), keys));
            group[i] = fars + 16 * ((uint32_t(start.low & 255) + place) >> 8);
        }
        const uint64_t at = 512 * (portion.from + first) + 16 * lane;
        const uint8_t* input = piece.input + at;
        uint8_t* output = piece.output + at;
        uint64_t left = piece.len > at ? piece.len - at : 0; // bytes from this lane's block on
        uint32_t rows = portion.rows;                        // left of the portion
        uint32_t fast = 0;
        if (aligned(piece.input, 16) && aligned(piece.output, 16)) {
            const uint64_t whole = (piece.len - 512 * portion.from) / STEP_BYTES;
            fast = rows / STEP_ROWS < whole ? rows / STEP_ROWS : uint32_t(whole);
        }
        uint32_t steps = (rows + STEP_ROWS - 1) / STEP_ROWS;
        left = left > uint64_t(fast) * STEP_BYTES ? left - uint64_t(fast) * STEP_BYTES : 0;
        Counter ahead = start.plus32(256 * lane);
        // The last of 32 groups is only the second of a step.
        while (steps > 0) {
            const uint32_t count = steps < 31 ? steps : 31;
            steps -= count;
            // One warp of the team makes them for all; in turns, as pieces may be short.
            meet(team);
            if (first / ROWS_EACH == (portion.number & CIPHER_WARPS - 1))
                store_shared(fars + 16 * lane, far_part(t, ahead.block(), keys));
            ahead = ahead.plus32(31 * 256);
            meet(team);
            uint32_t step = 0;
#pragma unroll 1
            for (; step < count && fast > 0; step++, fast--) {
                uint4 text[ROWS_EACH], result[ROWS_EACH];
#pragma unroll
                for (uint32_t i = 0; i < ROWS_EACH; i++) text[i] = load_aligned(input + 512 * i);
#pragma unroll
                for (uint32_t i = 0; i < ROWS_EACH; i++)
                    result[i] = text[i] ^ rounds_from<false, ROUNDS, 3>(
                                              t, near[i] ^ load_shared(group[i] + 16 * step), keys);
#pragma unroll
                for (uint32_t i = 0; i < ROWS_EACH; i++)
                    store_aligned(output + 512 * i, result[i]);
                wait_for(read);
                store_pair(pair_at, DECRYPT ? text : result);
                signal(written);
                input += STEP_BYTES;
                output += STEP_BYTES;
                rows -= STEP_ROWS;
            }
#pragma unroll 1
            for (; step < count; step++) {
                uint4 blocks[ROWS_EACH] = {};
#pragma unroll 1
                for (uint32_t i = 0; i < ROWS_EACH; i++) {
                    const uint4 base = i == 0 ? near[0] : near[1];
                    const uint32_t place = (i == 0 ? group[0] : group[1]) + 16 * step;
                    const uint4 stream =
                        rounds_from<false, ROUNDS, 3>(t, base ^ load_shared(place), keys);
                    if (first + i < rows && left > 512 * i) {
                        const uint32_t len = block_len(left, 512 * i);
                        const uint4 text = load(input + 512 * i, len);
                        const uint4 result = first_bytes(text ^ stream, len);
                        store(output + 512 * i, result, len);
                        blocks[1] = DECRYPT ? text : result;
                    }
                    if (i == 0) blocks[0] = blocks[1], blocks[1] = make_uint4(0, 0, 0, 0);
                }
                wait_for(read);
                store_pair(pair_at, blocks);
                signal(written);
                input += STEP_BYTES;
                output += STEP_BYTES;
                rows = rows < STEP_ROWS ? 0 : rows - STEP_ROWS;
                left = left < STEP_BYTES ? 0 : left - STEP_BYTES;
            }
        }
    });
    // The hash warp's last signal.
    wait_for(read);
}

__device__ __forceinline__ void hash(const Work& work, GcmMessage* messages,
                                     const GcmPowers* powers) {
    const uint32_t lane = threadIdx.x & 31, team = (threadIdx.x >> 5) - TEAM_WARPS;
    const uint32_t strings = SHARED_BASE + STRINGS_AT + 16 * lane;
    const uint32_t step_at = SHARED_BASE + STEPS_AT + team * STEP_BYTES + 8 * lane;
    const uint32_t written = 1 + 2 * team, read = written + 1;
    take_registers();
    signal(read);
    each_portion(work, team, [&](const Portion& portion) {
        const Piece& piece = work.pieces[portion.number];
        const uint32_t steps = (portion.rows + STEP_ROWS - 1) / STEP_ROWS;
        Running running = {};
        // The next message's counter comes into the cache before the team asks for it.
        const uint64_t later = portion.number + 1;
        const uint32_t next = later < work.count ? work.pieces[later].message : piece.message;
#pragma unroll 1
        for (uint32_t step = 0; step < steps; step++) {
            wait_for(written);
            Quad quads[STEP_ROWS / 4];
#pragma unroll
            for (uint32_t i = 0; i < STEP_ROWS / 4; i++) quads[i] = load_quad(step_at + 2048 * i);
            signal(read);
            quads[0].add(running);
            running = ghash_rows(
                STRINGS_HELD ? strings : strings_anew<STEP_ROWS / 4>(strings, lane), quads);
            if (step == 0) touch(&messages[next].counter);
        }
        const uint64_t in_blocks = (piece.len + 15) / 16 - 32 * portion.from;
        const uint64_t mine = 32ull * portion.rows < in_blocks ? 32ull * portion.rows : in_blocks;
        const uint64_t behind = piece.after_blocks() + in_blocks - mine;
        const uint32_t beyond = 256 * steps - uint32_t(mine);
        const uint4 sum = join_groups(running, beyond, behind, powers);
        if (lane == 0) add_to(&messages[piece.message].hash, sum);
    });
}

template <int ROUNDS, bool DECRYPT>
__device__ __forceinline__ void gcm_long(const Work& work, GcmMessage* messages,
                                         const RoundKeys& keys, const GcmPowers* powers) {
    fill_strings<STEP_ROWS / 4>(shared + STRINGS_AT, powers);
    fill_tables<false>();
    if (threadIdx.x < 32 * TEAM_WARPS) encipher<ROUNDS, DECRYPT>(work, messages, keys);
    else hash(work, messages, powers);
}

#define WARPLOCK_GCM_LONG(SIZE, ROUNDS)                                                         \
    extern "C" __global__ void __launch_bounds__(GCM_LONG_THREADS, 1)                           \
        gcm_long_encrypt_##SIZE(const __grid_constant__ Work work, GcmMessage* messages,        \
                                const __grid_constant__ RoundKeys keys,                         \
                                const GcmPowers* powers) {                                      \
        gcm_long<ROUNDS, false>(work, messages, keys, powers);                                  \
    }                                                                                           \
    extern "C" __global__ void __launch_bounds__(GCM_LONG_THREADS, 1)                           \
        gcm_long_decrypt_##SIZE(const __grid_constant__ Work work, GcmMessage* messages,        \
                                const __grid_constant__ RoundKeys keys,                         \
                                const GcmPowers* powers) {                                      \
        gcm_long<ROUNDS, true>(work, messages, keys, powers);                                   \
    }
WARPLOCK_GCM_LONG(128, 10)
WARPLOCK_GCM_LONG(192, 12)
WARPLOCK_GCM_LONG(256, 14)
extern "C" __device__ const uint32_t shared_gcm_long = GCM_LONG_SHARED;
