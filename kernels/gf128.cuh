// GF(2^128) modulo x^128 + x^7 + x^2 + x + 1, in natural bit order: bit i of word k is the
// coefficient of x^(32 k + i). XTS stores field elements so; GCM reverses the bits of each byte.
#pragma once
#include "memory.cuh"

__device__ __forceinline__ uint4 operator^(uint4 a, uint4 b) {
    return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w);
}

__device__ __forceinline__ uint4 operator&(uint4 a, uint32_t mask) {
    return make_uint4(a.x & mask, a.y & mask, a.z & mask, a.w & mask);
}

// The bits of `a` where `MASK` is set, those of `b` elsewhere; one instruction.
template <uint32_t MASK>
__device__ __forceinline__ uint32_t choose(uint32_t a, uint32_t b) {
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xe4;" : "=r"(result) : "r"(a), "r"(b), "n"(MASK));
    return result;
}

// From GCM's stored bytes to natural order and back (SP 800-38D, 6.3).
__device__ __forceinline__ uint32_t reflect(uint32_t word) { return swap_bytes(__brev(word)); }
__device__ __forceinline__ uint4 reflect(uint4 a) {
    return make_uint4(reflect(a.x), reflect(a.y), reflect(a.z), reflect(a.w));
}

// The sum of `low` and `high` times x^128.
__device__ __forceinline__ uint4 reduce(uint4 low, uint4 high) {
    // x^128 = x^7 + x^2 + x + 1; bits shifted out at the top are folded in again.
    const uint32_t over = high.w >> 31 ^ high.w >> 30 ^ high.w >> 25;
    const uint32_t first = high.x ^ over;
    low.x ^= first ^ first << 1 ^ first << 2 ^ first << 7;
    low.y ^= high.y ^ __funnelshift_l(first, high.y, 1) ^ __funnelshift_l(first, high.y, 2) ^
             __funnelshift_l(first, high.y, 7);
    low.z ^= high.z ^ __funnelshift_l(high.y, high.z, 1) ^ __funnelshift_l(high.y, high.z, 2) ^
             __funnelshift_l(high.y, high.z, 7);
    low.w ^= high.w ^ __funnelshift_l(high.z, high.w, 1) ^ __funnelshift_l(high.z, high.w, 2) ^
             __funnelshift_l(high.z, high.w, 7);
    return low;
}

// Carry-less product of two words: integer products of operands with three holes after each bit,
// into which the carries of at most eight terms fall; then the holes are masked away. No table
// and no branch, so its time does not depend on the values.
__device__ __forceinline__ uint64_t carryless(uint32_t a, uint32_t b) {
    constexpr uint32_t M = 0x11111111;
    const uint32_t a0 = a & M, a1 = a & M << 1, a2 = a & M << 2, a3 = a & M << 3;
    const uint32_t b0 = b & M, b1 = b & M << 1, b2 = b & M << 2, b3 = b & M << 3;
#define WARPLOCK_TERM(x, y) (uint64_t(x) * (y))
    const uint64_t r0 = WARPLOCK_TERM(a0, b0) ^ WARPLOCK_TERM(a1, b3) ^ WARPLOCK_TERM(a2, b2) ^
                        WARPLOCK_TERM(a3, b1);
    const uint64_t r1 = WARPLOCK_TERM(a0, b1) ^ WARPLOCK_TERM(a1, b0) ^ WARPLOCK_TERM(a2, b3) ^
                        WARPLOCK_TERM(a3, b2);
    const uint64_t r2 = WARPLOCK_TERM(a0, b2) ^ WARPLOCK_TERM(a1, b1) ^ WARPLOCK_TERM(a2, b0) ^
                        WARPLOCK_TERM(a3, b3);
    const uint64_t r3 = WARPLOCK_TERM(a0, b3) ^ WARPLOCK_TERM(a1, b2) ^ WARPLOCK_TERM(a2, b1) ^
                        WARPLOCK_TERM(a3, b0);
#undef WARPLOCK_TERM
    constexpr uint64_t W = 0x1111111111111111;
    return (r0 & W) | (r1 & W << 1) | (r2 & W << 2) | (r3 & W << 3);
}

// 64 by 64 bits, by Karatsuba's three products.
__device__ __forceinline__ uint4 carryless(uint32_t a0, uint32_t a1, uint32_t b0, uint32_t b1) {
    const uint64_t low = carryless(a0, b0), high = carryless(a1, b1);
    const uint64_t middle = carryless(a0 ^ a1, b0 ^ b1) ^ low ^ high;
    return make_uint4(uint32_t(low), uint32_t(low >> 32) ^ uint32_t(middle),
                      uint32_t(high) ^ uint32_t(middle >> 32), uint32_t(high >> 32));
}

