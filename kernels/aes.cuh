// AES (FIPS 197) by tables in shared memory, replicated once per lane.
//
// A table entry is one 4-byte word, stored 32 times: lane l only ever reads bank l. So no lookup
// waits for another, whatever key and data are: fast, and no secret decides how long it takes.
// Two tables share a row of 256 bytes: [T0[b] x 32 lanes][T1[b] x 32 lanes]. The address of a
// lookup is then { 4 * lane, byte of the state, 0, 0 }, plus a constant.
// State words are little-endian, so that texts need no byte swap.
#pragma once
#include "gf128.cuh"

// Parts with 160 KiB of shared memory and more hold all four tables (128 KiB); others hold two
// and rotate (64 KiB).
#if defined(WARPLOCK_SMALL_TABLES)
#define WARPLOCK_ALL_TABLES 0
#elif defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
#define WARPLOCK_ALL_TABLES 1
#else
#define WARPLOCK_ALL_TABLES 0
#endif

constexpr uint32_t ROW = 256;                 // bytes of an entry of two tables
constexpr uint32_t SECOND = 128;              // from T0 to T1, from T2 to T3
constexpr uint32_t THIRD = 256 * ROW;         // from T0 to T2
constexpr uint32_t TABLES = WARPLOCK_ALL_TABLES ? 2 * THIRD : THIRD;

// Where a block's dynamic shared memory begins: Hopper and later keep the first KiB for themselves.
// A constant, so that the addresses of tables are part of the load instructions.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr uint32_t SHARED_BASE = 1024;
#else
constexpr uint32_t SHARED_BASE = 0;
#endif

extern __shared__ __align__(16) uint8_t shared[];

// What a block may have of shared memory (CUDA programming guide, compute capabilities).
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900 || \
    (__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200)
constexpr uint32_t SHARED_LIMIT = 227 << 10;
#elif __CUDA_ARCH__ == 800
constexpr uint32_t SHARED_LIMIT = 163 << 10;
#elif __CUDA_ARCH__ == 750
constexpr uint32_t SHARED_LIMIT = 64 << 10;
#else
constexpr uint32_t SHARED_LIMIT = 99 << 10;
#endif

