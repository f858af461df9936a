// The four warps that tell hashing warps what comes next, and store or add up their results: see
// gcm_hash.cuh. A lane has a stretch of each tile.
#pragma once
#include "gcm_hash_group.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Where a stretch lies. Of a tile that no text reaches, and of none, it has no bytes.
template <bool DECRYPT>
__device__ __forceinline__ uint64_t find_stretch(const Work& work, const Tiles<DECRYPT>& tiles,
                                                 uint32_t tile, uint32_t row) {
    const uint32_t batches = tiles.batches(tile);
    const uint32_t place = batches * row; // in batches, from the tile's first unit on
    const uint32_t unit = tiles.first_unit(tile) + place / UNIT_BATCHES;
    const bool is_short = tile >= tiles.shorts;
    const uint32_t each = uint32_t(work.each), bytes = BATCH_BYTES * batches;
    const bool any = unit < uint32_t(work.units);
    const uint32_t number = any ? unit / each : 0;
    const Piece& piece = work.pieces[number];
    const uint64_t text = uint64_t(DECRYPT ? piece.input : piece.output);
    const uint64_t from =
        uint64_t(UNIT_BYTES) * (unit - number * each) + BATCH_BYTES * (place % UNIT_BATCHES);
    if (!any || from >= piece.len) return stretch_of(text, 0, is_short);
    const uint64_t left = piece.len - from;
    return stretch_of(text + from, left < bytes ? uint32_t(left) : bytes, is_short);
}

// The running sum of the tiles of a message alone that a block hashes; each lane has a stretch's.
struct Carried {
    uint4 sum;
    uint32_t units;       // of each tile that is in the sum
    uint4 ahead;          // H to the power of as many tiles' blocks as this lane's number + 1,
    uint32_t ahead_units; // the `units` of `ahead`; 0: not computed yet
    uint4 weight;         // of the last tile's stretch

    __device__ __forceinline__ uint64_t blocks(uint32_t tiles) const {
        return uint64_t(UNIT_BYTES / 16) * units * tiles;
    }

    // To a tile this many further on.
    __device__ __forceinline__ void move_on(const GcmPowers* powers, uint32_t tiles,
                                            uint32_t lane) {
        if (ahead_units != units) ahead = h_power(powers, blocks(lane + 1)), ahead_units = units;
        __syncwarp();
        const uint4 near = shuffle(ahead, tiles - 1 & 31);
        sum = multiply(sum, tiles <= 32 ? near : h_power(powers, blocks(tiles)));
    }

    // What the sum, as it is at a tile that ends before unit `end`, must be multiplied by.
    __device__ __forceinline__ void weigh(const Piece& piece, const GcmPowers* powers, uint32_t end,
                                          uint32_t row) {
        const uint64_t behind = (piece.len + 15) / 16 - uint64_t(UNIT_BYTES / 16) * end +
                                piece.after_blocks();
        uint64_t most = behind + blocks(1);
        uint64_t exponent = behind + blocks(1) / STRETCHES * (STRETCHES - 1 - row);
        // Every digit for every lane: lanes that went their own ways would wait for each other.
        weight = powers->powers[0][exponent & 255];
#pragma unroll 1
        for (uint32_t digit = 1; most >>= 8; digit++)
            weight = multiply(weight, powers->powers[digit][(exponent >>= 8) & 255]);
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

// Out of line: inline, it changes how the compiler schedules encryption.
template <bool DECRYPT>
__device__ __noinline__ void scout(const Work& work, GcmMessage* messages,
                                   const GcmPowers* powers, Split* split, uint32_t masks,
                                   uint32_t tag_len, bool patient, uint32_t& pending) {
    const uint32_t row = thread_anew() & STRETCHES - 1, lane = row & 31;
    const Tiles<DECRYPT> tiles(work);
    const bool tags = makes_tags<DECRYPT>(work);
    uint64_t* stretches = reinterpret_cast<uint64_t*>(shared + STRETCHES_AT);
    volatile uint32_t* said = reinterpret_cast<volatile uint32_t*>(shared + RESULTS_AT);
    const uint32_t results = SHARED_BASE + RESULTS_AT + 16 * row;
    // Of the first scout: a tile that was taken, and whether the wait for it, or for masks, was too
    // long.
    bool waits = tags && row == 0 && !comes(&split->masked, masks, patient);
    uint32_t given = NONE, before = NONE; // tiles: the last one, and the one before it
    const Piece& piece = work.pieces[0];
    Carried carried = {};
#pragma unroll 1
    for (bool begun = false;; begun = true) {
        if (begun) {
            wait_at(MADE, 384);
            if (before != NONE) {
                const uint4 result = reflect(load_shared(results));
                const uint32_t first = tiles.first_unit(before);
                Tile& tile = split->tiles[first / TILE];
                if (before < tiles.carried) carried.sum = carried.sum ^ result;
                else if (!tags) tile.results[row] = result;
                else if (first + row < uint32_t(work.units))
                    finish_message(messages[work.pieces[first + row].message], result, powers,
                                   tag_len, true);
                __syncwarp();
                if (lane == 0 && (DECRYPT || before >= tiles.carried)) add_release(&tile.ready, 1);
            }
            if (given == NONE) break;
        }
        if (row == 0) {
            if (pending == NONE && !waits) pending = atomicAdd(&split->next_tile, 1);
            if (!DECRYPT && pending < tiles.count) {
                const uint32_t first = tiles.first_unit(pending) / TILE;
                const uint32_t count = (tiles.units(pending) + TILE - 1) / TILE;
#pragma unroll 1
                for (uint32_t i = first; i < first + count && !waits; i++)
                    waits = TILE * i < uint32_t(work.units) &&
                            !comes(&split->tiles[i].ready, enciphered(work, i), patient);
            }
            *said = pending < tiles.count && !waits ? pending : NONE;
        }
        wait_at(SCOUTS, STRETCHES);
        const uint32_t next = *said;
        stretches[row] = next != NONE ? find_stretch<DECRYPT>(work, tiles, next, row) : 0;
        pass(GIVEN, 256);
        pass(GIVEN + 1, 256);
        // Short tiles are left to others until their turn comes.
        if (row == 0 && next != NONE)
            pending = next < tiles.shorts ? atomicAdd(&split->next_tile, 1) : NONE;
        // While the groups hash: whatever can be done before they are finished.
        if (tiles.carried > 0) {
            const bool had = before < tiles.carried, has = given < tiles.carried;
            if (had && has && tiles.units(given) == carried.units) {
                carried.move_on(powers, given - before, lane);
            } else {
                if (had) carried.add(messages[piece.message], lane);
                carried.units = tiles.units(given);
            }
            // The last of its kind that belongs to this block?
            const bool ends = next >= tiles.carried || tiles.units(next) != carried.units;
            if (has && ends)
                carried.weigh(piece, powers, tiles.first_unit(given) + carried.units, row);
            __syncwarp();
        }
        before = given, given = next;
    }
    if (before < tiles.carried) carried.add(messages[piece.message], lane);
    if (row == 0) *said = waits;
}

#endif
