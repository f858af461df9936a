// Modes in which every block can be worked on alone: ECB, CBC decryption, XTS (SP 800-38A,
// IEEE 1619), and CTR under many keys. A unit is a block; neighbouring lanes take neighbouring
// blocks, whichever messages those belong to.
#pragma once
#include "counter.cuh"
#include "sliced.cuh"
#include "work.cuh"

// 64 registers a thread; more would be of no use to a loop that waits for table lookups.
constexpr uint32_t FLAT_THREADS = 1024;

// One key, in the constant bank: round keys are operands of the instructions that use them.
template <int ROUNDS>
struct OneKey {
    const RoundKeys& keys;

    template <bool DECRYPT, class Lane>
    __device__ __forceinline__ uint4 run(Lane t, uint4 block, uint32_t) const {
        return cipher<DECRYPT, ROUNDS>(t, block, keys);
    }

    static constexpr bool TAKES_TWO = SLICED;
    template <bool DECRYPT>
    __device__ __forceinline__ void run_two(Lane t, uint4& a, uint4& b) const {
        a = a ^ keys.round[0];
        b = b ^ keys.round[0];
        rounds_of_two<DECRYPT, ROUNDS>(t, a, b, keys);
    }
};

// A table of keys in memory.
struct KeyTable {
    static constexpr bool TAKES_TWO = false;
    const TableKey* keys;
    uint32_t rounds;

    template <bool DECRYPT, class Lane>
    __device__ __forceinline__ uint4 run(Lane t, uint4 block, uint32_t key) const {
        return cipher<DECRYPT>(t, block, DECRYPT ? &keys[key].decrypt : &keys[key].encrypt,
                               rounds);
    }
};

// A lane's walk over the pieces, block by block in rising order.
struct Cursor {
    uint64_t number = 0, start = 0, end = 0; // the piece and its units
    const uint8_t* input = nullptr;
    uint8_t* output = nullptr;
    uint32_t key = 0;

    // Goes to the piece of a unit.
    __device__ __forceinline__ void move(const Work& work, uint64_t unit) {
        uint32_t tries = 4;
        if (end == 0) tries = 0;
        for (; tries > 0 && unit >= end; tries--) {
            number++;
            start = end;
            end = first_unit(work, number + 1);
        }
        if (tries == 0 && unit >= end) {
            number = find_piece(work, unit);
            start = first_unit(work, number);
            end = first_unit(work, number + 1);
        }
        const Piece& piece = work.pieces[number];
        input = piece.input;
        output = piece.output;
        key = piece.key;
    }

    __device__ __forceinline__ const uint8_t* input_of(uint64_t unit) const {
        return input + 16 * (unit - start);
    }
    __device__ __forceinline__ uint8_t* output_of(uint64_t unit) const {
        return output + 16 * (unit - start);
    }
    // Whether the lane below has the block in front of this one.
    template <class Lane>
    __device__ __forceinline__ bool joins(Lane t, uint64_t unit) const {
        return t.number() > 0 && unit != start;
    }
};

// Stores two blocks a lane, `unit` and `next`, the second in the cursor's piece. Where pieces change
// between the two, each lane stores the ends of lines by itself.
template <class Lane>
__device__ __forceinline__ void store_two(Lane t, const Cursor& at, uint64_t unit, uint64_t next,
                                          uint8_t* first, uint4 a, uint4 b) {
    uint8_t* second = at.output_of(next);
    if (__all_sync(~0u, (shift_of(first) | shift_of(second)) == 0)) {
        store_aligned(first, a);
        store_aligned(second, b);
    } else if (__all_sync(~0u, next == unit + 32 && at.start + t.number() <= unit &&
                                   next + 32 <= at.end + t.number())) {
        const uint4 rows[2] = {a, b};
        store_rows(first, rows);
    } else {
        store_row(first, a, 16, t.number() > 0 && at.start < unit);
        store_row(second, b, 16, at.joins(t, next));
    }
}

// A warp's units: chunks of 32, `step` units apart.
struct Chunks {
    uint64_t from, to, step;
};

// One piece: the warps of a thread block take turns, so that a block streams through one region.
// Several: each warp has a region of its own and rarely changes piece.
__device__ __forceinline__ Chunks chunks(const Work& work) {
    if (work.count == 1) {
        const Range rows = share((work.units + 31) / 32, blockIdx.x, gridDim.x);
        const uint64_t to = 32 * rows.to < work.units ? 32 * rows.to : work.units;
        return {32 * rows.from + (threadIdx.x & ~31), to, blockDim.x};
    }
    const Range range = share(work.units, warp_number(), warp_count());
    return {range.from, range.to, 32};
}

