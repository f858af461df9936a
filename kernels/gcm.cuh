// GCM (SP 800-38D) under one key: rows of 32 blocks, GHASH on the tensor cores.
//
// gcm_powers computes a key's powers of H; gcm_prepare each message's J0, its encryption and the
// hash of the associated data; gcm_encrypt or gcm_decrypt processes the texts, any piece of any
// message in any order; gcm_finish writes or compares tags; gcm_wipe erases what did not verify.
// gcm_long.cuh needs no gcm_prepare for plain messages: those with text, an IV of 96 bits and no
// associated data.
#pragma once
#include "counter.cuh"
#include "ghash.cuh"
#include "verdicts.cuh"
#include "work.cuh"

// 128 registers a thread; with 576 threads and 96 registers, 524 GB/s instead of 668.
constexpr uint32_t GCM_THREADS = 512;
// Rows that share a reduction: their ciphertext stays in registers between cipher and hash. Eight
// halve its cost, but their loop no longer fits the instruction cache: 612 instead of 668 GB/s.
constexpr int GCM_ROWS = 4;

// a^(2^count).
__device__ inline uint4 square_often(uint4 a, uint32_t count) {
#pragma unroll 1
    for (uint32_t i = 0; i < count; i++) a = square(a);
    return a;
}

// Blocks 0 to 4 make a row of `powers` each, blocks 5 and 6 the inverses. `inverse` is 1 / `h`, or 0
// if `h` is 0.
extern "C" __global__ void __launch_bounds__(256)
    gcm_powers(uint4 h, uint4 inverse, GcmPowers* out) {
    const uint32_t digit = blockIdx.x;
    if (digit < 5)
        out->powers[digit][threadIdx.x] =
            power(square_often(reflect(h), 8 * digit), threadIdx.x);
    else if (const uint32_t place = 256 * (digit - 5) + threadIdx.x; place < INVERSES)
        out->inverse[place] = power(reflect(inverse), place);
}

// H^exponent from the table; the exponent is no secret.
inline __device__ uint4 h_power(const GcmPowers* powers, uint64_t exponent) {
    uint32_t digit = 0;
    for (; exponent > 255 && (exponent & 255) == 0; exponent >>= 8) digit++;
    uint4 result = powers->powers[digit][exponent & 255];
#pragma unroll 1
    for (digit++; exponent >>= 8; digit++)
        if (exponent & 255)
            result = multiply(result, powers->powers[digit][exponent & 255]);
    return result;
}

__device__ __forceinline__ void add_to(uint4* sum, uint4 value) {
    atomicXor(&sum->x, value.x);
    atomicXor(&sum->y, value.y);
    atomicXor(&sum->z, value.z);
    atomicXor(&sum->w, value.w);
}

// The sum of block b of n times H^(n - b), by eight lanes side by side; `lane8` is this one's
// place among them. The last block may be partial. All lanes of the warp must take part.
__device__ inline uint4 ghash_bytes(const uint8_t* bytes, uint64_t len, uint32_t lane8, uint4 h8,
                                    uint4 h_lane) {
    const uint64_t blocks = (len + 15) / 16, pad = (8 - blocks % 8) % 8;
    uint4 sum = make_uint4(0, 0, 0, 0);
#pragma unroll 1
    for (uint64_t i = lane8; i < blocks + pad; i += 8) {
        if (i >= 8) sum = multiply(sum, h8);
        if (i >= pad) {
            const uint64_t at = 16 * (i - pad);
            sum = sum ^ reflect(load(bytes + at, block_len(len, at)));
        }
    }
    sum = multiply(sum, h_lane);
    __syncwarp();
    sum = sum ^ shuffle_xor(sum, 1);
    sum = sum ^ shuffle_xor(sum, 2);
    return sum ^ shuffle_xor(sum, 4);
}

// The last block of GHASH's input: two lengths in bytes, as bits.
__device__ __forceinline__ uint4 lengths(uint64_t first, uint64_t second) {
    return make_uint4(__brev(uint32_t(first >> 29)), __brev(uint32_t(first << 3)),
                      __brev(uint32_t(second >> 29)), __brev(uint32_t(second << 3)));
}

// J0 of an IV of 96 bits (SP 800-38D, 7.1 step 2).
__device__ __forceinline__ uint4 standard_counter(const uint8_t* iv) {
    if (!aligned(iv, 4)) {
        const uint4 block = load(iv, 12);
        return make_uint4(block.x, block.y, block.z, 0x01000000);
    }
    const uint32_t* words = reinterpret_cast<const uint32_t*>(iv);
    return make_uint4(words[0], words[1], words[2], 0x01000000);
}

