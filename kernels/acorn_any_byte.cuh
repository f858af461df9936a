// ACORN-128 of texts at any byte. In a kernel of their own, because the registers for shifts made
// the one for aligned texts 3 to 5 % slower.
//
// Tiles hold the lines of 16 bytes in which a text lies, so the lanes fetch and write whole aligned
// lines as for aligned texts. The lane that has the message shifts: by bytes as it takes words out
// of lines and puts results into them, by words as it starts with a later step. Shifts depend on
// addresses alone.
#pragma once
#include "acorn.cuh"

// A lane's way from the lines of its text to those of its result.
struct AcornShift {
    uint32_t in_bits, out_bits; // how far into words of lines those of text begin
    uint32_t begin;   // where in the last seven words of output lines a whole line begins
    uint32_t in;      // the last word of the input lines
    uint32_t out;     // the last word that the cipher made
    uint32_t made[3]; // the last words of the output lines

    __device__ __forceinline__ AcornShift(const uint8_t* input, const uint8_t* output)
        : in_bits(8 * (shift_of(input) & 3)), out_bits(8 * (shift_of(output) & 3)),
          begin((shift_of(input) / 4 - shift_of(output) / 4) & 3), in(0), out(0), made{0, 0, 0} {}

    // The word of text that ends in `word` of the input, or with the word before it.
    __device__ __forceinline__ uint32_t take(uint32_t word) {
        const uint32_t text = __funnelshift_r(in, word, in_bits);
        in = word;
        return text;
    }

    // The word of the output in which `word` of the result begins.
    __device__ __forceinline__ uint32_t give(uint32_t word) {
        const uint32_t line = __funnelshift_l(out, word, out_bits);
        out = word;
        return line;
    }

    // The line of the output that four more words complete. `SAME`: `begin` is 0.
    template <bool SAME>
    __device__ __forceinline__ uint4 line(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
        uint4 line = make_uint4(made[0], made[1], made[2], a);
        if (!SAME) {
            uint32_t last = b;
            if (begin & 2) line = make_uint4(made[2], a, b, c), last = d;
            if (begin & 1) line = make_uint4(line.y, line.z, line.w, last);
        }
        made[0] = b, made[1] = c, made[2] = d;
        return line;
    }
};

// Works on a line whose four words are text, at `place`.
template <Acorn KIND, bool SAME>
__device__ __forceinline__ void acorn_line(AcornState& state, AcornShift& shift, uint32_t place,
                                           bool opens) {
    const uint4 line = load_shared(place);
    const uint32_t x = shift.give(state.block<KIND>(shift.take(line.x), opens));
    const uint32_t y = shift.give(state.block<KIND>(shift.take(line.y), opens));
    const uint32_t z = shift.give(state.block<KIND>(shift.take(line.z), opens));
    const uint32_t w = shift.give(state.block<KIND>(shift.take(line.w), opens));
    store_shared(place, shift.line<SAME>(x, y, z, w));
}

// Works on a tile of such lines; `place`: of this lane's first one. Flipping bits finds the others
// (AcornTiles::place), which takes no registers from tile to tile.
template <Acorn KIND, bool SAME>
__device__ __forceinline__ void acorn_lines(AcornState& state, AcornShift& shift, uint32_t place) {
#pragma unroll
    for (uint32_t c = 0; c < AcornTiles::CHUNKS; c++)
        acorn_line<KIND, SAME>(state, shift, place ^ 16 * c, false);
}
static_assert(SHARED_BASE % AcornTiles::BYTES == 0 && SHARED_BASE < AcornTiles::WARP_BYTES,
              "flipping a bit leads to another line, or to the warp's other tile");

// Works on the first `lines` lines of a tile, of a text with `len` bytes. `word`: the number of the
// word of text that the first word of the tile ends; below 0 before the text. All lanes take part.
__device__ __forceinline__ void acorn_ends(AcornState& state, AcornShift& shift, uint32_t tile,
                                           uint32_t lane, uint32_t lines, int64_t word,
                                           int64_t len, bool opens) {
#pragma unroll 1
    for (uint32_t c = 0; c < AcornTiles::CHUNKS; c++, word += 4) {
        const uint32_t place = tile + AcornTiles::place(lane, c);
        if (__all_sync(~0u, word >= 0 && word + 4 <= len / 4)) {
            acorn_line<Acorn::EITHER, false>(state, shift, place, opens);
            continue;
        }
        if (c >= lines) continue;
        uint4 source = load_shared(place), made = make_uint4(0, 0, 0, 0);
#pragma unroll 1
        for (int64_t i = word; i < word + 4; i++) {
            const uint32_t text = shift.take(source.x);
            source = make_uint4(source.y, source.z, source.w, 0);
            uint32_t out = 0;
            if (i >= 0 && 4 * i < len) {
                const AcornState before = state;
                out = state.block<Acorn::EITHER>(text, opens);
                if (len - 4 * i < 4) state.keep(before, uint32_t(len) & 3);
            }
            made = make_uint4(made.y, made.z, made.w, shift.give(out));
        }
        store_shared(place, shift.line<false>(made.x, made.y, made.z, made.w));
    }
}

