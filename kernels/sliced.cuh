// The last round of two blocks without tables.
//
// Lookups limit every kernel that encrypts, while the ALUs have time left. So the last round's 32
// lookups are calculated: bit k of all 32 bytes stands in word k (a slice), and the S-box is a
// circuit of functions of three slices, each one instruction. CTR gains 8 to 11 %; a second round
// computed this way would cost what it saves (see docs/performance.md).
#pragma once
#include "aes.cuh"

// Only where all four tables are in shared memory: with two, the ALUs also rotate what is looked
// up.
constexpr bool SLICED = WARPLOCK_ALL_TABLES;

// Output of a gate: bit a + 2b + 4c of `table`, for the bits a, b, c of three signals. Signals 0 to
// 7 are the input's bits from the highest on, signal 8 + i is gate i.
struct Gate {
    uint8_t a, b, c, table;
};

struct SubBytes {
    static constexpr int GATES = 71;
    static constexpr Gate gates[GATES] = {
        {5, 0, 0, 0x5a}, {3, 2, 8, 0x96}, {2, 9, 5, 0x96}, {10, 6, 4, 0x96}, {11, 1, 5, 0x96},
        {12, 0, 10, 0x50}, {0, 8, 10, 0x3c}, {9, 13, 14, 0x6c}, {7, 0, 11, 0x5a}, {9, 10, 12, 0x96},
        {6, 16, 17, 0x96}, {4, 9, 3, 0x96}, {9, 11, 19, 0x06}, {6, 18, 20, 0xb4},
        {15, 21, 19, 0x96}, {0, 17, 16, 0x96}, {10, 0, 23, 0x5a}, {18, 0, 8, 0x5a},
        {11, 25, 24, 0x28}, {24, 7, 26, 0x78}, {17, 8, 13, 0x78}, {0, 27, 28, 0x3c},
        {8, 29, 17, 0x96}, {16, 25, 26, 0x78}, {15, 12, 31, 0x96}, {30, 22, 32, 0x6a},
        {9, 17, 7, 0x96}, {23, 34, 20, 0xb4}, {35, 28, 23, 0x96}, {22, 33, 36, 0xb8},
        {36, 30, 33, 0x2d}, {32, 30, 38, 0xe4}, {36, 38, 22, 0xca}, {39, 0, 40, 0x5a},
        {41, 32, 36, 0x8a}, {32, 33, 42, 0xac}, {39, 43, 37, 0x96}, {37, 23, 44, 0x48},
        {7, 0, 37, 0xa0}, {43, 6, 0, 0x28}, {43, 47, 19, 0x28}, {0, 40, 37, 0x3c},
        {48, 11, 49, 0x6a}, {46, 50, 47, 0x96}, {41, 0, 17, 0xa0}, {44, 14, 41, 0x48},
        {44, 10, 53, 0x78}, {39, 0, 23, 0x28}, {0, 54, 55, 0x3c}, {43, 9, 49, 0x48},
        {52, 56, 57, 0x96}, {45, 51, 58, 0x96}, {0, 25, 40, 0xc0}, {60, 37, 24, 0x6a},
        {0, 59, 61, 0x3c}, {39, 34, 43, 0x48}, {39, 63, 18, 0x6c}, {64, 51, 54, 0x69},
        {24, 49, 25, 0x48}, {66, 60, 56, 0x96}, {34, 7, 44, 0x60}, {57, 68, 48, 0x96},
        {0, 67, 69, 0x3c}, {40, 16, 67, 0x78}, {50, 0, 71, 0x5a}, {55, 59, 69, 0x96},
        {59, 72, 73, 0x69}, {63, 46, 71, 0x96}, {64, 47, 58, 0x69}, {8, 53, 41, 0x6c},
        {0, 73, 77, 0xc3}};
    // From the highest bit on.
    static constexpr uint8_t outputs[8] = {70, 74, 78, 72, 75, 62, 76, 65};
};

