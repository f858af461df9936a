// GCM (SP 800-38D) of much text under one key, on Hopper: some multiprocessors only hash what all
// others encipher.
//
// As soon as a multiprocessor uses its tensor cores, the clock of its whole neighbourhood (a GPC of
// 16 or 18) falls from 1.98 to some 1.83 GHz. In gcm_long.cuh every multiprocessor hashes, and so
// all are slow; here only those of one GPC do. Work is handed out by counters: enciphering warps
// take portions of four units (16 KiB each), hashing blocks take tiles of 32 units.
//
// When sealing, a tile is hashed once all of it was enciphered; when opening, perhaps in place,
// it is enciphered once it was hashed. So one side leads and never waits; the other follows. What
// if the blocks that should lead find no multiprocessor? A block that waits for long leads itself
// for a while, and when sealing those that led hash if nobody else does. So no launch hangs,
// whoever shares the device.
//
// Needs gcm_prepare, pieces with equally many units each, and texts at multiples of 16 bytes.
#pragma once
#include "gcm_hash_scout.cuh"
#include "sliced.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr uint32_t SPLIT_THREADS = 768, SPLIT_WARPS = SPLIT_THREADS / 32;
constexpr uint32_t PORTION = 4; // units
// Of a warp: for each of the portion's units, `far` of five groups and two blocks that say where.
constexpr uint32_t STASH_BYTES = 128 * PORTION;
constexpr uint32_t IMPATIENT_AT = TABLES + SPLIT_WARPS * STASH_BYTES;
constexpr uint32_t SPLIT_SHARED = HASH_SHARED;
static_assert(IMPATIENT_AT + 4 <= SPLIT_SHARED, "hashing needs more");

static_assert(TILE % PORTION == 0 && UNIT_BYTES == 32 * 512, "a unit has 32 rows: four cycles");

// What a lane of a warp lays ready: lanes 8u to 8u + 4 `far` of unit u's groups, lane 8u + 6 where
// the warp's first row is, lane 8u + 7 the unit's bytes (0: there is none), the first counter's
// last byte, and column 0 after the first round without that byte's term.
template <int ROUNDS>
__device__ __forceinline__ void lay_ready(Lane t, const Work& work, const GcmMessage* messages,
                                          const RoundKeys& keys, uint32_t first, uint32_t row,
                                          uint32_t stash) {
    const uint32_t unit = first + (t.number() >> 3), part = t.number() & 7;
    uint4 block = make_uint4(0, 0, 0, 0), where = block, what = block;
    if (unit < uint32_t(work.units)) {
        const uint32_t each = uint32_t(work.each), number = unit / each;
        const Piece& piece = work.pieces[number];
        const uint64_t from = uint64_t(UNIT_BYTES) * (unit - number * each);
        const Counter start = Counter::of(messages[piece.message].counter)
                                  .plus32(1 + (piece.before + from) / 16);
        block = start.plus32(256 * part).block();
        const uint64_t input = uint64_t(piece.input) + from + 512 * row,
                       output = uint64_t(piece.output) + from + 512 * row;
        where = make_uint4(uint32_t(input), uint32_t(input >> 32), uint32_t(output),
                           uint32_t(output >> 32));
        const uint64_t left = piece.len - from;
        what.x = left < UNIT_BYTES ? uint32_t(left) : UNIT_BYTES;
        what.y = uint32_t(start.low & 255);
    }
    what.z = near_column(t, block, keys) ^ look<3, 3>(t, block.w ^ keys.round[0].w);
    const uint4 far = far_part(t, block, keys);
    __syncwarp();
    store_shared(stash + 16 * t.number(), part == 6 ? where : part == 7 ? what : far);
    __syncwarp();
}

