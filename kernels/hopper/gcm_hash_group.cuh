// A group of four warps that hashes: see gcm_hash.cuh.
#pragma once
#include "gcm_hash.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Sums of 64 rows' products with a matrix, new ones or (`ADD`) more of them. The lanes hold rows
// and sums as for `mma` of 16 rows.
template <int ADD>
__device__ __forceinline__ void wgmma(Sums (&c)[8], uint4 a, uint64_t matrix) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k256.s32.b1.b1.and.popc "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, %37;"
        : "+r"(c[0].of[0]), "+r"(c[0].of[1]), "+r"(c[0].of[2]), "+r"(c[0].of[3]),
          "+r"(c[1].of[0]), "+r"(c[1].of[1]), "+r"(c[1].of[2]), "+r"(c[1].of[3]),
          "+r"(c[2].of[0]), "+r"(c[2].of[1]), "+r"(c[2].of[2]), "+r"(c[2].of[3]),
          "+r"(c[3].of[0]), "+r"(c[3].of[1]), "+r"(c[3].of[2]), "+r"(c[3].of[3]),
          "+r"(c[4].of[0]), "+r"(c[4].of[1]), "+r"(c[4].of[2]), "+r"(c[4].of[3]),
          "+r"(c[5].of[0]), "+r"(c[5].of[1]), "+r"(c[5].of[2]), "+r"(c[5].of[3]),
          "+r"(c[6].of[0]), "+r"(c[6].of[1]), "+r"(c[6].of[2]), "+r"(c[6].of[3]),
          "+r"(c[7].of[0]), "+r"(c[7].of[1]), "+r"(c[7].of[2]), "+r"(c[7].of[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(matrix), "n"(ADD));
}

// A matrix as `wgmma` is told of it: its address, 128 bytes from half to half, 256 to the next
// eight columns; all in units of 16 bytes.
__host__ __device__ constexpr uint64_t matrix(uint32_t step, uint32_t product) {
    return (SHARED_BASE + matrix_at(step, product)) / 16 | uint64_t(128 / 16) << 16 |
           uint64_t(256 / 16) << 32;
}

// A stretch as scouts pass it on: its address, its length in bytes, and whether it is short. 0:
// there is no tile.
__device__ __forceinline__ uint64_t stretch_of(uint64_t at, uint32_t len, bool is_short) {
    return at | uint64_t(len) << 48 | uint64_t(is_short) << 63;
}
__device__ __forceinline__ int32_t len_of(uint64_t stretch) {
    return int32_t(stretch >> 48 & 0x7fff);
}

// What a lane copies of a row's stretch: a line of 16 bytes of each 128.
struct Row {
    uint64_t at;   // its line of the batch's first pair of steps, counted with the zeros in front
    int32_t zeros; // bytes of zeros in front, from there on

    Row() = default;
    __device__ __forceinline__ Row(uint64_t stretch, uint32_t batches, uint32_t lane8) {
        const int32_t front = BATCH_BYTES * batches - (len_of(stretch) + 15 & ~15);
        zeros = front - 16 * int32_t(lane8);
        at = (stretch & 0xfffffffffff0) - zeros;
    }

    // The line of a pair of steps. When sealing, it is not read again, and the L2 cache has more
    // room for what was just encrypted.
    template <int PAIR, bool DECRYPT>
    __device__ __forceinline__ void copy(uint32_t to) const {
        if (DECRYPT)
            asm volatile(
                "{\n.reg .pred none;\nsetp.gt.s32 none, %2, %3;\n"
                "cp.async.cg.shared.global [%0], [%1 + %3], 16, none;\n}" ::"r"(to),
                "l"(at), "r"(zeros), "n"(128 * PAIR)
                : "memory");
        else
            asm volatile(
                "{\n.reg .pred none;\nsetp.gt.s32 none, %2, %3;\n"
                "cp.async.cg.shared.global.L2::cache_hint [%0], [%1 + %3], 16, none, %4;\n}"
                ::"r"(to), "l"(at), "r"(zeros), "n"(128 * PAIR), "l"(used_once())
                : "memory");
    }
    // Its first `len` bytes.
    template <int PAIR>
    __device__ __forceinline__ void copy(uint32_t to, uint32_t len) const {
        fetch(to, reinterpret_cast<const uint8_t*>(at + 128 * PAIR), zeros > 128 * PAIR ? 0 : len);
    }
};

