/*
 * Warplock for C: symmetric encryption on CPUs and NVIDIA GPUs. C99 and later, C++ too.
 *
 * docs/c.md has a page for each task; warplock.hpp is a thin layer for C++17.
 *
 * Status. Almost every function returns a wl_status: WL_OK (0) or a WL_ERR number. The sentence that
 * says what was wrong is kept for each thread: wl_last_error. No function ends the program or throws.
 *
 * Handles (wl_engine, wl_key, ...) are made by a _new, _open or _generate function, which writes a
 * pointer, and are freed once with the _free function of their type. NULL, another type's handle and
 * most handles that were freed before are refused with WL_ERR_ARGUMENT, but do not rely on the last.
 *
 * Pointers must be valid for the length that goes with them. NULL is accepted where the length is 0
 * or where a comment says so, and refused everywhere else. Lengths are in bytes. Memory that a
 * function writes must not overlap other memory that it uses, unless a comment says so.
 *
 * Threads. Functions may be called by any thread at any time, with the same handles, except that
 * nothing may use a handle that is being freed or changed (wl_identities_add...).
 *
 * Waiting. Functions for host memory and files return when their result is there. Functions that
 * begin with wl_cuda say whether they wait.
 */

#ifndef WARPLOCK_H
#define WARPLOCK_H

/* Made by scripts/c-header from crates/warplock-ffi/src: change it there. */

#include <stddef.h>
#include <stdint.h>


/**
 * AES-128-ECB: for interoperability; equal blocks of text stay visible.
 */
#define WL_AES_128_ECB 1

/**
 * AES-192-ECB.
 */
#define WL_AES_192_ECB 2

/**
 * AES-256-ECB.
 */
#define WL_AES_256_ECB 3

/**
 * AES-128-CBC without padding: for interoperability; detects no modification.
 */
#define WL_AES_128_CBC 4

/**
 * AES-192-CBC.
 */
#define WL_AES_192_CBC 5

/**
 * AES-256-CBC.
 */
#define WL_AES_256_CBC 6

/**
 * AES-128-CTR with a 16-byte start counter: detects no modification.
 */
#define WL_AES_128_CTR 7

/**
 * AES-192-CTR.
 */
#define WL_AES_192_CTR 8

/**
 * AES-256-CTR.
 */
#define WL_AES_256_CTR 9

/**
 * AES-128-XTS for storage sectors, keys of 32 bytes: detects no modification.
 */
#define WL_AES_128_XTS 10

/**
 * AES-256-XTS, keys of 64 bytes.
 */
#define WL_AES_256_XTS 11

/**
 * AES-128-GCM: authenticated encryption.
 */
#define WL_AES_128_GCM 12

/**
 * AES-192-GCM.
 */
#define WL_AES_192_GCM 13

/**
 * AES-256-GCM: authenticated encryption, the one to use.
 */
#define WL_AES_256_GCM 14

/**
 * ACORN-128 v3: authenticated, for interoperability and research.
 */
#define WL_ACORN_128 15

/**
 * For `operation`: authenticated encryption.
 */
#define WL_SEAL 1

/**
 * For `operation`: verified decryption.
 */
#define WL_OPEN 2

/**
 * For `operation`: encryption with any algorithm, also one that detects no modification.
 */
#define WL_ENCRYPT 3

/**
 * For `operation`: decryption with any algorithm. With one that authenticates, the same as WL_OPEN.
 */
#define WL_DECRYPT 4

/**
 * For `nonce_mode`: the array `nonces` has wl_nonce_len bytes for each message. Encryption draws
 * fresh ones and writes them there; decryption reads them. In GPU memory only for algorithms that
 * authenticate.
 */
#define WL_NONCES_DRAWN 0

/**
 * For `nonce_mode`: the caller has filled the array. DANGER: no nonce may ever be used twice under
 * one key. A repetition inside one batch is refused in host memory.
 */
#define WL_NONCES_GIVEN 1

/**
 * For `nonce_mode`: as WL_NONCES_GIVEN, but each lies where `nonce_spans` says, for GCM with any
 * length.
 */
#define WL_NONCES_SPANS 2

/**
 * For `nonce_mode`, XTS only: message `i` is sector `first + i` of a disk.
 */
#define WL_NONCES_SECTORS 3

/**
 * For `nonce_mode`, in GPU memory only: message `i` has the nonce `nonce_base` XOR `first + i`, this
 * number big-endian in its last eight bytes, as TLS and the chunks of encrypted files have it. Not
 * for a plan that seals.
 */
#define WL_NONCES_XOR 4

/**
 * For `nonce_mode`: as WL_NONCES_XOR, but `first + i` is added to the last four bytes of
 * `nonce_base`, big-endian, modulo 2^32.
 */
#define WL_NONCES_ADD 5

/**
 * For `flags`: replace an existing output file.
 */
#define WL_REPLACE 1

/**
 * For `flags` of wl_rewrap_file: encrypt the content again under a fresh key.
 */
#define WL_REKEY 2

