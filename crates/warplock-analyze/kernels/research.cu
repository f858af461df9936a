// The pad cipher that is not secure, for study: its pad, and the fitness of its generators.
#include <cstdint>

// All operations take the same instructions: masks choose the words, so that no thread branches and
// no word is addressed by a number. As operands they come from the constant bank, and take no
// registers.
struct Operation {
    // All ones for the word that changes, and for the one that is combined with it.
    uint32_t to[4], from[4];
    // All ones if the two are added, zero if they are XORed.
    uint32_t adds;
    uint32_t rotate;
};
struct Generator {
    Operation operations[4];
};
struct State {
    uint32_t word[4];
};

constexpr uint32_t CONSTANT = 0x9e3779b9;
constexpr uint32_t WARM_UP = 6;
// Bytes of the text that one chain of states makes the pad for.
constexpr uint32_t SEGMENT = 4096;

__device__ __forceinline__ void step(State& state, const Generator& generator) {
    uint32_t(&word)[4] = state.word;
    word[0] += CONSTANT;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const Operation& one = generator.operations[i];
        uint32_t a = 0, b = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            a |= word[j] & one.to[j];
            b |= word[j] & one.from[j];
        }
        // a + b is the XOR plus twice the carries.
        const uint32_t sum = (a ^ b) + ((a & b & one.adds) << 1);
        const uint32_t turned = __funnelshift_l(sum, sum, one.rotate);
#pragma unroll
        for (int j = 0; j < 4; j++) word[j] = (turned & one.to[j]) | (word[j] & ~one.to[j]);
    }
}

__device__ __forceinline__ State start(State state, uint64_t segment, const Generator& generator) {
    state.word[2] ^= uint32_t(segment >> 32);
    state.word[3] ^= uint32_t(segment);
    for (uint32_t i = 0; i < WARM_UP; i++) step(state, generator);
    return state;
}

constexpr uint32_t PAD_THREADS = 128;
// Bytes of a segment that are made before they are used: a cache line. In shared memory 16 more, so
// that rows begin at different banks.
constexpr uint32_t ROW = 128;

// Writes the text XOR the pad; `state` is the key XOR the IV. A lane has a segment; the text is read
// and written in whole cache lines, so the pad goes through shared memory. About 80 instructions
// make 16 bytes: 25 bytes a cycle on each multiprocessor, where memory can read and write 10.
extern "C" __global__ void __launch_bounds__(PAD_THREADS)
pad(Generator generator, State state, const uint8_t* in, uint8_t* out, uint64_t len) {
    __shared__ uint4 rows[PAD_THREADS][ROW / 16 + 1];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x - lane;
    const uint64_t first = uint64_t(blockIdx.x) * PAD_THREADS + warp;
    const uint64_t address = reinterpret_cast<uint64_t>(in) | reinterpret_cast<uint64_t>(out);
    const bool is_aligned = (address & 15) == 0;
    // The same for all lanes of a warp.
    if (first * SEGMENT >= len) return;
    state = start(state, first + lane, generator);
    for (uint32_t done = 0; done < SEGMENT; done += ROW) {
        for (uint32_t i = 0; i < ROW / 16; i++) {
            step(state, generator);
            const uint32_t(&word)[4] = state.word;
            rows[threadIdx.x][i] = make_uint4(word[0], word[1], word[2], word[3]);
        }
        __syncwarp();
        for (uint32_t row = lane / 8; row < 32; row += 4) {
            const uint64_t at = (first + row) * SEGMENT + done + 16 * (lane % 8);
            const uint4 own = rows[warp + row][lane % 8];
            if (is_aligned && at + 16 <= len) {
                uint4 text = *reinterpret_cast<const uint4*>(in + at);
                text.x ^= own.x;
                text.y ^= own.y;
                text.z ^= own.z;
                text.w ^= own.w;
                *reinterpret_cast<uint4*>(out + at) = text;
            } else {
                const uint32_t word[4] = {own.x, own.y, own.z, own.w};
#pragma unroll
                for (uint32_t i = 0; i < 16; i++)
                    if (at + i < len) out[at + i] = in[at + i] ^ uint8_t(word[i / 4] >> 8 * (i % 4));
            }
        }
        __syncwarp();
    }
}

constexpr uint32_t EDGE = 64;
constexpr uint32_t PAD_BYTES = EDGE * EDGE;
constexpr uint32_t SCORES = 6;
constexpr uint32_t FITNESS_THREADS = 128;

// A generator under a key and IV, and with one bit of the key changed.
struct Sample {
    Generator generator;
    State state, other;
};
// What random data has: histogram, entropy, NPCR, UACI, correlation horizontally and vertically.
struct Reference {
    double expected[SCORES], deviation[SCORES];
    double worst;
};

// Sums of pairs.
struct Pairs {
    uint32_t n, x, y, xx, yy, xy;

