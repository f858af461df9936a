// The tables of a call, made on the device: the host sends a few numbers, or one span a message.
#pragma once
#include "work.cuh"

// Something of each message: its place is `base`, and an offset from an array or `stride` a message.
struct Column {
    uint64_t base;
    const uint64_t* offsets; // of every message, `step` numbers apart; null: by stride
    const uint64_t* lens;    // likewise; null: all have `len` bytes
    uint64_t step;
    uint64_t stride;
    uint64_t len;

#ifdef __CUDACC__
    __device__ __forceinline__ uint64_t at(uint64_t number) const {
        return base + (offsets ? offsets[step * number] : stride * number);
    }
    __device__ __forceinline__ uint64_t len_of(uint64_t number) const {
        return lens ? lens[step * number] : len;
    }
#endif
};

enum TagPlace : uint32_t { TAG_IN_COLUMN, TAG_AFTER_INPUT, TAG_AFTER_OUTPUT };
enum OwnIv : uint32_t { OWN_NONE, OWN_SECTOR, OWN_XOR, OWN_ADD32 };

// ACORN's messages are sorted by length: those that share a warp wait for its longest, and a long one
// should not start last. Lengths within a 128th share a class; longer ones come first.
constexpr uint32_t CLASSES = 4096;
struct Classes {
    uint32_t next[CLASSES]; // messages of each class, then the place of the next one
    uint32_t counted;       // blocks that have counted theirs
    uint32_t padding[3];
};

struct Spread {
    Column input, output, iv, aad, tag;
    uint64_t count;
    Piece* pieces;        // null: none
    GcmMessage* messages; // null: no GCM
    AcornMessage* acorn;  // null: no ACORN
    uint32_t* order;      // the number of the message at each place of `acorn`; null: in order
    Classes* classes;     // zeros; where `order` is made, if it is
    uint64_t* starts;     // null: all pieces have equally many units
    uint64_t* sums;       // units of each block of this launch, if there are starts
    uint8_t* own_ivs;     // where counted IVs are written, `own_len` bytes each
    uint64_t first[2];    // number of the first counted IV; its high half
    unsigned long long* next; // counter that the first number is taken from instead; null: none
    uint8_t base[16];     // of counted IVs
    uint32_t own;         // an OwnIv
    uint32_t own_len;
    uint32_t tag_place;   // a TagPlace
    uint32_t unit;        // bytes; 0: a unit is a message
    uint32_t steals;      // XTS: the two blocks of ciphertext stealing are no units
    uint32_t padding;

#ifdef __CUDACC__
    __device__ __forceinline__ uint64_t units(uint64_t number) const {
        if (unit == 0) return 1;
        const uint64_t len = input.len_of(number);
        if (steals) return len % 16 ? len / 16 - 1 : len / 16;
        return (len + unit - 1) / unit;
    }
    // By text, or, if all have as much of it, by associated data.
    __device__ __forceinline__ uint32_t class_of(uint64_t number) const {
        const uint64_t len = input.lens ? input.len_of(number) : aad.len_of(number);
        const uint32_t bits = 64 - __clzll(len), shift = bits > 8 ? bits - 8 : 0;
        const uint32_t rank = 128 * shift + uint32_t(len >> shift);
        return CLASSES - 1 - (rank < CLASSES ? rank : CLASSES - 1);
    }
    __device__ __forceinline__ void write_own_iv(uint64_t number, uint64_t start) const {
        uint8_t* to = own_ivs + number * own_len;
        if (own == OWN_SECTOR) {
            const uint64_t low = start + number, high = first[1] + (low < number);
            for (uint32_t i = 0; i < 16; i++) to[i] = uint8_t((i < 8 ? low : high) >> 8 * (i % 8));
            return;
        }
        const uint64_t value = start + number;
        uint32_t carry = 0;
        for (uint32_t i = 0; i < own_len; i++) {
            const uint32_t place = own_len - 1 - i;
            const uint32_t digit = i < 8 ? uint32_t(value >> 8 * i) & 255 : 0;
            uint32_t byte = base[place];
            if (own == OWN_XOR) byte ^= digit;
            else if (i < 4) byte += digit + carry, carry = byte >> 8;
            to[place] = uint8_t(byte);
        }
    }
#endif
};

constexpr uint32_t SPREAD_THREADS = 256;

// The sum over a block, in all threads; `before`: of the threads below.
__device__ __forceinline__ uint64_t sum_block(uint64_t value, uint64_t* before = nullptr) {
    __shared__ uint64_t warps[SPREAD_THREADS / 32];
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    uint64_t sum = value;
    for (uint32_t i = 1; i < 32; i *= 2) {
        const uint64_t below = __shfl_up_sync(~0u, sum, i);
        if (lane >= i) sum += below;
    }
    __syncthreads(); // the last use of `warps` is over
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    uint64_t all = 0, lower = 0;
    for (uint32_t i = 0; i < SPREAD_THREADS / 32; i++) {
        if (i == warp) lower = all;
        all += warps[i];
    }
    if (before) *before = lower + sum - value;
    return all;
}

extern "C" __global__ void __launch_bounds__(SPREAD_THREADS)
    sum_units(const __grid_constant__ Spread spread) {
    const uint64_t number = uint64_t(blockIdx.x) * SPREAD_THREADS + threadIdx.x;
    const uint64_t sum = sum_block(number < spread.count ? spread.units(number) : 0);
    if (threadIdx.x == 0) spread.sums[blockIdx.x] = sum;
}

