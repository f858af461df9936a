// CBC encryption: a chain is serial, so a thread is a message (SP 800-38A, 6.2).
//
// Neighbouring lanes' texts lie far apart, and a load that touches 32 lines keeps the memory pipe,
// which the table lookups need, busy for 32 cycles. So the lanes of a warp fetch and write
// together, 64 bytes of a message by four lanes, and pass the blocks through shared memory.
#pragma once
#include "flat.cuh"

// The shared memory that is left next to the tables.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool CBC_STAGED = false;
constexpr uint32_t CBC_THREADS = 512;
#elif defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
constexpr bool CBC_STAGED = true;
constexpr uint32_t CBC_THREADS = 512;
#else
constexpr bool CBC_STAGED = true;
constexpr uint32_t CBC_THREADS = 128;
#endif
constexpr uint32_t STAGE = 4;               // blocks of each message that are fetched together
constexpr uint32_t STAGE_BYTES = 32 * 16 * STAGE; // of a warp
constexpr uint32_t STAGES = 3;              // two of text, one of results

// The place of block `c` of message `m` in a stage. Eight lanes that read the same block of
// neighbouring messages, or all blocks of two messages, touch each bank once.
__device__ __forceinline__ uint32_t stage_place(uint32_t m, uint32_t c) {
    return m * 64 + ((c ^ m >> 1) & 3) * 16;
}

// The largest of the warp's values, in all lanes.
__device__ __forceinline__ uint64_t most_of_warp(uint64_t value) {
#pragma unroll
    for (uint32_t mask = 16; mask > 0; mask /= 2) {
        const uint64_t other = __shfl_xor_sync(~0u, value, mask);
        value = other > value ? other : value;
    }
    return value;
}

// A message for each lane, all texts aligned to blocks; `blocks` is 0 for a lane without one.
template <class Keys>
__device__ __forceinline__ void cbc_staged(QuickLane t, const Keys& keys, const uint8_t* input,
                                           uint8_t* output, uint64_t blocks, uint4 chain,
                                           uint32_t key) {
    const uint32_t lane = t.number();
    const uint32_t warp_stage = SHARED_BASE + TABLES + (threadIdx.x >> 5) * STAGES * STAGE_BYTES;
    const uint32_t results = warp_stage + 2 * STAGE_BYTES;
    // What this lane fetches and writes for others: block `part` of four messages.
    const uint32_t part = lane & 3;
    const uint8_t* from[4];
    uint8_t* to[4];
    uint64_t left[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t m = 8 * i + lane / 4;
        from[i] = reinterpret_cast<const uint8_t*>(
                      __shfl_sync(~0u, reinterpret_cast<uint64_t>(input), m)) + 16 * part;
        to[i] = reinterpret_cast<uint8_t*>(
                    __shfl_sync(~0u, reinterpret_cast<uint64_t>(output), m)) + 16 * part;
        left[i] = __shfl_sync(~0u, blocks, m);
    }
    const uint64_t longest = most_of_warp(blocks);
    const auto fetch_stage = [&](uint64_t at, uint32_t buffer) {
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            if (at + part < left[i])
                fetch(warp_stage + buffer * STAGE_BYTES + stage_place(8 * i + lane / 4, part),
                      from[i] + 16 * at);
        end_group();
    };
    fetch_stage(0, 0);
    uint32_t buffer = 0;
#pragma unroll 1
    for (uint64_t at = 0; at < longest; at += STAGE) {
        fetch_stage(at + STAGE, buffer ^ 1);
        await_fetches<1>();
        __syncwarp();
#pragma unroll
        for (uint32_t c = 0; c < STAGE; c++) {
            const uint32_t place = stage_place(lane, c);
            const uint4 text = load_shared(warp_stage + buffer * STAGE_BYTES + place);
            chain = keys.template run<false>(t, chain ^ text, key);
            store_shared(results + place, chain);
        }
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            if (at + part < left[i])
                store_aligned(to[i] + 16 * at,
                              load_shared(results + stage_place(8 * i + lane / 4, part)));
        buffer ^= 1;
        __syncwarp();
    }
    await_fetches<0>();
}

