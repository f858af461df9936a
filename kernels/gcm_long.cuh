// GCM (SP 800-38D) of long messages under one key, with a division of labour.
//
// In gcm.cuh a warp encrypts rows and then hashes them, and the unit that it does not use at the
// time is idle. Here four warps encrypt, and a fifth hashes at the same time what they have
// written: a team. Ciphertext passes through shared memory, in steps of eight rows. Rows that a
// step does not have are zeros after the message, whose power of H is removed at the end.
//
// The limits are shared memory and the clock: as soon as a multiprocessor uses its tensor cores,
// its GPC slows down from 1.98 to 1.83 GHz, however few products are computed (see
// docs/performance.md). On Hopper the hash warps take over registers that cipher warps do not need,
// and keep their strings in them.
#pragma once
#include "gcm.cuh"

constexpr uint32_t TEAMS = 4, CIPHER_WARPS = 4; // of a team
constexpr uint32_t TEAM_WARPS = TEAMS * CIPHER_WARPS;
constexpr uint32_t GCM_LONG_THREADS = 32 * (TEAM_WARPS + TEAMS);
constexpr int STEP_ROWS = 8;
constexpr uint32_t ROWS_EACH = STEP_ROWS / CIPHER_WARPS;
constexpr uint32_t STEP_BYTES = 512 * STEP_ROWS;
constexpr uint32_t STRINGS_AT = TABLES;
constexpr uint32_t STEPS_AT = STRINGS_AT + (STRING_BYTES<STEP_ROWS / 4> + 127) / 128 * 128;
constexpr uint32_t CHAPTERS_AT = STEPS_AT + TEAMS * STEP_BYTES;
constexpr uint32_t CHAPTERS = 3;        // of a team
constexpr uint32_t CHAPTER_BYTES = 608; // a Chapter, and the `far` of 32 groups of counters
constexpr uint32_t GCM_LONG_SHARED = CHAPTERS_AT + TEAMS * CHAPTERS * CHAPTER_BYTES;

// Barriers of a team: its first chapters are ready; a step was written; a step was read.
constexpr uint32_t BEGUN = 0, WRITTEN = 1, READ = 2;
__device__ __forceinline__ uint32_t barrier_of(uint32_t team, uint32_t which) {
    return 1 + 3 * team + which;
}
__device__ __forceinline__ void wait_for(uint32_t barrier) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "n"(32 * (CIPHER_WARPS + 1))
                 : "memory");
}
__device__ __forceinline__ void signal(uint32_t barrier) {
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(barrier), "n"(32 * (CIPHER_WARPS + 1))
                 : "memory");
}

// Registers pass from cipher warps to hash warps where the chip can do that.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool HOLDS_STRINGS = true;
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 80;");
}
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
}
#else
constexpr bool HOLDS_STRINGS = false;
__device__ __forceinline__ void give_registers() {}
__device__ __forceinline__ void take_registers() {}
#endif

// Two rows of a quad as the tensor cores take them, so that the hash warp need not move words
// about: [word][pair][lane][2].
__device__ __forceinline__ void store_pair(uint32_t at, const uint4 (&rows)[2]) {
    const auto store = [at](uint32_t word, uint32_t a, uint32_t b) {
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at + 512 * word), "r"(a), "r"(b)
                     : "memory");
    };
    store(0, rows[0].x, rows[1].x);
    store(1, rows[0].y, rows[1].y);
    store(2, rows[0].z, rows[1].z);
    store(3, rows[0].w, rows[1].w);
}

__device__ __forceinline__ Quad load_quad(uint32_t at) {
    Quad quad;
#pragma unroll
    for (uint32_t word = 0; word < 4; word++) {
        uint4& four = quad.words[word];
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%4];\n\tld.shared.v2.u32 {%2, %3}, [%4 + 256];"
                     : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
                     : "r"(at + 512 * word)
                     : "memory");
    }
    return quad;
}

// A team's next work: up to 31 steps of one portion, as many as 32 groups of counters suffice for.
// The hash warp prepares chapters two ahead, so that cipher warps wait neither for global memory
// nor for each other where short messages begin.
struct Chapter {
    const uint8_t* input; // its first row
    uint8_t* output;
    uint64_t left;    // bytes of the piece from there on
    uint64_t behind;  // blocks of the message after it
    Counter start;    // of its first block
    uint32_t rows;    // 0: all is done
    uint32_t message;
    uint32_t last;    // of its portion
    uint32_t beyond;  // blocks of zeros that its last step has after the portion
    // Where the next chapter begins: among all rows, the team's last row, and the piece. Kept here
    // because the hash warp has no registers to spare.
    Range rest;
    uint64_t piece;
    uint32_t next_message;
};
static_assert(sizeof(Chapter) + 512 == CHAPTER_BYTES, "the header, and 32 blocks");

