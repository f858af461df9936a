// Key schedules on the device (FIPS 197, 5.2), for tables of keys and for a key per block.
#pragma once
#include "flat.cuh"

// SubWord: the S-box on each byte.
__device__ __forceinline__ uint32_t sub_word(Lane t, uint32_t word) {
    return last_encrypt(t, word, word, word, word);
}

// The next words of a key schedule, from the `WORDS` before them.
template <int WORDS>
__device__ __forceinline__ void next_words(Lane t, uint32_t (&key)[WORDS], uint32_t& constant) {
    const uint32_t last = key[WORDS - 1];
    key[0] ^= sub_word(t, last >> 8 | last << 24) ^ constant;
    constant = times_x(constant);
#pragma unroll
    for (int i = 1; i < WORDS; i++)
        key[i] ^= WORDS == 8 && i == 4 ? sub_word(t, key[3]) : key[i - 1];
}

// InvMixColumns of a column, for the equivalent inverse cipher.
__device__ __forceinline__ uint32_t times_x_each(uint32_t a) {
    return (a << 1 & 0xfefefefe) ^ (a >> 7 & 0x01010101) * 0x1b;
}
__device__ __forceinline__ uint32_t unmix(uint32_t a) {
    const uint32_t a2 = times_x_each(a), a4 = times_x_each(a2), a8 = times_x_each(a4);
    const uint32_t e = a8 ^ a4 ^ a2, nine = a8 ^ a, d = a8 ^ a4 ^ a, b = a8 ^ a2 ^ a;
    // Byte i of the result takes 0e of byte i, and 0b, 0d, 09 of those after it.
    return e ^ __byte_perm(b, 0, 0x0321) ^ __byte_perm(d, 0, 0x1032) ^ __byte_perm(nine, 0, 0x2103);
}

template <int WORDS>
__device__ __forceinline__ void expand(Lane t, const uint8_t* raw, RoundKeys& out) {
    constexpr int TOTAL = 4 * (WORDS + 7);
    uint32_t key[WORDS];
    uint32_t* words = reinterpret_cast<uint32_t*>(&out);
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        key[i] = raw[4 * i] | raw[4 * i + 1] << 8 | raw[4 * i + 2] << 16 |
                 uint32_t(raw[4 * i + 3]) << 24;
        words[i] = key[i];
    }
    uint32_t constant = 1;
    for (int done = WORDS; done < TOTAL; done += WORDS) {
        next_words<WORDS>(t, key, constant);
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            if (done + i < TOTAL) words[done + i] = key[i];
    }
}

__device__ __forceinline__ void expand(Lane t, const uint8_t* raw, uint32_t rounds,
                                       RoundKeys& out) {
    if (rounds == 10) expand<4>(t, raw, out);
    else if (rounds == 12) expand<6>(t, raw, out);
    else expand<8>(t, raw, out);
}

// What to derive in addition to the encryption schedule.
constexpr uint32_t PART_DECRYPT = 1, PART_TWEAK = 2, PART_HASH = 4;
constexpr uint32_t KEY_THREADS = 128;

// A thread a key.
extern "C" __global__ void __launch_bounds__(KEY_THREADS)
    expand_keys(const uint8_t* raw, TableKey* out, uint32_t count, uint32_t rounds,
                uint32_t parts) {
    fill_tables<false>();
    const Lane t = Lane::here();
    const uint32_t number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= count) return;
    const uint32_t len = 4 * (rounds - 6);
    const uint8_t* bytes = raw + uint64_t(number) * len * (parts & PART_TWEAK ? 2 : 1);
    TableKey& key = out[number];
    expand(t, bytes, rounds, key.encrypt);
    if (parts & PART_TWEAK) expand(t, bytes + len, rounds, key.tweak);
    if (parts & PART_HASH) key.hash = cipher<false>(t, make_uint4(0, 0, 0, 0), &key.encrypt, rounds);
    if (parts & PART_DECRYPT) {
        for (uint32_t round = 0; round <= rounds; round++) {
            uint4 words = key.encrypt.round[rounds - round];
            if (round > 0 && round < rounds)
                words = make_uint4(unmix(words.x), unmix(words.y), unmix(words.z), unmix(words.w));
            key.decrypt.round[round] = words;
        }
    }
}