/**
 * For `flags` of wl_encrypt_file and wl_decrypt_file: the permissions and the time of modification of
 * the file go with it, encrypted, and come back.
 */
#define WL_ATTRIBUTES 4

/**
 * Bytes of a tag.
 */
#define WL_TAG_LEN 16

/**
 * Bytes of plaintext in a chunk.
 */
#define WL_CHUNK_LEN 16384

/**
 * Bytes of a stream's header.
 */
#define WL_HEADER_LEN 56

/**
 * Bytes of a stream's key.
 */
#define WL_STREAM_KEY_LEN 32

/**
 * Room for the recipient's text that wl_identity_create writes, with its zero byte.
 */
#define WL_RECIPIENT_SIZE 128

/**
 * The version of this header's interface. It grows by one with every addition; the library's
 * soname changes when anything that exists changes.
 */
#define WL_ABI_VERSION 2

/**
 * A GPU with the library's kernels. It uses the device's primary context, as the CUDA runtime does:
 * pointers and streams of the runtime, of PyTorch and of CuPy can be used with it. Threads may
 * share it.
 */
typedef struct wl_cuda_device wl_cuda_device;

/**
 * A key made ready on one GPU, for any number of calls of wl_cuda_enqueue. Threads may share it.
 */
typedef struct wl_cuda_key wl_cuda_key;

/**
 * A batch in GPU memory, checked and prepared once, for any number of launches. It reads texts,
 * nonces, associated data and tags again at every launch; their places and lengths are fixed.
 */
typedef struct wl_cuda_plan wl_cuda_plan;

/**
 * Runs batches on the CPU, on GPUs, or on both. Make one and keep it: threads may share it.
 * After fork(), the child makes its own.
 */
typedef struct wl_engine wl_engine;

/**
 * What opens encrypted files: secret identities and passphrases. Threads may share it while none of
 * them changes it. It is wiped when it is freed.
 */
typedef struct wl_identities wl_identities;

/**
 * A secret key for one algorithm. It never changes: threads may share it. Its memory is wiped when
 * it is freed.
 */
typedef struct wl_key wl_key;

/**
 * Several keys for one algorithm, from which the messages of a batch choose by number. It never
 * changes: threads may share it. Its memory is wiped when it is freed.
 */
typedef struct wl_key_table wl_key_table;

/**
 * Seals parts of one stream, for multipart uploads. The parts, in order, are the stream. It never
 * changes: threads may share it.
 */
typedef struct wl_part_sealer wl_part_sealer;

/**
 * An encrypted file, read at any offset. Threads may share it; they read one after the other.
 */
typedef struct wl_reader wl_reader;

/**
 * For whom a file is encrypted. Threads may share it.
 */
typedef struct wl_recipients wl_recipients;

/**
 * What a function returns: WL_OK, or one of the WL_ERR codes. wl_last_error has the sentence.
 */
typedef int32_t wl_status;

/**
 * A run of bytes in a buffer.
 */
typedef struct {
    /**
     * From the buffer's start, in bytes.
     */
    uint64_t offset;
    /**
     * In bytes.
     */
    uint64_t len;
} wl_span;

/**
 * Many messages in one call. Set all of it to zero, then `size` to sizeof(wl_batch), then what is
 * needed: zero is a sensible default for every other member. Later versions append members, so
 * that programs compiled with this one continue to work.
 *
 * The same structure serves host memory (wl_run) and GPU memory (wl_cuda_...). There, `in`, `out`,
 * `nonces`, `aad` and `tags` are addresses in GPU memory; everything else stays in host memory.
 * All lengths are in bytes. Text lengths never include tags.
 */