template <class Keys>
__device__ __forceinline__ void cbc_encrypt(const Work& work, const Keys& keys) {
    fill_tables<false>();
    const QuickLane t = QuickLane::here();
    const uint64_t threads = uint64_t(gridDim.x) * blockDim.x;
    for (uint64_t base = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x - t.number();
         base < work.count; base += threads) {
        const uint64_t number = base + t.number();
        const bool active = number < work.count;
        const Piece& piece = work.pieces[active ? number : base];
        const uint8_t* input = piece.input;
        uint8_t* output = piece.output;
        uint64_t blocks = active ? piece.len / 16 : 0;
        uint4 chain = load(piece.iv);
        if (CBC_STAGED && __all_sync(~0u, aligned(input, 16) && aligned(output, 16))) {
            cbc_staged(t, keys, input, output, blocks, chain, piece.key);
            continue;
        }
#pragma unroll 1
        for (; blocks > 0; blocks--) {
            chain = keys.template run<false>(t, chain ^ load(input), piece.key);
            store(output, chain);
            input += 16;
            output += 16;
        }
        __syncwarp();
    }
}

// For few messages: four lanes a message, one for each column of the state. A single lane waits for
// 16 lookups a round, 97 cycles on an H100; four lanes wait for four lookups and for the exchange
// of the results, 70 cycles. Nothing else may lengthen the chain: texts are fetched early, and no
// lane branches.
constexpr uint32_t FEW_THREADS = 512;
constexpr uint32_t FEW_AHEAD = 4; // blocks of text that are fetched together

template <bool ALIGNED>
__device__ __forceinline__ uint32_t load_word(const uint8_t* at) {
    if constexpr (ALIGNED) return *reinterpret_cast<const uint32_t*>(at);
    return at[0] | at[1] << 8 | at[2] << 16 | uint32_t(at[3]) << 24;
}

template <bool ALIGNED>
__device__ __forceinline__ void store_word(uint8_t* at, uint32_t word) {
    if constexpr (ALIGNED) {
        *reinterpret_cast<uint32_t*>(at) = word;
    } else {
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) at[k] = uint8_t(word >> 8 * k);
    }
}

// The lanes of a message, seen from one of them.
struct Columns {
    uint32_t second, third, fourth; // those with the next columns

    __device__ __forceinline__ explicit Columns(uint32_t lane)
        : second(lane & ~3u | lane + 1 & 3), third(lane ^ 2), fourth(lane & ~3u | lane + 3 & 3) {}

    // Byte k of a column goes to the column k before it.
    template <int k>
    __device__ __forceinline__ uint32_t exchange(uint32_t found) const {
        return __shfl_sync(~0u, found, k == 1 ? second : k == 2 ? third : fourth);
    }
};

// All rounds of a column that already carries the first key; the last key is left to the caller.
template <int ROUNDS>
__device__ __forceinline__ uint32_t rounds_of_column(QuickLane t, const Columns& columns,
                                                     uint32_t s,
                                                     const uint32_t (&keys)[ROUNDS + 1]) {
#pragma unroll
    for (int round = 1; round < ROUNDS; round++) {
        const uint32_t a = look<0, 0>(t, s), b = look<1, 1>(t, s), c = look<2, 2>(t, s),
                       d = look<3, 3>(t, s);
        s = a ^ keys[round] ^ columns.exchange<1>(b) ^ columns.exchange<2>(c) ^
            columns.exchange<3>(d);
    }
    const uint32_t a = look<2, 0>(t, s), b = look<3, 1>(t, s), c = look<0, 2>(t, s),
                   d = look<1, 3>(t, s);
    return last_column(a, columns.exchange<1>(b), columns.exchange<2>(c), columns.exchange<3>(d));
}

