// Blocks that only hash, for gcm_split.cuh: GHASH (SP 800-38D, 6.4) by `wgmma` with bits.
//
// The products are those of ghash.cuh, three for each block. Here a row of an operand is a stretch
// of text with a running value of its own, and a batch is its next 64 blocks: lane t of four takes
// block 4s + t in step s, whose matrix is that of H^(64 - 4s - t) (at any byte in another order, see
// gcm_hash_any_byte.cuh). The matrices of all steps are in shared memory; text is copied there
// asynchronously, a batch ahead. A stretch ends with a batch: a shorter one begins with zeros, which
// change nothing.
//
// Two groups of four warps hash a tile, 64 stretches each: while one reduces sums to running
// values, the other keeps the tensor cores busy. Four more warps, the scouts, find the next tile
// and store the results of the last, so that neither group waits for global memory. Adding up is
// left to the end (gcm_split_join.cuh): whatever else runs alongside the groups slows them.
// Exceptions: for a message alone, scouts add up what their block hashed; for messages to open that
// are a stretch each, they compute the tags. All other warps lend their registers.
#pragma once
#include "../gcm.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr uint32_t NONE = ~0u;
constexpr uint32_t UNIT_BYTES = 16384;
constexpr uint32_t STRETCHES = 128; // of a tile
constexpr uint32_t FIRST_SCOUT = 256; // this thread; before it the two groups
constexpr uint32_t SCOUT_WARPS = STRETCHES / 32;
constexpr int HASH_STEPS = 16; // of a batch, four blocks each
constexpr uint32_t BATCH_BYTES = 64 * HASH_STEPS;
constexpr uint32_t UNIT_BATCHES = UNIT_BYTES / BATCH_BYTES;
// The fewest batches of a stretch, and units of such a tile.
constexpr uint32_t LEAST_BATCHES = 4, TILE = STRETCHES * LEAST_BATCHES / UNIT_BATCHES;
// Where a message alone is sealed: the batches of most tiles, and of those of the last units, so
// that these are hashed soon after they were encrypted.
constexpr uint32_t LONG_BATCHES = 8, SHORT_BATCHES = 2, SHORT_UNITS = 3072;
static_assert(SHORT_BATCHES >= 2, "the first batch of a stretch is not its last");
static_assert(LONG_BATCHES % LEAST_BATCHES == 0 && LEAST_BATCHES % SHORT_BATCHES == 0,
              "a tile takes whole `Tile`s, or is part of one");
constexpr uint32_t MATRIX_BYTES = 64 * 32; // 64 columns of 256 bits
constexpr uint32_t RING_AT = HASH_STEPS * 3 * MATRIX_BYTES;
constexpr uint32_t RING_STEP = 64 * 64; // of a group: 64 rows, four blocks each
constexpr uint32_t RING_BYTES = HASH_STEPS * RING_STEP;
constexpr uint32_t STRETCHES_AT = RING_AT + 2 * RING_BYTES;
constexpr uint32_t RESULTS_AT = STRETCHES_AT + 8 * STRETCHES;
constexpr uint32_t HASH_SHARED = RESULTS_AT + 16 * STRETCHES;
static_assert(HASH_SHARED <= 227 * 1024 && STRETCHES == 128, "two groups, 64 rows each");

// For each `TILE` units. Short tiles share one: of them only the last is stored, if it is not
// whole.
struct Tile {
    uint4 results[STRETCHES]; // hashes of the tile that begins there, where they are stored
    // When sealing, 8 for each unit that was encrypted; then 1 of each scout warp, once the tile
    // that begins there was read, hashed and stored.
    uint32_t ready;
    uint32_t padding[3];
};

// What the blocks of a launch share; all but the results is 0 before and after.
struct Split {
    uint32_t next_part[8], masked, padding_0[23]; // parts of masks that are made
    uint32_t next_tile, padding_1[31];
    uint32_t next_join, padding_2[31];
    uint32_t hashing, left, padding_3[30]; // blocks that began by hashing; that are done
    Tile tiles[1];
};

// Whether results go to other memory.
__device__ __forceinline__ bool is_apart(const Work& work) {
    return work.pieces[0].input != work.pieces[0].output;
}

__device__ __forceinline__ uint32_t tile_units(uint32_t batches) {
    return STRETCHES / UNIT_BATCHES * batches;
}

// The tiles of a launch, in their order. Where hashing and encryption wait for each other, they are
// small; otherwise a stretch is a unit, and there is less to add up.
template <bool DECRYPT>
struct Tiles {
    uint32_t usual;   // batches of a stretch
    uint32_t shorts;  // the first tile with short ones
    uint32_t count;
    uint32_t carried; // tiles that scouts add up themselves: the whole ones of a message alone