// Two rows' blocks, and as operands of the three products.
struct Blocks {
    uint4 x, y;
};
struct Operands {
    uint4 both, low, high;

    Operands() = default;
    __device__ __forceinline__ explicit Operands(const Blocks& blocks)
        : Operands(blocks.x, blocks.y) {}
    __device__ __forceinline__ Operands(uint4 x, uint4 y)
        : both(make_uint4(x.x ^ x.z, y.x ^ y.z, x.y ^ x.w, y.y ^ y.w)),
          low(make_uint4(x.x, y.x, x.y, y.y)), high(make_uint4(x.z, y.z, x.w, y.w)) {}
};

// When sealing, stretches may be short.
template <bool DECRYPT>
struct HashGroup {
    uint32_t batches, usual; // of a stretch
    uint32_t number, lane4, lane8;
    uint32_t to;        // where this lane copies to
    uint32_t even, odd; // where it reads, in even and odd steps
    uint32_t stretches, results;
    Row rows[4];
    uint32_t tails; // bytes of their last blocks, 0 for 16
    bool more;      // whether there is a tile

    // What is loaded of two rows, a step ahead.
    using Texts = Blocks;

    __device__ __forceinline__ explicit HashGroup(uint32_t usual)
        : batches(usual), usual(usual) {
        const uint32_t thread = thread_anew();
        const uint32_t lane = thread & 31, warp = thread >> 5 & 3;
        number = thread >> 7, lane4 = lane & 3, lane8 = lane & 7;
        // A warp has 16 rows. Those of 128 bytes follow each other, with the halves of every second
        // one exchanged: no bank conflicts.
        const uint32_t ring = SHARED_BASE + RING_AT + number * RING_BYTES + 2048 * warp;
        to = ring + 128 * (lane >> 3) + 16 * (lane8 ^ (lane >> 1 & 4));
        even = ring + 128 * (lane >> 2) + 16 * (lane4 ^ (lane & 4));
        odd = even ^ 64;
        const uint32_t first = 64 * number + 16 * warp;
        stretches = SHARED_BASE + STRETCHES_AT + 8 * (first + (lane >> 3));
        results = SHARED_BASE + RESULTS_AT + 16 * (first + (lane >> 2));
    }

    // The number of a batch's block that a lane takes in a step.
    static __device__ __forceinline__ uint32_t block_of(uint32_t step, uint32_t lane4) {
        return 4 * step + lane4;
    }

    __device__ __forceinline__ void next_rows() {
        wait_at(GIVEN + number, 256);
        tails = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint64_t stretch;
            asm volatile("ld.shared.u64 %0, [%1];"
                         : "=l"(stretch)
                         : "r"(stretches + 32 * i)
                         : "memory");
            if (!DECRYPT) batches = stretch >> 63 ? SHORT_BATCHES : usual;
            rows[i] = Row(stretch, batches, lane8);
            tails |= uint32_t(len_of(stretch) & 15) << 8 * i;
            more = stretch != 0;
        }
    }

    // A pair of steps; only the `last` of a stretch may end within a block.
    template <int PAIR>
    __device__ __forceinline__ void copy(bool last) const {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t place = to + 512 * i + 2 * RING_STEP * PAIR;
            const uint32_t tail = tails >> 8 * i & 15;
            if (PAIR == 7 && last && lane8 == 7 && tail) rows[i].copy<PAIR>(place, tail);
            else rows[i].template copy<PAIR, DECRYPT>(place);
        }
        end_group();
    }

    __device__ __forceinline__ void to_next_batch() {
#pragma unroll
        for (int i = 0; i < 4; i++) rows[i].at += BATCH_BYTES, rows[i].zeros -= BATCH_BYTES;
    }

    // Two rows' blocks of a step.
    template <int STEP>
    __device__ __forceinline__ void load(Texts& next, uint32_t) const {
        const uint32_t at = (STEP % 2 ? odd : even) + RING_STEP * (STEP & ~1);
        next.x = load_shared(at), next.y = load_shared(at + 1024);
    }
    // The same, once the first batch of all is being copied.
    __device__ __forceinline__ void load_first(Texts& next) const {
        await_fetches<7>();
        __syncwarp();
        load<0>(next, 0);
    }

    // The blocks that were loaded.
    __device__ __forceinline__ Blocks blocks(const Texts& next) const { return next; }

    // After step `STEP` has begun and the next one's operands are made: copies what comes a batch
    // later over what was loaded, and loads text of the step after the next. The last step but one
    // loads the first blocks of the next batch.
    template <int STEP>
    __device__ __forceinline__ void go_on(Texts& next, uint32_t left) const {
        if constexpr (STEP < HASH_STEPS - 1) {
            if (STEP % 2 == 0) {
                __syncwarp();
                copy<STEP / 2>(left == 2);
                await_fetches<7>();
                __syncwarp();
            }
            load<(STEP + 2) % HASH_STEPS>(next, left);
        }
    }

    // After a tile.
    __device__ __forceinline__ void next_texts() {}

    // Whether this lane has running values, and where results go.
    __device__ __forceinline__ bool has_running() const { return lane4 == 0; }
    __device__ __forceinline__ uint32_t result() const { return results; }
};