// A message for each group of four lanes; `blocks` is 0 for a group without one, `longest` the most
// of any group. `input` and `output` are where this lane's column of the first block stands.
template <int ROUNDS, bool ALIGNED>
__device__ __forceinline__ void few_chains(QuickLane t, const uint32_t (&keys)[ROUNDS + 1],
                                           const uint8_t* input, uint8_t* output, uint64_t blocks,
                                           uint64_t longest, uint32_t iv) {
    const Columns columns(t.number());
    const uint32_t last_key = keys[ROUNDS], both_keys = keys[0] ^ last_key;
    const auto fetch = [&](uint32_t (&text)[FEW_AHEAD], uint64_t at) {
#pragma unroll
        for (uint32_t i = 0; i < FEW_AHEAD; i++)
            text[i] = at + i < blocks ? load_word<ALIGNED>(input + 16 * (at + i)) : 0;
    };
    uint32_t text[FEW_AHEAD];
    fetch(text, 0);
    uint32_t chain = iv ^ last_key;
#pragma unroll 1
    for (uint64_t at = 0; at < longest; at += FEW_AHEAD) {
        // All loads together: waiting for one load means waiting for all that were issued before
        // it.
        uint32_t next[FEW_AHEAD];
        fetch(next, at + FEW_AHEAD);
#pragma unroll
        for (uint32_t i = 0; i < FEW_AHEAD; i++) {
            chain = rounds_of_column<ROUNDS>(t, columns, chain ^ text[i] ^ both_keys, keys);
            if (at + i < blocks) store_word<ALIGNED>(output + 16 * (at + i), chain ^ last_key);
        }
#pragma unroll
        for (uint32_t i = 0; i < FEW_AHEAD; i++) text[i] = next[i];
    }
}

template <int ROUNDS>
__device__ __forceinline__ void cbc_few(const Work& work, const RoundKeys* one,
                                        const TableKey* table) {
    fill_tables<false>();
    const QuickLane t = QuickLane::here();
    const uint32_t part = t.number() & 3;
    const uint64_t step = uint64_t(gridDim.x) * blockDim.x / 4;
    for (uint64_t base = 8ull * warp_number(); base < work.count; base += step) {
        const uint64_t number = base + t.number() / 4;
        const bool active = number < work.count;
        const Piece& piece = work.pieces[active ? number : base];
        const RoundKeys& schedule = one ? *one : table[piece.key].encrypt;
        uint32_t keys[ROUNDS + 1];
#pragma unroll
        for (int round = 0; round <= ROUNDS; round++)
            keys[round] = reinterpret_cast<const uint32_t*>(&schedule.round[round])[part];
        const uint8_t* input = piece.input + 4 * part;
        uint8_t* output = piece.output + 4 * part;
        const uint64_t blocks = active ? piece.len / 16 : 0, longest = most_of_warp(blocks);
        const uint32_t iv = load_word<false>(piece.iv + 4 * part);
        if (__all_sync(~0u, aligned(input, 4) && aligned(output, 4)))
            few_chains<ROUNDS, true>(t, keys, input, output, blocks, longest, iv);
        else few_chains<ROUNDS, false>(t, keys, input, output, blocks, longest, iv);
    }
}

#define WARPLOCK_CBC(SIZE, ROUNDS)                                                        \
    extern "C" __global__ void __launch_bounds__(CBC_THREADS, 1) cbc_encrypt_##SIZE(      \
        WARPLOCK_CONST Work work, WARPLOCK_CONST RoundKeys keys) {                        \
        cbc_encrypt(work, OneKey<ROUNDS>{keys});                                          \
    }                                                                                     \
    extern "C" __global__ void __launch_bounds__(FEW_THREADS, 1) cbc_encrypt_few_##SIZE(  \
        WARPLOCK_CONST Work work, WARPLOCK_CONST RoundKeys keys) {                        \
        cbc_few<ROUNDS>(work, &keys, nullptr);                                            \
    }
WARPLOCK_CBC(128, 10)
WARPLOCK_CBC(192, 12)
WARPLOCK_CBC(256, 14)
extern "C" __global__ void __launch_bounds__(CBC_THREADS, 1)
    cbc_encrypt_table(WARPLOCK_CONST Work work, const TableKey* keys, uint32_t rounds) {
    cbc_encrypt(work, KeyTable{keys, rounds});
}
extern "C" __global__ void __launch_bounds__(FEW_THREADS, 1)
    cbc_encrypt_few_table(WARPLOCK_CONST Work work, const TableKey* keys, uint32_t rounds) {
    if (rounds == 10) cbc_few<10>(work, nullptr, keys);
    else if (rounds == 12) cbc_few<12>(work, nullptr, keys);
    else cbc_few<14>(work, nullptr, keys);
}
WARPLOCK_SHARED(cbc, TABLES + (CBC_STAGED ? CBC_THREADS / 32 * STAGES * STAGE_BYTES : 0));
