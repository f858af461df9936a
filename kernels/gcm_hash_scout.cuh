// The four warps that tell hashing warps what comes next, and put away or add up what those made:
// see gcm_hash.cuh. A lane has a stretch of each tile.
#pragma once
#include "gcm_hash_group.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Where a stretch lies. Of a tile that no text reaches, and of none, it has no bytes.
template <bool DECRYPT>
__device__ __forceinline__ uint64_t find_stretch(const Work& work, uint32_t batches, uint32_t tile,
                                                 uint32_t row) {
    const uint32_t place = batches * row; // in batches, from the tile's first unit on
    const uint32_t unit = tile_units(batches) * tile + place / UNIT_BATCHES;
    const uint32_t each = uint32_t(work.each), bytes = BATCH_BYTES * batches;
    const bool any = unit < uint32_t(work.units);
    const uint32_t number = any ? unit / each : 0;
    const Piece& piece = work.pieces[number];
    const uint64_t text = uint64_t(DECRYPT ? piece.input : piece.output);
    const uint64_t from =
        uint64_t(UNIT_BYTES) * (unit - number * each) + BATCH_BYTES * (place % UNIT_BATCHES);
    if (!any || from >= piece.len) return stretch_of(text, 0, true);
    const uint64_t left = piece.len - from;
    return stretch_of(text + from, left < bytes ? uint32_t(left) : bytes, true);
}

// The running sum of the tiles of a message alone that a block hashes; each lane has a stretch's.
struct Carried {
    uint4 sum = make_uint4(0, 0, 0, 0);
    uint4 ahead;  // H to the power of as many tiles' blocks as this lane's number + 1
    uint4 weight; // of the last tile's stretch
    uint32_t units;

    __device__ __forceinline__ explicit Carried(uint32_t units) : units(units) {}

    __device__ __forceinline__ uint64_t blocks(uint32_t tiles) const {
        return uint64_t(UNIT_BYTES / 16) * units * tiles;
    }

    __device__ __forceinline__ void look_ahead(const GcmPowers* powers, uint32_t lane) {
        ahead = h_power(powers, blocks(lane + 1));
    }

    // To a tile so many further on.
    __device__ __forceinline__ void move_on(const GcmPowers* powers, uint32_t tiles) {
        const uint4 near = shuffle(ahead, tiles - 1 & 31);
        sum = multiply(sum, tiles <= 32 ? near : h_power(powers, blocks(tiles)));
    }

    // What the sum, as it is at a tile, must be multiplied by.
    __device__ __forceinline__ void weigh(const Piece& piece, const GcmPowers* powers,
                                          uint32_t tile, uint32_t row) {
        const uint64_t behind = (piece.len + 15) / 16 - blocks(tile + 1) + piece.after_blocks();
        weight = h_power(powers, behind + blocks(1) / STRETCHES * (STRETCHES - 1 - row));
    }

    __device__ __forceinline__ void add(GcmMessage& message, uint32_t lane) {
        sum = multiply(sum, weight);
#pragma unroll 1
        for (uint32_t by = 1; by < 32; by *= 2) sum = sum ^ shuffle_xor(sum, by);
        if (lane == 0) add_to(&message.hash, sum);
        __syncwarp();
        sum = make_uint4(0, 0, 0, 0);
    }
};

// Out of line: within the kernel, it changes how the compiler arranges enciphering.
template <bool DECRYPT>
__device__ __noinline__ void scout(const Work& work, GcmMessage* messages,
                                   const GcmPowers* powers, uint32_t batches, Split* split,
                                   uint32_t masks, uint32_t tag_len, bool patient,
                                   uint32_t& pending) {
    const uint32_t row = thread_anew() & STRETCHES - 1, lane = row & 31;
    const uint32_t units = tile_units(batches), tiles = count_tiles<DECRYPT>(work);
    const uint32_t carries = carried_tiles<DECRYPT>(work);
    const bool tags = makes_tags<DECRYPT>(work, tag_len);
    uint64_t* stretches = reinterpret_cast<uint64_t*>(shared + STRETCHES_AT);
    volatile uint32_t* said = reinterpret_cast<volatile uint32_t*>(shared + RESULTS_AT);
    const uint32_t results = SHARED_BASE + RESULTS_AT + 16 * row;
    // The first scout's: a tile that was taken, and whether it, or masks, let us wait for too long.
    bool waits = tags && row == 0 && !comes(&split->masked, masks, patient);
    if (row == 0 && pending == NONE && !waits) pending = atomicAdd(&split->next_tile, 1);
    uint32_t given = NONE, before = NONE; // tiles: the last one, and the one before it
    const Piece& piece = work.pieces[0];
    Carried carried(units);
#pragma unroll 1
    for (bool begun = false;; begun = true) {
        if (begun) {
            wait_at(MADE, 384);
            if (before != NONE) {
                const uint4 result = reflect(load_shared(results));
                const uint32_t unit = units * before + row;
                if (DECRYPT && before < carries) carried.sum = carried.sum ^ result;
                else if (!tags) split->tiles[before].results[row] = result;
                else if (unit < uint32_t(work.units))
                    finish_message(messages[work.pieces[unit].message], result, powers, tag_len,
                                   true);
                __syncwarp();
                if (lane == 0) add_release(&split->tiles[before].ready, 1);
            }
            if (given == NONE) break;
        }
        if (row == 0) {
            if (!DECRYPT && pending < tiles)
                waits = !comes(&split->tiles[pending].ready, enciphered(work, pending), patient);
            *said = pending < tiles && !waits ? pending : NONE;
        }
        wait_at(SCOUTS, STRETCHES);
        const uint32_t next = *said;
        stretches[row] = next != NONE ? find_stretch<DECRYPT>(work, batches, next, row)
                                      : stretch_of(uint64_t(work.pieces), 0, false);
        pass(GIVEN, 256);
        pass(GIVEN + 1, 256);
        if (row == 0 && next != NONE) pending = atomicAdd(&split->next_tile, 1);
        // While the groups hash: what can be done before they have.
        if (DECRYPT && carries > 0) {
            if (!begun) carried.look_ahead(powers, lane);
            if (before < carries && given < carries) {
                carried.move_on(powers, given - before);
            } else if (before < carries) {
                carried.weigh(piece, powers, before, row);
                carried.add(messages[piece.message], lane);
            }
            if (next == NONE && given < carries) carried.weigh(piece, powers, given, row);
            // Exponents differ from lane to lane, and so does the way to their powers.
            __syncwarp();
        }
        before = given, given = next;
    }
    if (DECRYPT && before < carries) carried.add(messages[piece.message], lane);
    if (row == 0) *said = waits;
}

#endif
