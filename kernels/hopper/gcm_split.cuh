// GCM (SP 800-38D) of much text under one key, on Hopper: some multiprocessors only hash what all
// others encrypt.
//
// As soon as a multiprocessor uses its tensor cores, the clock of its whole GPC (16 or 18
// multiprocessors) falls from 1.98 to about 1.83 GHz. In gcm_long.cuh every multiprocessor hashes,
// and so all are slow; here only those of one GPC are. Work is handed out by counters: encrypting
// warps take parts of units (16 KiB each), hashing blocks take tiles of 16 to 128 units. When
// sealing, the hashing blocks encrypt until there is something to hash, and the encrypting blocks
// hash what is left at the end.
//
// When sealing, a tile is hashed once all of it was encrypted; when opening in place, it is
// decrypted once it was hashed. So one side leads and never waits; the other follows. (When opening
// into other memory, neither waits, except that hashing waits for the masks that tags need.) If the
// blocks that should lead get no multiprocessor, a block that has waited for long leads for a while
// itself, and if none hashes, the encrypting blocks hash everything. So no launch hangs, even if
// other work shares the device.
//
// Needs pieces with equally many units each, whose inputs and outputs lie as far into their lines of
// 16 bytes as each other, and, unless all messages are plain, gcm_prepare. Where not all lie at the
// start of a line, there are kernels for texts at any byte.
#pragma once
#include "gcm_hash_any_byte.cuh"
#include "gcm_hash_scout.cuh"
#include "gcm_split_join.cuh"
#include "../sliced.cuh"
#include <type_traits>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr uint32_t SPLIT_THREADS = 768, SPLIT_WARPS = SPLIT_THREADS / 32;
// Every eighth row of a unit is a strand: byte 15 of its counters stays the same. A warp encrypts
// two neighbouring strands together, whose groups of counters are the same, except in some lanes.
constexpr uint32_t STRANDS = 8, STRAND_ROWS = UNIT_BYTES / 512 / STRANDS, PAIRS = STRANDS / 2;
// Units of a message alone of which four warps take two strands each. When sealing, more units
// would be hashed too late.
template <bool DECRYPT>
constexpr uint32_t RUN = DECRYPT ? 4 : 2;
// Of the first and the last units a warp takes no more than two strands: hashing begins sooner, and
// the units that are hashed last do not all become ready at the very end.
constexpr uint32_t RAMP = 384, LATE = 2048;
// Parts for a warp that will hash, when sealing: at first there is nothing to hash.
constexpr uint32_t FIRST_PARTS = 1;
// Of a warp: `far` of its part's groups, one for each lane.
constexpr uint32_t STASH_BYTES = 512;
static_assert(RUN<true> * STRAND_ROWS + 1 <= 32, "a lane for each group");
constexpr uint32_t IMPATIENT_AT = TABLES + SPLIT_WARPS * STASH_BYTES;
constexpr uint32_t ALONE_AT = IMPATIENT_AT + 16;
constexpr uint32_t SPLIT_SHARED = HASH_SHARED;
static_assert(ALONE_AT + 64 <= SPLIT_SHARED, "hashing needs more");
static_assert(UNIT_BYTES == STRANDS * STRAND_ROWS * 512 && SPLIT_WARPS % PAIRS == 0, "whole rows");
static_assert(RAMP % RUN<true> == 0 && TILE % RUN<true> == 0, "no part lies in two tiles");

// With a permutation for two bytes of four, the ALU is so busy that the speed depends on the
// compiler's schedule. (It still does, a little: hence the other order when sealing.)
template <bool DECRYPT>
using SplitLane = LaneOf<1, !DECRYPT>;

// What a warp takes at a time: strands of a unit, or, of a message alone, two of several units.
struct Part {
    uint32_t unit, units, strand, strands;
};

// How units are cut into parts. Where a warp takes two strands at a time, the part's number modulo
// four says which.
template <bool DECRYPT>
struct Parts {
    bool alone;
    uint32_t behind, total; // parts: all but the last small ones, all

