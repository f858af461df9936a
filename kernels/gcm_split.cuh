// GCM (SP 800-38D) of much text under one key, on Hopper: some multiprocessors only hash what all
// others encipher.
//
// As soon as a multiprocessor uses its tensor cores, the clock of its whole neighbourhood (a GPC of
// 16 or 18) falls from 1.98 to some 1.83 GHz. In gcm_long.cuh every multiprocessor hashes, and so
// all are slow; here only those of one GPC do. Work is handed out by counters: enciphering warps
// take portions of four units (16 KiB each), hashing blocks take tiles of 16 to 128 units. When
// sealing, those that only hash encipher until there is something to hash; and of a message alone,
// those that enciphered hash what is left.
//
// When sealing, a tile is hashed once all of it was enciphered; when opening in place, it is
// enciphered once it was hashed. So one side leads and never waits; the other follows. (Opening
// into other memory, neither waits, but hashing for the masks that tags need.) What if the blocks
// that should lead find no multiprocessor? A block that waits for long leads itself for a while,
// and those that only enciphered hash if nobody else does. So no launch hangs, whoever shares the
// device.
//
// Needs pieces with equally many units each, texts at multiples of 16 bytes, and, unless all
// messages are plain, gcm_prepare.
#pragma once
#include "gcm_hash_scout.cuh"
#include "gcm_split_join.cuh"
#include "sliced.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr uint32_t SPLIT_THREADS = 768, SPLIT_WARPS = SPLIT_THREADS / 32;
constexpr uint32_t PORTION = 4; // units
// The first and the last units are portions of their own: hashing begins sooner, and what is hashed
// last does not all become ready at the very end.
constexpr uint32_t RAMP = 384, LATE = 1024;
// Portions of a warp that will hash, when sealing: at first there is nothing to hash.
constexpr uint32_t FIRST_PORTIONS = 2;
static_assert(RAMP % PORTION == 0, "no portion lies in two tiles");
// Of a warp: for each of the portion's units, `far` of five groups and two blocks that say where.
constexpr uint32_t STASH_BYTES = 128 * PORTION;
constexpr uint32_t IMPATIENT_AT = TABLES + SPLIT_WARPS * STASH_BYTES;
constexpr uint32_t ALONE_AT = IMPATIENT_AT + 16;
constexpr uint32_t SPLIT_SHARED = HASH_SHARED;
static_assert(ALONE_AT + 64 <= SPLIT_SHARED, "hashing needs more");

constexpr uint32_t UNIT_ROWS = 4; // a warp's
static_assert(TILE % PORTION == 0 && UNIT_BYTES == 8 * UNIT_ROWS * 512, "four cycles of eight rows");