// J0 of any IV. All lanes of the warp must take part.
__device__ inline uint4 start_counter(const GcmMessage& message, uint32_t lane8, uint4 h, uint4 h8,
                                      uint4 h_lane) {
    const bool standard = message.iv_len == 12;
    uint4 block = make_uint4(0, 0, 0, 0);
    if (standard) block = standard_counter(message.iv);
    if (__all_sync(~0u, standard)) return block;
    const uint4 sum = ghash_bytes(message.iv, standard ? 0 : message.iv_len, lane8, h8, h_lane);
    return standard ? block : reflect(multiply(sum ^ lengths(0, message.iv_len), h));
}

constexpr uint32_t PREPARE_THREADS = 256;

// A lane a message; hashing uses eight lanes a message, four messages at a time.
template <int ROUNDS>
__device__ __forceinline__ void gcm_prepare(GcmMessage* messages, uint64_t count,
                                            const RoundKeys& keys, const GcmPowers* powers) {
    fill_tables<false>();
    const Lane t = Lane::here();
    const uint32_t lane = t.number(), lane8 = lane & 7;
    const uint4 h = powers->powers[0][1], h8 = powers->powers[0][8],
                h_lane = powers->powers[0][8 - lane8];
    // Few messages are spread over all warps, at least four each.
    const uint32_t warps = gridDim.x * (PREPARE_THREADS / 32);
    const uint64_t fair = (count + warps - 1) / warps + 3 & ~3ull;
    const uint32_t each = fair < 32 ? uint32_t(fair) : 32;
    const uint64_t step = uint64_t(warps) * each;
    for (uint64_t base = uint64_t(warp_number()) * each; base < count; base += step) {
        // Lanes without a message repeat the last one's work.
        const auto place = [base, count](uint32_t i) {
            return base + i < count ? base + i : count - 1;
        };
        GcmMessage& message = messages[place(lane < each ? lane : each - 1)];
        const bool standard = message.iv_len == 12;
        uint4 counter = make_uint4(0, 0, 0, 0);
        if (standard) counter = standard_counter(message.iv);
        uint4 hash = make_uint4(0, 0, 0, 0);
        if (__any_sync(~0u, !standard || message.aad_len > 0)) {
#pragma unroll 1
            for (uint32_t four = 0; four < each; four += 4) {
                const GcmMessage& other = messages[place(four + lane / 8)];
                const uint4 start = start_counter(other, lane8, h, h8, h_lane);
                uint4 sum = ghash_bytes(other.aad, other.aad_len, lane8, h8, h_lane);
                sum = multiply(sum, h_power(powers, (other.len + 15) / 16));
                __syncwarp();
                const uint4 my_start = shuffle(start, 8 * lane), my_sum = shuffle(sum, 8 * lane);
                if (lane / 4 == four / 4) counter = my_start, hash = my_sum;
            }
        }
        const uint4 mask = cipher<false, ROUNDS>(t, counter, keys);
        if (lane < each && base + lane < count) {
            message.counter = counter;
            message.mask = mask;
            message.hash = hash;
            message.failed = 0;
        }
        __syncwarp();
    }
}