    __device__ __forceinline__ explicit Parts(const Work& work) : alone(work.count == 1) {
        const uint32_t units = uint32_t(work.units);
        const uint32_t fours = units > RAMP + LATE ? (units - RAMP - LATE) / each() : 0;
        behind = PAIRS * (RAMP + fours);
        total = PAIRS * (units - (each() - 1) * fours);
    }
    // Units of four larger parts.
    __device__ __forceinline__ uint32_t each() const { return alone ? RUN<DECRYPT> : PAIRS; }

    __device__ __forceinline__ Part part(uint32_t number) const {
        const uint32_t four = number / PAIRS, place = number % PAIRS;
        if (number < PAIRS * RAMP) return {four, 1, 2 * place, 2};
        if (number >= behind)
            return {four + (each() - 1) * (behind / PAIRS - RAMP), 1, 2 * place, 2};
        const uint32_t from = RAMP + each() * (four - RAMP);
        if (alone) return {from, RUN<DECRYPT>, 2 * place, 2};
        return {from + place, 1, 0, STRANDS};
    }
};

// Where a lane's block of a unit's first row is, and what all blocks of the unit share.
struct Unit {
    uint64_t input, output;
    uint32_t len;
    uint32_t low;    // byte 15 of the first counter
    uint32_t column; // column 0 after the first round, without the term of byte 15
};

template <class Lane>
__device__ __forceinline__ uint32_t column_without(Lane t, uint4 block, const RoundKeys& keys) {
    return near_column(t, block, keys) ^ look<3, 3>(t, block.w ^ keys.round[0].w);
}

// Writes `far` of 32 groups, one for each lane's counter, to the warp's stash.
template <class Lane>
__device__ __forceinline__ void lay_far(Lane t, uint4 block, const RoundKeys& keys,
                                        uint32_t stash) {
    const uint4 far = far_part(t, block, keys);
    __syncwarp();
    store_shared(stash + 16 * t.number(), far);
    __syncwarp();
}

// Finds a unit, and prepares `far` of its groups.
template <class Lane>
__device__ __forceinline__ Unit ready_unit(Lane t, const Work& work, const GcmMessage* messages,
                                           const RoundKeys& keys, bool plain, uint32_t unit,
                                           uint32_t stash) {
    const uint32_t each = uint32_t(work.each), number = unit / each;
    const Piece& piece = work.pieces[number];
    const uint64_t from = uint64_t(UNIT_BYTES) * (unit - number * each);
    const GcmMessage& message = messages[piece.message];
    const Counter start = Counter::of(plain ? standard_counter(message.iv) : message.counter)
                              .plus32(1 + (piece.before + from) / 16);
    const uint64_t left = piece.len - from;
    lay_far_of_eight(t, start, keys, stash, thread_anew() & 31);
    // For each lane's counter, although it is the same: then the compiler schedules encryption
    // better.
    const uint32_t column = column_without(t, start.plus32(256 * t.number()).block(), keys);
    return {uint64_t(piece.input) + from + 16 * t.number(),
            uint64_t(piece.output) + from + 16 * t.number(),
            left < UNIT_BYTES ? uint32_t(left) : UNIT_BYTES, uint32_t(start.low & 255), column};
}

// The message of a launch that has only one, for all warps of a block.
struct Alone {
    uint64_t input, output, len;
    Counter start; // the text's first

