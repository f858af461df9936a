// The whole module: one fatbin, in which the host finds kernels by name.
#include <stddef.h>
#include "abi.cuh"
extern "C" __global__ void __launch_bounds__(1024) ecb_encrypt_128(const __grid_constant__ Work blocks, const __grid_constant__ RoundKeys keys) { if (blocks.units == 0) blocks.pieces[0].output[0] = keys.round[0].x; }
extern "C" __device__ const uint32_t shared_flat = 131072;

// The other side, crates/warplock/src/cuda/abi.rs, checks the same numbers.
static_assert(sizeof(RoundKeys) == 240 && alignof(RoundKeys) == 16, "RoundKeys");
static_assert(sizeof(TableKey) == 736, "TableKey");
static_assert(sizeof(Piece) == 56 && offsetof(Piece, after) == 48, "Piece");
static_assert(sizeof(GcmMessage) == 112 && alignof(GcmMessage) == 16, "GcmMessage");
static_assert(offsetof(GcmMessage, failed) == 52 && offsetof(GcmMessage, counter) == 64, "GcmMessage");
static_assert(sizeof(Work) == 40, "Work");
static_assert(sizeof(GcmPowers) == 20480, "GcmPowers");
