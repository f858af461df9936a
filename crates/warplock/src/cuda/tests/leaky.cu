// AES-128 as it must not be done: lookups in one plain table in shared memory, so that bank
// conflicts, and with them the time, depend on keys and data. A test must find this out.
//
// Rebuilt by:
// nvcc -fatbin -O3 -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80 \
//   -gencode arch=compute_90,code=sm_90 -gencode arch=compute_75,code=compute_75 \
//   --compress-mode=size -o leaky.fatbin leaky.cu

#include <cstdint>

struct RoundKeys {
    uint4 round[15];
};

__device__ uint32_t product(uint32_t a, uint32_t b) {
    uint32_t sum = 0;
    for (int bit = 0; bit < 8; bit++) {
        if (b >> bit & 1) sum ^= a;
        a = (a << 1 ^ (a & 0x80 ? 0x11B : 0)) & 0xFF;
    }
    return sum;
}

// S-box (FIPS 197, 5.1.1): inverse, then the affine map.
__device__ uint32_t s_box(uint32_t value) {
    uint32_t power = value, inverse = 1;
    for (int i = 0; i < 7; i++) {
        power = product(power, power);
        inverse = product(inverse, power);
    }
    uint32_t sum = inverse;
    for (int by = 1; by < 5; by++) sum ^= (inverse << by | inverse >> (8 - by)) & 0xFF;
    return sum ^ 0x63;
}

__device__ uint32_t turned(uint32_t word, int bits) { return __funnelshift_l(word, word, bits); }

__device__ uint32_t column(const uint32_t* table, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return table[a & 0xFF] ^ turned(table[b >> 8 & 0xFF], 8) ^
           turned(table[c >> 16 & 0xFF], 16) ^ turned(table[d >> 24], 24);
}

__device__ uint32_t last(const uint32_t* table, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    uint32_t low = table[a & 0xFF] >> 8 & 0xFF | (table[b >> 8 & 0xFF] & 0xFF00);
    uint32_t high = table[c >> 16 & 0xFF] >> 8 & 0xFF | (table[d >> 24] & 0xFF00);
    return low | high << 16;
}

extern "C" __global__ void leaky_ecb_128(uint4* text, uint64_t blocks,
                                         const __grid_constant__ RoundKeys keys) {
    __shared__ uint32_t table[256];
    if (threadIdx.x < 256) {
        uint32_t s = s_box(threadIdx.x);
        table[threadIdx.x] = product(s, 2) | s << 8 | s << 16 | product(s, 3) << 24;
    }
    __syncthreads();
    uint64_t step = uint64_t(gridDim.x) * blockDim.x;
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < blocks; i += step) {
        uint4 x = text[i], k = keys.round[0];
        x = make_uint4(x.x ^ k.x, x.y ^ k.y, x.z ^ k.z, x.w ^ k.w);
        for (int round = 1; round < 10; round++) {
            k = keys.round[round];
            x = make_uint4(column(table, x.x, x.y, x.z, x.w) ^ k.x,
                           column(table, x.y, x.z, x.w, x.x) ^ k.y,
                           column(table, x.z, x.w, x.x, x.y) ^ k.z,
                           column(table, x.w, x.x, x.y, x.z) ^ k.w);
        }
        k = keys.round[10];
        text[i] = make_uint4(last(table, x.x, x.y, x.z, x.w) ^ k.x,
                             last(table, x.y, x.z, x.w, x.x) ^ k.y,
                             last(table, x.z, x.w, x.x, x.y) ^ k.z,
                             last(table, x.w, x.x, x.y, x.z) ^ k.w);
    }
}