// The first batch of a tile; stretches have more.
template <int PAIR = 0, class Group>
__device__ __forceinline__ void copy_pairs(const Group& group) {
    if constexpr (PAIR < HASH_STEPS / 2) {
        group.template copy<PAIR>(false);
        copy_pairs<PAIR + 1>(group);
    }
}

struct Products {
    Sums both[8], low[8], high[8];
};

// Step `STEP` of a batch, while the next one's operands are made. `left`: batches of the stretch, with
// this one.
template <int STEP, class Group>
__device__ __forceinline__ void hash_step(Group& group, Products& sums,
                                          Operands (&operands)[2], typename Group::Texts& next,
                                          uint32_t left) {
    const Operands& mine = operands[STEP % 2];
    wgmma_fence();
    wgmma<STEP != 0>(sums.both, mine.both, matrix(STEP, 0));
    wgmma<STEP != 0>(sums.low, mine.low, matrix(STEP, 1));
    wgmma<STEP != 0>(sums.high, mine.high, matrix(STEP, 2));
    wgmma_commit();
    if constexpr (STEP < HASH_STEPS - 1) {
        wgmma_wait<1>();
        operands[(STEP + 1) % 2] = Operands(group.blocks(next));
    }
    group.template go_on<STEP>(next, left);
    if constexpr (STEP < HASH_STEPS - 1) hash_step<STEP + 1>(group, sums, operands, next, left);
}

template <class Group>
__device__ __forceinline__ void hash_group(uint32_t usual) {
    Group group(usual);
    group.next_rows();
    if (!group.more) {
        pass(MADE, 384);
        return;
    }
    copy_pairs(group);
    group.to_next_batch();
    group.next_texts();
    pass(MADE, 384);
    typename Group::Texts next;
    group.load_first(next);
#pragma unroll 1
    while (true) {
        Running running = {};
#pragma unroll 1
        for (uint32_t left = group.batches; left > 0; left--) {
            // The last batch already copies the first batch of the next tile.
            if (left == 1) group.next_rows();
            Blocks first_blocks = group.blocks(next);
            if (group.has_running())
                first_blocks = {first_blocks.x ^ running.first, first_blocks.y ^ running.second};
            Operands operands[2];
            operands[0] = Operands(first_blocks);
            group.template load<1>(next, left);
            Products sums;
            hash_step<0>(group, sums, operands, next, left);
            group.to_next_batch();
            wgmma_wait<0>();
            const LowBytes both(sums.both);
            LowBytes first(sums.low), second(sums.high);
            first.add(both), second.add(both);
            running = {stored_of_dual(gather(first.columns<0>(second))),
                       stored_of_dual(gather(first.columns<1>(second)))};
        }
        if (group.has_running()) {
            store_shared(group.result(), running.first);
            store_shared(group.result() + 16 * 8, running.second);
        }
        group.next_texts();
        pass(MADE, 384);
        if (!group.more) break;
    }
    await_fetches<0>();
}

#endif
