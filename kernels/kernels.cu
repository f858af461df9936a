// The whole module: one fatbin, in which the host finds kernels by name.
#include "abi_sizes.cuh"
extern "C" __global__ void __launch_bounds__(1024) ecb_encrypt_128(const __grid_constant__ Work blocks, const __grid_constant__ RoundKeys keys) { if (blocks.units == 0) blocks.pieces[0].output[0] = keys.round[0].x; }
extern "C" __device__ const uint32_t shared_flat = 131072;