typedef struct {
    /**
     * sizeof(wl_batch), as the program was compiled.
     */
    uint32_t size;
    /**
     * WL_SEAL, WL_OPEN, WL_ENCRYPT or WL_DECRYPT.
     */
    uint32_t operation;
    /**
     * A WL_NONCES constant.
     */
    uint32_t nonce_mode;
    /**
     * Bytes of a tag; 0 for 16. GCM seals with 12 to 16, and also opens 4 and 8.
     */
    uint32_t tag_len;
    /**
     * How many messages.
     */
    uint64_t count;
    /**
     * One key for all messages. Set this, or `key_table`, or `key_bytes`.
     */
    const wl_key *key;
    /**
     * Keys that messages share: message `i` takes number `key_index[i]`.
     */
    const wl_key_table *key_table;
    /**
     * With `key_table`: `count` numbers, from 0.
     */
    const uint32_t *key_index;
    /**
     * A key for each message, wl_key_len bytes each, one after the other.
     */
    const void *key_bytes;
    /**
     * With `key_bytes`: what the keys are for.
     */
    uint32_t key_algorithm;
    /**
     * Zero.
     */
    uint32_t reserved_1;
    /**
     * The buffer of the texts, or of the ciphertexts to open.
     */
    const void *input;
    /**
     * Bytes of `input`.
     */
    uint64_t input_size;
    /**
     * Where each message lies in `input`: `count` spans. NULL for messages of `text_len` bytes
     * whose starts are `input_stride` apart.
     */
    const wl_span *input_spans;
    /**
     * Without `input_spans`: from one message's start to the next one's. 0 if each directly
     * follows the one before, or its tag where this buffer has tags.
     */
    uint64_t input_stride;
    /**
     * Without spans: bytes of each text.
     */
    uint64_t text_len;
    /**
     * The buffer of the results. NULL, or the same as `input`, to work in place: then the next three
     * members are not used, and `input` is written. Otherwise it must not overlap `input`.
     */
    void *output;
    /**
     * Bytes of `output`.
     */
    uint64_t output_size;
    /**
     * Where each result goes in `output`: `count` spans with the lengths of `input_spans`.
     */
    const wl_span *output_spans;
    /**
     * As `input_stride`.
     */
    uint64_t output_stride;
    /**
     * Nonces, IVs, start counters or tweaks, as `nonce_mode` says. NULL for ECB and where they are counted.
     * Written only if they are drawn.
     */
    void *nonces;
    /**
     * With WL_NONCES_SPANS: bytes of `nonces`. (Otherwise they follow from `count`.)
     */
    uint64_t nonces_size;
    /**
     * With WL_NONCES_SPANS: `count` spans.
     */
    const wl_span *nonce_spans;
    /**
     * Where nonces or sectors are counted: the number of the first message's.
     */
    uint64_t first;
    /**
     * With WL_NONCES_XOR and WL_NONCES_ADD: wl_nonce_len bytes of host memory.
     */
    const void *nonce_base;
    /**
     * Associated data: authenticated, not encrypted. NULL for none.
     */
    const void *aad;
    /**
     * Bytes of `aad`.
     */
    uint64_t aad_size;
    /**
     * Where each message's associated data lies in `aad`: `count` spans. NULL if all of `aad` is
     * that of every message.
     */
    const wl_span *aad_spans;
    /**
     * An array of `count` tags of `tag_len` bytes: written by encryption, only read by decryption.
     * NULL if each tag directly follows its ciphertext, and for algorithms without tags.
     */
    void *tags;
    /**
     * Zeros.
     */
    uint64_t reserved[8];
} wl_batch;

/**
 * Messages whose addresses and lengths lie in GPU memory: arrays with a 64-bit number for each
 * message, at multiples of 8, which may be written by an earlier kernel of the same stream.
 * Addresses are in GPU memory, lengths in bytes. Set all of it to zero, then `size` to
 * sizeof(wl_cuda_places), then what is needed.
 */
typedef struct {
    /**
     * sizeof(wl_cuda_places), as the program was compiled.
     */
    uint32_t size;
    /**
     * WL_SEAL, WL_OPEN, WL_ENCRYPT or WL_DECRYPT.
     */
    uint32_t operation;
    /**
     * How many messages.
     */
    uint64_t count;
    /**
     * At least the bytes of all texts together. A bound that is far too large makes the call slower,
     * not wrong.
     */
    uint64_t total_len;
    /**
     * Addresses of the texts, or of the ciphertexts to open.
     */
    const uint64_t *inputs;
    /**
     * Bytes of each text, without its tag.
     */
    const uint64_t *lens;
    /**
     * Addresses of the results. NULL to work in place.
     */
    const uint64_t *outputs;
    /**
     * Addresses of the nonces: wl_nonce_len bytes each. DANGER: none may ever be used twice under
     * one key.
     */
    const uint64_t *nonces;
    /**
     * Addresses of the associated data. NULL for none.
     */
    const uint64_t *aad;
    /**
     * With `aad`: bytes of each.
     */
    const uint64_t *aad_lens;
    /**
     * Addresses of the tags, 16 bytes each. NULL if each tag directly follows its ciphertext.
     */
    const uint64_t *tags;
    /**
     * Zeros.
     */
    uint64_t reserved[4];
} wl_cuda_places;

/**
 * Called with `context` and the bytes of input that are done, about 20 times a second, and once at
 * the end; always by the thread that called the library. Returns 0 to continue, anything else to
 * stop: the call then ends with WL_ERR_CANCELLED and leaves no output. It must return: no
 * longjmp, no C++ exception. It may call other functions of the library.
 */
typedef int32_t (*wl_progress)(void *context,
                               uint64_t done);

/**
 * Everything was done.
 */
#define WL_OK 0

/**
 * An argument cannot be used: a null pointer, an unknown number, parts that do not fit together.
 */
#define WL_ERR_ARGUMENT 1

/**
 * The key's length does not fit the algorithm, or the halves of an XTS key are equal.
 */
#define WL_ERR_KEY_LENGTH 2

/**
 * Two places in memory overlap, and one of them is written.
 */
#define WL_ERR_OVERLAP 3

/**
 * The algorithm or this version of the library does not have what is asked for.
 */
#define WL_ERR_UNSUPPORTED 4

/**
 * A buffer or workspace is too small; the sentence says how many bytes are needed.
 */
#define WL_ERR_TOO_SMALL 5

/**
 * The chosen backend or GPU cannot be used on this machine.
 */
#define WL_ERR_NO_BACKEND 6

/**
 * The machine failed while it worked. Discard the output.
 */
