// The end of gcm_split.cuh: adds the stored hashes of stretches to those of their messages, or, for
// messages that are a unit each, computes the tags.
#pragma once
#include "gcm_hash_group.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Groups of 32 units whose sums a warp multiplies by their powers together, eight lanes each.
constexpr uint32_t JOINED = 4;
static_assert(8 * JOINED <= 32, "the lanes of a warp");

// Sums of whole groups of units, each to be multiplied by a power of H. Multiplying takes long, so
// it is done side by side: a factor of the product for each of eight lanes.
struct Weighted {
    uint4 factor = make_uint4(1, 0, 0, 0);
    uint32_t message = NONE, count = 0;

    // A sum that all lanes have.
    __device__ __forceinline__ void put(uint4 sum, uint64_t exponent, uint32_t of,
                                        const GcmPowers* powers, uint32_t lane) {
        constexpr uint32_t DIGITS = sizeof(powers->powers) / sizeof(powers->powers[0]);
        static_assert(DIGITS < 8, "a factor for each of eight lanes");
        const uint32_t digit = lane & 7;
        if (lane >> 3 == count) {
            message = of;
            if (digit == DIGITS) factor = sum;
            if (digit < DIGITS) factor = powers->powers[digit][exponent >> 8 * digit & 255];
        }
        count++;
        __syncwarp();
    }

    // Adds the products to the messages' hashes.
    __device__ __forceinline__ void add(GcmMessage* messages, uint32_t lane) {
#pragma unroll 1
        for (uint32_t by = 4; by > 0; by /= 2) factor = multiply(factor, shuffle_xor(factor, by));
        if ((lane & 7) == 0 && message != NONE) add_to(&messages[message].hash, factor);
        __syncwarp();
    }
};

// The hash of a unit of this many bytes, from the stored hashes of its stretches.
__device__ __forceinline__ uint4 join_stretches(uint32_t len, const uint4* results,
                                                uint32_t batches, const GcmPowers* powers) {
    const uint32_t stretch = BATCH_BYTES * batches;
    uint4 sum = make_uint4(0, 0, 0, 0);
#pragma unroll 1
    for (uint32_t at = 0; at < len; at += stretch) {
        const uint32_t blocks = (len - at < stretch ? len - at + 15 : stretch) / 16;
        if (at > 0) sum = multiply(sum, h_power(powers, blocks));
        sum = sum ^ *results++;
    }
    return sum;
}

// A warp adds 32 units of longer messages, a lane each, whose stretches' hashes begin at `results`.
__device__ __forceinline__ void join_units(const Work& work, GcmMessage* messages,
                                           const GcmPowers* powers, const uint4* results,
                                           uint32_t batches, uint32_t first_unit, Weighted& sums,
                                           uint32_t lane) {
    const uint32_t each = uint32_t(work.each), unit = first_unit + lane;
    const bool any = unit < uint32_t(work.units);
    const uint32_t number = any ? unit / each : 0;
    const Piece& piece = work.pieces[number];
    const uint64_t from = uint64_t(UNIT_BYTES) * (unit - number * each);
    const uint64_t left = any && from < piece.len ? piece.len - from : 0;
    uint4 sum = join_stretches(left < UNIT_BYTES ? uint32_t(left) : UNIT_BYTES,
                               results + UNIT_BATCHES / batches * lane, batches, powers);
    __syncwarp();
    const uint64_t behind =
        piece.after_blocks() + (left > UNIT_BYTES ? (left - UNIT_BYTES + 15) / 16 : 0);
    const uint32_t first = __shfl_sync(~0u, number, 0);
    if (!__all_sync(~0u, left >= UNIT_BYTES && number == first)) {
        if (!__all_sync(~0u, behind == 0)) sum = multiply(sum, h_power(powers, behind));
        if (left > 0) add_to(&messages[piece.message].hash, sum);
        __syncwarp();
        return;
    }
    // All of it is of one piece: one sum.
    sum = multiply(sum, powers->powers[1][UNIT_BYTES / 16 / 256 * (31 - lane)]);
#pragma unroll
    for (uint32_t by = 1; by < 32; by *= 2) sum = sum ^ shuffle_xor(sum, by);
    sums.put(sum, __shfl_sync(~0u, behind, 31), piece.message, powers, lane);
}

