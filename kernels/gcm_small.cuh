// GCM (SP 800-38D) of many short messages, or under many keys: eight lanes a message, or one.
//
// Turning a power of H for each message into matrices would cost more than short messages take, so
// GHASH multiplies with integers here. Lane u of a message's eight takes every eighth block of the
// sequence that GHASH sees: associated data, ciphertext, lengths. The block of lengths needs no
// encryption; in its place the lane encrypts J0, so that the tag's mask is computed along with the
// texts.
//
// Of messages of a few blocks, most of the eight lanes would have none, and each message would need
// powers of H of its own. Where there are enough of them under one key, a lane takes a whole message.
#pragma once
#include "gcm.cuh"
#include "keys.cuh"

// 64 registers a thread: the additional warps gain more than the spills cost (151 instead of 144
// GB/s for messages of 1 KiB).
constexpr uint32_t SMALL_THREADS = 1024;

template <bool DECRYPT>
__device__ __forceinline__ void gcm_small(Lane t, const Piece& piece, GcmMessage& message,
                                          const TableKey& key, uint32_t rounds, uint32_t tag_len,
                                          bool write) {
    const uint32_t lane8 = threadIdx.x & 7;
    const uint4 h = reflect(key.hash), h2 = square(h), h4 = square(h2), h8 = square(h4);
    // H^(8 - lane8): the last lane's block is the last of the sequence.
    const uint32_t exponent = 8 - lane8;
    uint4 h_lane = exponent & 8 ? h8 : exponent & 1 ? h : make_uint4(1, 0, 0, 0);
    const uint4 with_2 = multiply(h_lane, h2);
    if (exponent & 2) h_lane = with_2;
    const uint4 with_4 = multiply(h_lane, h4);
    if (exponent & 4) h_lane = with_4;

    const Counter j0 = Counter::of(start_counter(message, lane8, h, h8, h_lane));
    const uint64_t data = (message.aad_len + 15) / 16, text = (piece.len + 15) / 16;
    const uint64_t all = data + text + 1, pad = (8 - all % 8) % 8;
    uint4 sum = make_uint4(0, 0, 0, 0), mask;
#pragma unroll 1
    for (uint64_t i = lane8; i < all + pad; i += 8) {
        if (i >= 8) sum = multiply(sum, h8);
        if (i < pad) continue;
        const uint64_t place = i - pad;
        if (place < data) {
            const uint64_t at = 16 * place;
            sum = sum ^ reflect(load(message.aad + at, block_len(message.aad_len, at)));
            continue;
        }
        const uint64_t block = place - data;
        const bool end = block == text;
        const uint4 counter = j0.plus32(end ? 0 : 1 + block).block();
        const uint4 stream = cipher<false>(t, counter, &key.encrypt, rounds);
        if (end) {
            mask = stream;
            sum = sum ^ lengths(message.aad_len, piece.len);
            continue;
        }
        const uint64_t at = 16 * block;
        const uint32_t len = block_len(piece.len, at);
        const uint4 in = load(piece.input + at, len);
        uint4 out = in ^ stream;
        if (write) store(piece.output + at, out, len);
        if (!DECRYPT && len < 16) out = first_bytes(out, len);
        sum = sum ^ reflect(DECRYPT ? in : out);
    }
    sum = multiply(sum, h_lane);
    __syncwarp();
    sum = sum ^ shuffle_xor(sum, 1);
    sum = sum ^ shuffle_xor(sum, 2);
    sum = sum ^ shuffle_xor(sum, 4);
    // The lengths are the last lane's.
    uint32_t failed = 0;
    if (lane8 == 7 && write) {
        const uint4 tag = reflect(sum) ^ mask;
        if (DECRYPT) failed = differ(tag, load(message.tag, tag_len), tag_len);
        else store(message.tag, tag, tag_len);
        message.failed = failed;
    }
    failed = __shfl_sync(~0u, failed, threadIdx.x & 31 | 7);
    __syncwarp(); // other lanes' stores come first
    if (failed)
        for (uint64_t at = 16 * lane8; at < piece.len; at += 128)
            store(piece.output + at, make_uint4(0, 0, 0, 0), block_len(piece.len, at));
}

// Blocks of associated data and text that a lane takes by itself, and the fewest messages a warp for
// which lanes do.
constexpr uint64_t TINY_BLOCKS = 16;
constexpr uint64_t TINY_MESSAGES = 4;