struct SubBytesBack {
    static constexpr int GATES = 78;
    static constexpr Gate gates[GATES] = {
        {2, 5, 0, 0x69}, {0, 3, 4, 0x3c}, {7, 3, 9, 0x96}, {10, 1, 0, 0x96}, {6, 11, 0, 0x69},
        {3, 4, 12, 0x96}, {13, 2, 0, 0x99}, {9, 8, 14, 0x96}, {1, 3, 0, 0x99}, {16, 0, 0, 0x5a},
        {8, 0, 17, 0x5a}, {13, 16, 9, 0x96}, {17, 0, 4, 0x5a}, {18, 19, 20, 0x28},
        {1, 17, 21, 0x78}, {10, 15, 20, 0x69}, {9, 0, 15, 0x0a}, {23, 20, 24, 0x78},
        {15, 22, 25, 0x96}, {16, 19, 6, 0x82}, {19, 14, 6, 0x28}, {25, 27, 28, 0x96},
        {6, 14, 29, 0x69}, {3, 0, 17, 0x5a}, {11, 31, 24, 0x78}, {28, 12, 14, 0x9a},
        {12, 32, 33, 0x96}, {26, 30, 34, 0x78}, {21, 8, 13, 0x6a}, {10, 36, 32, 0x69},
        {35, 37, 26, 0xe4}, {35, 37, 34, 0x6a}, {30, 39, 37, 0x39}, {30, 34, 40, 0xe2},
        {30, 34, 40, 0x4e}, {38, 41, 42, 0x96}, {8, 38, 43, 0x28}, {14, 0, 38, 0xa0},
        {20, 41, 19, 0x48}, {16, 31, 42, 0x60}, {39, 26, 37, 0x94}, {38, 0, 48, 0x5a},
        {41, 20, 49, 0x48}, {43, 50, 9, 0x6c}, {10, 48, 3, 0x84}, {51, 0, 52, 0x5a},
        {46, 47, 53, 0x96}, {42, 17, 54, 0x78}, {44, 45, 55, 0x96}, {18, 49, 23, 0x48},
        {41, 57, 18, 0x6c}, {55, 0, 58, 0x5a}, {19, 0, 49, 0xa0}, {58, 60, 44, 0x96},
        {61, 12, 38, 0x6a}, {42, 11, 48, 0x48}, {49, 41, 23, 0x60}, {63, 53, 64, 0x96},
        {62, 0, 65, 0x5a}, {48, 45, 16, 0x6c}, {65, 67, 60, 0x69}, {43, 9, 15, 0x28},
        {57, 69, 64, 0x96}, {52, 66, 70, 0x96}, {66, 68, 71, 0x69}, {56, 59, 72, 0x96},
        {31, 48, 42, 0x28}, {50, 71, 74, 0x69}, {38, 43, 13, 0x60}, {47, 66, 76, 0x96},
        {54, 0, 70, 0x5a}, {75, 77, 78, 0x69}, {75, 79, 59, 0x69}, {67, 61, 51, 0x69},
        {68, 81, 73, 0x96}, {77, 81, 75, 0x96}, {78, 59, 68, 0x69}, {83, 77, 56, 0x96}};
    static constexpr uint8_t outputs[8] = {72, 85, 80, 73, 83, 84, 82, 79};
};

// The circuit's result for one byte.
template <class Circuit>
constexpr uint32_t output_of(uint32_t input) {
    uint32_t signal[8 + Circuit::GATES] = {}, output = 0;
    for (int i = 0; i < 8; i++) signal[i] = input >> (7 - i) & 1;
    for (int i = 0; i < Circuit::GATES; i++) {
        const Gate& gate = Circuit::gates[i];
        signal[8 + i] =
            gate.table >> (signal[gate.a] + 2 * signal[gate.b] + 4 * signal[gate.c]) & 1;
    }
    for (int i = 0; i < 8; i++) output |= signal[Circuit::outputs[i]] << (7 - i);
    return output;
}