#define WL_ERR_BACKEND 7

/**
 * Two messages would be encrypted with the same nonce under the same key.
 */
#define WL_ERR_NONCE_REUSE 9

/**
 * At least one message did not verify. Its output is zeros; that of the others is valid.
 */
#define WL_ERR_AUTHENTICATION 20

/**
 * No identity, passphrase or key that was given opens the file.
 */
#define WL_ERR_WRONG_KEY 21

/**
 * The file was modified.
 */
#define WL_ERR_CORRUPTED 22

/**
 * The file ends too early.
 */
#define WL_ERR_TRUNCATED 23

/**
 * The file is not an encrypted Warplock file of a version that the library knows.
 */
#define WL_ERR_FORMAT 24

/**
 * A recipient, identity or wrapped key cannot be used.
 */
#define WL_ERR_KEYRING 25

/**
 * The operating system could not read or write.
 */
#define WL_ERR_IO 30

/**
 * The operating system gave no random bytes.
 */
#define WL_ERR_RANDOM 31

/**
 * The progress callback asked to stop.
 */
#define WL_ERR_CANCELLED 32

/**
 * The output file exists already.
 */
#define WL_ERR_EXISTS 33

/**
 * A fault in the library: please report the sentence.
 */
#define WL_ERR_INTERNAL 1000

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Finds the number of the algorithm with a name such as "aes-256-gcm". Does not block.
 */
wl_status wl_algorithm(const char *name,
                       uint32_t *algorithm);

/**
 * The name of an algorithm, NULL if there is none with this number. The string is constant.
 */
const char *wl_algorithm_name(uint32_t algorithm);

/**
 * Bytes of a key (for XTS both halves together); 0 for an unknown algorithm.
 */
size_t wl_key_len(uint32_t algorithm);

/**
 * Bytes of a nonce, IV, start counter or tweak: 12 for GCM, 0 for ECB, 16 for the others; 0 for an
 * unknown algorithm.
 */
size_t wl_nonce_len(uint32_t algorithm);

/**
 * 1 if the algorithm detects modification (GCM, ACORN-128), otherwise 0.
 */
int32_t wl_is_authenticated(uint32_t algorithm);

/**
 * Runs a batch in host memory and waits for it. With WL_OK and WL_ERR_AUTHENTICATION, `failed`
 * (NULL, or one byte for each message) says which messages were refused: 1, and 0 for the others.
 * A refused message's text is zeros, that of the others is valid. With every other error nothing
 * but drawn nonces was written, except with WL_ERR_BACKEND: then discard all output. Buffers that
 * are written must not overlap any other. While the call runs, nothing else may write what the
 * batch names, or use what it writes. Threads may call this with one engine at the same time.
 */
wl_status wl_run(const wl_engine *engine,
                 const wl_batch *batch,
                 uint8_t *failed);

/**
 * Writes how many GPUs there are to `count`; 0 also if there is no driver. Does not wait.
 */
wl_status wl_cuda_device_count(uint32_t *count);

/**
 * Opens the GPU with this number: starts its primary context and loads the kernels. Waits.
 */
wl_status wl_cuda_device_open(uint32_t number,
                              wl_cuda_device **device);

/**
 * Frees a GPU's handle. NULL is ignored. Keys and plans made with it stay valid.
 */
void wl_cuda_device_free(wl_cuda_device *device);

/**
 * Makes a key ready on a GPU. The first one of its algorithm in a process also tests the kernels.
 * `key` may be freed afterwards. Allocates and waits.
 */
wl_status wl_cuda_key_new(const wl_cuda_device *device,
                          const wl_key *key,
                          wl_cuda_key **device_key);

/**
 * Waits for everything on the GPU, then wipes and frees a device key. NULL is ignored.
 */
void wl_cuda_key_free(wl_cuda_key *device_key);

/**
 * Writes to `size` the bytes of GPU memory that wl_cuda_enqueue needs to work in for this batch.
 * Does not touch the GPU and does not wait.
 */
wl_status wl_cuda_workspace_size(const wl_cuda_key *device_key,
                                 const wl_batch *batch,
                                 size_t *size);

/**
 * Makes room in pinned host memory for `calls` calls like this batch to be under way at the same
 * time. There is room for eight with about a thousand messages from the start; a call that finds
 * none allocates it, which waits for the GPU. Allocates and waits.
 */
wl_status wl_cuda_reserve(const wl_cuda_key *device_key,
                          const wl_batch *batch,
                          size_t calls);