// Tells the host how much shared memory a family's kernels need.
#define WARPLOCK_SHARED(FAMILY, BYTES)                                         \
    static_assert((BYTES) <= SHARED_LIMIT, #FAMILY ": the driver would refuse"); \
    extern "C" __device__ const uint32_t shared_##FAMILY = (BYTES)

// A lane's column of the tables, and how it forms addresses. `PERMUTED`: for this many bytes of a
// word, counted from the last, a permutation forms the address. `BACKWARDS`: lookups are added from
// the last byte on, which only changes how the compiler schedules them.
template <int PERMUTED, bool BACKWARDS = false>
struct LaneOf {
    uint32_t column; // 4 * lane; the other three bytes are 0

    // To be called once the tables are filled: no lookup can be moved before it.
    static __device__ __forceinline__ LaneOf here() {
        uint32_t column = (threadIdx.x & 31) * 4;
        asm volatile("" : "+r"(column)::"memory");
        return {column};
    }

    __device__ __forceinline__ uint32_t number() const { return column >> 2; }

    // { 4 * lane, byte `k` of `word`, 0, 0 } in one instruction, of one of two kinds. A permutation
    // of bytes runs on the ALU and is ready sooner; a dot product of two halves and two bytes runs
    // on the unit for products, which has little else to do.
    template <int k>
    __device__ __forceinline__ uint32_t address(uint32_t word) const {
        if constexpr (k >= 4 - PERMUTED) return __byte_perm(column, word, 0x1100 | (4 + k) << 4);
        uint32_t at;
        constexpr uint32_t halves = 256u << 16 * (k & 1);
        if constexpr (k < 2)
            asm("dp2a.lo.u32.u32 %0, %1, %2, %3;"
                : "=r"(at)
                : "r"(halves), "r"(word), "r"(column));
        else
            asm("dp2a.hi.u32.u32 %0, %1, %2, %3;"
                : "=r"(at)
                : "r"(halves), "r"(word), "r"(column));
        return at;
    }
};
// With all four tables each unit gets half of the addresses; with two, rotations need the ALU.
using Lane = LaneOf<WARPLOCK_ALL_TABLES ? 2 : 0>;
// For kernels that wait for the end of a chain, not for a unit.
using QuickLane = LaneOf<4>;

// T_index of byte `k` of `word`.
template <int index, int k, int PERMUTED, bool BACKWARDS>
__device__ __forceinline__ uint32_t look(LaneOf<PERMUTED, BACKWARDS> t, uint32_t word) {
    constexpr uint32_t which = WARPLOCK_ALL_TABLES ? index : index & 1;
    constexpr uint32_t table = SHARED_BASE + (which & 1) * SECOND + (which >> 1) * THIRD;
    uint32_t entry;
    asm("ld.shared.u32 %0, [%1 + %2];"
        : "=r"(entry)
        : "r"(t.template address<k>(word)), "n"(table));
    return which == index ? entry : __byte_perm(entry, 0, 0x1032);
}

// Multiplication by x in GF(2^8), reduced by x^8 + x^4 + x^3 + x + 1.
__host__ __device__ constexpr uint32_t times_x(uint32_t a) {
    return (a << 1 & 0xff) ^ (a >> 7) * 0x1b;
}

// Rotation of a byte to the left.
constexpr uint32_t turn(uint32_t a, int by) { return (a << by | a >> (8 - by)) & 0xff; }

// Both tables' first words, and the S-box for key schedules.
struct Entries {
    uint32_t encrypt[256]; // 02, 01, 01, 03 times the S-box: a column of MixColumns
    uint32_t decrypt[256]; // 0e, 09, 0d, 0b times the inverse S-box
};

// From the definition (FIPS 197, 5.1.1): 3 generates the multiplicative group of the field, so the
// powers of 3 visit all its elements, and the powers of 1/3 visit their inverses in step.
constexpr Entries entries() {
    Entries table = {};
    uint32_t a = 1, inverse = 1;
    for (int i = 0; i < 256; i++) {
        const uint32_t of = i < 255 ? a : 0, b = i < 255 ? inverse : 0;
        const uint32_t s = b ^ turn(b, 1) ^ turn(b, 2) ^ turn(b, 3) ^ turn(b, 4) ^ 0x63;
        const uint32_t s2 = times_x(s);
        table.encrypt[of] = s2 | s << 8 | s << 16 | (s2 ^ s) << 24;
        const uint32_t o2 = times_x(of), o4 = times_x(o2), o8 = times_x(o4);
        table.decrypt[s] =
            (o8 ^ o4 ^ o2) | (o8 ^ of) << 8 | (o8 ^ o4 ^ of) << 16 | (o8 ^ o2 ^ of) << 24;
        a ^= times_x(a);
        // Division by 3: times 0xf6.
        uint32_t quotient = 0, power = inverse;
        for (int bit = 0; bit < 8; bit++, power = times_x(power))
            quotient ^= (0xf6 >> bit & 1) * power;
        inverse = quotient;
    }
    return table;
}
__device__ constexpr Entries ENTRIES = entries();

// Fills the tables for one direction; all threads of the block take part.
template <bool DECRYPT>
__device__ inline void fill_tables() {
    if (__cvta_generic_to_shared(shared) != SHARED_BASE) __trap();
    const uint32_t lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    for (uint32_t first = threadIdx.x >> 5; first < 256; first += 32 * warps) {
        // The lanes fetch all entries of a warp together: one wait instead of one for each.
        const uint32_t mine = first + lane * warps < 256 ? first + lane * warps : 0;
        const uint32_t entry = DECRYPT ? ENTRIES.decrypt[mine] : ENTRIES.encrypt[mine];
#pragma unroll 4
        for (uint32_t i = 0; i < 32 && first + i * warps < 256; i++) {
            const uint32_t word = __shfl_sync(~0u, entry, i);
            uint32_t* row = reinterpret_cast<uint32_t*>(shared + (first + i * warps) * ROW) + lane;
            row[0] = word;
            row[32] = __byte_perm(word, 0, 0x2103);
            if constexpr (WARPLOCK_ALL_TABLES) {
                row[THIRD / 4] = __byte_perm(word, 0, 0x1032);
                row[THIRD / 4 + 32] = __byte_perm(word, 0, 0x0321);
            }
        }
    }
    __syncthreads();
}

// One inner round. Column j of the cipher takes its bytes from columns j, j+1, j+2, j+3
// (ShiftRows), that of the inverse from j, j-1, j-2, j-3.
template <bool DECRYPT, int PERMUTED, bool BACKWARDS>
__device__ __forceinline__ uint32_t column(LaneOf<PERMUTED, BACKWARDS> t, uint32_t a, uint32_t b,
                                           uint32_t c, uint32_t d) {
    if constexpr (BACKWARDS)
        return look<3, 3>(t, DECRYPT ? b : d) ^ look<2, 2>(t, c) ^
               look<1, 1>(t, DECRYPT ? d : b) ^ look<0, 0>(t, a);
    else
        return look<0, 0>(t, a) ^ look<1, 1>(t, DECRYPT ? d : b) ^ look<2, 2>(t, c) ^
               look<3, 3>(t, DECRYPT ? b : d);
}

template <bool DECRYPT, class Lane>
__device__ __forceinline__ uint4 inner_round(Lane t, uint4 s, uint4 key) {
    return make_uint4(column<DECRYPT>(t, s.x, s.y, s.z, s.w) ^ key.x,
                      column<DECRYPT>(t, s.y, s.z, s.w, s.x) ^ key.y,
                      column<DECRYPT>(t, s.z, s.w, s.x, s.y) ^ key.z,
                      column<DECRYPT>(t, s.w, s.x, s.y, s.z) ^ key.w);
}

// SubBytes of four bytes, each from another column. Two bytes of each table's word hold the S-box's
// value, so no table of its own is needed: bytes 0 to 3 come from T2, T3, T0, T1.
__device__ __forceinline__ uint32_t last_column(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return choose<0x0000ffff>(choose<0x000000ff>(a, b), choose<0x00ff0000>(c, d));
}

template <class Lane>
__device__ __forceinline__ uint32_t last_encrypt(Lane t, uint32_t a, uint32_t b, uint32_t c,
                                                 uint32_t d) {
    return last_column(look<2, 0>(t, a), look<3, 1>(t, b), look<0, 2>(t, c), look<1, 3>(t, d));
}

// No byte of an inverse table is the inverse S-box's value, but the XOR of a word's four bytes is:
// 0e ^ 09 ^ 0d ^ 0b = 01.
template <class Lane>
__device__ __forceinline__ uint32_t last_decrypt(Lane t, uint32_t a, uint32_t b, uint32_t c,
                                                 uint32_t d) {
    const uint32_t u0 = look<0, 0>(t, a), u1 = look<1, 1>(t, d), u2 = look<2, 2>(t, c),
                   u3 = look<3, 3>(t, b);
    const uint32_t ab = __byte_perm(u0, u1, 0x5410) ^ __byte_perm(u0, u1, 0x7632);
    const uint32_t cd = __byte_perm(u2, u3, 0x5410) ^ __byte_perm(u2, u3, 0x7632);
    return __byte_perm(ab, cd, 0x6420) ^ __byte_perm(ab, cd, 0x7531);
}

template <bool DECRYPT, class Lane>
__device__ __forceinline__ uint4 last_round(Lane t, uint4 s, uint4 key) {
    if constexpr (DECRYPT) {
        return make_uint4(last_decrypt(t, s.x, s.y, s.z, s.w) ^ key.x,
                          last_decrypt(t, s.y, s.z, s.w, s.x) ^ key.y,
                          last_decrypt(t, s.z, s.w, s.x, s.y) ^ key.z,
                          last_decrypt(t, s.w, s.x, s.y, s.z) ^ key.w);
    } else {
        return make_uint4(last_encrypt(t, s.x, s.y, s.z, s.w) ^ key.x,
                          last_encrypt(t, s.y, s.z, s.w, s.x) ^ key.y,
                          last_encrypt(t, s.z, s.w, s.x, s.y) ^ key.z,
                          last_encrypt(t, s.w, s.x, s.y, s.z) ^ key.w);
    }
}

// Rounds `FIRST` to the last of a state that already carries the key of the round before.
template <bool DECRYPT, int ROUNDS, int FIRST = 1, class Lane>
__device__ __forceinline__ uint4 rounds_from(Lane t, uint4 s, const RoundKeys& keys) {
#pragma unroll
    for (int round = FIRST; round < ROUNDS; round++)
        s = inner_round<DECRYPT>(t, s, keys.round[round]);
    return last_round<DECRYPT>(t, s, keys.round[ROUNDS]);
}

template <bool DECRYPT, int ROUNDS, class Lane>
__device__ __forceinline__ uint4 cipher(Lane t, uint4 block, const RoundKeys& keys) {
    return rounds_from<DECRYPT, ROUNDS>(t, block ^ keys.round[0], keys);
}

// The same with a number of rounds known only at run time and keys in memory.
template <bool DECRYPT, class Lane>
__device__ __forceinline__ uint4 cipher(Lane t, uint4 s, const RoundKeys* keys, uint32_t rounds) {
    s = s ^ keys->round[0];
#pragma unroll 1
    for (uint32_t round = 1; round < rounds; round++)
        s = inner_round<DECRYPT>(t, s, keys->round[round]);
    return last_round<DECRYPT>(t, s, keys->round[rounds]);
}
