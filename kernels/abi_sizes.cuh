// Both sides must have the same layout: crates/warplock/src/cuda/launch/abi.rs has the same
// numbers.
#pragma once
#include <stddef.h>
#include "hopper/gcm_split.cuh"
#include "spread.cuh"

static_assert(sizeof(RoundKeys) == 240 && alignof(RoundKeys) == 16, "RoundKeys");
static_assert(sizeof(TableKey) == 736, "TableKey");
static_assert(sizeof(Piece) == 56 && offsetof(Piece, after) == 48, "Piece");
static_assert(sizeof(GcmMessage) == 112 && alignof(GcmMessage) == 16, "GcmMessage");
static_assert(offsetof(GcmMessage, failed) == 52 && offsetof(GcmMessage, counter) == 64, "GcmMessage");
static_assert(sizeof(AcornMessage) == 64 && offsetof(AcornMessage, number) == 60, "AcornMessage");
static_assert(sizeof(Work) == 40, "Work");
static_assert(sizeof(Column) == 48 && sizeof(Spread) == 376, "Spread");
static_assert(offsetof(Spread, base) == 336, "Spread");
static_assert(sizeof(Classes) == 4 * 4096 + 16, "Classes");
static_assert(FEW_BYTES == 3840, "FewBytes");
static_assert(sizeof(GcmPowers) == 25600, "GcmPowers");
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
static_assert(offsetof(Split, tiles) == 512 && sizeof(Tile) == 2064, "Split");
static_assert(TILE == 32 && UNIT_BYTES == 16384, "units");
static_assert(SPLIT_THREADS == 768, "messages whose tags one block makes");
#endif