/**
 * Queues a batch in GPU memory on a stream. Its members `key`, `key_table` and `key_bytes` are
 * NULL: the device key is the key. Its spans are in host memory and are copied before the call
 * returns. With WL_NONCES_DRAWN, a call that seals writes new nonces to `nonces` in GPU memory,
 * from a counter that the device key has there. DANGER: the library cannot see whether a nonce
 * given in GPU memory is used twice.
 *
 * `workspace`: `workspace_size` bytes of GPU memory at a multiple of 16, at least what
 * wl_cuda_workspace_size says. `statuses`: NULL, or for each message a 32-bit number in GPU memory, 0
 * if its tag was right, 1 if it was refused. `refused`: NULL, or one 32-bit number in GPU memory to
 * which the number of refused messages is added. Both are for WL_OPEN. A refused message is zeros
 * before anything that is queued later on the stream can read it. `stream`: a CUstream
 * (cudaStream_t) of the device's primary context; NULL for the default stream.
 *
 * Does not wait and allocates nothing, as long as there is room (wl_cuda_reserve). Until the stream
 * has passed this point, the device key and all memory stay valid, nothing else uses what is
 * written, and nothing writes what is read. While a stream captures a graph the call is refused:
 * make a plan before the capture.
 */
wl_status wl_cuda_enqueue(const wl_cuda_key *device_key,
                          const wl_batch *batch,
                          void *workspace,
                          size_t workspace_size,
                          uint32_t *statuses,
                          uint32_t *refused,
                          void *stream);

/**
 * Prepares a batch in GPU memory for any number of launches, also inside a CUDA graph. Its keys,
 * key numbers and spans are in host memory and are copied. With WL_NONCES_DRAWN, every launch that
 * seals writes new nonces to GPU memory, also when a graph runs again. Given ones are read there at
 * every launch: for a batch that seals, put new ones there before each. Allocates and waits.
 */
wl_status wl_cuda_plan_new(const wl_cuda_device *device,
                           const wl_batch *batch,
                           wl_cuda_plan **plan);

/**
 * Queues a plan's kernels on a stream (a CUstream; NULL for the default stream), and nothing else:
 * no allocation, no copy, no waiting, so that the stream may be capturing a graph. Until the stream
 * has passed this point, the plan and all memory of its batch stay valid and unused by others.
 * Launches of one plan go to one stream, or wait for each other.
 */
wl_status wl_cuda_plan_launch(const wl_cuda_plan *plan,
                              void *stream);

/**
 * Waits for the stream of a plan's last launch, then writes one byte for each message to `failed`
 * (`size` bytes, at least as many as there are messages; NULL if not wanted): 1 if it was refused,
 * otherwise 0. Returns WL_ERR_AUTHENTICATION if any was.
 */
wl_status wl_cuda_plan_wait(const wl_cuda_plan *plan,
                            void *stream,
                            uint8_t *failed,
                            size_t size);

/**
 * Writes where a plan puts its verdicts in GPU memory, for kernels: 32-bit numbers, the first at
 * `address`, the next ones `stride` bytes apart, one for each message: 0 if its tag was right, 1 if
 * it was refused. They are valid after a launch until the next. WL_ERR_UNSUPPORTED for a plan that
 * opens nothing. Does not wait.
 */
wl_status wl_cuda_plan_statuses(const wl_cuda_plan *plan,
                                uint64_t *address,
                                size_t *stride);

/**
 * Waits for everything on the GPU, then wipes and frees a plan; not while a stream captures a graph.
 * NULL is ignored.
 */
void wl_cuda_plan_free(wl_cuda_plan *plan);

/**
 * Writes to `size` the bytes of GPU memory that wl_cuda_enqueue_indirect needs to work in. Does not
 * touch the GPU and does not wait.
 */
wl_status wl_cuda_workspace_size_indirect(const wl_cuda_key *device_key,
                                          const wl_cuda_places *places,
                                          size_t *size);

/**
 * Queues a batch whose addresses and lengths only the GPU knows when the stream gets there. For
 * GCM, CTR and ACORN-128. DANGER: nothing can be checked: all that the arrays name must be memory of the GPU,
 * no result may overlap another or anything that is read (except its own text), and the texts must
 * not have more bytes than `total_len`. Otherwise as wl_cuda_enqueue.
 */
wl_status wl_cuda_enqueue_indirect(const wl_cuda_key *device_key,
                                   const wl_cuda_places *places,
                                   void *workspace,
                                   size_t workspace_size,
                                   uint32_t *statuses,
                                   uint32_t *refused,
                                   void *stream);

/**
 * Makes an engine. `backend`: "auto", "cpu", "cpu:NAME", "cuda", "cuda:N" or "cuda:N,M"; NULL for
 * the environment variable WARPLOCK_BACKEND, or "auto". `threads`: CPU threads that work on one
 * batch or file, the caller's among them; 0 for one per core. Problems that are not errors, such as
 * a GPU that failed and was replaced by the CPU, are printed on stderr. May wait for a GPU to start
 * if one is named.
 */
wl_status wl_engine_new(const char *backend,
                        uint32_t threads,
                        wl_engine **engine);

/**
 * Frees an engine that no other thread uses any more. NULL is ignored. Readers and part sealers
 * made with it stay valid.
 */
void wl_engine_free(wl_engine *engine);

/**
 * Writes the name of the backend in use, such as "cpu:vaes512+cuda:0", into `buffer` of `size`
 * bytes, with a zero byte at its end. 64 bytes suffice unless there are several GPUs.
 */
wl_status wl_engine_backend(const wl_engine *engine,
                            char *buffer,
                            size_t size);