template <bool DECRYPT, class Keys>
__device__ __forceinline__ void ecb(const Work& work, const Keys& keys) {
    fill_tables<DECRYPT>();
    const Lane t = Lane::here();
    const Chunks chunk = chunks(work);
    Cursor at;
    uint64_t base = chunk.from; // lane 0's
    if constexpr (Keys::TAKES_TWO) {
        for (; base + chunk.step + 32 <= chunk.to; base += 2 * chunk.step) {
            const uint64_t unit = base + t.number(), next = unit + chunk.step;
            if (unit >= at.end) at.move(work, unit);
            uint8_t* first = at.output_of(unit);
            uint4 a = load(at.input_of(unit));
            if (next >= at.end) at.move(work, next);
            uint4 b = load(at.input_of(next));
            keys.template run_two<DECRYPT>(t, a, b);
            store_two(t, at, unit, next, first, a, b);
        }
    }
    for (; base < chunk.to; base += chunk.step) {
        const uint64_t unit = base + t.number();
        const bool active = unit < chunk.to;
        if (active && unit >= at.end) at.move(work, unit);
        uint4 text = make_uint4(0, 0, 0, 0);
        if (active) text = load(at.input_of(unit));
        text = keys.template run<DECRYPT>(t, text, at.key);
        store_row(at.output_of(unit), text, active ? 16 : 0, at.joins(t, unit));
    }
}

template <class Keys>
__device__ __forceinline__ void ctr_blocks(const Work& work, const Keys& keys) {
    fill_tables<false>();
    const Lane t = Lane::here();
    const Chunks chunk = chunks(work);
    Cursor at;
    Counter first;
    uint64_t end = 0;
    for (uint64_t base = chunk.from; base < chunk.to; base += chunk.step) {
        const uint64_t unit = base + t.number();
        const bool active = unit < chunk.to;
        if (active && unit >= at.end) {
            at.move(work, unit);
            const Piece& piece = work.pieces[at.number];
            first = Counter::of(load(piece.iv)).plus(piece.before / 16);
            end = piece.len;
        }
        const uint64_t block = unit - at.start;
        const uint4 stream = keys.template run<false>(t, first.plus(block).block(), at.key);
        const uint32_t len = active ? block_len(end, 16 * block) : 0;
        const uint4 text = len ? load(at.input_of(unit), len) : make_uint4(0, 0, 0, 0);
        store_row(at.output_of(unit), text ^ stream, len, at.joins(t, unit));
    }
}

// CBC decryption needs the ciphertext block before each block. In place, another warp may already
// have overwritten the block before this warp's first: `cbc_save` copies those blocks beforehand.
__device__ __forceinline__ void save_neighbours(const Work& work, uint4* before) {
    if ((threadIdx.x & 31) != 0) return;
    const Range range = share(work.units, warp_number(), warp_count());
    uint4 block = make_uint4(0, 0, 0, 0);
    if (range.from < range.to) {
        const uint64_t number = find_piece(work, range.from);
        const uint64_t place = range.from - first_unit(work, number);
        if (place > 0) block = load(work.pieces[number].input + 16 * (place - 1));
    }
    before[warp_number()] = block;
}

template <class Keys>
__device__ __forceinline__ void cbc_decrypt(const Work& work, const Keys& keys,
                                            const uint4* before) {
    fill_tables<true>();
    const Lane t = Lane::here();
    const uint32_t lane = t.number();
    const Range range = share(work.units, warp_number(), warp_count());
    Cursor at;
    // In the last lane, the ciphertext before this chunk; in all others, unused.
    uint4 last = before[warp_number()];
    // The lane below has the block before; lane 0 gets what the last one had a chunk ago.
    const auto before_text = [&](uint4 text) {
        const uint4 previous = shuffle(lane == 31 ? last : text, (lane - 1) & 31);
        last = text;
        return previous;
    };
    uint64_t base = range.from;
    if constexpr (Keys::TAKES_TWO) {
        const auto next = [&](uint64_t unit, uint4& text, uint4& previous) {
            if (unit >= at.end) at.move(work, unit);
            text = load(at.input_of(unit));
            previous = before_text(text);
            if (unit == at.start) previous = load(work.pieces[at.number].iv);
            return at.output_of(unit);
        };
        for (; base + 64 <= range.to; base += 64) {
            uint4 a, before_a, b, before_b;
            uint8_t* first = next(base + lane, a, before_a);
            next(base + lane + 32, b, before_b);
            keys.template run_two<true>(t, a, b);
            store_two(t, at, base + lane, base + lane + 32, first, a ^ before_a, b ^ before_b);
        }
    }
    for (; base < range.to; base += 32) {
        const uint64_t unit = base + lane;
        const bool active = unit < range.to;
        if (active && unit >= at.end) at.move(work, unit);
        uint4 text = make_uint4(0, 0, 0, 0);
        if (active) text = load(at.input_of(unit));
        uint4 previous = before_text(text);
        if (active && unit == at.start) previous = load(work.pieces[at.number].iv);
        const uint4 plain = keys.template run<true>(t, text, at.key) ^ previous;
        store_row(at.output_of(unit), plain, active ? 16 : 0, at.joins(t, unit));
    }
}