__device__ __forceinline__ uint4 multiply_here(uint4 a, uint4 b) {
    const uint4 low = carryless(a.x, a.y, b.x, b.y), high = carryless(a.z, a.w, b.z, b.w);
    const uint4 middle =
        carryless(a.x ^ a.z, a.y ^ a.w, b.x ^ b.z, b.y ^ b.w) ^ low ^ high;
    return reduce(make_uint4(low.x, low.y, low.z ^ middle.x, low.w ^ middle.y),
                  make_uint4(high.x ^ middle.z, high.y ^ middle.w, high.z, high.w));
}

// Some 500 instructions: kept out of line, except in one loop where a call would take registers.
inline __device__ __noinline__ uint4 multiply(uint4 a, uint4 b) { return multiply_here(a, b); }

// The bits of half a word, spread to every other place.
__device__ __forceinline__ uint32_t spread(uint32_t a) {
    a = (a | a << 8) & 0x00ff00ff;
    a = (a | a << 4) & 0x0f0f0f0f;
    a = (a | a << 2) & 0x33333333;
    return (a | a << 1) & 0x55555555;
}

inline __device__ __noinline__ uint4 square(uint4 a) {
    return reduce(make_uint4(spread(a.x & 0xffff), spread(a.x >> 16), spread(a.y & 0xffff),
                             spread(a.y >> 16)),
                  make_uint4(spread(a.z & 0xffff), spread(a.z >> 16), spread(a.w & 0xffff),
                             spread(a.w >> 16)));
}

// a^exponent; the exponent is no secret.
inline __device__ uint4 power(uint4 a, uint64_t exponent) {
    uint4 result = make_uint4(1, 0, 0, 0);
#pragma unroll 1
    for (int bit = 63 - __clzll(exponent | 1); bit >= 0; bit--) {
        result = square(result);
        if (exponent >> bit & 1) result = multiply(result, a);
    }
    return result;
}

// Times x^count, for a count below 32.
__device__ __forceinline__ uint4 times_x_few(uint4 a, uint32_t count) {
    // Shifted out at the top: below 2^31, so its product with x^7 loses no bit in 64 bits.
    const uint64_t over = __funnelshift_l(a.w, 0, count);
    const uint64_t sum = over ^ over << 1 ^ over << 2 ^ over << 7;
    return make_uint4(a.x << count ^ uint32_t(sum),
                      __funnelshift_l(a.x, a.y, count) ^ uint32_t(sum >> 32),
                      __funnelshift_l(a.y, a.z, count), __funnelshift_l(a.z, a.w, count));
}

__device__ __forceinline__ uint4 times_x32(uint4 a) {
    const uint32_t c = a.w;
    return make_uint4(c ^ c << 1 ^ c << 2 ^ c << 7, a.x ^ c >> 31 ^ c >> 30 ^ c >> 25, a.y, a.z);
}

// Times x^2048 = (x^128)^16 = x^112 + x^32 + x^16 + 1.
__device__ __forceinline__ uint4 times_x2048(uint4 a) {
    const uint32_t s0 = a.x << 16, s1 = __funnelshift_l(a.x, a.y, 16),
                   s2 = __funnelshift_l(a.y, a.z, 16), s3 = __funnelshift_l(a.z, a.w, 16),
                   s4 = a.w >> 16;
    return reduce(make_uint4(a.x ^ s0, a.y ^ s1 ^ a.x, a.z ^ s2 ^ a.y, a.w ^ s3 ^ a.z ^ s0),
                  make_uint4(s4 ^ a.w ^ s1, s2, s3, s4));
}

// Times x^count; takes time in proportion to the count, but no call.
__device__ __forceinline__ uint4 times_x_many(uint4 a, uint64_t count) {
#pragma unroll 1
    for (; count >= 2048; count -= 2048) a = times_x2048(a);
#pragma unroll 1
    for (; count >= 32; count -= 32) a = times_x32(a);
    return times_x_few(a, uint32_t(count));
}

// Times x^count, however large the count is.
inline __device__ uint4 times_x_any(uint4 a, uint64_t count) {
    if (count < 64 * 2048) return times_x_many(a, count);
    uint4 power = make_uint4(1, 0, 0, 0);
#pragma unroll 1
    for (int bit = 63 - __clzll(count); bit >= 0; bit--)
        power = times_x_few(square(power), uint32_t(count >> bit) & 1);
    return multiply(a, power);
}