// The part of a lane's tile that lies between two offsets from the tile's start.
struct AcornPart {
    uint32_t bytes; // the first one, and 256 times the one after the last

    __device__ __forceinline__ AcornPart(int64_t from, int64_t to)
        : bytes(inside(from) | inside(to) << 8) {}
    static __device__ __forceinline__ uint32_t inside(int64_t at) {
        return at < 0 ? 0 : at < AcornTiles::BYTES ? uint32_t(at) : AcornTiles::BYTES;
    }

    // The bytes of line `c` of lane `m`, from the line's start.
    __device__ __forceinline__ uint2 of_line(uint32_t m, uint32_t c) const {
        const uint32_t its = __shfl_sync(~0u, bytes, m), from = its & 255, to = its >> 8;
        return make_uint2(from > 16 * c ? from - 16 * c : 0,
                          to <= 16 * c ? 0 : to - 16 * c < 16 ? to - 16 * c : 16);
    }
};

// The least and the greatest value of a warp.
__device__ __forceinline__ uint32_t least_of_warp(uint32_t value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(~0u, value);
#else
    return uint32_t(warp_min(value));
#endif
}
__device__ __forceinline__ uint32_t greatest_of_warp(uint32_t value) {
    return ~least_of_warp(~value);
}

// 32 messages a warp, with texts at any byte. Both ways in one kernel, which is half as much code:
// only the loop over whole tiles is there for each. At most 80 registers, so that six blocks fit on
// a multiprocessor, as for aligned texts.
extern "C" __global__ void __launch_bounds__(ACORN_THREADS, 6)
    acorn_any_byte(const AcornMessage* messages, uint64_t count, const uint8_t* keys,
                   uint32_t* failed, uint32_t opens) {
    constexpr uint32_t TILE = AcornTiles::BYTES, CHUNKS = AcornTiles::CHUNKS;
    const AcornTiles tiles;
    const uint32_t lane = tiles.lane;
    uint32_t tile = SHARED_BASE + (threadIdx.x >> 5) * 2 * AcornTiles::WARP_BYTES;
    uint32_t other = tile + AcornTiles::WARP_BYTES;
    const uint64_t number = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (number - lane >= count) return;
    // Lanes without a message take the first one's key.
    const bool active = number < count;
    const AcornMessage& message = messages[active ? number : number - lane];
    const uint64_t aad_len = active ? message.aad_len : 0;
    AcornShift shift(message.input, message.output);
    const auto same = [&] { return __all_sync(~0u, shift.begin == 0); };

    // Read again at the ends of texts, so that they take no registers inside of them.
    const auto text_len = [&] { return int64_t(active ? message.len : 0); };
    const auto in_words = [&] { return shift_of(message.input) / 4; };
    // With line n of the input, line n of the output is whole, or n - 1.
    const auto late = [&] { return in_words() < shift_of(message.output) / 4 ? 0 : 16; };
    // Bytes before the text's first line in its first tile, so that tiles of the output are whole
    // sectors of 32 bytes: memory reads a sector before it writes a part of one (0.58 instead of
    // 0.84 of the aligned speed for 8 KB out of place). With 64 bytes, 0.89, but 20 to 70 bytes
    // take 1.15 times as long.
    const auto before = [&] {
        return uint32_t(reinterpret_cast<uintptr_t>(message.output) - late()) & 16;
    };
    const uint8_t* const input = message.input - shift_of(message.input) - before();
    uint8_t* const output = message.output - shift_of(message.output) - late() - before();

    // Lines until the last one of the output is made.
    const auto lines = [&] {
        const uint32_t more = shift_of(message.output) + late() + before() + 15;
        return text_len() > 0 ? uint64_t(text_len() + more) / 16 : 0;
    };
    const uint32_t count_tiles = greatest_of_warp(uint32_t((lines() + CHUNKS - 1) / CHUNKS));
    // From the second tile to before this one, all words of all lanes are text. Lanes without a
    // message do what the first one does, without writing.
    const uint32_t whole = least_of_warp(
        uint32_t((uint64_t(message.len) / 4 + in_words() + before() / 4 + 1) / (TILE / 4)));
    const uint32_t lanes = __popc(__ballot_sync(~0u, active));

    // The places of this lane's line of each message in the tile that begins at `first`.
    const auto at = [&](const uint8_t* first, uint32_t t, uint32_t i) {
        return AcornTiles::of_lane(const_cast<uint8_t*>(first), tiles.row(i)) + 16 * tiles.part +
               TILE * uint64_t(t);
    };
    const uint32_t own = AcornTiles::place(lane, 0);
    const uint32_t shared = AcornTiles::place(tiles.row(0), tiles.part);
    const auto place = [&](uint32_t buffer, uint32_t i) {
        return buffer + shared + i * AcornTiles::ROWS * TILE;
    };
    static_assert(AcornTiles::ROWS / 2 % CHUNKS == 0, "rows have the same order of lines");
    const auto fetch_inside = [&](uint32_t buffer, uint32_t t) {
#pragma unroll
        for (uint32_t i = 0; i < CHUNKS; i++)
            AcornTiles::fetch_whole(place(buffer, i), at(input, t, i));
        end_group();
    };
    const auto fetch_ends = [&](uint32_t buffer, uint32_t t) {
        if (t < count_tiles) {
            const uint8_t* start = input + TILE * uint64_t(t);
            const AcornPart part(message.input - start, message.input + text_len() - start);
#pragma unroll 1
            for (uint32_t i = 0; i < CHUNKS; i++) {
                const uint2 text = part.of_line(tiles.row(i), tiles.part);
                const uint8_t* from = at(input, t, i);
                if (text.x < text.y) AcornTiles::fetch_whole(place(buffer, i), from);
            }
        }
        end_group();
    };

    const uint64_t longest_aad = warp_max(aad_len);
    if (longest_aad > 0) {
        tiles.fetch_own<true>(tile, message.aad, aad_len);
        end_group();
    }
    fetch_ends(longest_aad > 0 ? other : tile, 0);
    AcornState state;
    state.start(load(keys + 16ull * message.key), load(message.iv));
    acorn_absorb<true>(state, tiles, tile, other, message.aad, aad_len, longest_aad);
    state.pad<Acorn::ABSORB, Acorn::CUT_ABSORB>();

#pragma unroll 1
    for (uint32_t t = 0; t < count_tiles; t++) {
        if (t + 1 < whole) fetch_inside(tile ^ AcornTiles::WARP_BYTES, t + 1);
        else fetch_ends(tile ^ AcornTiles::WARP_BYTES, t + 1);
        acorn_await<1>();
        if (t > 0 && t < whole) {
            // Shuffled before the work, in which they arrive.
            uint8_t* to[CHUNKS];
#pragma unroll
            for (uint32_t i = 0; i < CHUNKS; i++) to[i] = at(output, t, i);
            if (opens && same()) acorn_lines<Acorn::OPEN, true>(state, shift, tile + own);
            else if (opens) acorn_lines<Acorn::OPEN, false>(state, shift, tile + own);
            else if (same()) acorn_lines<Acorn::SEAL, true>(state, shift, tile + own);
            else acorn_lines<Acorn::SEAL, false>(state, shift, tile + own);
            __syncwarp();
#pragma unroll
            for (uint32_t i = 0; i < CHUNKS; i++) {
                const uint4 line = load_shared(place(tile, i));
                if (tiles.row(i) < lanes) store_aligned(to[i], line);
            }
        } else {
            const uint64_t first = CHUNKS * uint64_t(t), end = lines();
            acorn_ends(state, shift, tile, lane, end > first ? uint32_t(end - first) : 0,
                       int64_t(4 * first) - before() / 4 - in_words() - 1, text_len(), opens);
            __syncwarp();
            const uint8_t* start = output + TILE * uint64_t(t);
            const AcornPart part(message.output - start, message.output + text_len() - start);
#pragma unroll 1
            for (uint32_t i = 0; i < CHUNKS; i++) {
                const uint2 text = part.of_line(tiles.row(i), tiles.part);
                uint8_t* to = at(output, t, i);
                store_part(to, load_shared(place(tile, i)), text.x, text.y);
            }
        }
        tile ^= AcornTiles::WARP_BYTES;
    }

    acorn_finish<true>(opens, state, message, message.output, text_len(), active, failed);
}