// The S-box is the second byte of a table's entry for encryption.
constexpr bool circuits_are_right() {
    const Entries table = entries();
    for (uint32_t of = 0; of < 256; of++) {
        const uint32_t s = table.encrypt[of] >> 8 & 0xff;
        if (output_of<SubBytes>(of) != s || output_of<SubBytesBack>(s) != of) return false;
    }
    return true;
}
static_assert(circuits_are_right(), "a circuit is not the S-box");

template <class Circuit, int I = 0>
__device__ __forceinline__ void run_gates(uint32_t (&signal)[8 + Circuit::GATES]) {
    if constexpr (I < Circuit::GATES) {
        constexpr Gate gate = Circuit::gates[I];
        // The instruction counts its operands from the other end.
        asm("lop3.b32 %0, %1, %2, %3, %4;"
            : "=r"(signal[8 + I])
            : "r"(signal[gate.c]), "r"(signal[gate.b]), "r"(signal[gate.a]), "n"(gate.table));
        run_gates<Circuit, I + 1>(signal);
    }
}

template <class Circuit, int I = 0>
__device__ __forceinline__ void take_outputs(uint32_t (&slices)[8],
                                             const uint32_t (&signal)[8 + Circuit::GATES]) {
    if constexpr (I < 8) {
        constexpr int from = Circuit::outputs[I];
        slices[7 - I] = signal[from];
        take_outputs<Circuit, I + 1>(slices, signal);
    }
}

// SubBytes of slices, the lowest bit's first.
template <class Circuit>
__device__ __forceinline__ void substitute(uint32_t (&slices)[8]) {
    uint32_t signal[8 + Circuit::GATES];
#pragma unroll
    for (int i = 0; i < 8; i++) signal[i] = slices[7 - i];
    run_gates<Circuit>(signal);
    take_outputs<Circuit>(slices, signal);
}

// Exchanges the bits of `a` outside of `MASK` with those of `b`, `BY` places lower, inside.
template <uint32_t MASK, int BY>
__device__ __forceinline__ void exchange(uint32_t& a, uint32_t& b) {
    // A multiplication shifts, on a unit that has time.
    const uint32_t up = b * (1u << BY), down = a >> BY;
    a = choose<MASK>(a, up);
    b = choose<MASK>(down, b);
}

// Words to slices and back: bit k of byte p in word j becomes bit j of byte p in word k.
__device__ __forceinline__ void transpose(uint32_t (&w)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) exchange<0x0f0f0f0f, 4>(w[i], w[i + 4]);
#pragma unroll
    for (int i = 0; i < 8; i += i & 1 ? 3 : 1) exchange<0x33333333, 2>(w[i], w[i + 2]);
#pragma unroll
    for (int i = 0; i < 8; i += 2) exchange<0x55555555, 1>(w[i], w[i + 1]);
}

template <bool DECRYPT>
__device__ __forceinline__ uint4 shift_rows(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    if constexpr (DECRYPT)
        return make_uint4(last_column(x, w, z, y), last_column(y, x, w, z),
                          last_column(z, y, x, w), last_column(w, z, y, x));
    else
        return make_uint4(last_column(x, y, z, w), last_column(y, z, w, x),
                          last_column(z, w, x, y), last_column(w, x, y, z));
}

// Rounds `FIRST` to the last of two states, as `rounds_from`.
template <bool DECRYPT, int ROUNDS, int FIRST = 1, class Lane>
__device__ __forceinline__ void rounds_of_two(Lane t, uint4& a, uint4& b, const RoundKeys& keys) {
#pragma unroll
    for (int round = FIRST; round < ROUNDS; round++) {
        a = inner_round<DECRYPT>(t, a, keys.round[round]);
        b = inner_round<DECRYPT>(t, b, keys.round[round]);
    }
    uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    transpose(w);
    if constexpr (DECRYPT) substitute<SubBytesBack>(w);
    else substitute<SubBytes>(w);
    transpose(w);
    a = shift_rows<DECRYPT>(w[0], w[1], w[2], w[3]) ^ keys.round[ROUNDS];
    b = shift_rows<DECRYPT>(w[4], w[5], w[6], w[7]) ^ keys.round[ROUNDS];
}