    __device__ void add(uint32_t a, uint32_t b) {
        n += 1;
        x += a;
        y += b;
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
};

// As on the CPU: the integers are exact in a double, and each operation is rounded once.
__device__ double coefficient(const Pairs& sums) {
    const auto moment = [&](uint32_t ab, uint32_t a, uint32_t b) {
        return int64_t(sums.n) * ab - int64_t(a) * b;
    };
    const int64_t x = moment(sums.xx, sums.x, sums.x), y = moment(sums.yy, sums.y, sums.y);
    if (x <= 0 || y <= 0) return __longlong_as_double(0x7ff8000000000000);
    const double root = __dmul_rn(__dsqrt_rn(double(x)), __dsqrt_rn(double(y)));
    return __ddiv_rn(double(moment(sums.xy, sums.x, sums.y)), root);
}

// The squared distances of six statistics from what is expected, in standard deviations, for each
// sample: a block. `terms[n]` is n times the logarithm of the share of n bytes. The floating-point
// operations are those of the CPU in the same order, and never fused.
extern "C" __global__ void __launch_bounds__(FITNESS_THREADS)
fitness(const Sample* samples, const double* terms, Reference reference, double* out) {
    __shared__ uint32_t pads[2][PAD_BYTES / 4];
    __shared__ uint32_t counts[256];
    // Of pairs horizontally and vertically; then differing bytes, and their distance.
    __shared__ uint32_t sums[2][6], differing, distance;
    for (uint32_t i = threadIdx.x; i < 256; i += FITNESS_THREADS) counts[i] = 0;
    if (threadIdx.x < 12) sums[threadIdx.x / 6][threadIdx.x % 6] = 0;
    if (threadIdx.x == 12) differing = distance = 0;
    // A chain is serial: a lane each, of two warps.
    if (threadIdx.x % 32 == 0 && threadIdx.x < 64) {
        const uint32_t which = threadIdx.x / 32;
        const Sample& sample = samples[blockIdx.x];
        const Generator generator = sample.generator;
        State state = start(which == 0 ? sample.state : sample.other, 0, generator);
        for (uint32_t i = 0; i < PAD_BYTES / 16; i++) {
            step(state, generator);
            for (int j = 0; j < 4; j++) pads[which][4 * i + j] = state.word[j];
        }
    }
    __syncthreads();
    const uint8_t* own = reinterpret_cast<const uint8_t*>(pads[0]);
    const uint8_t* other = reinterpret_cast<const uint8_t*>(pads[1]);
    Pairs right = {}, below = {};
    uint32_t differ = 0, distances = 0;
    for (uint32_t i = threadIdx.x; i < PAD_BYTES; i += FITNESS_THREADS) {
        const uint32_t byte = own[i];
        atomicAdd(&counts[byte], 1);
        if (i % EDGE != EDGE - 1) right.add(byte, own[i + 1]);
        if (i < PAD_BYTES - EDGE) below.add(byte, own[i + EDGE]);
        differ += byte != other[i];
        distances += byte > other[i] ? byte - other[i] : other[i] - byte;
    }
    const uint32_t found[2][6] = {{right.n, right.x, right.y, right.xx, right.yy, right.xy},
                                  {below.n, below.x, below.y, below.xx, below.yy, below.xy}};
    for (int i = 0; i < 12; i++) atomicAdd(&sums[i / 6][i % 6], found[i / 6][i % 6]);
    atomicAdd(&differing, differ);
    atomicAdd(&distance, distances);
    __syncthreads();

    // Thread 0 of each warp has one or two results.
    if (threadIdx.x % 32 != 0) return;
    const auto write = [&](uint32_t which, double value) {
        const double distant = __dsub_rn(value, reference.expected[which]);
        const double z = __ddiv_rn(distant, reference.deviation[which]);
        const double square = __dmul_rn(z, z);
        // Also if it is undefined.
        out[SCORES * blockIdx.x + which] = square < reference.worst ? square : reference.worst;
    };
    switch (threadIdx.x / 32) {
    case 0: {
        constexpr double EXPECTED = PAD_BYTES / 256;
        double sum = 0;
        for (int i = 0; i < 256; i++) {
            const double off = __dsub_rn(double(counts[i]), EXPECTED);
            sum = __dadd_rn(sum, __dmul_rn(off, off));
        }
        write(0, __ddiv_rn(sum, EXPECTED));
        break;
    }
    case 1: {
        double sum = 0;
        for (int i = 0; i < 256; i++) sum = __dadd_rn(sum, terms[counts[i]]);
        const double bits = __ddiv_rn(-sum, double(PAD_BYTES));
        write(1, bits > 0 ? bits : 0);
        break;
    }
    case 2: {
        const double len = PAD_BYTES;
        write(2, __dmul_rn(100.0, __ddiv_rn(double(differing), len)));
        write(3, __dmul_rn(100.0, __ddiv_rn(double(distance), __dmul_rn(255.0, len))));
        break;
    }
    default:
        for (int i = 0; i < 2; i++) {
            const uint32_t(&s)[6] = sums[i];
            write(4 + i, coefficient(Pairs{s[0], s[1], s[2], s[3], s[4], s[5]}));
        }
    }
}
