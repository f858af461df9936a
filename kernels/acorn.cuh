// ACORN-128 v3 (H. Wu, CAESAR): a message is serial, so a lane is a message.
//
// The cipher as seven delay lines, 32 steps at a time, as crates/warplock/src/cpu/acorn/block.rs
// explains: 13 three-input functions and 15 funnel shifts for 4 bytes. Texts go through shared
// memory: the lanes of a warp fetch and write 64 bytes of each message together, because what 32
// lanes read of their own messages lies in 32 places.
//
// No control bit is a mask: a message's parts are whole blocks of steps, and where a part does not
// end with a block, the state is taken back to the step where it ends.
#pragma once
#include "aes.cuh"
#include "memory.cuh"

constexpr uint32_t ACORN_THREADS = 128;

// What `rule` makes of three bits, for each of 32.
template <int RULE>
__device__ __forceinline__ uint32_t logic(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(result) : "r"(a), "r"(b), "r"(c), "n"(RULE));
    return result;
}
constexpr int XOR3 = 0x96, XNOR3 = 0x69, MAJORITY = 0xe8, CHOOSE = 0xca;

// What entered a line in the last 64 steps.
struct Line {
    uint32_t older, newer;

    // What entered `STEPS` before, 33 to 63.
    template <int STEPS>
    __device__ __forceinline__ uint32_t lag() const {
        return __funnelshift_r(older, newer, 64 - STEPS);
    }
    __device__ __forceinline__ void push(uint32_t entered) { older = newer, newer = entered; }
};

// What a block of 32 steps takes in.
enum class Acorn { ABSORB, CUT_ABSORB, SEAL, OPEN, EITHER, PAD, CUT_PAD, STREAM };

struct AcornState {
    Line a, b, c, d, e, g;
    uint32_t f;

    __device__ __forceinline__ AcornState()
        : a{0, 0}, b{0, 0}, c{0, 0}, d{0, 0}, e{0, 0}, g{0, 0}, f(0) {}

    // 32 steps; returns the text that comes out, or the key stream. `opens`: which of SEAL and OPEN
    // EITHER is.
    template <Acorn KIND>
    __device__ __forceinline__ uint32_t block(uint32_t m, bool opens = false) {
        const uint32_t a38 = a.lag<38>(), a61 = a.lag<61>(),
                       a49 = a.lag<49>();
        const uint32_t b41 = b.lag<41>(), b46 = b.lag<46>();
        const uint32_t c43 = c.lag<43>(), c47 = c.lag<47>();
        const uint32_t d33 = d.lag<33>(), d39 = d.lag<39>();
        const uint32_t e34 = e.lag<34>(), e37 = e.lag<37>();
        const uint32_t g45 = g.lag<45>(), g54 = g.lag<54>(),
                       g59 = g.lag<59>();
        a.push(logic<XOR3>(b46, a38, a61));
        b.push(logic<XOR3>(c47, b41, b46));
        c.push(logic<XOR3>(d39, c43, c47));
        d.push(logic<XOR3>(e37, d33, d39));
        e.push(logic<XOR3>(g59, e34, e37));
        const uint32_t k = logic<XOR3>(a49, c.newer, logic<MAJORITY>(g54, a.newer, d.newer));
        const uint32_t l = logic<CHOOSE>(e.newer, c43, b41);
        uint32_t next = logic<XNOR3>(a61, b.newer, logic<MAJORITY>(g45, a38, d33));
        uint32_t out = 0;
        switch (KIND) {
        case Acorn::ABSORB: next = logic<XOR3>(logic<XOR3>(next, e34, m), k, l); break;
        case Acorn::CUT_ABSORB: next = logic<XOR3>(next, k, l) ^ m; break;
        case Acorn::SEAL:
            out = logic<XOR3>(m, k, l);
            next = logic<XOR3>(next, e34, m);
            break;
        case Acorn::OPEN:
            out = logic<XOR3>(m, k, l);
            next = logic<XOR3>(next, e34, out);
            break;
        case Acorn::EITHER:
            out = logic<XOR3>(m, k, l);
            next = logic<XOR3>(next, e34, opens ? out : m);
            break;
        case Acorn::PAD: next = logic<XOR3>(next, e34, m); break;
        case Acorn::CUT_PAD: next = next ^ m; break;
        case Acorn::STREAM:
            out = k ^ l;
            next = logic<XOR3>(next, e34, out);
            break;
        }
        const uint32_t f4 = Line{f, next}.lag<36>();
        f = next;
        g.push(logic<XOR3>(f4, g54, g59));
        return out;
    }