// `rows` rows of a piece, from row `from` on.
template <int ROUNDS, bool DECRYPT>
__device__ __forceinline__ void gcm_rows(Lane t, uint32_t strings, const Piece& piece,
                                         GcmMessage& message, uint64_t from, uint32_t rows,
                                         const RoundKeys& keys, const GcmPowers* powers) {
    const uint32_t lane = t.number();
    const auto start = [&message, &piece, from](uint64_t blocks) {
        return Counter::of(message.counter).plus32(1 + piece.before / 16 + 32 * from + blocks);
    };
    Groups groups(t, start, keys);
    // Column 0 without byte 15's term, which is added for each block.
    const uint32_t constant =
        near_column(t, start(0).block(), keys) ^
        look<3, 3>(t, start(0).block().w ^ keys.round[0].w);
    const uint32_t key_15 = keys.round[0].w >> 24;
    const uint8_t* input = piece.input + 512 * from + 16 * lane;
    uint8_t* output = piece.output + 512 * from + 16 * lane;
    Running running = {};
    const uint32_t one = 1 + uint32_t(piece.len >> 63);
    uint32_t row = 0; // counted from `from`

    const auto stream = [&](uint32_t i) {
        groups.enter(i);
        const uint32_t column = constant ^ look<3, 0>(t, groups.position ^ key_15);
        groups.position += 32;
        return rounds_from<false, ROUNDS, 3>(t, near_part(t, column) ^ groups.far, keys);
    };

    const bool even = aligned(piece.input, 16) && aligned(piece.output, 16);
    const uint64_t whole = (piece.len - 512 * from) / 512;
    uint32_t batches = (whole < rows ? uint32_t(whole) : rows) / GCM_ROWS;
    row = batches * GCM_ROWS;
    uint32_t cycle = 0;
    const auto run = [&](auto is_even) {
#pragma unroll 1
        for (; batches > 0; batches--) {
            groups.start_cycle(t, keys);
            uint4 blocks[GCM_ROWS], results[GCM_ROWS];
#pragma unroll
            for (uint32_t i = 0; i < GCM_ROWS; i++) {
                const uint4 text = is_even.value ? load_aligned(input + 512 * i)
                                                 : load_across(input + 512 * i);
                results[i] = text ^ stream(cycle + i);
                if constexpr (is_even.value) store_aligned(output + 512 * i, results[i]);
                blocks[i] = apart(DECRYPT ? text : results[i], one);
            }
            if constexpr (!is_even.value) store_rows(output, results);
            Quad quad[1] = {Quad(blocks)};
            quad[0].add(running);
            running = ghash_rows(StringsAt{strings_anew<1>(strings, lane)}, quad);
            input += 512 * GCM_ROWS;
            output += 512 * GCM_ROWS;
            cycle ^= GCM_ROWS;
        }
    };
    if (even) run(Constant<true>{});
    else run(Constant<false>{});
    // The rest; rows that a batch does not have are zeros after the text.
#pragma unroll 1
    while (row < rows) {
        uint4 blocks[GCM_ROWS] = {};
#pragma unroll 1
        for (uint32_t i = 0; i < GCM_ROWS; i++, row++) {
#pragma unroll
            for (uint32_t k = 0; k + 1 < GCM_ROWS; k++) blocks[k] = blocks[k + 1];
            blocks[GCM_ROWS - 1] = make_uint4(0, 0, 0, 0);
            if (row >= rows) continue;
            groups.start_cycle(t, keys);
            const uint4 pad = stream(row & CYCLE - 1);
            const uint64_t at = 512 * (from + row) + 16 * lane;
            const uint32_t len = at < piece.len ? block_len(piece.len, at) : 0;
            const uint4 text = len ? load(input, len) : make_uint4(0, 0, 0, 0);
            const uint4 result = first_bytes(text ^ pad, len);
            store_row(output, result, len, lane > 0);
            blocks[GCM_ROWS - 1] = DECRYPT ? text : result;
            input += 512;
            output += 512;
        }
        Quad quad[1] = {Quad(blocks)};
        quad[0].add(running);
        running = ghash_rows(StringsAt{strings}, quad);
    }
    const uint64_t in_blocks = (piece.len + 15) / 16 - 32 * from;
    const uint64_t mine = 32ull * rows < in_blocks ? 32ull * rows : in_blocks;
    const uint4 sum = join_groups(running, 32 * row - uint32_t(mine),
                                  piece.after_blocks() + in_blocks - mine, powers);
    if (lane == 0) add_to(&message.hash, sum);
}

static_assert(GCM_ROWS == 4 && CYCLE == 2 * GCM_ROWS, "a batch is a quad, half a cycle of byte 15");

template <int ROUNDS, bool DECRYPT>
__device__ __forceinline__ void gcm(const Work& work, GcmMessage* messages, const RoundKeys& keys,
                                    const GcmPowers* powers) {
    fill_strings<1>(shared + TABLES, powers);
    fill_tables<false>();
    const Lane t = Lane::here();
    const uint32_t strings = SHARED_BASE + TABLES + 4 * t.column;
    each_portion(work, GCM_ROWS, warp_number(), warp_count(), [&](const Portion& portion) {
        const Piece& piece = work.pieces[portion.number];
        gcm_rows<ROUNDS, DECRYPT>(t, strings, piece, messages[piece.message], portion.from,
                                  portion.rows, keys, powers);
    });
}

// Whether the tags differ in their first `len` bytes; always looks at all of them.
__device__ __forceinline__ bool differ(uint4 a, uint4 b, uint32_t len) {
    const uint4 d = a ^ b;
    const uint32_t words[4] = {d.x, d.y, d.z, d.w};
    uint32_t any = 0;
#pragma unroll
    for (uint32_t i = 0; i < 16; i++) any |= i < len ? words[i / 4] >> 8 * (i % 4) & 0xff : 0;
    return any != 0;
}