// XTS: `tweaks` holds E(iv) * x^(blocks before) of each piece; block j takes that times x^j.
template <bool DECRYPT, class Keys>
__device__ __forceinline__ void xts(const Work& work, const Keys& keys, const uint4* tweaks) {
    fill_tables<DECRYPT>();
    const Lane t = Lane::here();
    const Range range = share(work.units, warp_number(), warp_count());
    Cursor at;
    uint4 tweak = make_uint4(0, 0, 0, 0);
    // Goes on to a unit, and to its tweak.
    const auto go = [&](uint64_t unit) {
        if (unit < at.end) {
            tweak = times_x32(tweak);
        } else {
            at.move(work, unit);
            tweak = times_x_many(tweaks[at.number], unit - at.start);
        }
    };
    uint64_t base = range.from; // lane 0's
    if constexpr (Keys::TAKES_TWO) {
        for (; base + 64 <= range.to; base += 64) {
            const uint64_t unit = base + t.number(), next = unit + 32;
            go(unit);
            const uint4 first_tweak = tweak;
            uint8_t* first = at.output_of(unit);
            uint4 a = load(at.input_of(unit)) ^ tweak;
            go(next);
            uint4 b = load(at.input_of(next)) ^ tweak;
            keys.template run_two<DECRYPT>(t, a, b);
            store_two(t, at, unit, next, first, a ^ first_tweak, b ^ tweak);
        }
    }
    for (; base < range.to; base += 32) {
        const uint64_t unit = base + t.number();
        const bool active = unit < range.to;
        uint4 text = make_uint4(0, 0, 0, 0);
        if (active) {
            go(unit);
            text = load(at.input_of(unit)) ^ tweak;
        }
        text = keys.template run<DECRYPT>(t, text, at.key) ^ tweak;
        store_row(at.output_of(unit), text, active ? 16 : 0, at.joins(t, unit));
    }
}

// The tweaks of all pieces, before `xts` runs; a thread a piece.
template <class Keys>
__device__ __forceinline__ void make_tweaks(const Work& work, const Keys& keys, uint4* tweaks) {
    fill_tables<false>();
    const Lane t = Lane::here();
    for (uint64_t number = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; number < work.count;
         number += uint64_t(gridDim.x) * blockDim.x) {
        const Piece& piece = work.pieces[number];
        const uint4 tweak = keys.template run<false>(t, load(piece.iv), piece.key);
        tweaks[number] = times_x_any(tweak, piece.before / 16);
    }
}

// Ciphertext stealing (IEEE 1619, 5.3.2): the last whole block and the partial block after it, of
// each piece that ends its message. A thread a piece; runs after `xts`.
template <bool DECRYPT, class Keys>
__device__ __forceinline__ void xts_steal(const Work& work, const Keys& keys,
                                          const uint4* tweaks) {
    fill_tables<DECRYPT>();
    const Lane t = Lane::here();
    for (uint64_t number = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; number < work.count;
         number += uint64_t(gridDim.x) * blockDim.x) {
        const Piece& piece = work.pieces[number];
        const uint32_t rest = uint32_t(piece.len & 15);
        if (rest == 0) continue;
        const uint64_t whole = piece.len / 16 - 1; // blocks before the two
        const uint4 earlier = times_x_many(tweaks[number], whole);
        const uint4 later = times_x_few(earlier, 1);
        const uint8_t* input = piece.input + 16 * whole;
        uint8_t* output = piece.output + 16 * whole;
        // Encryption takes the tweaks in order, decryption in reverse.
        const uint4 first = DECRYPT ? later : earlier, second = DECRYPT ? earlier : later;
        const uint4 stolen =
            keys.template run<DECRYPT>(t, load_in_words(input) ^ first, piece.key) ^ first;
        // The partial text, filled up with the end of the block just made.
        const uint4 last =
            load_in_words(input + 16, rest) ^ stolen ^ first_bytes(stolen, rest);
        const uint4 made = keys.template run<DECRYPT>(t, last ^ second, piece.key) ^ second;
        store_in_words(output + 16, stolen, rest);
        store_in_words(output, made);
    }
}