__device__ __forceinline__ uint32_t chapter_at(uint32_t team, uint32_t slot) {
    return CHAPTERS_AT + (team * CHAPTERS + slot) * CHAPTER_BYTES;
}
__device__ __forceinline__ Chapter& chapter_of(uint32_t team, uint32_t slot) {
    return *reinterpret_cast<Chapter*>(shared + chapter_at(team, slot));
}

// A team's share of all rows.
__device__ __forceinline__ Range rows_of(const Work& work, uint32_t team) {
    const uint64_t units = all_units(work);
    const Range steps = share((units + STEP_ROWS - 1) / STEP_ROWS, blockIdx.x * TEAMS + team,
                              gridDim.x * TEAMS);
    const uint64_t to = STEP_ROWS * steps.to;
    return {STEP_ROWS * steps.from, to < units ? to : units};
}

__device__ __forceinline__ uint32_t slot_before(uint32_t slot) {
    return slot == 0 ? CHAPTERS - 1 : slot - 1;
}

// Prepares the chapter that follows the one in the slot before; takes a whole warp.
__device__ __forceinline__ void make_chapter(const Work& work, const GcmMessage* messages,
                                             const RoundKeys& keys, bool plain, Lane t,
                                             uint32_t team, uint32_t slot) {
    const Chapter& before = chapter_of(team, slot_before(slot));
    Chapter chapter = {};
    chapter.rest = before.rest;
    uint64_t piece = before.piece;
    if (chapter.rest.from < chapter.rest.to) {
        uint64_t end = first_unit(work, piece + 1);
        while (end <= chapter.rest.from) end = first_unit(work, ++piece + 1);
        const Piece& text = work.pieces[piece];
        const GcmMessage& message = messages[text.message];
        const uint4 counter = plain ? standard_counter(message.iv) : message.counter;
        const uint64_t rows = (end < chapter.rest.to ? end : chapter.rest.to) - chapter.rest.from;
        const uint64_t from = chapter.rest.from - first_unit(work, piece);
        // The last of 32 groups is only ever the second of a step.
        chapter.last = rows <= 31 * STEP_ROWS;
        chapter.rows = chapter.last ? uint32_t(rows) : 31 * STEP_ROWS;
        chapter.rest.from += chapter.rows;
        chapter.piece = piece;
        chapter.next_message = work.pieces[piece + 1 < work.count ? piece + 1 : piece].message;
        chapter.input = text.input + 512 * from;
        chapter.output = text.output + 512 * from;
        chapter.left = text.len - 512 * from;
        chapter.message = text.message;
        const uint64_t blocks = (chapter.left + 15) / 16;
        const uint64_t mine = 32 * chapter.rows < blocks ? 32 * chapter.rows : blocks;
        chapter.behind = text.after_blocks() + blocks - mine;
        chapter.beyond =
            32 * STEP_ROWS * ((chapter.rows + STEP_ROWS - 1) / STEP_ROWS) - uint32_t(mine);
        chapter.start = Counter::of(counter).plus32(1 + text.before / 16 + 32 * from);
        const uint4 block = chapter.start.plus32(256 * t.number()).block();
        store_shared(SHARED_BASE + chapter_at(team, slot) + sizeof(Chapter) + 16 * t.number(),
                     far_part(t, block, keys));
    }
    if (t.number() == 0) chapter_of(team, slot) = chapter;
    __syncwarp();
}

// Prefetches the next piece's message into the cache, without waiting.
__device__ __forceinline__ void fetch(const GcmMessage& message, bool plain) {
    [[maybe_unused]] uint32_t word;
    const void* at = plain ? static_cast<const void*>(&message.iv) : &message.counter;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(at));
}

// The masks of plain messages that begin in a team's rows: those of gcm_prepare, made by warps that
// have tables anyway.
template <int ROUNDS>
__device__ __forceinline__ void make_masks(const Work& work, GcmMessage* messages,
                                           const RoundKeys& keys, Lane t, uint32_t team,
                                           uint32_t place) {
    const Range rows = rows_of(work, team);
    if (rows.from >= rows.to) return;
    const uint64_t last = find_piece(work, rows.to - 1);
    for (uint64_t i = find_piece(work, rows.from) + place; i <= last; i += 32 * CIPHER_WARPS)
        if (first_unit(work, i) >= rows.from)
            messages[i].mask = cipher<false, ROUNDS>(t, standard_counter(messages[i].iv), keys);
}