// A key for every block.
template <int WORDS>
struct KeyAndText {
    uint32_t key[WORDS];
    uint4 text;

    // Number `i`; `even`: all of them are aligned.
    __device__ __forceinline__ void fetch(const uint8_t* keys, const uint8_t* input, uint64_t i,
                                          bool even) {
        const uint8_t* raw = keys + 4 * WORDS * i;
        text = even ? load_aligned(input + 16 * i) : load(input + 16 * i);
        if constexpr (WORDS == 6) {
            const uint4 a = load(raw), b = load(raw + 16, 8);
            key[0] = a.x, key[1] = a.y, key[2] = a.z, key[3] = a.w, key[4] = b.x, key[5] = b.y;
        } else {
#pragma unroll
            for (int part = 0; part < WORDS / 4; part++) {
                const uint4 a = even ? load_aligned(raw + 16 * part) : load(raw + 16 * part);
                key[4 * part] = a.x, key[4 * part + 1] = a.y;
                key[4 * part + 2] = a.z, key[4 * part + 3] = a.w;
            }
        }
    }
};

// Encryption. The schedule runs alongside the rounds, while the next key and block are loaded.
template <int WORDS>
__device__ __forceinline__ void ecb_each(const uint8_t* keys, const uint8_t* input,
                                         uint8_t* output, uint64_t count) {
    constexpr int ROUNDS = WORDS + 6;
    constexpr int TOTAL = 4 * (ROUNDS + 1);
    const bool even = aligned(keys, 16) && aligned(input, 16) && aligned(output, 16);
    const Range rows = share((count + 31) / 32, blockIdx.x, gridDim.x);
    const uint64_t to = 32 * rows.to < count ? 32 * rows.to : count;
    uint64_t i = 32 * rows.from + threadIdx.x;
    KeyAndText<WORDS> next = {};
    // Loaded while the tables are filled.
    if (i < to) next.fetch(keys, input, i, even);
    fill_tables<false>();
    const Lane t = Lane::here();
    for (; i < to; i += blockDim.x) {
        KeyAndText<WORDS> now = next;
        if (i + blockDim.x < to) next.fetch(keys, input, i + blockDim.x, even);
        uint32_t(&key)[WORDS] = now.key;
        uint32_t constant = 1;
        uint4 s = now.text ^ make_uint4(key[0], key[1], key[2], key[3]);
#pragma unroll
        for (int round = 1; round <= ROUNDS; round++) {
            uint32_t words[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const int place = (4 * round + k) % WORDS;
                if (place == 0 && 4 * round + k < TOTAL) next_words<WORDS>(t, key, constant);
                words[k] = key[place];
            }
            const uint4 round_key = make_uint4(words[0], words[1], words[2], words[3]);
            s = round < ROUNDS ? inner_round<false>(t, s, round_key)
                               : last_round<false>(t, s, round_key);
        }
        if (even) store_aligned(output + 16 * i, s);
        else store(output + 16 * i, s);
    }
}

#define WARPLOCK_EACH(SIZE, WORDS)                                                          \
    WARPLOCK_KERNEL ecb_each_##SIZE(const uint8_t* keys, const uint8_t* input, uint8_t* output, \
                                    uint64_t count) {                                       \
        ecb_each<WORDS>(keys, input, output, count);                                        \
    }
WARPLOCK_EACH(128, 4)
WARPLOCK_EACH(192, 6)
WARPLOCK_EACH(256, 8)
WARPLOCK_SHARED(each, TABLES);
