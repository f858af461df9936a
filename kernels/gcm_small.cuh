// GCM (SP 800-38D) of many short messages, or under many keys: eight lanes a message.
//
// Turning a power of H for each message into matrices would cost more than short messages take, so
// GHASH multiplies with integers here. Lane u of a message's eight takes every eighth block of the
// sequence that GHASH sees: associated data, ciphertext, lengths. The block of lengths needs no
// encryption; in its place the lane encrypts J0, so that the tag's mask is computed along with the
// texts.
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

template <bool DECRYPT>
__device__ __forceinline__ void gcm_small(const Work& work, GcmMessage* messages,
                                          const TableKey* keys, uint32_t rounds,
                                          uint32_t tag_len) {
    fill_tables<false>();
    const Lane t = Lane::here();
    // Four messages a warp.
    const uint64_t step = 4ull * warp_count();
    for (uint64_t base = 4ull * warp_number(); base < work.count; base += step) {
        const uint64_t number = base + (threadIdx.x & 31) / 8;
        const bool write = number < work.count;
        // Lanes without a message repeat the last one's work and write nothing.
        const Piece& piece = work.pieces[write ? number : work.count - 1];
        gcm_small<DECRYPT>(t, piece, messages[piece.message], keys[piece.key], rounds, tag_len,
                           write);
        __syncwarp();
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