template <int ROUNDS, bool DECRYPT>
__device__ __forceinline__ void encipher(const Work& work, GcmMessage* messages,
                                         const RoundKeys& keys, bool plain) {
    give_registers();
    const Lane t = Lane::here();
    const uint32_t lane = t.number(), warp = threadIdx.x >> 5;
    const uint32_t team = warp / CIPHER_WARPS, first = warp % CIPHER_WARPS * ROWS_EACH;
    const uint32_t pair_at = SHARED_BASE + STEPS_AT + team * STEP_BYTES + first / 4 * 2048 +
                             first % 4 / 2 * 256 + 8 * lane;
    const uint32_t begun = barrier_of(team, BEGUN), written = barrier_of(team, WRITTEN),
                   read = barrier_of(team, READ);
    if (plain) make_masks<ROUNDS>(work, messages, keys, t, team, 32 * (warp % CIPHER_WARPS) + lane);
    wait_for(begun);

    for (uint32_t slot = 0;; slot = slot + 1 == CHAPTERS ? 0 : slot + 1) {
        const Chapter& chapter = chapter_of(team, slot);
        uint32_t rows = chapter.rows; // left
        if (rows == 0) break;
        uint4 near[ROWS_EACH];
        uint32_t group[ROWS_EACH]; // `far` in the first step
#pragma unroll
        for (uint32_t i = 0; i < ROWS_EACH; i++) {
            const uint32_t place = 32 * (first + i) + lane;
            const Counter start = chapter.start;
            near[i] = near_part(t, near_column(t, start.plus32(place).block(), keys));
            group[i] = SHARED_BASE + chapter_at(team, slot) + sizeof(Chapter) +
                       16 * ((uint32_t(start.low & 255) + place) >> 8);
        }
        const uint32_t at = 512 * first + 16 * lane;
        const uint8_t* input = chapter.input + at;
        uint8_t* output = chapter.output + at;
        uint64_t left = chapter.left; // from this lane's block on, after the fast steps
        const bool even = aligned(chapter.input, 16) && aligned(chapter.output, 16);
        const uint64_t whole = left / STEP_BYTES;
        uint32_t fast = rows / STEP_ROWS < whole ? rows / STEP_ROWS : uint32_t(whole);
        const uint64_t skip = fast * STEP_BYTES + at;
        left = left > skip ? left - skip : 0;
        rows -= fast * STEP_ROWS;
        const auto steps = [&](auto is_even) {
#pragma unroll 1
            for (; fast > 0; fast--) {
                uint4 text[ROWS_EACH], result[ROWS_EACH];
#pragma unroll
                for (uint32_t i = 0; i < ROWS_EACH; i++)
                    text[i] = is_even.value ? load_aligned(input + 512 * i)
                                            : load_across(input + 512 * i);
#pragma unroll
                for (uint32_t i = 0; i < ROWS_EACH; i++)
                    result[i] = text[i] ^ rounds_from<false, ROUNDS, 3>(
                                              t, near[i] ^ load_shared(group[i]), keys);
                if constexpr (is_even.value) {
#pragma unroll
                    for (uint32_t i = 0; i < ROWS_EACH; i++)
                        store_aligned(output + 512 * i, result[i]);
                } else {
                    store_rows(output, result);
                }
                wait_for(read);
                store_pair(pair_at, DECRYPT ? text : result);
                signal(written);
                group[0] += 16, group[1] += 16;
                input += STEP_BYTES;
                output += STEP_BYTES;
            }
        };
        // The last step loads late, for want of registers.
#pragma unroll
        for (uint32_t i = 0; i < ROWS_EACH; i++)
            if (first + i < rows && left > 512 * i) prefetch(input + fast * STEP_BYTES + 512 * i);
        if (even) steps(Constant<true>{});
        else steps(Constant<false>{});
#pragma unroll 1
        while (rows > 0) {
            uint4 blocks[ROWS_EACH] = {};
#pragma unroll 1
            for (uint32_t i = 0; i < ROWS_EACH; i++) {
                const uint4 base = i == 0 ? near[0] : near[1];
                const uint32_t place = i == 0 ? group[0] : group[1];
                const uint4 stream =
                    rounds_from<false, ROUNDS, 3>(t, base ^ load_shared(place), keys);
                const uint32_t len =
                    first + i < rows && left > 512 * i ? block_len(left, 512 * i) : 0;
                const uint4 text = len ? load(input + 512 * i, len) : make_uint4(0, 0, 0, 0);
                const uint4 result = first_bytes(text ^ stream, len);
                if (__all_sync(~0u, len == 16)) store_rows<1>(output + 512 * i, {result});
                else store_row(output + 512 * i, result, len, lane > 0);
                blocks[1] = DECRYPT ? text : result;
                if (i == 0) blocks[0] = blocks[1], blocks[1] = make_uint4(0, 0, 0, 0);
            }
            wait_for(read);
            store_pair(pair_at, blocks);
            signal(written);
            group[0] += 16, group[1] += 16;
            input += STEP_BYTES;
            output += STEP_BYTES;
            rows = rows < STEP_ROWS ? 0 : rows - STEP_ROWS;
            left = left < STEP_BYTES ? 0 : left - STEP_BYTES;
        }
    }
    // The hash warp's last signal.
    wait_for(read);
}