    // Goes back from the end of the last block to its first `bytes`, 1 to 3, starting from the
    // state `before` it.
    __device__ __forceinline__ void keep(const AcornState& before, uint32_t bytes) {
        const uint32_t bits = 8 * bytes;
        const auto cut = [bits](Line& line, const Line& old) {
            line.newer = __funnelshift_r(old.newer, line.newer, bits);
            line.older = __funnelshift_r(old.older, old.newer, bits);
        };
        cut(a, before.a), cut(b, before.b), cut(c, before.c), cut(d, before.d), cut(e, before.e);
        cut(g, before.g);
        f = __funnelshift_r(before.f, f, bits);
    }

    __device__ __forceinline__ void start(uint4 key, uint4 nonce) {
        uint4 next = key;
#pragma unroll 1
        for (uint32_t i = 0; i < 14; i++) {
            block<Acorn::ABSORB>(next.x), block<Acorn::ABSORB>(next.y);
            block<Acorn::ABSORB>(next.z), block<Acorn::ABSORB>(next.w);
            if (i == 0) {
                next = nonce;
            } else {
                next = key;
                if (i == 1) next.x ^= 1;
            }
        }
    }

    // The 256 steps after the associated data, or after the text.
    template <Acorn FULL, Acorn CUT>
    __device__ __forceinline__ void pad() {
        block<FULL>(1), block<FULL>(0), block<FULL>(0), block<FULL>(0);
        block<CUT>(0), block<CUT>(0), block<CUT>(0), block<CUT>(0);
    }

    __device__ __forceinline__ uint4 tag() {
#pragma unroll 1
        for (uint32_t i = 0; i < 5; i++) {
            block<Acorn::ABSORB>(0), block<Acorn::ABSORB>(0);
            block<Acorn::ABSORB>(0), block<Acorn::ABSORB>(0);
        }
        uint4 tag;
        tag.x = block<Acorn::STREAM>(0), tag.y = block<Acorn::STREAM>(0);
        tag.z = block<Acorn::STREAM>(0), tag.w = block<Acorn::STREAM>(0);
        return tag;
    }
};

// How the lanes of a warp fetch and write together: tiles of 64 bytes of each message. With 128
// bytes, an H100 does messages of 64 bytes at 350 instead of 378 GB/s, and longer ones a few per
// cent faster.
struct AcornTiles {
    static constexpr uint32_t BYTES = 64;
    static constexpr uint32_t CHUNKS = BYTES / 16; // of a message
    static constexpr uint32_t ROWS = 32 / CHUNKS;  // messages that one instruction touches
    static constexpr uint32_t WARP_BYTES = 32 * BYTES;

    uint32_t lane, part; // this lane's number, and its chunk of each message that it touches

    __device__ __forceinline__ AcornTiles() : lane(threadIdx.x & 31), part(lane % CHUNKS) {}

    // The messages that this lane touches.
    __device__ __forceinline__ uint32_t row(uint32_t i) const { return ROWS * i + lane / CHUNKS; }

    // The place of chunk `c` of message `m` in a tile. Eight lanes that read the same chunk of
    // neighbouring messages, or all chunks of neighbouring messages, touch each bank once.
    static __device__ __forceinline__ uint32_t place(uint32_t m, uint32_t c) {
        return m * BYTES + ((c ^ m >> 1) % CHUNKS) * 16;
    }

    // The pointer of another lane.
    template <class T>
    static __device__ __forceinline__ T* of_lane(T* pointer, uint32_t m) {
        return reinterpret_cast<T*>(__shfl_sync(~0u, reinterpret_cast<uint64_t>(pointer), m));
    }

