// Statistics of bytes in GPU memory. All results are sums of integers, so they are those of the CPU.
//
// Which addresses are used depends on the data: it is ciphertext, or what its owner publishes
// statistics of, and no secret.
#include "memory.cuh"

// The histogram, and the sums of the products of neighbours, in one pass.
//
// Each of the 32 lanes has its own column of the table, which is its own bank of shared memory: the
// lanes of a warp never wait for each other whatever the data is, and all warps of a block share the
// table, whose counters have 32 bits and need no flushing.
//
// What bounds it, per multiprocessor and 512 bytes (a line for each lane of a warp): shared memory
// is busy for 16 atomic additions of two cycles each; loads take 4 cycles for the line, 4 for the
// byte after it, 8 for two lines of the row below, from L1 or L2. These 48 cycles are 10.7 bytes a
// cycle: 2.6 TB/s on 132 multiprocessors at 1.8 GHz, where memory could give 20. About 110
// instructions are issued in 28 cycles meanwhile.

__device__ __forceinline__ void count(uint32_t* table, uint32_t word) {
    char* column = reinterpret_cast<char*>(table) + 4 * (threadIdx.x % 32);
    // A row has 128 bytes.
    atomicAdd(reinterpret_cast<uint32_t*>(column + (word << 7 & 0x7f80)), 1);
    atomicAdd(reinterpret_cast<uint32_t*>(column + (word >> 1 & 0x7f80)), 1);
    atomicAdd(reinterpret_cast<uint32_t*>(column + (word >> 9 & 0x7f80)), 1);
    atomicAdd(reinterpret_cast<uint32_t*>(column + (word >> 17 & 0x7f80)), 1);
}

// To `out` are added: 256 counts; the sums over all bytes of the byte times the next one, the one
// `width` places later, and the one `width` + 1 later.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
tables(const uint8_t* data, uint64_t len, uint64_t width, unsigned long long* out) {
    __shared__ uint32_t table[256 * 32];
    for (uint32_t i = threadIdx.x; i < 256 * 32; i += THREADS) table[i] = 0;
    __syncthreads();

    const Lines lines(data, len);
    const bool has_rows = width < len;
    unsigned long long horizontal = 0, vertical = 0, diagonal = 0;
#pragma unroll 1
    for (uint64_t line = uint64_t(blockIdx.x) * THREADS + threadIdx.x; line < lines.count;
         line += uint64_t(gridDim.x) * THREADS) {
        const uint64_t at = lines.head + 16 * line;
        // All loads first, so that a warp waits once.
        uint32_t own[5], below[5] = {}, next[4];
        read_line(own, data + at);
        own[4] = at + 16 < len ? data[at + 16] : 0;
        if (has_rows && at + width < len) read<true>(below, data, len, at + width);
#pragma unroll
        for (int i = 0; i < 4; i++) count(table, own[i]);
#pragma unroll
        for (int i = 0; i < 4; i++) next[i] = __funnelshift_r(own[i], own[i + 1], 8);
        horizontal += dot(own, next);
        vertical += dot(own, below);
#pragma unroll
        for (int i = 0; i < 4; i++) next[i] = __funnelshift_r(below[i], below[i + 1], 8);
        diagonal += dot(own, next);
    }
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        const uint64_t at = lines.outside(threadIdx.x);
        if (at < len) {
            const uint64_t byte = data[at];
            atomicAdd(&table[32 * byte + threadIdx.x], 1);
            const auto times = [=](uint64_t lag) {
                return lag < len - at ? byte * data[at + lag] : 0;
            };
            horizontal += times(1);
            if (has_rows) {
                vertical += times(width);
                diagonal += times(width + 1);
            }
        }
    }
    add_warp(&out[256], horizontal);
    add_warp(&out[257], vertical);
    add_warp(&out[258], diagonal);
    __syncthreads();
    if (threadIdx.x < 256) {
        unsigned long long sum = 0;
        // Each lane begins at another bank.
        for (uint32_t i = 0; i < 32; i++) sum += table[32 * threadIdx.x + (i + threadIdx.x) % 32];
        if (sum != 0) atomicAdd(&out[threadIdx.x], sum);
    }
}

