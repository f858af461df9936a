// Counter blocks (SP 800-38A, 6.5), and the encryption of many of them together.
#pragma once
#include "aes.cuh"
#include "memory.cuh"

// A counter block as a number.
struct Counter {
    uint64_t high, low;

    static __device__ __forceinline__ Counter of(uint4 block) {
        return {uint64_t(swap_bytes(block.x)) << 32 | swap_bytes(block.y),
                uint64_t(swap_bytes(block.z)) << 32 | swap_bytes(block.w)};
    }

    __device__ __forceinline__ Counter plus(uint64_t blocks) const {
        const uint64_t sum = low + blocks;
        return {high + (sum < low ? 1 : 0), sum};
    }

    // GCM counts in the last 32 bits only (SP 800-38D, 6.2).
    __device__ __forceinline__ Counter plus32(uint64_t blocks) const {
        return {high, low & ~0xffffffffull | uint32_t(low + blocks)};
    }

    __device__ __forceinline__ uint4 block() const {
        return make_uint4(swap_bytes(high >> 32), swap_bytes(uint32_t(high)), swap_bytes(low >> 32),
                          swap_bytes(uint32_t(low)));
    }
};

// The first two rounds of neighbouring counter blocks cost nearly nothing. Byte 15 of the block
// enters column 0 of the first round, and column 0 enters each column of the second by one term;
// all other terms depend on the other bytes alone, which are the same for 256 blocks. So the state
// after two rounds is near(byte 15) ^ far(all other bytes). `near` also depends on bytes 0, 5 and
// 10, which stay the same until the counter carries into bit 40.
template <class Lane>
__device__ __forceinline__ uint4 near_part(Lane t, uint32_t column_0) {
    return make_uint4(look<0, 0>(t, column_0), look<3, 3>(t, column_0), look<2, 2>(t, column_0),
                      look<1, 1>(t, column_0));
}

// Column 0 after the first round.
template <class Lane>
__device__ __forceinline__ uint32_t near_column(Lane t, uint4 counter, const RoundKeys& keys) {
    const uint4 s = counter ^ keys.round[0];
    return column<false>(t, s.x, s.y, s.z, s.w) ^ keys.round[1].x;
}

template <class Lane>
__device__ __forceinline__ uint4 far_part(Lane t, uint4 counter, const RoundKeys& keys) {
    const uint4 s = counter ^ keys.round[0];
    const uint32_t b = column<false>(t, s.y, s.z, s.w, s.x) ^ keys.round[1].y;
    const uint32_t c = column<false>(t, s.z, s.w, s.x, s.y) ^ keys.round[1].z;
    const uint32_t d = column<false>(t, s.w, s.x, s.y, s.z) ^ keys.round[1].w;
    const uint4 sum =
        make_uint4(look<1, 1>(t, b) ^ look<2, 2>(t, c) ^ look<3, 3>(t, d),
                   look<0, 0>(t, b) ^ look<1, 1>(t, c) ^ look<2, 2>(t, d),
                   look<0, 0>(t, c) ^ look<1, 1>(t, d) ^ look<3, 3>(t, b),
                   look<0, 0>(t, d) ^ look<2, 2>(t, b) ^ look<3, 3>(t, c));
    return sum ^ keys.round[2];
}

// Writes `far` of eight groups of 256 counters, starting with the group of `start`, to shared
// memory: each lane computes a word. (One lane for each group would make twice as many accesses.)
template <class Lane>
__device__ __forceinline__ void lay_far_of_eight(Lane t, Counter start, const RoundKeys& keys,
                                                 uint32_t to, uint32_t lane) {
    // What `far` leaves out (see far_part) is looked up as for 0, and removed again together with
    // the keys.
    constexpr uint32_t none = ENTRIES.encrypt[0];
    constexpr uint32_t none_1 = none << 8 | none >> 24, none_2 = none << 16 | none >> 16,
                       none_3 = none << 24 | none >> 8;
    const uint32_t group = lane >> 2, word = lane & 3;
    uint4 s = start.plus32(256 * group).block() ^ keys.round[0];
    s.w &= 0x00ffffff;
    const uint32_t key_1 = pick(keys.round[1] ^ make_uint4(none_3, 0, 0, 0), word);
    const uint32_t key_2 = pick(keys.round[2] ^ make_uint4(none, none_3, none_2, none_1), word);
    const uint32_t first = column<false>(t, pick(s, word), pick(s, word + 1), pick(s, word + 2),
                                         pick(s, word + 3)) ^
                           key_1;
    const uint32_t mine = word == 0 ? 0 : first;
    const auto of = [&](uint32_t further) { return __shfl_sync(~0u, mine, word + further, 4); };
    const uint32_t second = column<false>(t, mine, of(1), of(2), of(3)) ^ key_2;
    __syncwarp();
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + 4 * lane), "r"(second) : "memory");
    __syncwarp();
}

// How many counters are left until one carries into bit 40.
__device__ __forceinline__ uint64_t until_carry(Counter c) {
    return (1ull << 40) - (c.low & (1ull << 40) - 1);
}

constexpr uint32_t CYCLE = 8; // rows of 32 blocks until byte 15 comes round

// A warp's walk over rows of 32 counters. `far` is the same for a group of 256 counters; the lanes
// hold it for the next 32 groups. `Start` returns the counter of lane 0 in the first row plus a
// number of blocks. It is called rarely, so it may be slow: the registers that a stored counter would
// take are worth more.
template <class Start>
struct Groups {
    uint4 ahead;
    uint4 far;
    Start start;
    uint32_t position; // this lane's place, counted from the start of the first row's group
    uint32_t crossing; // bit i: some lane enters a new group in row i of a cycle
    uint32_t held;     // from the first row's group to the one that `ahead` of lane 0 is for

    __device__ __forceinline__ Groups(Lane t, const Start& start, const RoundKeys& keys)
        : start(start), held(0) {
        position = uint32_t(start(0).low & 255) + t.number();
        // The first and the last lane's row: at most two, for 32 neighbours.
        const uint32_t mine = 1u << (CYCLE - (position & 255) / 32) % CYCLE;
        crossing = __shfl_sync(~0u, mine, 0) | __shfl_sync(~0u, mine, 31) | 1;
        look_ahead(t, keys);
    }

    __device__ __forceinline__ void look_ahead(Lane t, const RoundKeys& keys) {
        ahead = far_part(t, start(uint64_t(held + t.number()) << 8).block(), keys);
    }

    // To be called before every cycle, or more often.
    __device__ __forceinline__ void start_cycle(Lane t, const RoundKeys& keys) {
        // A cycle touches two groups.
        const uint32_t group = __shfl_sync(~0u, position, 0) >> 8;
        if (group - held > 30) {
            held = group;
            look_ahead(t, keys);
        }
    }

    // Brings `far` up to date for row `i` of a cycle.
    __device__ __forceinline__ void enter(uint32_t i) {
        if (crossing >> i & 1) {
            far = shuffle(ahead, (position >> 8) - held);
        }
    }
};
