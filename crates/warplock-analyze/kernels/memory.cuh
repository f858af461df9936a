// Bytes at any alignment: two aligned loads of 16 bytes and a shift. A line of 16 bytes is read only
// if one of its bytes belongs to the data.
#pragma once
#include <cstdint>

// Of one block.
constexpr uint32_t THREADS = 512;
// Blocks of a multiprocessor: leaves 42 registers a thread. Turing has 1,024 threads.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr uint32_t BLOCKS = 2;
#else
constexpr uint32_t BLOCKS = 3;
#endif

// The lines of 16 bytes of some data. What is before and after them is less than a line each.
struct Lines {
    // Where the first one begins, and how many there are.
    uint64_t head, count;

    __device__ Lines(const uint8_t* data, uint64_t len) {
        const uint64_t before = (0 - reinterpret_cast<uint64_t>(data)) & 15;
        head = before < len ? before : len;
        count = (len - head) / 16;
    }

    // Where the byte is that this lane has of those outside the lines; `len` or more for none.
    __device__ uint64_t outside(uint32_t lane) const { return lane < head ? lane : 16 * count + lane; }
};

__device__ __forceinline__ void read_line(uint32_t* words, const uint8_t* at) {
    const uint4 line = __ldg(reinterpret_cast<const uint4*>(at));
    words[0] = line.x;
    words[1] = line.y;
    words[2] = line.z;
    words[3] = line.w;
}

// Reads 16 bytes, and if `more` one more into the fifth word, whose other bytes are undefined. Bytes
// from `len` on are zeros.
template <bool more>
__device__ __forceinline__ void read(uint32_t (&words)[5], const uint8_t* data, uint64_t len,
                                     uint64_t at) {
    if (at + 16 + more <= len) {
        const uint32_t skew = uint32_t(reinterpret_cast<uint64_t>(data + at)) & 15;
        uint32_t w[10] = {};
        read_line(w, data + at - skew);
        if (more || skew != 0) read_line(w + 4, data + at - skew + 16);
        // All threads of a kernel have the same skew.
        if (skew & 4) {
#pragma unroll
            for (int i = 0; i < 9; i++) w[i] = w[i + 1];
        }
        if (skew & 8) {
#pragma unroll
            for (int i = 0; i < 8; i++) w[i] = w[i + 2];
        }
#pragma unroll
        for (int i = 0; i < 5; i++) words[i] = __funnelshift_r(w[i], w[i + 1], 8 * (skew & 3));
        return;
    }
#pragma unroll
    for (int i = 0; i < 5; i++) {
        words[i] = 0;
        for (int byte = 0; byte < 4; byte++) {
            const uint64_t place = at + 4 * i + byte;
            if (place < len) words[i] |= uint32_t(data[place]) << 8 * byte;
        }
    }
}

// The sum of the products of 16 bytes.
__device__ __forceinline__ uint32_t dot(const uint32_t* a, const uint32_t* b) {
    uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) sum = __dp4a(a[i], b[i], sum);
    return sum;
}

// Adds what the lanes of a warp have to a sum.
__device__ __forceinline__ void add_warp(unsigned long long* sum, unsigned long long value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_down_sync(0xffffffff, value, distance);
    if (threadIdx.x % 32 == 0 && value != 0) atomicAdd(sum, value);
}