// Two buffers. To `out` are added: how many bytes differ, the sum of their distances, how many bits
// differ; `out[3]` becomes the first place where they differ, if that is less.
//
// Bound by memory: about 70 instructions for a line of each, or 1,024 bytes in 18 cycles.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
differences(const uint8_t* left, const uint8_t* right, uint64_t len, unsigned long long* out) {
    const Lines lines(left, len);
    unsigned long long differing = 0, distance = 0, bits = 0, first = ~0ull;
#pragma unroll 1
    for (uint64_t line = uint64_t(blockIdx.x) * THREADS + threadIdx.x; line < lines.count;
         line += uint64_t(gridDim.x) * THREADS) {
        const uint64_t at = lines.head + 16 * line;
        uint32_t a[4], b[5], distances = 0, same = 0, changed = 0;
        read_line(a, left + at);
        read<false>(b, right, len, at);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            distances += __vsadu4(a[i], b[i]);
            same += __popc(__vcmpeq4(a[i], b[i]));
            changed += __popc(a[i] ^ b[i]);
        }
        differing += 16 - same / 8;
        distance += distances;
        bits += changed;
        if (changed != 0 && first == ~0ull) {
            first = at;
            while (left[first] == right[first]) first++;
        }
    }
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        const uint64_t at = lines.outside(threadIdx.x);
        if (at < len && left[at] != right[at]) {
            differing += 1;
            distance += left[at] > right[at] ? left[at] - right[at] : right[at] - left[at];
            bits += __popc(left[at] ^ right[at]);
            first = at < first ? at : first;
        }
    }
    add_warp(&out[0], differing);
    add_warp(&out[1], distance);
    add_warp(&out[2], bits);
    if (first != ~0ull) atomicMin(&out[3], first);
}

// Sums over bytes at even distances, each with the byte `lag` places later.
struct Progression {
    uint64_t start, step, count, lag;
};
constexpr uint32_t PROGRESSIONS = 9;
struct Progressions {
    Progression of[PROGRESSIONS];
};

// The rows' and columns' ends, whose bytes are in fewer pairs: for each progression, the sums of x,
// y, x * x, y * y and x * y are added to `out`.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
progressions(const uint8_t* data, Progressions all, unsigned long long* out) {
    const uint32_t number = blockIdx.x % PROGRESSIONS;
    const Progression own = all.of[number];
    unsigned long long sums[5] = {};
    for (uint64_t i = uint64_t(blockIdx.x / PROGRESSIONS) * THREADS + threadIdx.x; i < own.count;
         i += uint64_t(gridDim.x / PROGRESSIONS) * THREADS) {
        const uint8_t* at = data + own.start + i * own.step;
        const uint32_t x = at[0], y = at[own.lag];
        sums[0] += x;
        sums[1] += y;
        sums[2] += x * x;
        sums[3] += y * y;
        sums[4] += x * y;
    }
#pragma unroll
    for (int i = 0; i < 5; i++) add_warp(&out[5 * number + i], sums[i]);
}

constexpr uint32_t LAGS = 48;
struct Lags {
    uint32_t count;
    uint32_t of[LAGS];
};

// To `out`, for each lag, the sum over all bytes of the byte times the one that many places later is
// added. A block works with a tile for all lags, so that memory gives it once and L1 the rest.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
lagged(const uint8_t* data, uint64_t len, Lags lags, unsigned long long* out) {
    // Lines of a tile.
    constexpr uint32_t TILE = 4 * THREADS;
    __shared__ unsigned long long sums[LAGS];
    if (threadIdx.x < LAGS) sums[threadIdx.x] = 0;
    __syncthreads();
    const Lines lines(data, len);
    for (uint64_t tile = uint64_t(blockIdx.x) * TILE; tile < lines.count;
         tile += uint64_t(gridDim.x) * TILE) {
        for (uint32_t number = 0; number < lags.count; number++) {
            // Fits: 64 products a thread.
            uint32_t sum = 0;
            for (uint32_t i = threadIdx.x; i < TILE && tile + i < lines.count; i += THREADS) {
                const uint64_t at = lines.head + 16 * (tile + i);
                if (at + lags.of[number] >= len) break;
                uint32_t own[4], later[5];
                read_line(own, data + at);
                read<false>(later, data, len, at + lags.of[number]);
                sum += dot(own, later);
            }
            add_warp(&sums[number], sum);
        }
    }
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        const uint64_t at = lines.outside(threadIdx.x);
        for (uint32_t number = 0; number < lags.count; number++) {
            uint32_t product = 0;
            if (at < len && lags.of[number] < len - at)
                product = uint32_t(data[at]) * data[at + lags.of[number]];
            add_warp(&sums[number], product);
        }
    }
    __syncthreads();
    if (threadIdx.x < lags.count) atomicAdd(&out[threadIdx.x], sums[threadIdx.x]);
}