/**
 * With the backend "auto": starts the GPUs now, if there are any, and waits until they can be used.
 * Otherwise they are started once that saves time.
 */
wl_status wl_engine_wake(const wl_engine *engine);

/**
 * Copies the sentence of this thread's last error into `buffer` of `size` bytes, cut if necessary
 * and always ended with a zero byte. Returns the whole sentence's length in bytes without the zero
 * byte, 0 if there was no error. `buffer` may be NULL if `size` is 0. Functions that succeed leave
 * the sentence as it is. It contains no secrets.
 */
size_t wl_last_error(char *buffer,
                     size_t size);

/**
 * Encrypts the file `input` to the file `output`, under a fresh key that is wrapped for
 * `recipients`. The output appears under its name only when it is complete and on the disk; an
 * existing file is refused with WL_ERR_EXISTS unless `flags` has WL_REPLACE. With WL_ATTRIBUTES, the
 * input's permissions and time of modification go with it, encrypted (next to a passphrase there is
 * no room for them). `progress` and `plain_len` (gets the bytes of plaintext) may be NULL. Waits for
 * the end.
 */
wl_status wl_encrypt_file(const wl_engine *engine,
                          const char *input,
                          const char *output,
                          const wl_recipients *recipients,
                          uint32_t flags,
                          wl_progress progress,
                          void *context,
                          uint64_t *plain_len);

/**
 * Decrypts the file `input` to the file `output`, with the first of `identities` that opens it. The
 * output appears under its name only when every byte of it was verified and it is on the disk; an
 * existing file is refused with WL_ERR_EXISTS unless `flags` has WL_REPLACE. With WL_ATTRIBUTES, it
 * gets the permissions and the time of modification that came with the file, but no permission that
 * the umask, or a file that is replaced, does not give. `progress` and `plain_len` (gets the bytes of
 * plaintext) may be NULL. Waits for the end.
 */
wl_status wl_decrypt_file(const wl_engine *engine,
                          const char *input,
                          const char *output,
                          const wl_identities *identities,
                          uint32_t flags,
                          wl_progress progress,
                          void *context,
                          uint64_t *plain_len);

/**
 * Verifies every byte of the file `input` and keeps nothing. `progress` and `plain_len` (gets the
 * bytes of plaintext) may be NULL. Waits for the end.
 */
wl_status wl_verify_file(const wl_engine *engine,
                         const char *input,
                         const wl_identities *identities,
                         wl_progress progress,
                         void *context,
                         uint64_t *plain_len);

/**
 * Gives the encrypted file `path` the recipients `recipients` instead of its present ones, of which
 * `identities` must include one. With `flags` 0 only the envelope is written again, so the size does
 * not matter; the key of the content stays the same: a former recipient that kept it, or an older
 * copy of the file, can still decrypt the content. With WL_REKEY the content is encrypted again under
 * a fresh key, and `progress` is called, at the beginning too; the new file replaces the old one when
 * all of that was verified.
 * A crash leaves a file that the old or the new identities open; if `.NAME.rewrap` is left next to
 * it, call this again with the old ones. `progress` may be NULL. Waits for the end.
 */
wl_status wl_rewrap_file(const wl_engine *engine,
                         const char *path,
                         const wl_identities *identities,
                         const wl_recipients *recipients,
                         uint32_t flags,
                         wl_progress progress,
                         void *context);

/**
 * Makes a key of `len` bytes, which must be wl_key_len(algorithm). They are copied: wipe yours.
 * Does not block.
 */
wl_status wl_key_new(uint32_t algorithm,
                     const void *bytes,
                     size_t len,
                     wl_key **key);

/**
 * Makes a random key, for use while the program runs. To store a key, draw its bytes with wl_random
 * and make it with wl_key_new.
 */
wl_status wl_key_generate(uint32_t algorithm,
                          wl_key **key);

/**
 * The number of the key's algorithm; 0 if it is not a key.
 */
uint32_t wl_key_algorithm(const wl_key *key);

/**
 * Wipes and frees a key that no other thread uses any more. NULL is ignored.
 */
void wl_key_free(wl_key *key);

/**
 * Makes a table of `count` keys, whose bytes follow each other: `len` must be `count` times
 * wl_key_len(algorithm). They are copied: wipe yours. Does not block.
 */
wl_status wl_key_table_new(uint32_t algorithm,
                           const void *bytes,
                           size_t len,
                           size_t count,
                           wl_key_table **table);

/**
 * Wipes and frees a table of keys that no other thread uses any more. NULL is ignored.
 */
void wl_key_table_free(wl_key_table *table);

/**
 * Fills `len` bytes from the operating system's random generator: for keys and nonces.
 */
wl_status wl_random(void *bytes,
                    size_t len);

/**
 * Bytes of what wl_seal makes of `text_len` bytes: the nonce, the ciphertext, the tag. 0 if the
 * algorithm is unknown or does not authenticate, or if the length is beyond memory.
 */
size_t wl_sealed_len(uint32_t algorithm,
                     size_t text_len);