__device__ __forceinline__ void hash(const Work& work, GcmMessage* messages, const RoundKeys& keys,
                                     const GcmPowers* powers, bool plain) {
    const Lane t = Lane::here();
    const uint32_t lane = t.number(), team = (threadIdx.x >> 5) - TEAM_WARPS;
    const uint32_t strings = SHARED_BASE + STRINGS_AT + 16 * lane;
    const uint32_t step_at = SHARED_BASE + STEPS_AT + team * STEP_BYTES + 8 * lane;
    const uint32_t begun = barrier_of(team, BEGUN), written = barrier_of(team, WRITTEN),
                   read = barrier_of(team, READ);
    take_registers();
    const auto held = [strings] {
        if constexpr (HOLDS_STRINGS) return StringsHeld<STEP_ROWS / 4>(strings);
        else return StringsAt{strings};
    }();
    if (lane == 0) {
        const Range rows = rows_of(work, team);
        Chapter& before = chapter_of(team, CHAPTERS - 1);
        before.rest = rows;
        before.piece = rows.from < rows.to ? find_piece(work, rows.from) : 0;
    }
    __syncwarp();
    make_chapter(work, messages, keys, plain, t, team, 0);
    make_chapter(work, messages, keys, plain, t, team, 1);
    signal(begun);
    signal(read);
    Running running = {};
    for (uint32_t slot = 0;; slot = slot + 1 == CHAPTERS ? 0 : slot + 1) {
        uint32_t steps = (chapter_of(team, slot).rows + STEP_ROWS - 1) / STEP_ROWS; // left
        if (steps == 0) break;
        // All warps have left the chapter before this one: its last step was written.
        make_chapter(work, messages, keys, plain, t, team, slot_before(slot));
#pragma unroll 1
        for (; steps > 0; steps--) {
            wait_for(written);
            Quad quads[STEP_ROWS / 4];
#pragma unroll
            for (uint32_t i = 0; i < STEP_ROWS / 4; i++) quads[i] = load_quad(step_at + 2048 * i);
            signal(read);
            quads[0].add(running);
            if constexpr (HOLDS_STRINGS) running = ghash_rows(held, quads);
            else
                running = ghash_rows(StringsAt{strings_anew<STEP_ROWS / 4>(strings, lane)}, quads);
        }
        // Keeps addresses from lying in registers throughout the loop.
        asm volatile("" : "+r"(slot));
        fetch(messages[chapter_of(team, slot_before(slot)).next_message], plain);
        const Chapter& chapter = chapter_of(team, slot);
        if (chapter.last) {
            const uint4 sum = join_groups(running, chapter.beyond, chapter.behind, powers);
            if (lane == 0) add_to(&messages[chapter.message].hash, sum);
            running = {};
        }
    }
}

template <int ROUNDS, bool DECRYPT>
__device__ __forceinline__ void gcm_long(const Work& work, GcmMessage* messages,
                                         const RoundKeys& keys, const GcmPowers* powers,
                                         bool plain) {
    fill_strings<STEP_ROWS / 4>(shared + STRINGS_AT, powers);
    fill_tables<false>();
    if (threadIdx.x < 32 * TEAM_WARPS) encipher<ROUNDS, DECRYPT>(work, messages, keys, plain);
    else hash(work, messages, keys, powers, plain);
}

#define WARPLOCK_GCM_LONG(SIZE, ROUNDS)                                                         \
    extern "C" __global__ void __launch_bounds__(GCM_LONG_THREADS, 1)                           \
        gcm_long_encrypt_##SIZE(const __grid_constant__ Work work, GcmMessage* messages,        \
                                const __grid_constant__ RoundKeys keys,                         \
                                const GcmPowers* powers, uint32_t plain) {                      \
        gcm_long<ROUNDS, false>(work, messages, keys, powers, plain);                           \
    }                                                                                           \
    extern "C" __global__ void __launch_bounds__(GCM_LONG_THREADS, 1)                           \
        gcm_long_decrypt_##SIZE(const __grid_constant__ Work work, GcmMessage* messages,        \
                                const __grid_constant__ RoundKeys keys,                         \
                                const GcmPowers* powers, uint32_t plain) {                      \
        gcm_long<ROUNDS, true>(work, messages, keys, powers, plain);                            \
    }
WARPLOCK_GCM_LONG(128, 10)
WARPLOCK_GCM_LONG(192, 12)
WARPLOCK_GCM_LONG(256, 14)
WARPLOCK_SHARED(gcm_long, HASHES ? GCM_LONG_SHARED : 0);
