// What the host passes to kernels: the same structures as in
// crates/warplock/src/cuda/launch/abi.rs.
// All addresses are device addresses; every size is in bytes unless it says blocks (of 16 bytes).
#pragma once
#include <stdint.h>

// Round keys of one key and direction, 16 bytes a round as in FIPS 197, as four little-endian
// words. For decryption those of the equivalent inverse cipher (5.3.5).
struct RoundKeys {
    uint4 round[15];
};

// A key of a table: what `expand_keys` derives from raw bytes.
struct TableKey {
    RoundKeys encrypt;
    RoundKeys decrypt; // only where the mode needs it
    RoundKeys tweak;   // XTS: the second key's encryption schedule
    uint4 hash;        // GCM: E(0), as stored bytes
};

// A message, or a piece of a long one.
struct Piece {
    const uint8_t* input;
    uint8_t* output; // equal to input when in place
    uint64_t len;    // a multiple of 16 unless the message ends here
    uint64_t before; // bytes of the message before this piece; a multiple of 16 (CTR, XTS, GCM)
    const uint8_t* iv; // 16 bytes: start counter, tweak, or the block before the first (CBC).
                       // GCM: unused
    uint32_t key;     // place in the table of keys; 0 with one key
    uint32_t message; // GCM: place in the array of GcmMessage; else unused
    uint64_t after;   // bytes of the message after this piece (GCM)

#ifdef __CUDACC__
    __device__ __forceinline__ uint64_t after_blocks() const { return (after + 15) / 16; }
#endif
};

// One message of GCM; the host fills the first part, `gcm_prepare` the second.
struct GcmMessage {
    const uint8_t* iv;
    const uint8_t* aad;
    uint8_t* tag; // written when sealing, read when opening
    uint64_t iv_len;
    uint64_t aad_len;
    uint64_t len; // text bytes of the whole message
    uint32_t key; // place in the table of keys; 0 with one key
    uint32_t failed; // 1 after opening, if the tag was wrong
    uint4 counter; // J0
    uint4 mask;    // E(J0)
    uint4 hash;    // running sum of GHASH, natural bit order
};

// One message of ACORN. Neighbours in the array share a warp, and should have about the same
// lengths.
struct AcornMessage {
    const uint8_t* input;
    uint8_t* output; // equal to input when in place
    uint64_t len;
    const uint8_t* aad;
    uint64_t aad_len;
    const uint8_t* iv;
    uint8_t* tag;    // written when sealing, read when opening
    uint32_t key;    // place in the table of raw keys
    uint32_t number; // place in the array of verdicts
};

// The work of a launch, cut into units: blocks for `flat` kernels, rows of 32 blocks for `ctr` and
// `gcm`, messages for `cbc_encrypt`, `gcm_small`.
struct Work {
    const Piece* pieces;
    const uint64_t* starts; // count + 1 sums of units; null: every piece has `each` units
    uint64_t each;
    uint64_t units; // all units together, or a bound (all_units)
    uint64_t count; // pieces
};

constexpr uint32_t FEW_BYTES = 3840; // the longest that `put` writes

constexpr uint32_t INVERSES = 320;

// What a GCM key is expanded to, in natural bit order: powers[d][v] = H^(v * 256^d), inverse[v] =
// H^-v.
struct GcmPowers {
    uint4 powers[5][256];
    uint4 inverse[INVERSES];
};