    static __device__ __forceinline__ void put(const Work& work, const GcmMessage* messages,
                                               bool plain) {
        const Piece& piece = work.pieces[0];
        const GcmMessage& message = messages[piece.message];
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

// The same for units of a message alone that have all their bytes. `low` and `column` are the same
// for all of them.
template <class Lane>
__device__ __forceinline__ Unit ready_alone(Lane t, const RoundKeys& keys, uint32_t unit,
                                            uint32_t low, uint32_t column, uint32_t stash) {
    const volatile Alone& alone = Alone::get();
    const Counter start = alone.counter().plus32(UNIT_BYTES / 16 * unit);
    lay_far(t, start.plus32(256 * t.number()).block(), keys, stash);
    const uint64_t from = uint64_t(UNIT_BYTES) * unit + 16 * t.number();
    return {alone.input + from, alone.output + from, UNIT_BYTES, low, column};
}

// What lanes need of two neighbouring strands: `near` of both, the place of `far` of the first
// row's group, and the distance in bytes to that of the second one's.
struct Pair {
    uint4 near, second_near;
    uint32_t far, further;
};

// Rows of two strands that have all their bytes. At any byte, the key stream is moved to the lines
// in which text lies, so that only the ends of the rows are not whole lines.
template <int ROUNDS, bool ANY_BYTE, class Lane>
__device__ __forceinline__ void encipher_rows(Lane t, const RoundKeys& keys, uint64_t from,
                                              uint64_t to, uint32_t rows, const Pair& pair) {
    const uint8_t* input = reinterpret_cast<const uint8_t*>(from);
    uint8_t* output = reinterpret_cast<uint8_t*>(to);
    const uint32_t shift = ANY_BYTE ? uniform(shift_of(output)) : 0;
    input -= shift, output -= shift;
    uint32_t far = pair.far;
    const uint64_t once = used_once();
    const bool differ = __any_sync(~0u, pair.further != 0);
#pragma unroll 1
    for (uint32_t i = 0; i < rows; i++) {
        const uint32_t lane = t.number();
        uint32_t end_text = 0;
        [[maybe_unused]] int32_t end = 0;
        if constexpr (ANY_BYTE) {
            end = end_of_rows(2, shift, lane);
            if (shift != 0 && lane < 16) end_text = load_byte(input + end);
        }
        const uint4 first = load_aligned(input, once), second = load_aligned(input + 512, once);
        const uint4 first_far = load_shared(far);
        uint4 second_far = first_far;
        if (differ) second_far = load_shared(far + pair.further);
        uint4 stream[2] = {pair.near ^ first_far, pair.second_near ^ second_far};
        rounds_of_two<false, ROUNDS, 3>(t, stream[0], stream[1], keys);
        if (ANY_BYTE && shift != 0) {
            to_lines(stream, shift, lane);
            const uint32_t byte = end_byte(stream[0], lane);
            if (lane < 16) output[end] = uint8_t(end_text ^ byte);
            if (lane > 0) store_aligned(output, first ^ stream[0]);
        } else {
            store_aligned(output, first ^ stream[0]);
        }
        store_aligned(output + 512, second ^ stream[1]);
        output += 512 * STRANDS;
        input += 512 * STRANDS, far += 16;
    }
}

// The strand of a unit that ends early.
template <int ROUNDS, bool ANY_BYTE, class Lane>
__device__ __forceinline__ void encipher_end(Lane t, const RoundKeys& keys, const Unit& unit,
                                             uint32_t strand, uint32_t far, uint4 near) {
#pragma unroll 1
    for (uint32_t i = 0; i < STRAND_ROWS; i++) {
        const uint4 stream = rounds_from<false, ROUNDS, 3>(t, near ^ load_shared(far), keys);
        const uint32_t row = 512 * (strand + STRANDS * i), from = row + 16 * t.number();
        const uint32_t bytes = from < unit.len ? block_len(unit.len, from) : 0;
        const uint8_t* input = reinterpret_cast<const uint8_t*>(unit.input + row);
        uint8_t* output = reinterpret_cast<uint8_t*>(unit.output + row);
        if (ANY_BYTE) {
            const uint4 text = bytes ? load(input, bytes) : make_uint4(0, 0, 0, 0);
            const uint32_t lane = thread_anew() & 31;
            store_row(output, text ^ stream, bytes, lane > 0, lane);
        } else if (bytes > 0) {
            store(output, load(input, bytes) ^ stream, bytes);
        }
        far += 16;
    }
}

// Masks of plain messages are parts, too: 32 messages a part, which eight warps share.
__device__ __forceinline__ uint32_t mask_parts(const Work& work, bool plain) {
    return plain ? (uint32_t(work.count) + 255) / 256 * 8 : 0;
}

template <int ROUNDS, class Lane>
__device__ __forceinline__ void make_masks(Lane t, const Work& work, GcmMessage* messages,
                                           const RoundKeys& keys, Split* split, uint32_t part) {
    const uint32_t number = 32 * part + t.number();
    GcmMessage& message = messages[number < work.count ? number : 0];
    const uint4 mask = cipher<false, ROUNDS>(t, standard_counter(message.iv), keys);
    if (number < work.count) message.mask = mask;
    __syncwarp();
    if (t.number() == 0) add_release(&split->masked, 1);
}

// Encrypts parts until all are taken, or each warp has done `most`. `pending`: a part that this
// warp took before and has not begun. False: the wait for others was too long.
template <int ROUNDS, bool DECRYPT, bool ANY_BYTE>
__device__ __forceinline__ bool encipher_parts(const Work& work, GcmMessage* messages,
                                               const RoundKeys& keys, Split* split, bool plain,
                                               bool patient, uint32_t most, uint32_t& pending) {
    uint32_t& impatient = *reinterpret_cast<uint32_t*>(shared + IMPATIENT_AT);
    if (threadIdx.x == 0) {
        impatient = 0;
        Alone::put(work, messages, plain);
    }
    fill_tables<false>();
    const auto t = SplitLane<DECRYPT>::here();
    const uint32_t warp = threadIdx.x >> 5, eighth = warp & 7;
    const uint32_t stash = SHARED_BASE + TABLES + STASH_BYTES * warp;
    const uint32_t key_15 = keys.round[0].w >> 24;
    const uint32_t masks = mask_parts(work, plain); // come first
    const Parts<DECRYPT> parts(work);
    const auto take = [&] {
        return t.number() == 0 ? 8 * atomicAdd(&split->next_part[eighth], 1) + eighth : 0;
    };
    if (pending == NONE) pending = __shfl_sync(~0u, take(), 0);
    Pair pair = {};
    const auto find_near = [&](uint32_t column, uint32_t place) {
        pair.near = near_part(t, column ^ look<3, 0>(t, place ^ key_15));
        pair.second_near = near_part(t, column ^ look<3, 0>(t, place + 32 ^ key_15));
    };
    uint32_t low = 0, column = 0;
    const uint64_t alone_bytes = work.count == 1 ? Alone::get().len : 0;
    if (alone_bytes > 0) {
        // Column 0 without byte 15 is the same for all counters of a message.
        const uint4 start = Alone::get().counter().block();
        low = start.w >> 24, column = column_without(t, start, keys);
        find_near(column, low + 64 * (warp % PAIRS) + t.number());
    }
#pragma unroll 1
    while (pending < masks + parts.total) {
        if (pending < masks) {
            make_masks<ROUNDS>(t, work, messages, keys, split, pending);
            pending = __shfl_sync(~0u, take(), 0);
            continue;
        }
        const Part part = parts.part(pending - masks);
        if (DECRYPT && Alone::get().input == Alone::get().output) {
            // One lane asks: all must get the same answer.
            const bool ready = t.number() != 0 ||
                               comes(&split->tiles[part.unit / TILE].ready, SCOUT_WARPS, patient);
            if (!__all_sync(~0u, ready)) {
                impatient = 1;
                break;
            }
            __syncwarp();
        }
        const uint32_t next = DECRYPT || --most > 0 ? take() : NONE;
        // Their `near` is always the same.
        const bool is_run = uint64_t(UNIT_BYTES) * (part.unit + part.units) <= alone_bytes;
        const Unit unit = is_run
                              ? ready_alone(t, keys, part.unit, low, column, stash)
                              : ready_unit(t, work, messages, keys, plain, part.unit, stash);
#pragma unroll 1
        for (uint32_t strand = part.strand; strand < part.strand + part.strands; strand += 2) {
            const uint32_t place = unit.low + 32 * strand + t.number();
            pair.far = stash + 16 * (place >> 8);
            pair.further = 16 * (place + 32 >> 8) - 16 * (place >> 8);
            if (!is_run) find_near(unit.column, place);
            if (unit.len == UNIT_BYTES)
                encipher_rows<ROUNDS, ANY_BYTE>(t, keys, unit.input + 512 * strand,
                                                unit.output + 512 * strand,
                                                STRAND_ROWS * part.units, pair);
            else {
                encipher_end<ROUNDS, ANY_BYTE>(t, keys, unit, strand, pair.far, pair.near);
                encipher_end<ROUNDS, ANY_BYTE>(t, keys, unit, strand + 1, pair.far + pair.further,
                                               pair.second_near);
            }
        }
        __syncwarp();
        if (!DECRYPT && t.number() == 0)
            add_release(&split->tiles[part.unit / TILE].ready, part.units * part.strands);
        pending = __shfl_sync(~0u, next, 0);
    }
    __syncthreads();
    const bool done = impatient == 0;
    __syncthreads();
    return done;
}

// Hashes tiles until all are taken. `pending`: a tile that was taken before and not begun (of the
// first scout). False: the wait for others was too long.
template <bool DECRYPT, bool ANY_BYTE>
__device__ __forceinline__ bool hash_tiles(const Work& work, GcmMessage* messages,
                                           const GcmPowers* powers, Split* split, uint32_t masks,
                                           uint32_t tag_len, bool patient, uint32_t& pending) {
    using Group = std::conditional_t<ANY_BYTE, AnyByteGroup<DECRYPT>, HashGroup<DECRYPT>>;
    // H^64 down to H, in the order in which blocks are taken.
    fill_matrices<HASH_STEPS>([&](uint32_t number) {
        return powers->powers[0][4 * HASH_STEPS - Group::block_of(number / 4, number % 4)];
    });
    __syncthreads();
    if (threadIdx.x < FIRST_SCOUT) {
        // Hashing at any byte needs more registers, which scouts give.
        if (ANY_BYTE) asm volatile("setmaxnreg.inc.sync.aligned.u32 176;");
        else asm volatile("setmaxnreg.inc.sync.aligned.u32 168;");
        hash_group<Group>(Tiles<DECRYPT>(work).usual);
        asm volatile("setmaxnreg.dec.sync.aligned.u32 80;");
        pass(GIVEN_BACK, 384);
        pass(GIVEN_BACK + 1, 640);
    } else if (threadIdx.x < 384) {
        if (ANY_BYTE) asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        else asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
        scout<DECRYPT>(work, messages, powers, split, masks, tag_len, patient, pending);
        // Not earlier: the groups would never get their registers.
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

// Whether a block that has encrypted also hashes, as its first scout decides. If hashers are there,
// only if there is a tile left, which it takes.
__device__ __forceinline__ bool helps(const Work& work, Split* split, const uint8_t* places,
                                      uint32_t hashers, uint32_t& pending) {
    if (threadIdx.x != FIRST_SCOUT) return false;
    if (load_acquire(&split->hashing) == 0 || is_hasher(places, hashers)) return true;
    pending = atomicAdd(&split->next_tile, 1);
    return pending < Tiles<false>(work).count;
}

// The work left when all is taken.
template <bool DECRYPT>
__device__ __forceinline__ void end_split(const Work& work, GcmMessage* messages,
                                          const GcmPowers* powers, Split* split, bool plain,
                                          uint32_t tag_len) {
    if (work.each > 1) join_tiles<DECRYPT>(work, messages, powers, split, 1);
    else if (!makes_tags<DECRYPT>(work))
        join_messages<DECRYPT>(work, messages, powers, split, tag_len, mask_parts(work, plain));
    // The last block computes the tags that are missing, if there are few (else `tag_len` is 0),
    // and resets everything for the next launch.
    __syncthreads();
    bool last = false;
    if (threadIdx.x == 0) {
        // After the barrier, so that it orders what other threads did (PTX ISA, causality order).
        last = add_acquire_release(&split->left, 1) == gridDim.x - 1;
    }
    if (!__syncthreads_or(last)) return;
    if (threadIdx.x == 0)
        split->next_tile = split->next_join = split->hashing = split->left = split->masked = 0;
    if (tag_len > 0 && work.each > 1 && threadIdx.x < work.count)
        finish_message(messages[threadIdx.x], make_uint4(0, 0, 0, 0), powers, tag_len, DECRYPT);
    if (threadIdx.x < 8) split->next_part[threadIdx.x] = 0;
    for (uint32_t i = threadIdx.x; i < (uint32_t(work.units) + TILE - 1) / TILE; i += SPLIT_THREADS)
        split->tiles[i].ready = 0;
}

// Out of line, so that nothing is kept in registers for it. When opening, inlining it speeds up the
// cipher by a hundredth.
__device__ __noinline__ void end_sealing(const Work& work, GcmMessage* messages,
                                         const GcmPowers* powers, Split* split, bool plain,
                                         uint32_t tag_len) {
    end_split<false>(work, messages, powers, split, plain, tag_len);
}

template <int ROUNDS, bool DECRYPT, bool ANY_BYTE>
__device__ __forceinline__ void gcm_split(const Work& work, GcmMessage* messages,
                                          const RoundKeys& keys, const GcmPowers* powers,
                                          Split* split, const uint8_t* places, uint32_t hashers,
                                          bool plain, uint32_t tag_len) {
    const bool hasher = is_hasher(places, hashers);
    if (hasher && threadIdx.x == 0) atomicAdd(&split->hashing, 1);
    // What the following side has taken, but not begun. The other takes nothing before it can
    // begin.
    uint32_t pending = NONE;
    bool hashes = DECRYPT && hasher, patient = true;
    uint32_t most = hasher && !DECRYPT ? FIRST_PARTS : NONE;
#pragma unroll 1
    while (true) {
        uint32_t none = NONE;
        const bool done =
            hashes ? hash_tiles<DECRYPT, ANY_BYTE>(work, messages, powers, split,
                                                   mask_parts(work, plain), tag_len, patient,
                                                   DECRYPT ? none : pending)
                   : encipher_parts<ROUNDS, DECRYPT, ANY_BYTE>(work, messages, keys, split, plain,
                                                               patient, most,
                                                               DECRYPT ? pending : none);
        const bool follows = hashes != DECRYPT;
        if (follows && done) {
            // Blocks that open into other memory did not wait for hashing: it may be late, or not
            // have begun.
            if (!DECRYPT) break;
            const bool is_behind = threadIdx.x == 0 && is_apart(work) &&
                                   load_acquire(&split->next_tile) < Tiles<DECRYPT>(work).count;
            if (!__syncthreads_or(is_behind)) break;
        }
        if (!follows) {
            const bool hash = DECRYPT || helps(work, split, places, hashers, pending);
            if (!__syncthreads_or(hash)) break;
            // All is taken by blocks that run, so it will arrive. (Masks, too, once this block has
            // encrypted, if it waited for them in vain.)
            patient = most != NONE;
            most = NONE;
            // Blocks that hashed add up before they encrypt, so that nothing is left for the end.
            // (The tags of messages of one unit were computed by scouts.)
            if (DECRYPT && work.each > 1 && is_apart(work))
                join_tiles<DECRYPT>(work, messages, powers, split, JOINED);
        }
        hashes = !hashes;
    }
    if (DECRYPT) end_split<DECRYPT>(work, messages, powers, split, plain, tag_len);
    else end_sealing(work, messages, powers, split, plain, tag_len);
}

#define WARPLOCK_GCM_SPLIT_WAY(WAY, SIZE, ROUNDS, DECRYPT, ANY_BYTE)                            \
    extern "C" __global__ void __launch_bounds__(SPLIT_THREADS, 1) gcm_split_##WAY##_##SIZE(    \
        const __grid_constant__ Work work, GcmMessage* messages,                                \
        const __grid_constant__ RoundKeys keys, const GcmPowers* powers, Split* split,          \
        const uint8_t* places, uint32_t hashers, uint32_t plain, uint32_t tag_len) {            \
        gcm_split<ROUNDS, DECRYPT, ANY_BYTE>(work, messages, keys, powers, split, places,       \
                                             hashers, plain, tag_len);                          \
    }
#define WARPLOCK_GCM_SPLIT(SIZE, ROUNDS)                                                        \
    WARPLOCK_GCM_SPLIT_WAY(encrypt, SIZE, ROUNDS, false, false)                                 \
    WARPLOCK_GCM_SPLIT_WAY(decrypt, SIZE, ROUNDS, true, false)                                  \
    WARPLOCK_GCM_SPLIT_WAY(any_byte_encrypt, SIZE, ROUNDS, false, true)                         \
    WARPLOCK_GCM_SPLIT_WAY(any_byte_decrypt, SIZE, ROUNDS, true, true)
WARPLOCK_GCM_SPLIT(128, 10)
WARPLOCK_GCM_SPLIT(192, 12)
WARPLOCK_GCM_SPLIT(256, 14)
WARPLOCK_SHARED(gcm_split, SPLIT_SHARED);

#endif

// Its kernels find the multiprocessors that may hash.
#include "neighbours.cuh"