/**
 * Seals one message under a fresh nonce. Writes the nonce (12 bytes for GCM, 16 for ACORN-128), the
 * ciphertext (`text_len` bytes) and the tag (16 bytes), one after the other, into `sealed`, which
 * has room for `sealed_size` bytes: at least wl_sealed_len(algorithm, text_len). `aad` is
 * authenticated, but not part of the result: opening needs the same. `text` and `aad` may be NULL
 * if their length is 0. To work in place, let `text` point into `sealed` directly after the nonce;
 * otherwise they must not overlap. With GCM, seal at most 2^32 messages under one key. Waits for
 * the result.
 */
wl_status wl_seal(const wl_engine *engine,
                  const wl_key *key,
                  const void *aad,
                  size_t aad_len,
                  const void *text,
                  size_t text_len,
                  void *sealed,
                  size_t sealed_size);

/**
 * Opens what wl_seal made: `sealed_len` bytes of nonce, ciphertext and tag. Writes the text into
 * `text`, which has room for `text_size` bytes; its length is `sealed_len` less that of the nonce
 * and the tag. If anything was modified, or if the key or `aad` is a different one, the status is
 * WL_ERR_AUTHENTICATION and the text is zeros. If there are too few bytes for a nonce and a tag, the
 * status is the same and nothing is written. To work in place, let `text` point into `sealed`
 * directly after the nonce; otherwise they must not overlap. Waits for the result.
 */
wl_status wl_open(const wl_engine *engine,
                  const wl_key *key,
                  const void *aad,
                  size_t aad_len,
                  const void *sealed,
                  size_t sealed_len,
                  void *text,
                  size_t text_size);

/**
 * Seals one message under a nonce that a protocol prescribes. DANGER: two messages under the same
 * nonce and key reveal the XOR of their texts, and with GCM allow forgeries: use wl_seal unless
 * you must. Writes `text_len` bytes into `ciphertext` (`text` itself, or memory that does not
 * overlap it) and 16 into `tag`. `nonce_len`: for GCM any length, best 12; for ACORN-128 16.
 * Pointers may be NULL if their length is 0. Waits for the result.
 */
wl_status wl_seal_with_nonce(const wl_engine *engine,
                             const wl_key *key,
                             const void *nonce,
                             size_t nonce_len,
                             const void *aad,
                             size_t aad_len,
                             const void *text,
                             size_t text_len,
                             void *ciphertext,
                             void *tag);

/**
 * Opens one message whose nonce and tag are separate: `ciphertext_len` bytes of ciphertext, 16
 * bytes of tag. Writes `ciphertext_len` bytes into `text` (`ciphertext` itself, or memory that
 * does not overlap it). If the tag is not right: WL_ERR_AUTHENTICATION, and the text is zeros.
 * Pointers may be NULL if their length is 0. Waits for the result.
 */
wl_status wl_open_with_nonce(const wl_engine *engine,
                             const wl_key *key,
                             const void *nonce,
                             size_t nonce_len,
                             const void *aad,
                             size_t aad_len,
                             const void *ciphertext,
                             size_t ciphertext_len,
                             void *text,
                             const void *tag);

/**
 * Makes a fresh stream key, and the envelope that wraps it for `recipients`: envelope and stream,
 * one after the other, are a file that wl_decrypt_file opens. Writes WL_STREAM_KEY_LEN bytes to
 * `key`, and at most `size` to `envelope`; its length to `len`. If `size` is too small:
 * WL_ERR_TOO_SMALL, nothing else is written, and `len` says what is needed (about 200 bytes for
 * one recipient, at most 131,088; another key is made at the next call). Wipe the key after use.
 */
wl_status wl_envelope_new(const wl_recipients *recipients,
                          void *key,
                          void *envelope,
                          size_t size,
                          size_t *len);

/**
 * Starts a stream of `plain_len` bytes under `key` (WL_STREAM_KEY_LEN bytes). Hand its header to
 * other machines, which call wl_part_sealer_resume.
 */
wl_status wl_part_sealer_new(const wl_engine *engine,
                             const void *key,
                             size_t key_len,
                             uint64_t plain_len,
                             wl_part_sealer **sealer);

/**
 * Continues a stream that another wl_part_sealer started, by its header (WL_HEADER_LEN bytes) and
 * with the same key and length. DANGER: never seal different plaintext as the same chunk of one
 * header: that reveals both and allows forgeries.
 */
wl_status wl_part_sealer_resume(const wl_engine *engine,
                                const void *key,
                                size_t key_len,
                                const void *header,
                                uint64_t plain_len,
                                wl_part_sealer **sealer);

/**
 * Writes the stream's header, WL_HEADER_LEN bytes, to `header`. It is not secret.
 */
wl_status wl_part_sealer_header(const wl_part_sealer *sealer,
                                void *header);

/**
 * How many chunks the stream has; 0 if it is not a part sealer. Each has WL_CHUNK_LEN bytes of
 * plaintext, the last one fewer: none, if the length is a multiple.
 */
uint64_t wl_part_sealer_chunk_count(const wl_part_sealer *sealer);