// A message for each lane, with an IV of 96 bits; the same key for all of them.
template <bool DECRYPT>
__device__ __forceinline__ void gcm_tiny(Lane t, const Piece& piece, GcmMessage& message,
                                         const TableKey& key, uint32_t rounds, uint32_t tag_len,
                                         bool write) {
    const uint4 h = reflect(key.hash);
    const Counter j0 = Counter::of(standard_counter(message.iv));
    const uint32_t data = uint32_t(message.aad_len + 15) / 16, text = uint32_t(piece.len + 15) / 16;
    uint4 sum = make_uint4(0, 0, 0, 0), mask = sum;
#pragma unroll 1
    for (uint32_t i = 0; __any_sync(~0u, i <= data + text); i++) {
        if (i < data) {
            const uint32_t len = block_len(message.aad_len, 16 * i);
            sum = sum ^ reflect(first_bytes(load_lines(message.aad + 16 * i, len), len));
        } else if (i <= data + text) {
            const uint32_t block = i - data;
            const bool end = block == text;
            const uint4 stream =
                cipher<false>(t, j0.plus32(end ? 0 : 1 + block).block(), &key.encrypt, rounds);
            if (end) {
                mask = stream;
                sum = sum ^ lengths(message.aad_len, piece.len);
            } else {
                const uint32_t len = block_len(piece.len, 16 * block);
                const uint4 in = load_lines(piece.input + 16 * block, len);
                const uint4 out = in ^ stream;
                if (write) store(piece.output + 16 * block, out, len);
                sum = sum ^ reflect(first_bytes(DECRYPT ? in : out, len));
            }
        }
        if (i <= data + text) sum = multiply(sum, h);
    }
    if (!write) return;
    const uint4 tag = reflect(sum) ^ mask;
    uint32_t failed = 0;
    if (DECRYPT) failed = differ(tag, load(message.tag, tag_len), tag_len);
    else store(message.tag, tag, tag_len);
    message.failed = failed;
    if (failed)
        for (uint32_t at = 0; at < piece.len; at += 16)
            store(piece.output + at, make_uint4(0, 0, 0, 0), block_len(piece.len, at));
}

template <bool DECRYPT>
__device__ __forceinline__ void gcm_small(const Work& work, GcmMessage* messages,
                                          const TableKey* keys, uint32_t rounds,
                                          uint32_t tag_len) {
    fill_tables<false>();
    const Lane t = Lane::here();
    const uint32_t lane = threadIdx.x & 31;
    // Messages that a warp takes at a time; eight lanes each, if not all are tiny.
    const uint64_t each = work.count >= TINY_MESSAGES * warp_count() ? 32 : 4;
    for (uint64_t from = each * warp_number(); from < work.count; from += each * warp_count()) {
        // Lanes without a message repeat the last one's work and write nothing.
        const auto piece_of = [&](uint64_t number) -> const Piece& {
            return work.pieces[number < work.count ? number : work.count - 1];
        };
        if (each == 32) {
            const Piece& piece = piece_of(from + lane);
            GcmMessage& message = messages[piece.message];
            const uint32_t first_key = __shfl_sync(~0u, piece.key, 0); // all lanes take part
            const bool tiny = (message.aad_len + 15) / 16 + (piece.len + 15) / 16 <= TINY_BLOCKS &&
                              message.iv_len == 12 && piece.key == first_key;
            if (__all_sync(~0u, tiny)) {
                gcm_tiny<DECRYPT>(t, piece, message, keys[piece.key], rounds, tag_len,
                                  from + lane < work.count);
                __syncwarp();
                continue;
            }
        }
#pragma unroll 1
        for (uint64_t four = from; four < from + each && four < work.count; four += 4) {
            const uint64_t number = four + lane / 8;
            const Piece& piece = piece_of(number);
            gcm_small<DECRYPT>(t, piece, messages[piece.message], keys[piece.key], rounds, tag_len,
                               number < work.count);
            __syncwarp();
        }
    }
}

extern "C" __global__ void __launch_bounds__(SMALL_THREADS, 1)
    gcm_small_encrypt(const __grid_constant__ Work work, GcmMessage* messages,
                      const TableKey* keys, uint32_t rounds, uint32_t tag_len) {
    gcm_small<false>(work, messages, keys, rounds, tag_len);
}
extern "C" __global__ void __launch_bounds__(SMALL_THREADS, 1)
    gcm_small_decrypt(const __grid_constant__ Work work, GcmMessage* messages,
                      const TableKey* keys, uint32_t rounds, uint32_t tag_len) {
    gcm_small<true>(work, messages, keys, rounds, tag_len);
}
WARPLOCK_SHARED(small, TABLES);
