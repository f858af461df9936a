// The four warps that tell hashing warps what comes next, and put away what those made: see
// gcm_hash.cuh. A lane has a stretch of each tile.
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

template <bool DECRYPT>
__device__ __forceinline__ void scout(const Work& work, uint32_t batches, Split* split,
                                      bool patient, uint32_t& pending) {
    const uint32_t row = thread_anew() & STRETCHES - 1;
    const uint32_t units = tile_units(batches), tiles = (uint32_t(work.units) + units - 1) / units;
    uint64_t* stretches = reinterpret_cast<uint64_t*>(shared + STRETCHES_AT);
    volatile uint32_t* said = reinterpret_cast<volatile uint32_t*>(shared + RESULTS_AT);
    const uint32_t results = SHARED_BASE + RESULTS_AT + 16 * row;
    // The first scout's: a tile that was taken, and whether it let us wait for too long.
    bool waits = false;
    if (row == 0 && pending == NONE) pending = atomicAdd(&split->next_tile, 1);
    uint32_t given = NONE, before = NONE; // tiles: the last one, and the one before it
#pragma unroll 1
    for (bool begun = false;; begun = true) {
        if (begun) {
            wait_at(MADE, 384);
            if (before != NONE) {
                split->tiles[before].results[row] = reflect(load_shared(results));
                __syncwarp();
                if (row % 32 == 0) add_release(&split->tiles[before].ready, 1);
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
        before = given, given = next;
    }
    if (row == 0) *said = waits;
}

#endif