// The tweak key of a table.
struct TweakTable {
    const TableKey* keys;
    uint32_t rounds;

    template <bool DECRYPT>
    __device__ __forceinline__ uint4 run(Lane t, uint4 block, uint32_t key) const {
        return cipher<false>(t, block, &keys[key].tweak, rounds);
    }
};

#define WARPLOCK_KERNEL extern "C" __global__ void __launch_bounds__(FLAT_THREADS, 1)
#define WARPLOCK_CONST const __grid_constant__

#define WARPLOCK_FLAT(SIZE, ROUNDS)                                                               \
    WARPLOCK_KERNEL ecb_encrypt_##SIZE(WARPLOCK_CONST Work work, WARPLOCK_CONST RoundKeys keys) { \
        ecb<false>(work, OneKey<ROUNDS>{keys});                                                   \
    }                                                                                             \
    WARPLOCK_KERNEL ecb_decrypt_##SIZE(WARPLOCK_CONST Work work, WARPLOCK_CONST RoundKeys keys) { \
        ecb<true>(work, OneKey<ROUNDS>{keys});                                                    \
    }                                                                                             \
    WARPLOCK_KERNEL cbc_decrypt_##SIZE(WARPLOCK_CONST Work work, WARPLOCK_CONST RoundKeys keys,   \
                                       const uint4* before) {                                    \
        cbc_decrypt(work, OneKey<ROUNDS>{keys}, before);                                          \
    }                                                                                             \
    WARPLOCK_KERNEL xts_encrypt_##SIZE(WARPLOCK_CONST Work work, WARPLOCK_CONST RoundKeys keys,   \
                                       const uint4* tweaks) {                                    \
        xts<false>(work, OneKey<ROUNDS>{keys}, tweaks);                                           \
    }                                                                                             \
    WARPLOCK_KERNEL xts_decrypt_##SIZE(WARPLOCK_CONST Work work, WARPLOCK_CONST RoundKeys keys,   \
                                       const uint4* tweaks) {                                    \
        xts<true>(work, OneKey<ROUNDS>{keys}, tweaks);                                            \
    }
WARPLOCK_FLAT(128, 10)
WARPLOCK_FLAT(192, 12)
WARPLOCK_FLAT(256, 14)

WARPLOCK_KERNEL cbc_save(WARPLOCK_CONST Work work, uint4* before) {
    save_neighbours(work, before);
}
WARPLOCK_KERNEL ctr_table(WARPLOCK_CONST Work work, const TableKey* keys, uint32_t rounds) {
    ctr_blocks(work, KeyTable{keys, rounds});
}
WARPLOCK_KERNEL ecb_encrypt_table(WARPLOCK_CONST Work work, const TableKey* keys, uint32_t rounds) {
    ecb<false>(work, KeyTable{keys, rounds});
}
WARPLOCK_KERNEL ecb_decrypt_table(WARPLOCK_CONST Work work, const TableKey* keys, uint32_t rounds) {
    ecb<true>(work, KeyTable{keys, rounds});
}
WARPLOCK_KERNEL cbc_decrypt_table(WARPLOCK_CONST Work work, const TableKey* keys, uint32_t rounds,
                                  const uint4* before) {
    cbc_decrypt(work, KeyTable{keys, rounds}, before);
}
WARPLOCK_KERNEL xts_encrypt_table(WARPLOCK_CONST Work work, const TableKey* keys, uint32_t rounds,
                                  const uint4* tweaks) {
    xts<false>(work, KeyTable{keys, rounds}, tweaks);
}
WARPLOCK_KERNEL xts_decrypt_table(WARPLOCK_CONST Work work, const TableKey* keys, uint32_t rounds,
                                  const uint4* tweaks) {
    xts<true>(work, KeyTable{keys, rounds}, tweaks);
}
WARPLOCK_KERNEL xts_tweaks(WARPLOCK_CONST Work work, const TableKey* keys, uint32_t rounds,
                           uint4* tweaks) {
    make_tweaks(work, TweakTable{keys, rounds}, tweaks);
}
WARPLOCK_KERNEL xts_steal_encrypt(WARPLOCK_CONST Work work, const TableKey* keys, uint32_t rounds,
                                  const uint4* tweaks) {
    xts_steal<false>(work, KeyTable{keys, rounds}, tweaks);
}
WARPLOCK_KERNEL xts_steal_decrypt(WARPLOCK_CONST Work work, const TableKey* keys, uint32_t rounds,
                                  const uint4* tweaks) {
    xts_steal<true>(work, KeyTable{keys, rounds}, tweaks);
}
WARPLOCK_SHARED(flat, TABLES);
