// The four warps that tell hashing warps what comes next, and add up what those made: see
// gcm_hash.cuh. A lane has a stretch of each tile.
#pragma once
#include "gcm_hash_group.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Where a stretch lies. Of a tile that no text reaches, and of none, it has no bytes.
template <bool DECRYPT>
__device__ __forceinline__ uint64_t find_stretch(const Work& work, uint32_t tile, uint32_t row) {
    const uint32_t unit = TILE * tile + row / 4, each = uint32_t(work.each);
    const bool any = unit < uint32_t(work.units);
    const uint32_t number = any ? unit / each : 0;
    const Piece& piece = work.pieces[number];
    const uint64_t text = uint64_t(DECRYPT ? piece.input : piece.output);
    const uint64_t from =
        uint64_t(UNIT_BYTES) * (unit - number * each) + STRETCH_BYTES * (row % 4);
    if (!any || from >= piece.len) return stretch_of(text, 0, true);
    const uint64_t left = piece.len - from;
    return stretch_of(text + from, left < STRETCH_BYTES ? uint32_t(left) : STRETCH_BYTES, true);
}

// Sums over the tiles of a block: within one piece, a lane's stretches go on to have one sum.
struct Joined {
    uint4 sum;      // as far as the last of them
    uint32_t piece; // NONE: there are none
    uint32_t tile;  // the last one
};

// Adds `sum`, which has so many blocks of its message behind it, to its message's hash.
__device__ __forceinline__ void add_hash(GcmMessage& message, uint4 sum, uint64_t behind,
                                         const GcmPowers* powers) {
#pragma unroll 1
    for (uint32_t digit = 0; behind > 0; behind >>= 8, digit++)
        if (behind & 255) sum = multiply_here(sum, powers->powers[digit][behind & 255]);
    add_to(&message.hash, sum);
}

// Bytes of a unit's piece up to the end of this unit.
__device__ __forceinline__ uint64_t bytes_to(const Work& work, uint32_t number, uint32_t unit) {
    return uint64_t(UNIT_BYTES) * (unit + 1 - number * uint32_t(work.each));
}

__device__ __forceinline__ uint64_t blocks_behind(const Piece& piece, uint64_t to) {
    return piece.after_blocks() + (to < piece.len ? (piece.len - to + 15) / 16 : 0);
}

__device__ __forceinline__ void end_joined(const Work& work, GcmMessage* messages,
                                           const GcmPowers* powers, uint32_t row, Joined& joined) {
    if (joined.piece == NONE) return;
    const Piece& piece = work.pieces[joined.piece];
    uint4 sum = multiply_here(joined.sum, powers->powers[1][STRETCHES - 1 - row]);
#pragma unroll
    for (uint32_t by = 1; by < 32; by *= 2) sum = sum ^ shuffle_xor(sum, by);
    if (row % 32 == 0) {
        const uint64_t to = bytes_to(work, joined.piece, TILE * joined.tile + TILE - 1);
        add_hash(messages[piece.message], sum, blocks_behind(piece, to), powers);
    }
    joined.piece = NONE;
    __syncwarp();
}

// Adds a tile's results.
__device__ __forceinline__ void join(const Work& work, GcmMessage* messages,
                                     const GcmPowers* powers, const Split* split, uint32_t tile,
                                     uint32_t row, uint4 result, Joined& joined) {
    const uint4 sum = reflect(result);
    const uint32_t each = uint32_t(work.each), first = TILE * tile / each;
    if (bytes_to(work, first, TILE * tile + TILE - 1) <= work.pieces[first].len) {
        // All of it belongs to one piece. Blocks take tiles in order.
        const uint32_t steps = tile - joined.tile;
        if (joined.piece != first || steps >= TILE_STEPS) {
            end_joined(work, messages, powers, row, joined);
            joined = {sum, first, tile};
        } else {
            joined.sum = multiply_here(joined.sum, split->steps[steps]) ^ sum;
            joined.tile = tile;
        }
        return;
    }
    const uint32_t unit = TILE * tile + row / 4;
    if (unit < uint32_t(work.units)) {
        const uint32_t number = unit / each;
        const Piece& piece = work.pieces[number];
        const uint64_t to = bytes_to(work, number, unit) - STRETCH_BYTES * (3 - row % 4);
        if (to - STRETCH_BYTES < piece.len)
            add_hash(messages[piece.message], sum, blocks_behind(piece, to), powers);
    }
    __syncwarp();
}

template <bool DECRYPT>
__device__ __forceinline__ void scout(const Work& work, GcmMessage* messages,
                                      const GcmPowers* powers, Split* split, bool patient,
                                      uint32_t& pending) {
    const uint32_t row = threadIdx.x & STRETCHES - 1;
    const uint32_t tiles = (uint32_t(work.units) + TILE - 1) / TILE;
    uint64_t* stretches = reinterpret_cast<uint64_t*>(shared + STRETCHES_AT);
    volatile uint32_t* said = reinterpret_cast<volatile uint32_t*>(shared + RESULTS_AT);
    const uint32_t results = SHARED_BASE + RESULTS_AT + 16 * row;
    // The first scout's: a tile that was taken, and whether it let us wait for too long.
    bool waits = false;
    if (row == 0 && pending == NONE) pending = atomicAdd(&split->next_tile, 1);
    Joined joined = {make_uint4(0, 0, 0, 0), NONE, 0};
    uint32_t given = NONE, before = NONE; // tiles: the last one, and the one before it
#pragma unroll 1
    for (bool begun = false;; begun = true) {
        uint4 result = make_uint4(0, 0, 0, 0);
        if (begun) {
            wait_at(MADE, 384);
            if (before != NONE) {
                result = load_shared(results);
                if (DECRYPT && row == 0) add_release(&split->ready[before], 1);
            }
        }
        const bool goes_on = !begun || given != NONE;
        uint32_t next = NONE;
        if (goes_on) {
            if (row == 0) {
                if (!DECRYPT && pending < tiles) {
                    const uint32_t left = uint32_t(work.units) - TILE * pending;
                    const uint32_t units = left < TILE ? left : TILE;
                    // Eight warps to each portion of four units.
                    waits = !comes(&split->ready[pending], 8 * ((units + 3) / 4), patient);
                }
                *said = pending < tiles && !waits ? pending : NONE;
            }
            wait_at(SCOUTS, STRETCHES);
            next = *said;
            stretches[row] = next != NONE ? find_stretch<DECRYPT>(work, next, row)
                                          : stretch_of(uint64_t(work.pieces), 0, false);
            pass(GIVEN, 256);
            pass(GIVEN + 1, 256);
            if (row == 0 && next != NONE) pending = atomicAdd(&split->next_tile, 1);
        }
        if (before != NONE) join(work, messages, powers, split, before, row, result, joined);
        if (!goes_on) break;
        before = given, given = next;
    }
    end_joined(work, messages, powers, row, joined);
    if (row == 0) *said = waits;
}

#endif
