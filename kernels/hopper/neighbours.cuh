// Which multiprocessors are of one GPC: gcm_split.cuh is told which of them may hash.
#pragma once
#include <stdint.h>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Records on which multiprocessor each block runs. The blocks of a cluster are neighbours.
__device__ __forceinline__ void say_where(uint32_t* out) {
    if (threadIdx.x != 0) return;
    uint32_t multiprocessor;
    asm("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    out[blockIdx.x] = multiprocessor;
    // So that other blocks get other multiprocessors, as far as there are any.
    const uint64_t from = clock64();
    while (clock64() - from < 10000) {}
}
#define WARPLOCK_NEIGHBOURS(N)                                                                  \
    extern "C" __global__ void __cluster_dims__(N) __launch_bounds__(32)                        \
        neighbours_##N(uint32_t* out) {                                                         \
        say_where(out);                                                                         \
    }
WARPLOCK_NEIGHBOURS(2)
WARPLOCK_NEIGHBOURS(3)
WARPLOCK_NEIGHBOURS(4)
WARPLOCK_NEIGHBOURS(5)
WARPLOCK_NEIGHBOURS(6)
WARPLOCK_NEIGHBOURS(7)
WARPLOCK_NEIGHBOURS(8)

#endif