    // Fetches at most a tile of what is left at `at`, for this lane alone.
    template <bool ANY_BYTE>
    __device__ __forceinline__ void fetch_own(uint32_t to, const uint8_t* at,
                                              uint64_t left) const {
        const uint32_t bytes = left < BYTES ? uint32_t(left) : BYTES;
#pragma unroll 1
        for (uint32_t c = 0; 16 * c < bytes; c++)
            fetch<ANY_BYTE>(to + place(lane, c), at + 16 * c,
                            bytes - 16 * c < 16 ? bytes - 16 * c : 16);
    }

    // Fetches what is left of each message, at most a tile; `at` is this lane's.
    __device__ __forceinline__ void fetch_some(uint32_t to, const uint8_t* at,
                                               uint64_t left) const {
        const uint32_t mine = left < BYTES ? uint32_t(left) : BYTES;
#pragma unroll 1
        for (uint32_t i = 0; i < CHUNKS; i++) {
            const uint32_t m = row(i), bytes = __shfl_sync(~0u, mine, m);
            const uint8_t* from = of_lane(at, m) + 16 * part;
            if (16 * part < bytes)
                fetch<false>(to + place(m, part), from,
                             bytes - 16 * part < 16 ? bytes - 16 * part : 16);
        }
    }

    template <bool ANY_BYTE>
    static __device__ __forceinline__ void fetch(uint32_t to, const uint8_t* from, uint32_t len) {
#if __CUDA_ARCH__ >= 800
        if (aligned(from, 16)) {
            ::fetch(to, from, len);
            return;
        }
#endif
        store_shared(to, ANY_BYTE ? load_lines(from, len) : load_in_words(from, len));
    }

    static __device__ __forceinline__ void fetch_whole(uint32_t to, const uint8_t* from) {
#if __CUDA_ARCH__ >= 800
        // In lines of 128 bytes, because the next tile needs the other half: 1,232 instead of 1,039
        // GB/s for messages of 4 KiB.
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
                     : "memory");
#else
        store_shared(to, load_aligned(from));
#endif
    }

    // Writes what `fetch_some` has fetched.
    __device__ __forceinline__ void write_some(uint32_t from, uint8_t* at, uint64_t left) const {
        const uint32_t mine = left < BYTES ? uint32_t(left) : BYTES;
#pragma unroll 1
        for (uint32_t i = 0; i < CHUNKS; i++) {
            const uint32_t m = row(i), bytes = __shfl_sync(~0u, mine, m);
            uint8_t* to = of_lane(at, m) + 16 * part;
            if (16 * part < bytes)
                store_in_words(to, load_shared(from + place(m, part)), bytes - 16 * part);
        }
    }
};

template <int LEFT>
__device__ __forceinline__ void acorn_await() {
    await_fetches<LEFT>();
    __syncwarp();
}

__device__ __forceinline__ uint32_t load_shared_word(uint32_t at) {
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
    return word;
}

__device__ __forceinline__ void store_shared_word(uint32_t at, uint32_t word) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(word) : "memory");
}

// Works on this lane's `bytes` of a tile at `tile`.
template <Acorn KIND>
__device__ __forceinline__ void acorn_some(AcornState& state, uint32_t tile, uint32_t lane,
                                           uint32_t bytes) {
    uint32_t at = 0;
#pragma unroll 1
    for (; at + 16 <= bytes; at += 16) {
        const uint32_t place = tile + AcornTiles::place(lane, at / 16);
        const uint4 text = load_shared(place);
        uint4 out;
        out.x = state.block<KIND>(text.x), out.y = state.block<KIND>(text.y);
        out.z = state.block<KIND>(text.z), out.w = state.block<KIND>(text.w);
        if (KIND != Acorn::ABSORB) store_shared(place, out);
    }
#pragma unroll 1
    for (; at < bytes; at += 4) {
        const uint32_t place = tile + AcornTiles::place(lane, at / 16) + at % 16;
        const AcornState before = state;
        const uint32_t out = state.block<KIND>(load_shared_word(place));
        if (KIND != Acorn::ABSORB) store_shared_word(place, out);
        if (bytes - at < 4) state.keep(before, bytes - at);
    }
}