// A warp's rows of one unit: every eighth, so that byte 15 of its counters stays the same.
template <int ROUNDS>
__device__ __forceinline__ void encipher_unit(Lane t, const RoundKeys& keys, uint32_t row,
                                              uint32_t at, uint4 where, uint32_t len,
                                              uint32_t place, uint4 near) {
    const uint8_t* input =
        reinterpret_cast<const uint8_t*>(uint64_t(where.y) << 32 | where.x) + 16 * t.number();
    uint8_t* output =
        reinterpret_cast<uint8_t*>(uint64_t(where.w) << 32 | where.z) + 16 * t.number();
    uint32_t far = at + 16 * (place >> 8);
    if (len == UNIT_BYTES) {
#pragma unroll 1
        for (uint32_t i = 0; i < 4; i += 2) {
            const uint4 first = load_aligned(input), second = load_aligned(input + 4096);
            uint4 a = near ^ load_shared(far), b = near ^ load_shared(far + 16);
            rounds_of_two<false, ROUNDS, 3>(t, a, b, keys);
            store_aligned(output, first ^ a);
            store_aligned(output + 4096, second ^ b);
            input += 8192, output += 8192, far += 32;
        }
        return;
    }
#pragma unroll 1
    for (uint32_t i = 0; i < 4; i++) {
        const uint4 stream = rounds_from<false, ROUNDS, 3>(t, near ^ load_shared(far), keys);
        const uint32_t from = 512 * (row + 8 * i) + 16 * t.number();
        if (from < len) {
            const uint32_t bytes = block_len(len, from);
            store(output, load(input, bytes) ^ stream, bytes);
        }
        input += 4096, output += 4096, far += 16;
    }
}

// Enciphers portions until all are taken. `pending`: one that this warp took before and has not
// begun. False: others let it wait for too long.
template <int ROUNDS, bool DECRYPT>
__device__ __forceinline__ bool encipher_portions(const Work& work, const GcmMessage* messages,
                                                  const RoundKeys& keys, Split* split, bool patient,
                                                  uint32_t& pending) {
    uint32_t& impatient = *reinterpret_cast<uint32_t*>(shared + IMPATIENT_AT);
    if (threadIdx.x == 0) impatient = 0;
    fill_tables<false>();
    const Lane t = Lane::here();
    const uint32_t warp = threadIdx.x >> 5;
    const uint32_t stash = SHARED_BASE + TABLES + STASH_BYTES * warp;
    const uint32_t key_15 = keys.round[0].w >> 24;
    // Eight warps share a portion.
    const uint32_t total = 8 * ((uint32_t(work.units) + PORTION - 1) / PORTION);
    const auto take = [&] { return t.number() == 0 ? atomicAdd(&split->next_portion, 1) : 0; };
    if (pending == NONE) pending = __shfl_sync(~0u, take(), 0);
#pragma unroll 1
    while (pending < total) {
        const uint32_t first = PORTION * (pending >> 3), row = pending & 7;
        if constexpr (DECRYPT) {
            // One lane asks: all must have the same answer.
            const bool ready =
                t.number() != 0 || comes(&split->ready[first / TILE], 1, patient);
            if (!__all_sync(~0u, ready)) {
                impatient = 1;
                break;
            }
            __syncwarp();
        }
        const uint32_t next = take();
        lay_ready<ROUNDS>(t, work, messages, keys, first, row, stash);
        uint4 near = make_uint4(0, 0, 0, 0);
        uint32_t column = 0, low = NONE; // that `near` is for
#pragma unroll 1
        for (uint32_t at = stash; at < stash + STASH_BYTES; at += 128) {
            const uint4 where = load_shared(at + 96), what = load_shared(at + 112);
            if (what.x == 0) break;
            const uint32_t place = what.y + 32 * row + t.number();
            if (what.z != column || what.y != low) {
                column = what.z, low = what.y;
                near = near_part(t, column ^ look<3, 0>(t, place ^ key_15));
            }
            encipher_unit<ROUNDS>(t, keys, row, at, where, what.x, place, near);
        }
        __syncwarp();
        if (!DECRYPT && t.number() == 0) add_release(&split->ready[first / TILE], 1);
        pending = __shfl_sync(~0u, next, 0);
    }
    __syncthreads();
    const bool done = impatient == 0;
    __syncthreads();
    return done;
}

// Hashes tiles until all are taken. `pending`: one that was taken before and not begun (of the
// first scout). False: others let it wait for too long.
template <bool DECRYPT>
__device__ __forceinline__ bool hash_tiles(const Work& work, GcmMessage* messages,
                                           const GcmPowers* powers, Split* split, bool patient,
                                           uint32_t& pending) {
    fill_matrices(powers);
    __syncthreads();
    if (threadIdx.x < 256) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 168;");
        hash_group();
        asm volatile("setmaxnreg.dec.sync.aligned.u32 80;");
        __syncthreads();
    } else if (threadIdx.x < 384) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
        scout<DECRYPT>(work, messages, powers, split, patient, pending);
        // No sooner: the groups would never get theirs.
        __syncthreads();
        asm volatile("setmaxnreg.inc.sync.aligned.u32 80;");
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        __syncthreads();
        asm volatile("setmaxnreg.inc.sync.aligned.u32 80;");
    }
    const bool done = *reinterpret_cast<volatile uint32_t*>(shared + RESULTS_AT) == 0;
    __syncthreads();
    return done;
}