/**
 * Seals `chunk_count` chunks from `first_chunk` on, whose plaintext is the `plain_len` bytes at
 * `plain`, into `sealed`, which has room for `sealed_size` bytes; its length goes to `sealed_len`.
 * A chunk takes 16 bytes more than its plaintext; the part with chunk 0 begins with the header.
 * If the room is too small: WL_ERR_TOO_SMALL, nothing else is written, and `sealed_len` says what is
 * needed. A part may be sealed again from the same plaintext. Waits for the result.
 */
wl_status wl_part_sealer_seal(const wl_part_sealer *sealer,
                              uint64_t first_chunk,
                              uint64_t chunk_count,
                              const void *plain,
                              size_t plain_len,
                              void *sealed,
                              size_t sealed_size,
                              size_t *sealed_len);

/**
 * Frees a part sealer that no other thread uses any more. NULL is ignored.
 */
void wl_part_sealer_free(wl_part_sealer *sealer);

/**
 * Opens a file to read it at any offset. Its length is verified now, its content as it is read.
 * Frees nothing of what it is given: engine and identities may be freed before the reader.
 */
wl_status wl_reader_open(const wl_engine *engine,
                         const char *path,
                         const wl_identities *identities,
                         wl_reader **reader);

/**
 * The same for a bare stream, without an envelope, whose 32-byte key the program knows: what a
 * wl_part_sealer makes.
 */
wl_status wl_reader_open_with_key(const wl_engine *engine,
                                  const char *path,
                                  const void *key,
                                  size_t key_len,
                                  wl_reader **reader);

/**
 * Writes the verified length of the plaintext in bytes to `len`.
 */
wl_status wl_reader_len(const wl_reader *reader,
                        uint64_t *len);

/**
 * Reads verified plaintext from `offset` on into `buffer`, which has room for `size` bytes. Writes
 * to `read` how many bytes it got: fewer than `size` only at the end of the content, or before a
 * part that does not verify (the next read there fails). Waits for the result.
 */
wl_status wl_reader_read_at(const wl_reader *reader,
                            uint64_t offset,
                            void *buffer,
                            size_t size,
                            size_t *read);

/**
 * Frees a reader that no other thread uses any more, and closes its file. NULL is ignored.
 */
void wl_reader_free(wl_reader *reader);

/**
 * Makes an empty list of recipients.
 */
wl_status wl_recipients_new(wl_recipients **recipients);

/**
 * Adds a recipient: the text "age1..." or "ssh-ed25519 ...". After an error the list is as before.
 */
wl_status wl_recipients_add(wl_recipients *recipients,
                            const char *recipient);

/**
 * Adds the recipients that a file lists, one per line.
 */
wl_status wl_recipients_add_file(wl_recipients *recipients,
                                 const char *path);

/**
 * Encrypts for a passphrase: `len` bytes of UTF-8 text. It cannot be combined with other
 * recipients. They are copied: wipe yours. Stretching it takes about a second for each file.
 */
wl_status wl_recipients_add_passphrase(wl_recipients *recipients,
                                       const void *passphrase,
                                       size_t len);

/**
 * Frees recipients that no other thread uses any more. NULL is ignored.
 */
void wl_recipients_free(wl_recipients *recipients);

/**
 * Makes an empty list of identities.
 */
wl_status wl_identities_new(wl_identities **identities);

/**
 * Adds identities from memory: `len` bytes with the content of an identity file, such as a line
 * "AGE-SECRET-KEY-1...", or an SSH private key. They are copied: wipe yours.
 */
wl_status wl_identities_add(wl_identities *identities,
                            const void *content,
                            size_t len);

/**
 * Adds the identities of a file: an age identity file or an SSH private key. For one that is
 * encrypted, add its passphrase first.
 */
wl_status wl_identities_add_file(wl_identities *identities,
                                 const char *path);

/**
 * Sets the passphrase, `len` bytes of UTF-8 text: for files that are encrypted for one, and for
 * encrypted identity files. A later call replaces it. It is copied: wipe yours.
 */
wl_status wl_identities_add_passphrase(wl_identities *identities,
                                       const void *passphrase,
                                       size_t len);

/**
 * Frees identities that no other thread uses any more. NULL is ignored.
 */
void wl_identities_free(wl_identities *identities);

/**
 * Creates an identity file that only its owner may read, and writes the text of its recipient
 * ("age1...", with a zero byte) into `recipient`, which has room for `size` bytes: at least
 * WL_RECIPIENT_SIZE. `flags`: 0, or WL_REPLACE to replace an existing file.
 */
wl_status wl_identity_create(const char *path,
                             uint32_t flags,
                             char *recipient,
                             size_t size);

/**
 * The name of a status, such as "WL_ERR_OVERLAP"; "unknown status" for any other number. The
 * string is constant.
 */
const char *wl_status_name(wl_status status);

/**
 * The interface's version that the library has: at least WL_ABI_VERSION of the header that a
 * program was compiled with, or functions are missing.
 */
uint32_t wl_abi_version(void);

/**
 * The library's version, such as "0.1.0". The string is constant.
 */
const char *wl_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WARPLOCK_H */