// What a lane of a warp lays ready: lanes 8u to 8u + 4 `far` of unit u's groups, lane 8u + 6 where
// the warp's first row is, lane 8u + 7 the unit's bytes (0: there is none), the first counter's
// last byte, and column 0 after the first round without that byte's term.
template <int ROUNDS>
__device__ __forceinline__ void lay_ready(Lane t, const Work& work, const GcmMessage* messages,
                                          const RoundKeys& keys, bool plain, uint32_t first,
                                          uint32_t count, uint32_t row, uint32_t stash) {
    const uint32_t unit = first + (t.number() >> 3), part = t.number() & 7;
    uint4 block = make_uint4(0, 0, 0, 0), where = block, what = block;
    if (t.number() < 8 * count && unit < uint32_t(work.units)) {
        const uint32_t each = uint32_t(work.each), number = unit / each;
        const Piece& piece = work.pieces[number];
        const uint64_t from = uint64_t(UNIT_BYTES) * (unit - number * each);
        const GcmMessage& message = messages[piece.message];
        const Counter start = Counter::of(plain ? standard_counter(message.iv) : message.counter)
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

// The message of a launch that has only one, for all warps of a block.
struct Alone {
    uint64_t input, output, len;
    Counter start; // the text's first

    static __device__ __forceinline__ void put(const Piece& piece, const GcmMessage& message,
                                               bool plain) {
        const uint4 first = plain ? standard_counter(message.iv) : message.counter;
        *reinterpret_cast<Alone*>(shared + ALONE_AT) = {
            uint64_t(piece.input), uint64_t(piece.output), piece.len,
            Counter::of(first).plus32(1 + piece.before / 16)};
    }
    static __device__ __forceinline__ const volatile Alone& get() {
        return *reinterpret_cast<const volatile Alone*>(shared + ALONE_AT);
    }
    __device__ __forceinline__ Counter counter() const volatile { return {start.high, start.low}; }
};

// As `lay_ready`, for a portion of a message alone that has all its bytes: one run of rows. Lanes 0
// to 16 lay `far` of its groups, lane 30 where it is; the rest is the same for all portions.
template <int ROUNDS>
__device__ __forceinline__ void lay_ready_alone(Lane t, const RoundKeys& keys, uint32_t first,
                                                uint32_t row, uint32_t stash) {
    const volatile Alone& alone = Alone::get();
    const Counter start = alone.counter().plus32(UNIT_BYTES / 16 * first);
    const uint4 far = far_part(t, start.plus32(256 * t.number()).block(), keys);
    const uint64_t from = uint64_t(UNIT_BYTES) * first + 512 * row;
    const uint64_t input = alone.input + from, output = alone.output + from;
    const uint4 where = make_uint4(uint32_t(input), uint32_t(input >> 32), uint32_t(output),
                                   uint32_t(output >> 32));
    __syncwarp();
    store_shared(stash + 16 * t.number(), t.number() == 30 ? where : far);
    __syncwarp();
}

// A warp's rows of one unit, or of several that follow each other: every eighth, so that byte 15 of
// its counters stays the same. `len`: the unit's bytes.
template <int ROUNDS>
__device__ __forceinline__ void encipher_rows(Lane t, const RoundKeys& keys, uint32_t row,
                                              uint32_t rows, uint32_t at, uint4 where, uint32_t len,
                                              uint32_t place, uint4 near) {
    const uint8_t* input =
        reinterpret_cast<const uint8_t*>(uint64_t(where.y) << 32 | where.x) + 16 * t.number();
    uint8_t* output =
        reinterpret_cast<uint8_t*>(uint64_t(where.w) << 32 | where.z) + 16 * t.number();
    uint32_t far = at + 16 * (place >> 8);
    if (len == UNIT_BYTES) {
        const uint64_t once = used_once();
#pragma unroll 1
        for (uint32_t i = 0; i < rows; i += 2) {
            const uint4 first = load_aligned(input, once), second = load_aligned(input + 4096, once);
            uint4 a = near ^ load_shared(far), b = near ^ load_shared(far + 16);
            rounds_of_two<false, ROUNDS, 3>(t, a, b, keys);
            store_aligned(output, first ^ a);
            store_aligned(output + 4096, second ^ b);
            input += 8192, output += 8192, far += 32;
        }
        return;
    }
#pragma unroll 1
    for (uint32_t i = 0; i < UNIT_ROWS; i++) {
        const uint4 stream = rounds_from<false, ROUNDS, 3>(t, near ^ load_shared(far), keys);
        const uint32_t from = 512 * (row + 8 * i) + 16 * t.number();
        if (from < len) {
            const uint32_t bytes = block_len(len, from);
            store(output, load(input, bytes) ^ stream, bytes);
        }
        input += 4096, output += 4096, far += 16;
    }
}

// Portions of masks, of plain messages: 32 messages each, a portion for each of eight warps.
__device__ __forceinline__ uint32_t mask_portions(const Work& work, bool plain) {
    return plain ? (uint32_t(work.count) + 255) / 256 * 8 : 0;
}

// Enciphers portions until all are taken, or each warp has done `most`. `pending`: one that this
// warp took before and has not begun. False: others let it wait for too long.
template <int ROUNDS, bool DECRYPT>
__device__ __forceinline__ bool encipher_portions(const Work& work, GcmMessage* messages,
                                                  const RoundKeys& keys, Split* split, bool plain,
                                                  bool patient, uint32_t most,
                                                  uint32_t& pending) {
    uint32_t& impatient = *reinterpret_cast<uint32_t*>(shared + IMPATIENT_AT);
    if (threadIdx.x == 0) {
        impatient = 0;
        Alone::put(work.pieces[0], messages[work.pieces[0].message], plain);
    }
    fill_tables<false>();
    const Lane t = Lane::here();
    const uint32_t warp = threadIdx.x >> 5, row = warp & 7;
    const uint32_t stash = SHARED_BASE + TABLES + STASH_BYTES * warp;
    const uint32_t key_15 = keys.round[0].w >> 24;
    const uint32_t units = uint32_t(work.units);
    const uint32_t whole = units > RAMP + LATE ? (units - RAMP - LATE) / PORTION : 0;
    // Masks first; then eight warps share a portion, each with its own rows.
    const uint32_t masks = mask_portions(work, plain);
    const uint32_t total = masks + 8 * (units - (PORTION - 1) * whole);
    const auto take = [&] {
        return t.number() == 0 ? 8 * atomicAdd(&split->next_portion[row], 1) + row : 0;
    };
    if (pending == NONE) pending = __shfl_sync(~0u, take(), 0);
    uint4 near = make_uint4(0, 0, 0, 0);
    uint32_t column = 0, low = NONE; // that `near` is for
    const uint64_t alone_bytes = work.count == 1 ? Alone::get().len : 0;
    if (alone_bytes > 0) {
        // Byte 15 apart, column 0 is the same for all counters of a message.
        const uint4 start = Alone::get().counter().block();
        low = start.w >> 24;
        column = near_column(t, start, keys) ^ look<3, 3>(t, start.w ^ keys.round[0].w);
        near = near_part(t, column ^ look<3, 0>(t, low + 32 * row + t.number() ^ key_15));
    }
#pragma unroll 1
    while (pending < total) {
        if (pending < masks) {
            const uint32_t number = 32 * pending + t.number();
            GcmMessage& message = messages[number < work.count ? number : 0];
            const uint4 mask = cipher<false, ROUNDS>(t, standard_counter(message.iv), keys);
            if (number < work.count) message.mask = mask;
            __syncwarp();
            if (t.number() == 0) add_release(&split->masked, 1);
            pending = __shfl_sync(~0u, take(), 0);
            continue;
        }
        const uint32_t portion = (pending - masks) >> 3;
        const bool is_whole = portion >= RAMP && portion < RAMP + whole;
        const uint32_t count = is_whole ? PORTION : 1;
        const uint32_t first =
            portion + (PORTION - 1) * (is_whole ? portion - RAMP : portion < RAMP ? 0 : whole);
        if (DECRYPT && Alone::get().input == Alone::get().output) {
            // One lane asks: all must have the same answer.
            const bool ready =
                t.number() != 0 || comes(&split->tiles[first / TILE].ready, SCOUT_WARPS, patient);
            if (!__all_sync(~0u, ready)) {
                impatient = 1;
                break;
            }
            __syncwarp();
        }
        const uint32_t next = DECRYPT || --most > 0 ? take() : NONE;
        const bool run = uint64_t(UNIT_BYTES) * (first + count) <= alone_bytes;
        if (run) lay_ready_alone<ROUNDS>(t, keys, first, row, stash);
        else lay_ready<ROUNDS>(t, work, messages, keys, plain, first, count, row, stash);
        const uint32_t rows = run ? UNIT_ROWS * count : UNIT_ROWS;
#pragma unroll 1
        for (uint32_t at = run ? stash + 384 : stash; at < stash + (run ? 512 : 128 * count);
             at += 128) {
            const uint4 where = load_shared(at + 96);
            uint4 what = load_shared(at + 112);
            if (run) what = make_uint4(UNIT_BYTES, low, column, 0);
            if (what.x == 0) break;
            const uint32_t place = what.y + 32 * row + t.number();
            if (what.z != column || what.y != low) {
                column = what.z, low = what.y;
                near = near_part(t, column ^ look<3, 0>(t, place ^ key_15));
            }
            encipher_rows<ROUNDS>(t, keys, row, rows, run ? stash : at, where, what.x, place, near);
        }
        __syncwarp();
        if (!DECRYPT && t.number() == 0) add_release(&split->tiles[first / TILE].ready, count);
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
                                           const GcmPowers* powers, Split* split, uint32_t masks,
                                           uint32_t tag_len, bool patient, uint32_t& pending) {
    fill_matrices(powers);
    __syncthreads();
    if (threadIdx.x < FIRST_SCOUT) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 168;");
        hash_group<DECRYPT>(Tiles<DECRYPT>(work).usual);
        asm volatile("setmaxnreg.dec.sync.aligned.u32 80;");
        pass(GIVEN_BACK, 384);
        pass(GIVEN_BACK + 1, 640);
    } else if (threadIdx.x < 384) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
        scout<DECRYPT>(work, messages, powers, split, masks, tag_len, patient, pending);
        // No sooner: the groups would never get theirs.
        wait_at(GIVEN_BACK, 384);
        asm volatile("setmaxnreg.inc.sync.aligned.u32 80;");
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        wait_at(GIVEN_BACK + 1, 640);
        asm volatile("setmaxnreg.inc.sync.aligned.u32 80;");
    }
    __syncthreads();
    const bool done = *reinterpret_cast<volatile uint32_t*>(shared + RESULTS_AT) == 0;
    __syncthreads();
    return done;
}

// Whether this multiprocessor is one of those that hash.
__device__ __forceinline__ bool is_hasher(const uint8_t* places, uint32_t hashers) {
    uint32_t multiprocessor, place;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(place) : "l"(places + multiprocessor));
    return place != 0 && place <= hashers;
}

