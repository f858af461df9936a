// All kernels, one module.
#include "abi_sizes.cuh"
#include "cbc_encrypt.cuh"
#include "ctr.cuh"
#include "ctr_long.cuh"
#include "flat.cuh"
#include "gcm.cuh"
#include "gcm_small.cuh"
#include "keys.cuh"