// Writes a message's tag, or compares it with the given one.
__device__ __forceinline__ void give_tag(GcmMessage& message, uint4 tag, uint32_t tag_len,
                                         bool open) {
    // For the next launch, which may begin without gcm_prepare.
    message.hash = make_uint4(0, 0, 0, 0);
    if (open) message.failed = differ(tag, load(message.tag, tag_len), tag_len);
    else store(message.tag, tag, tag_len);
}

// Computes a message's tag, or compares it. `rest`: what is still to be added to its hash.
__device__ __forceinline__ void finish_message(GcmMessage& message, uint4 rest,
                                               const GcmPowers* powers, uint32_t tag_len,
                                               bool open) {
    // Not through the L1 cache: other multiprocessors may just have written them.
    const uint4 hash = __ldcg(&message.hash), mask = __ldcg(&message.mask);
    const uint4 sum = hash ^ rest ^ lengths(message.aad_len, message.len);
    give_tag(message, reflect(multiply(sum, powers->powers[0][1])) ^ mask, tag_len, open);
}

// Leaves nothing secret in the messages. A thread a message. `each`, `refused`: as of give_verdicts.
extern "C" __global__ void __launch_bounds__(128)
    gcm_finish(GcmMessage* messages, uint64_t count, const GcmPowers* powers, uint32_t tag_len,
               uint32_t open, uint32_t* each, uint32_t* refused) {
    const uint64_t number = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    uint32_t verdict = 0;
    if (number < count) {
        GcmMessage& message = messages[number];
        finish_message(message, make_uint4(0, 0, 0, 0), powers, tag_len, open != 0);
        message.counter = message.mask = make_uint4(0, 0, 0, 0);
        verdict = message.failed;
    }
    tell_verdict(verdict, number, count, each, refused);
}

// Text that did not verify is wiped.
extern "C" __global__ void __launch_bounds__(256)
    gcm_wipe(const __grid_constant__ Work work, const GcmMessage* messages) {
    const uint64_t threads = uint64_t(gridDim.x) * blockDim.x;
    const uint64_t thread = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const Range rows = share(all_units(work), uint32_t(thread / 32), uint32_t(threads / 32));
    if (rows.from == rows.to) return;
    const uint32_t lane = threadIdx.x & 31;
    // Each lane checks one piece, and all lanes wipe those that failed.
    for (uint64_t base = find_piece(work, rows.from);
         base < work.count && first_unit(work, base) < rows.to; base += 32) {
        const uint64_t mine = base + lane;
        const bool failed = mine < work.count && messages[work.pieces[mine].message].failed;
        for (uint32_t left = __ballot_sync(~0u, failed); left != 0; left &= left - 1) {
            const uint64_t number = base + __ffs(left) - 1;
            const Piece& piece = work.pieces[number];
            const uint64_t start = first_unit(work, number), end = first_unit(work, number + 1);
            const uint64_t to = end < rows.to ? end : rows.to;
            for (uint64_t row = start > rows.from ? start : rows.from; row < to; row++) {
                const uint64_t at = 512 * (row - start) + 16 * lane;
                if (at < piece.len)
                    store(piece.output + at, make_uint4(0, 0, 0, 0), block_len(piece.len, at));
            }
        }
    }
}

#define WARPLOCK_GCM(SIZE, ROUNDS)                                                              \
    extern "C" __global__ void __launch_bounds__(PREPARE_THREADS)                               \
        gcm_prepare_##SIZE(GcmMessage* messages, uint64_t count,                                \
                           const __grid_constant__ RoundKeys keys, const GcmPowers* powers) {   \
        gcm_prepare<ROUNDS>(messages, count, keys, powers);                                     \
    }                                                                                           \
    extern "C" __global__ void __launch_bounds__(GCM_THREADS, 1)                                \
        gcm_encrypt_##SIZE(const __grid_constant__ Work work, GcmMessage* messages,             \
                           const __grid_constant__ RoundKeys keys, const GcmPowers* powers) {   \
        gcm<ROUNDS, false>(work, messages, keys, powers);                                       \
    }                                                                                           \
    extern "C" __global__ void __launch_bounds__(GCM_THREADS, 1)                                \
        gcm_decrypt_##SIZE(const __grid_constant__ Work work, GcmMessage* messages,             \
                           const __grid_constant__ RoundKeys keys, const GcmPowers* powers) {   \
        gcm<ROUNDS, true>(work, messages, keys, powers);                                        \
    }
WARPLOCK_GCM(128, 10)
WARPLOCK_GCM(192, 12)
WARPLOCK_GCM(256, 14)
WARPLOCK_SHARED(gcm, HASHES ? TABLES + STRING_BYTES<1> : 0);