// The shortest and the longest text of a warp.
__device__ __forceinline__ uint64_t warp_min(uint64_t value) {
#pragma unroll
    for (uint32_t mask = 16; mask > 0; mask /= 2) {
        const uint64_t other = __shfl_xor_sync(~0u, value, mask);
        value = other < value ? other : value;
    }
    return value;
}
__device__ __forceinline__ uint64_t warp_max(uint64_t value) { return ~warp_min(~value); }

// Takes in each lane's associated data, of which `tile` has the first 64 bytes; those of the text
// are on their way to `other`, which is the tile afterwards.
template <bool ANY_BYTE>
__device__ __forceinline__ void acorn_absorb(AcornState& state, const AcornTiles& tiles,
                                             uint32_t& tile, uint32_t& other, const uint8_t* aad,
                                             uint64_t aad_len, uint64_t longest_aad) {
    constexpr uint32_t TILE = AcornTiles::BYTES;
#pragma unroll 1
    for (uint64_t at = 0; at < longest_aad; at += TILE) {
        acorn_await<1>();
        const uint64_t left = aad_len > at ? aad_len - at : 0;
        acorn_some<Acorn::ABSORB>(state, tile, tiles.lane, left < TILE ? uint32_t(left) : TILE);
        __syncwarp();
        if (at + TILE < longest_aad) {
            tiles.fetch_own<ANY_BYTE>(tile, aad + at + TILE, left > TILE ? left - TILE : 0);
            end_group();
            acorn_await<0>();
        } else {
            const uint32_t swap = tile;
            tile = other, other = swap;
        }
    }
}

// Stores the tag, or compares it and wipes text that did not verify. All lanes take part.
template <bool ANY_BYTE>
__device__ __forceinline__ void acorn_finish(bool opens, AcornState& state,
                                             const AcornMessage& message, uint8_t* output,
                                             uint64_t len, bool active, uint32_t* failed) {
    state.pad<Acorn::PAD, Acorn::CUT_PAD>();
    const uint4 tag = state.tag();
    if (!opens) {
        if (active && ANY_BYTE) store(message.tag, tag);
        else if (active) store_in_words(message.tag, tag);
        return;
    }
    const uint4 given = ANY_BYTE ? load(message.tag) : load_in_words(message.tag);
    const bool wrong = ((tag.x ^ given.x) | (tag.y ^ given.y) | (tag.z ^ given.z) |
                        (tag.w ^ given.w)) != 0;
    if (active) failed[message.number] = wrong;
    // Text that did not verify is wiped.
    __syncwarp();
    const uint32_t lane = threadIdx.x & 31;
    uint32_t refused = __ballot_sync(~0u, active && wrong);
    while (refused) {
        const uint32_t m = __ffs(refused) - 1;
        refused &= refused - 1;
        const uint64_t bytes = __shfl_sync(~0u, len, m);
        uint8_t* start = AcornTiles::of_lane(output, m);
        for (uint64_t i = 16 * lane; i < bytes; i += 512)
            store_in_words(start + i, make_uint4(0, 0, 0, 0), block_len(bytes, i));
    }
}