// Whether a block that has enciphered hashes, too, said by its first scout. If hashers are there,
// they need help only with short tiles, of which it takes one.
__device__ __forceinline__ bool helps(const Work& work, Split* split, const uint8_t* places,
                                      uint32_t hashers, uint32_t& pending) {
    if (threadIdx.x != FIRST_SCOUT) return false;
    if (load_acquire(&split->hashing) == 0 || is_hasher(places, hashers)) return true;
    const Tiles<false> tiles(work);
    if (tiles.shorts == NONE) return false;
    pending = atomicAdd(&split->next_tile, 1);
    return pending < tiles.count;
}

// What is left when all is taken. Out of line, so that nothing is kept in registers for it.
template <bool DECRYPT>
__device__ __noinline__ void end_split(const Work& work, GcmMessage* messages,
                                       const GcmPowers* powers, Split* split, bool plain,
                                       uint32_t tag_len) {
    const uint32_t masks = work.each == 1 ? mask_portions(work, plain) : 0;
    join_tiles<DECRYPT>(work, messages, powers, split, tag_len, masks, 1);
    // The last block makes the tags that are not made yet, if there are few (else `tag_len` is 0),
    // and readies everything for the next launch.
    __syncthreads();
    bool last = false;
    if (threadIdx.x == 0) {
        // Behind the barrier, so that it orders what other threads did (PTX ISA, causality order).
        last = add_acquire_release(&split->left, 1) == gridDim.x - 1;
    }
    if (!__syncthreads_or(last)) return;
    if (threadIdx.x == 0)
        split->next_tile = split->next_join = split->hashing = split->left = split->masked = 0;
    if (tag_len > 0 && work.each > 1 && threadIdx.x < work.count)
        finish_message(messages[threadIdx.x], make_uint4(0, 0, 0, 0), powers, tag_len, DECRYPT);
    if (threadIdx.x < 8) split->next_portion[threadIdx.x] = 0;
    for (uint32_t i = threadIdx.x; i < (uint32_t(work.units) + TILE - 1) / TILE; i += SPLIT_THREADS)
        split->tiles[i].ready = 0;
}