constexpr uint32_t EMPTY = 0xffffffff;

// To `out`, how many blocks of 16 bytes are equal to another one that is already in the table, is
// added. A slot has the number of a block, or `EMPTY`; there are `mask` + 1 slots, more than blocks.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
repeats(const uint8_t* data, uint64_t blocks, uint32_t* slots, uint64_t mask,
        unsigned long long* out) {
    unsigned long long found = 0;
    for (uint64_t number = uint64_t(blockIdx.x) * THREADS + threadIdx.x; number < blocks;
         number += uint64_t(gridDim.x) * THREADS) {
        uint32_t own[5], other[5];
        read<false>(own, data, 16 * blocks, 16 * number);
        uint64_t slot = own[0] | uint64_t(own[1]) << 32;
        slot = (slot ^ slot >> 29) * 0xbf58476d1ce4e5b9 + (own[2] | uint64_t(own[3]) << 32);
        slot = (slot ^ slot >> 32) * 0x94d049bb133111eb;
        slot ^= slot >> 29;
        while (true) {
            slot &= mask;
            // Other threads fill slots, and none changes one that is full.
            uint32_t in_slot = *static_cast<volatile uint32_t*>(&slots[slot]);
            if (in_slot == EMPTY) in_slot = atomicCAS(&slots[slot], EMPTY, uint32_t(number));
            if (in_slot == EMPTY) break;
            read<false>(other, data, 16 * blocks, 16 * uint64_t(in_slot));
            const bool is_equal = own[0] == other[0] && own[1] == other[1] && own[2] == other[2] &&
                                  own[3] == other[3];
            if (is_equal) {
                found++;
                break;
            }
            slot++;
        }
    }
    add_warp(out, found);
}

// The channels of an image, each into a plane of its own, `pitch` bytes apart. A thread takes four
// pixels: as many words as channels, and one more to shift them.
template <int channels>
__device__ __forceinline__ void split(const uint8_t* data, uint64_t pixels, uint8_t* planes,
                                      uint64_t pitch) {
    const uint32_t skew = uint32_t(reinterpret_cast<uint64_t>(data)) & 3;
    for (uint64_t four = uint64_t(blockIdx.x) * THREADS + threadIdx.x; 4 * four < pixels;
         four += uint64_t(gridDim.x) * THREADS) {
        const uint8_t* at = data + 4 * four * channels;
        if (4 * four + 4 > pixels) {
            for (uint64_t pixel = 4 * four; pixel < pixels; pixel++)
                for (int channel = 0; channel < channels; channel++)
                    planes[channel * pitch + pixel] = data[pixel * channels + channel];
            break;
        }
        const uint32_t* words = reinterpret_cast<const uint32_t*>(at - skew);
        uint32_t w[channels + 1];
#pragma unroll
        for (int i = 0; i < channels; i++) w[i] = __ldg(words + i);
        w[channels] = skew == 0 ? 0 : __ldg(words + channels);
#pragma unroll
        for (int i = 0; i < channels; i++) w[i] = __funnelshift_r(w[i], w[i + 1], 8 * skew);
#pragma unroll
        for (int channel = 0; channel < channels; channel++) {
            uint32_t plane = 0;
#pragma unroll
            for (int pixel = 0; pixel < 4; pixel++) {
                const int byte = pixel * channels + channel;
                plane |= (w[byte / 4] >> 8 * (byte % 4) & 0xff) << 8 * pixel;
            }
            *reinterpret_cast<uint32_t*>(planes + channel * pitch + 4 * four) = plane;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
split_2(const uint8_t* data, uint64_t pixels, uint8_t* planes, uint64_t pitch) {
    split<2>(data, pixels, planes, pitch);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
split_3(const uint8_t* data, uint64_t pixels, uint8_t* planes, uint64_t pitch) {
    split<3>(data, pixels, planes, pitch);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
split_4(const uint8_t* data, uint64_t pixels, uint8_t* planes, uint64_t pitch) {
    split<4>(data, pixels, planes, pitch);
}

// The bytes at some places.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
gather(const uint8_t* data, const uint64_t* places, uint64_t count, uint8_t* out) {
    for (uint64_t i = uint64_t(blockIdx.x) * THREADS + threadIdx.x; i < count;
         i += uint64_t(gridDim.x) * THREADS)
        out[i] = data[places[i]];
}