// 32 messages a warp. Texts at other places than multiples of 16 take time (acorn_any_byte.cuh).
template <bool OPENS>
__device__ __forceinline__ void acorn(const AcornMessage* messages, uint64_t count,
                                      const uint8_t* keys, uint32_t* failed) {
    constexpr uint32_t TILE = AcornTiles::BYTES;
    constexpr Acorn KIND = OPENS ? Acorn::OPEN : Acorn::SEAL;
    const AcornTiles tiles;
    const uint32_t lane = tiles.lane;
    uint32_t tile = SHARED_BASE + (threadIdx.x >> 5) * 2 * AcornTiles::WARP_BYTES;
    uint32_t other = tile + AcornTiles::WARP_BYTES;
    const uint64_t number = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (number - lane >= count) return;
    // Lanes without a message do what the first one does, so that they hold up no other lane; what
    // they write is the same.
    const bool active = number < count;
    const AcornMessage& message = messages[active ? number : number - lane];
    const uint8_t* input = message.input;
    uint8_t* output = message.output;
    const uint8_t* aad = message.aad;
    const uint64_t len = message.len, aad_len = message.aad_len;
    const uint4 key = load_in_words(keys + 16ull * message.key), nonce = load_in_words(message.iv);

    // What this lane fetches and writes for others, while all texts have whole tiles.
    const uint8_t* from[AcornTiles::CHUNKS];
    uint8_t* to[AcornTiles::CHUNKS];
#pragma unroll
    for (uint32_t i = 0; i < AcornTiles::CHUNKS; i++) {
        const uint32_t m = tiles.row(i), offset = 16 * tiles.part;
        from[i] = AcornTiles::of_lane(input, m) + offset;
        to[i] = AcornTiles::of_lane(output, m) + offset;
    }
    const bool straight = __all_sync(~0u, aligned(input, 16) && aligned(output, 16));
    uint64_t whole = straight ? warp_min(len) / TILE : 0;
    const uint64_t longest = warp_max(len), longest_aad = warp_max(aad_len);
    const auto fetch_text = [&](uint32_t buffer, uint64_t at) {
        // `from` is at the next tile.
        if (at < whole * TILE) {
#pragma unroll
            for (uint32_t i = 0; i < AcornTiles::CHUNKS; i++) {
                const uint32_t place = AcornTiles::place(tiles.row(i), tiles.part);
                AcornTiles::fetch_whole(buffer + place, from[i]);
                from[i] += TILE;
            }
        } else if (at < longest) {
            tiles.fetch_some(buffer, input + at, len > at ? len - at : 0);
        }
        end_group();
    };

    if (longest_aad > 0) {
        tiles.fetch_own<false>(tile, aad, aad_len);
        end_group();
    }
    fetch_text(longest_aad > 0 ? other : tile, 0);
    AcornState state;
    state.start(key, nonce);
    acorn_absorb<false>(state, tiles, tile, other, aad, aad_len, longest_aad);
    state.pad<Acorn::ABSORB, Acorn::CUT_ABSORB>();

    uint64_t at = 0;
#pragma unroll 1
    for (; at < whole * TILE; at += TILE) {
        fetch_text(other, at + TILE);
        acorn_await<1>();
#pragma unroll
        for (uint32_t c = 0; c < AcornTiles::CHUNKS; c++) {
            const uint32_t place = tile + AcornTiles::place(lane, c);
            const uint4 text = load_shared(place);
            uint4 out;
            out.x = state.block<KIND>(text.x), out.y = state.block<KIND>(text.y);
            out.z = state.block<KIND>(text.z), out.w = state.block<KIND>(text.w);
            store_shared(place, out);
        }
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < AcornTiles::CHUNKS; i++) {
            store_aligned(to[i], load_shared(tile + AcornTiles::place(tiles.row(i), tiles.part)));
            to[i] += TILE;
        }
        const uint32_t swap = tile;
        tile = other, other = swap;
    }
    // What is left where lengths differ, at the ends of messages, and at odd places.
#pragma unroll 1
    for (; at < longest; at += TILE) {
        const uint64_t left = len > at ? len - at : 0;
        acorn_await<0>();
        acorn_some<KIND>(state, tile, lane, left < TILE ? uint32_t(left) : TILE);
        __syncwarp();
        tiles.write_some(tile, output + at, left);
        __syncwarp();
        fetch_text(tile, at + TILE);
    }
    acorn_finish<false>(OPENS, state, message, output, len, active, failed);
}

#define WARPLOCK_ACORN(WAY, OPENS)                                                             \
    extern "C" __global__ void __launch_bounds__(ACORN_THREADS)                                \
        acorn_##WAY(const AcornMessage* messages, uint64_t count, const uint8_t* keys,         \
                    uint32_t* failed) {                                                        \
        acorn<OPENS>(messages, count, keys, failed);                                           \
    }
WARPLOCK_ACORN(encrypt, false)
WARPLOCK_ACORN(decrypt, true)
WARPLOCK_SHARED(acorn, ACORN_THREADS / 32 * 2 * AcornTiles::WARP_BYTES);