template <int ROUNDS, bool DECRYPT>
__device__ __forceinline__ void gcm_split(const Work& work, GcmMessage* messages,
                                          const RoundKeys& keys, const GcmPowers* powers,
                                          Split* split, const uint8_t* places, uint32_t hashers,
                                          bool plain, uint32_t tag_len) {
    const bool hasher = is_hasher(places, hashers);
    if (hasher && threadIdx.x == 0) atomicAdd(&split->hashing, 1);
    // What the side that follows has taken, but not begun. The other takes nothing before it can
    // begin.
    uint32_t pending = NONE;
    bool hashes = DECRYPT && hasher, patient = true;
    uint32_t most = hasher && !DECRYPT ? FIRST_PORTIONS : NONE;
#pragma unroll 1
    while (true) {
        uint32_t none = NONE;
        const bool done =
            hashes ? hash_tiles<DECRYPT>(work, messages, powers, split, mask_portions(work, plain),
                                         tag_len, patient, DECRYPT ? none : pending)
                   : encipher_portions<ROUNDS, DECRYPT>(work, messages, keys, split, plain, patient,
                                                        most, DECRYPT ? pending : none);
        const bool follows = hashes != DECRYPT;
        if (follows && done) {
            // Those that open into other memory did not wait for hashing: it may be behind, or not
            // have begun.
            if (!DECRYPT) break;
            const bool is_behind = threadIdx.x == 0 && is_apart(work) &&
                                   load_acquire(&split->next_tile) < Tiles<DECRYPT>(work).count;
            if (!__syncthreads_or(is_behind)) break;
        }
        if (!follows) {
            const bool hash = DECRYPT || helps(work, split, places, hashers, pending);
            if (!__syncthreads_or(hash)) break;
            // All is taken by blocks that run: it will come. (Masks, too, once this block has
            // enciphered, if it waited for them in vain.)
            patient = most != NONE;
            most = NONE;
            // Those that hashed add up before they encipher, so that nothing is left for the end.
            // (Of messages of one unit, scouts have made the tags.)
            if (DECRYPT && work.each > 1 && is_apart(work))
                join_tiles<DECRYPT>(work, messages, powers, split, tag_len, 0, JOINED);
        }
        hashes = !hashes;
    }
    end_split<DECRYPT>(work, messages, powers, split, plain, tag_len);
}

#define WARPLOCK_GCM_SPLIT_WAY(WAY, SIZE, ROUNDS, DECRYPT)                                      \
    extern "C" __global__ void __launch_bounds__(SPLIT_THREADS, 1) gcm_split_##WAY##_##SIZE(    \
        const __grid_constant__ Work work, GcmMessage* messages,                                \
        const __grid_constant__ RoundKeys keys, const GcmPowers* powers, Split* split,          \
        const uint8_t* places, uint32_t hashers, uint32_t plain, uint32_t tag_len) {            \
        gcm_split<ROUNDS, DECRYPT>(work, messages, keys, powers, split, places, hashers, plain,  \
                                   tag_len);                                                    \
    }
#define WARPLOCK_GCM_SPLIT(SIZE, ROUNDS)                                                        \
    WARPLOCK_GCM_SPLIT_WAY(encrypt, SIZE, ROUNDS, false)                                        \
    WARPLOCK_GCM_SPLIT_WAY(decrypt, SIZE, ROUNDS, true)
WARPLOCK_GCM_SPLIT(128, 10)
WARPLOCK_GCM_SPLIT(192, 12)
WARPLOCK_GCM_SPLIT(256, 14)
WARPLOCK_SHARED(gcm_split, SPLIT_SHARED);

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