    __device__ __forceinline__ explicit Tiles(const Work& work)
        : usual(DECRYPT && is_apart(work) ? UNIT_BATCHES : LEAST_BATCHES), shorts(NONE) {
        const uint32_t all = uint32_t(work.units);
        if (!DECRYPT && work.count == 1 && all >= 2 * SHORT_UNITS) {
            usual = LONG_BATCHES;
            shorts = (all - SHORT_UNITS) / tile_units(LONG_BATCHES);
        }
        const uint32_t last = tile_units(shorts == NONE ? usual : SHORT_BATCHES);
        const uint32_t before = shorts == NONE ? 0 : shorts, from = tile_units(usual) * before;
        count = before + (all - from + last - 1) / last;
        const uint32_t whole = uint32_t(work.pieces[0].len / UNIT_BYTES);
        carried = work.count > 1 ? 0 : before + (whole - from) / last;
    }
    __device__ __forceinline__ uint32_t batches(uint32_t tile) const {
        return tile < shorts ? usual : SHORT_BATCHES;
    }
    __device__ __forceinline__ uint32_t units(uint32_t tile) const {
        return tile_units(batches(tile));
    }
    __device__ __forceinline__ uint32_t first_unit(uint32_t tile) const {
        if (tile < shorts) return tile_units(usual) * tile;
        return tile_units(usual) * shorts + tile_units(SHORT_BATCHES) * (tile - shorts);
    }
};

// Whether scouts compute the tags: those of messages that are a stretch each.
template <bool DECRYPT>
__device__ __forceinline__ bool makes_tags(const Work& work) {
    return DECRYPT && work.each == 1 && is_apart(work);
}

// The value of a tile's `ready` once all of it was encrypted.
__device__ __forceinline__ uint32_t enciphered(const Work& work, uint32_t tile) {
    const uint32_t left = uint32_t(work.units) - TILE * tile;
    return 8 * (left < TILE ? left : TILE);
}

// The thread's number, made opaque to the compiler: otherwise what hashing computes from it would
// be kept in registers, or spilled, during encryption.
__device__ __forceinline__ uint32_t thread_anew() {
    uint32_t number;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
    return number;
}

__device__ __forceinline__ uint32_t load_acquire(const uint32_t* at) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

__device__ __forceinline__ void add_release(uint32_t* at, uint32_t value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

// Adds, and returns the value before.
__device__ __forceinline__ uint32_t add_acquire_release(uint32_t* at, uint32_t value) {
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(at), "r"(value)
                 : "memory");
    return before;
}

// Waits until a number is reached. If `patient`, gives up after a millisecond and returns false.
__device__ __forceinline__ bool comes(const uint32_t* at, uint32_t wanted, bool patient) {
    constexpr uint64_t PATIENCE = 2'000'000; // cycles
    const uint64_t from = clock64();
    while (load_acquire(at) < wanted) {
        if (patient && clock64() - from > PATIENCE) return false;
        __nanosleep(100);
    }
    return true;
}

// Barriers of a hashing block: a group has its next stretches; a tile's results were written, or
// its stretches read; scouts among themselves; the groups gave back their registers, to scouts and
// to the others.
constexpr uint32_t GIVEN = 1, MADE = 3, SCOUTS = 4, GIVEN_BACK = 5;
__device__ __forceinline__ void wait_at(uint32_t barrier, uint32_t threads) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void pass(uint32_t barrier, uint32_t threads) {
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__host__ __device__ constexpr uint32_t matrix_at(uint32_t step, uint32_t product) {
    return (3 * step + product) * MATRIX_BYTES;
}

// The matrices of this many steps, a column's bits in two halves: [8 columns][half][column][16
// bytes]. `power` returns the power of H for a block's number. All threads take part, and a barrier
// must follow.
template <int STEPS, class Power>
__device__ __forceinline__ void fill_matrices(Power power) {
    // What strings of 127 bits hold.
    uint4* strings = reinterpret_cast<uint4*>(shared + RING_AT);
    if (threadIdx.x < 4 * STEPS) {
        const uint4 h = power(threadIdx.x);
        strings[2 * threadIdx.x] = dual(h);
        strings[2 * threadIdx.x + 1] = dual(reduce(make_uint4(0, 0, 0, 0), h));
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < STEPS * 256; i += blockDim.x) {
        // Neighbours write to other banks.
        const uint32_t lane = i % 4, column = i / 4 % 64, step = i / 256;
        const uint4 low = strings[8 * step + 2 * lane], high = strings[8 * step + 2 * lane + 1];
        const uint32_t s[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        // Bits `column` to `column` + 63 of the string of 127.
        const uint32_t skip = column / 32, shift = column % 32;
#pragma unroll
        for (uint32_t product = 0; product < 3; product++) {
            const auto word = [&](uint32_t k) {
                const auto at = [&](uint32_t k) {
                    return k < 4 ? s[k + 2] ^ (product == 1   ? s[k]
                                               : product == 2 ? s[k + 4 & 7]
                                                              : 0)
                                 : 0;
                };
                return skip ? at(k + 1) : at(k);
            };
            uint8_t* at = shared + matrix_at(step, product) + column / 8 * 256 + column % 8 * 16;
            uint32_t* halves = reinterpret_cast<uint32_t*>(at + 4 * lane);
            halves[0] = reflect(__funnelshift_r(word(0), word(1), shift));
            halves[32] = reflect(__funnelshift_r(word(1), word(2), shift));
        }
    }
    // `wgmma` reads through the asynchronous proxy.
    asm volatile("fence.proxy.async;" ::: "memory");
}

#endif