constexpr uint32_t COUNTED = 16; // messages a thread

__device__ __forceinline__ void clear(uint32_t (&counts)[CLASSES]) {
    for (uint32_t i = threadIdx.x; i < CLASSES; i += SPREAD_THREADS) counts[i] = 0;
    __syncthreads();
}

// The first place of each class.
extern "C" __global__ void __launch_bounds__(SPREAD_THREADS)
    count_classes(const __grid_constant__ Spread spread) {
    __shared__ uint32_t counts[CLASSES];
    clear(counts);
    const uint64_t from = uint64_t(blockIdx.x) * SPREAD_THREADS * COUNTED + threadIdx.x;
    for (uint32_t i = 0; i < COUNTED; i++) {
        const uint64_t number = from + SPREAD_THREADS * i;
        if (number < spread.count) atomicAdd(&counts[spread.class_of(number)], 1);
    }
    __syncthreads();
    Classes& classes = *spread.classes;
    for (uint32_t i = threadIdx.x; i < CLASSES; i += SPREAD_THREADS)
        if (counts[i] > 0) atomicAdd(&classes.next[i], counts[i]);
    __threadfence();
    __syncthreads();
    // The last block adds up.
    const bool last = threadIdx.x == 0 && atomicAdd(&classes.counted, 1) == gridDim.x - 1;
    if (!__syncthreads_or(last)) return;
    constexpr uint32_t EACH = CLASSES / SPREAD_THREADS;
    uint32_t* mine = classes.next + EACH * threadIdx.x;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < EACH; i++) sum += __ldcg(mine + i);
    uint64_t before;
    sum_block(sum, &before);
    for (uint32_t i = 0; i < EACH; i++) {
        const uint32_t count = __ldcg(mine + i);
        mine[i] = uint32_t(before);
        before += count;
    }
}

// The order of the messages, a thread each. Those of a class may have any, which changes no result.
extern "C" __global__ void __launch_bounds__(SPREAD_THREADS)
    sort_messages(const __grid_constant__ Spread spread) {
    __shared__ uint32_t counts[CLASSES]; // messages of this block, then where they begin
    clear(counts);
    const uint64_t number = uint64_t(blockIdx.x) * SPREAD_THREADS + threadIdx.x;
    const bool active = number < spread.count;
    const uint32_t which = active ? spread.class_of(number) : 0;
    const uint32_t place = active ? atomicAdd(&counts[which], 1) : 0;
    __syncthreads();
    // One for all: atomic operations on one address follow each other.
    if (active && place == 0)
        counts[which] = atomicAdd(&spread.classes->next[which], counts[which]);
    __syncthreads();
    if (active) spread.order[counts[which] + place] = uint32_t(number);
}

// A thread a message, or a place of ACORN's. With a counter, there is only one block.
extern "C" __global__ void __launch_bounds__(SPREAD_THREADS)
    spread_messages(const __grid_constant__ Spread spread) {
    const uint64_t place = uint64_t(blockIdx.x) * SPREAD_THREADS + threadIdx.x;
    const bool active = place < spread.count;
    const uint64_t number = active && spread.order ? spread.order[place] : place;
    if (spread.starts) {
        uint64_t lower = 0, before;
        for (uint32_t i = threadIdx.x; i < blockIdx.x; i += SPREAD_THREADS) lower += spread.sums[i];
        lower = sum_block(lower);
        const uint64_t units = active ? spread.units(number) : 0;
        sum_block(units, &before);
        if (active) spread.starts[number] = lower + before;
        if (number + 1 == spread.count) spread.starts[number + 1] = lower + before + units;
    }
    __shared__ uint64_t start;
    if (threadIdx.x == 0)
        start = spread.next ? atomicAdd(spread.next, spread.count) : spread.first[0];
    __syncthreads();
    if (!active) return;
    if (spread.own != OWN_NONE) spread.write_own_iv(number, start);
    const uint64_t input = spread.input.at(number), output = spread.output.at(number);
    const uint64_t len = spread.input.len_of(number);
    const uint8_t* iv = spread.own != OWN_NONE ? spread.own_ivs + number * spread.own_len
                                               : reinterpret_cast<const uint8_t*>(spread.iv.at(number));
    Piece piece = {};
    piece.input = reinterpret_cast<const uint8_t*>(input);
    piece.output = reinterpret_cast<uint8_t*>(output);
    piece.len = len;
    piece.iv = iv;
    piece.message = uint32_t(number);
    if (spread.pieces) spread.pieces[number] = piece;
    GcmMessage message = {};
    message.iv = iv;
    message.iv_len = spread.own != OWN_NONE ? spread.own_len : spread.iv.len_of(number);
    message.aad_len = spread.aad.len_of(number);
    if (message.aad_len > 0) message.aad = reinterpret_cast<const uint8_t*>(spread.aad.at(number));
    message.tag = reinterpret_cast<uint8_t*>(spread.tag_place == TAG_AFTER_INPUT    ? input + len
                                             : spread.tag_place == TAG_AFTER_OUTPUT ? output + len
                                                                 : spread.tag.at(number));
    message.len = len;
    if (spread.messages) spread.messages[number] = message;
    if (spread.acorn)
        spread.acorn[place] = {piece.input, piece.output, len, message.aad, message.aad_len,
                               iv, message.tag, 0, uint32_t(number)};
}