// Adds tiles that scouts have not added, `at_once` times 32 units at a time, until all are taken.
// Tiles that were taken are being hashed by blocks that run, so they will arrive.
template <bool DECRYPT>
__device__ __noinline__ void join_tiles(const Work& work, GcmMessage* messages,
                                        const GcmPowers* powers, Split* split, uint32_t at_once) {
    const uint32_t lane = threadIdx.x & 31;
    const Tiles<DECRYPT> tiles(work);
    // From here on all tiles are alike.
    const uint32_t from_unit = tiles.first_unit(tiles.carried);
    if (from_unit >= uint32_t(work.units)) return;
    const uint32_t batches = tiles.batches(tiles.carried), units = tile_units(batches);
#pragma unroll 1
    while (true) {
        const uint32_t from =
            32 * __shfl_sync(~0u, lane == 0 ? atomicAdd(&split->next_join, at_once) : 0, 0);
        if (from_unit + from >= uint32_t(work.units)) return;
        Weighted sums;
#pragma unroll 1
        for (uint32_t i = from; i < from + 32 * at_once; i += 32) {
            const uint32_t first = from_unit + i, begin = first - i % units;
            if (first >= uint32_t(work.units)) break;
            Tile& tile = split->tiles[begin / TILE];
            if (lane == 0) {
                const uint32_t before = DECRYPT ? 0 : enciphered(work, begin / TILE);
                comes(&tile.ready, before + SCOUT_WARPS, false);
            }
            __syncwarp();
            const uint4* results = tile.results + UNIT_BATCHES / batches * (first - begin);
            join_units(work, messages, powers, results, batches, first, sums, lane);
        }
        if (sums.count > 0) sums.add(messages, lane);
    }
}

// Computes the tags of messages that are a unit each, or compares them. The factors of their
// stretches' hashes depend on the length alone, so tensor cores multiply for all messages as long
// as the first one: 16 together, a row of a matrix each. A group of four lanes has two rows; in
// each, a stretch for each lane. `masks` parts of masks are awaited, as tiles are.
template <bool DECRYPT>
__device__ __noinline__ void join_messages(const Work& work, GcmMessage* messages,
                                           const GcmPowers* powers, Split* split, uint32_t tag_len,
                                           uint32_t masks) {
    constexpr uint32_t STRETCH_BLOCKS = 64 * LEAST_BATCHES;
    static_assert(UNIT_BATCHES == 4 * LEAST_BATCHES && TILE == 32, "a lane for each stretch");
    const uint32_t units = uint32_t(work.units), usual = uint32_t(work.pieces[0].len + 15) / 16;
    fill_matrices<1>([&](uint32_t stretch) {
        const uint32_t before = STRETCH_BLOCKS * (stretch + 1);
        return h_power(powers, 1 + (usual > before ? usual - before : 0));
    });
    const uint32_t lane = thread_anew() & 31, row = lane >> 2, lane4 = lane & 3;
    if (lane == 0) comes(&split->masked, masks, false);
    __syncthreads();
#pragma unroll 1
    for (uint32_t first = 0, end = 0;; first += 16) {
        if (first == end) {
            first = 32 * __shfl_sync(~0u, lane == 0 ? atomicAdd(&split->next_join, 1) : 0, 0);
            if (first >= units) return;
            end = first + 32;
        }
        // The first two lanes of a group have its rows' messages.
        const uint32_t place = row + 8 * (lane4 & 1);
        const bool mine = lane4 < 2 && first + place < units;
        const Piece& piece = work.pieces[mine ? first + place : 0];
        GcmMessage& message = messages[piece.message];
        // Not through the L1 cache: other multiprocessors may just have written them.
        const uint4 mask = __ldcg(&message.mask);
        const uint4 rest = __ldcg(&message.hash) ^ lengths(message.aad_len, message.len);
        const Tile& tile = split->tiles[first / TILE];
        const uint32_t before = DECRYPT ? 0 : enciphered(work, first / TILE);
        if (lane == 0) comes(&tile.ready, before + SCOUT_WARPS, false);
        __syncwarp();
        const uint4* results = tile.results + 4 * (first % TILE);
        uint4 x = results[lane], y = results[32 + lane];
        // It is multiplied by H, as the last stretch is.
        const uint4 x_rest = shuffle(rest, lane & ~3), y_rest = shuffle(rest, lane & ~3 | 1);
        if (lane4 == 3) x = x ^ x_rest, y = y ^ y_rest;
        const Operands operands(reflect(x), reflect(y));
        const auto product = [lane](uint4 operand, uint32_t which) {
            const uint32_t* words = reinterpret_cast<const uint32_t*>(shared + matrix_at(0, which));
            Sums sums[8] = {};
#pragma unroll
            for (uint32_t i = 0; i < 8; i++)
                mma(sums[i], operand, make_uint2(words[64 * i + lane], words[64 * i + 32 + lane]));
            return LowBytes(sums);
        };
        const LowBytes both = product(operands.both, 0);
        LowBytes low = product(operands.low, 1), high = product(operands.high, 2);
        low.add(both), high.add(both);
        uint4 tag = stored_of_dual(gather(low.columns<0>(high)));
        const uint4 second = shuffle(stored_of_dual(gather(low.columns<1>(high))), lane & ~3);
        if (lane4 == 1) tag = second;
        if (mine) {
            if (uint32_t(piece.len + 15) / 16 != usual) {
                const uint4 sum = join_stretches(uint32_t(piece.len), results + 4 * place,
                                                 LEAST_BATCHES, powers) ^ rest;
                tag = reflect(multiply(sum, powers->powers[0][1]));
            }
            give_tag(message, tag ^ mask, tag_len, DECRYPT);
        }
        __syncwarp();
    }
}

#endif