template <int ROUNDS, bool DECRYPT>
__device__ __forceinline__ void gcm_split(const Work& work, GcmMessage* messages,
                                          const RoundKeys& keys, const GcmPowers* powers,
                                          Split* split, const uint8_t* places, uint32_t hashers) {
    uint32_t multiprocessor;
    asm("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    const uint32_t place = places[multiprocessor];
    const bool hasher = place != 0 && place <= hashers;
    if (hasher && threadIdx.x == 0) atomicAdd(&split->hashing, 1);
    uint32_t portion = NONE, tile = NONE; // taken, but not begun
    bool hashes = hasher, patient = true;
#pragma unroll 1
    while (true) {
        const bool done =
            hashes ? hash_tiles<DECRYPT>(work, messages, powers, split, patient, tile)
                   : encipher_portions<ROUNDS, DECRYPT>(work, messages, keys, split, patient,
                                                        portion);
        const bool follows = hashes != DECRYPT;
        if (follows && done) return;
        if (!follows) {
            // When sealing, hashers need no help if there are any.
            if (!DECRYPT && !hasher &&
                __syncthreads_or(threadIdx.x == 0 && load_acquire(&split->hashing) > 0))
                return;
            // All is taken by blocks that run: it will come.
            patient = false;
        }
        hashes = !hashes;
    }
}

#define WARPLOCK_GCM_SPLIT_WAY(WAY, SIZE, ROUNDS, DECRYPT)                                      \
    extern "C" __global__ void __launch_bounds__(SPLIT_THREADS, 1) gcm_split_##WAY##_##SIZE(    \
        const __grid_constant__ Work work, GcmMessage* messages,                                \
        const __grid_constant__ RoundKeys keys, const GcmPowers* powers, Split* split,          \
        const uint8_t* places, uint32_t hashers) {                                              \
        gcm_split<ROUNDS, DECRYPT>(work, messages, keys, powers, split, places, hashers);       \
    }
#define WARPLOCK_GCM_SPLIT(SIZE, ROUNDS)                                                        \
    WARPLOCK_GCM_SPLIT_WAY(encrypt, SIZE, ROUNDS, false)                                        \
    WARPLOCK_GCM_SPLIT_WAY(decrypt, SIZE, ROUNDS, true)
WARPLOCK_GCM_SPLIT(128, 10)
WARPLOCK_GCM_SPLIT(192, 12)
WARPLOCK_GCM_SPLIT(256, 14)
extern "C" __device__ const uint32_t shared_gcm_split = SPLIT_SHARED;

// Before every launch: nothing is taken, nothing ready.
extern "C" __global__ void __launch_bounds__(128)
    gcm_split_begin(const GcmPowers* powers, Split* split, uint32_t tiles) {
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < TILE_STEPS)
        split->steps[thread] = h_power(powers, uint64_t(TILE_BLOCKS) * thread);
    if (thread == 0) split->next_portion = split->next_tile = split->hashing = 0;
    for (uint32_t i = thread; i < tiles; i += gridDim.x * blockDim.x) split->ready[i] = 0;
}

// Says on which multiprocessor each block runs. The blocks of a cluster are neighbours.
__device__ __forceinline__ void say_where(uint32_t* out) {
    if (threadIdx.x != 0) return;
    uint32_t multiprocessor;
    asm("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    out[blockIdx.x] = multiprocessor;
    // So that other blocks need other multiprocessors, as far as there are any.
    const uint64_t from = clock64();
    while (clock64() - from < 10000) {}
}
#define WARPLOCK_NEIGHBOURS(N)                                                                  \
    extern "C" __global__ void __cluster_dims__(N) __launch_bounds__(32)                        \
        neighbours_##N(uint32_t* out) {                                                         \
        say_where(out);                                                                         \
    }
WARPLOCK_NEIGHBOURS(2)
WARPLOCK_NEIGHBOURS(3)
WARPLOCK_NEIGHBOURS(4)
WARPLOCK_NEIGHBOURS(5)
WARPLOCK_NEIGHBOURS(6)
WARPLOCK_NEIGHBOURS(7)
WARPLOCK_NEIGHBOURS(8)

#endif
