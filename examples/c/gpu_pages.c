/* Opens encrypted pages in GPU memory, as a decoder of Parquet files would: a column chunk is copied
 * to the GPU as it is in the file, and its pages, [length 4][nonce 12][ciphertext][tag 16] at any
 * byte, are opened on the decoder's stream. The host never has their text.
 *
 * It needs no CUDA at build time: the driver is loaded when it runs. A program that uses the CUDA
 * runtime passes its own pointers and its cudaStream_t. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warplock.h>

enum { PAGES = 1000, FRAME = 4 + 12 + 16 };

/* The driver's functions that are used here. */
static void load(void *library, const char *name, void *to) {
    void *symbol = dlsym(library, name);
    if (!symbol) fprintf(stderr, "the driver has no %s\n", name), exit(1);
    memcpy(to, &symbol, sizeof symbol);
}
#define DRIVER(name, ...)           \
    int (*name)(__VA_ARGS__) = NULL; \
    load(cuda, #name, &name)

static void check(wl_status status, const char *what) {
    char sentence[300];
    if (status == WL_OK) return;
    wl_last_error(sentence, sizeof sentence);
    fprintf(stderr, "%s: %s: %s\n", what, wl_status_name(status), sentence);
    exit(1);
}

static void driver(int result, const char *what) {
    if (result) fprintf(stderr, "%s: CUDA error %d\n", what, result), exit(1);
}

/* A column chunk as a writer makes it: pages of different lengths, one after the other. */
static unsigned char *make_chunk(wl_key *key, wl_span *texts, wl_span *nonces, size_t *size) {
    unsigned char *chunk, *text = calloc(1, 20000);
    wl_engine *engine = NULL;
    size_t at = 0, i;
    check(wl_engine_new("cpu", 0, &engine), "the engine");
    chunk = malloc((size_t)PAGES * (20000 + FRAME));
    if (!chunk || !text) exit(1);
    for (i = 0; i < PAGES; i++) {
        const uint32_t len = (uint32_t)(i * 7919 % 20000), framed = len + 28;
        memset(text, (int)(i % 251), len);
        memcpy(chunk + at, &framed, 4);
        check(wl_seal(engine, key, "column 3", 8, text, len, chunk + at + 4, framed), "seal");
        nonces[i].offset = at + 4, nonces[i].len = 12;
        texts[i].offset = at + 16, texts[i].len = len;
        at += FRAME + len;
    }
    wl_engine_free(engine);
    free(text);
    *size = at;
    return chunk;
}

int main(void) {
    static wl_span texts[PAGES], nonces[PAGES];
    static uint32_t statuses[PAGES];
    uint32_t count = 0, refused = 0;
    uint64_t memory = 0, workspace = 0, at_aad, at_statuses, at_refused;
    size_t size = 0, size_needed = 0, i, wrong = 0;
    unsigned char *chunk, *opened;
    void *context = NULL, *stream = NULL, *cuda;
    wl_cuda_device *device = NULL;
    wl_cuda_key *ready = NULL;
    wl_key *key = NULL;
    wl_batch batch;

    check(wl_cuda_device_count(&count), "devices");
    if (count == 0) return puts("skipped: no GPU"), 0;
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cuda) return puts("skipped: no driver"), 0;
    DRIVER(cuInit, unsigned);
    DRIVER(cuDevicePrimaryCtxRetain, void **, int);
    DRIVER(cuCtxSetCurrent, void *);
    DRIVER(cuMemAlloc_v2, uint64_t *, size_t);
    DRIVER(cuMemFree_v2, uint64_t);
    DRIVER(cuMemcpyHtoDAsync_v2, uint64_t, const void *, size_t, void *);
    DRIVER(cuMemcpyDtoHAsync_v2, void *, uint64_t, size_t, void *);
    DRIVER(cuMemsetD8Async, uint64_t, unsigned char, size_t, void *);
    DRIVER(cuStreamCreate, void **, unsigned);
    DRIVER(cuStreamSynchronize, void *);
    DRIVER(cuStreamDestroy_v2, void *);

    driver(cuInit(0), "cuInit");
    driver(cuDevicePrimaryCtxRetain(&context, 0), "the primary context");
    driver(cuCtxSetCurrent(context), "the context");
    driver(cuStreamCreate(&stream, 1), "the stream"); /* non-blocking */

    check(wl_key_generate(WL_AES_256_GCM, &key), "the key");
    chunk = make_chunk(key, texts, nonces, &size);
    chunk[texts[77].offset + 5] ^= 1; /* page 77 was modified */

    /* Once for each key and column: may wait. */
    check(wl_cuda_device_open(0, &device), "the GPU");
    check(wl_cuda_key_new(device, key, &ready), "the device key");

    memset(&batch, 0, sizeof batch);
    batch.size = sizeof batch;
    batch.operation = WL_OPEN;
    batch.count = PAGES;
    batch.input_size = size;
    batch.input_spans = texts; /* in place, each tag after its ciphertext */
    batch.nonce_mode = WL_NONCES_SPANS;
    batch.nonces_size = size;
    batch.nonce_spans = nonces; /* each directly before its ciphertext */
    batch.aad_size = 8;

    /* Memory that a decoder has already: the chunk, associated data, the verdicts. */
    at_aad = (size + 15) / 16 * 16;
    at_statuses = at_aad + 16;
    at_refused = at_statuses + PAGES * 4;
    driver(cuMemAlloc_v2(&memory, at_refused + 4), "memory");
    batch.input = batch.nonces = (void *)(uintptr_t)memory;
    batch.aad = (void *)(uintptr_t)(memory + at_aad);
    check(wl_cuda_workspace_size(ready, &batch, &size_needed), "the workspace");
    driver(cuMemAlloc_v2(&workspace, size_needed), "the workspace");

    /* For each chunk: nothing waits until the result is wanted. */
    driver(cuMemcpyHtoDAsync_v2(memory, chunk, size, stream), "copying the chunk");
    driver(cuMemcpyHtoDAsync_v2(memory + at_aad, "column 3", 8, stream), "copying");
    driver(cuMemsetD8Async(memory + at_refused, 0, 4, stream), "clearing");
    check(wl_cuda_enqueue(ready, &batch, (void *)(uintptr_t)workspace, size_needed,
                          (uint32_t *)(uintptr_t)(memory + at_statuses),
                          (uint32_t *)(uintptr_t)(memory + at_refused), stream),
          "the call");
    /* A decoder would launch its kernels here, on the same stream. This one looks at the result. */
    opened = malloc(size);
    if (!opened) return 1;
    driver(cuMemcpyDtoHAsync_v2(opened, memory, size, stream), "copying back");
    driver(cuMemcpyDtoHAsync_v2(statuses, memory + at_statuses, PAGES * 4, stream), "copying back");
    driver(cuMemcpyDtoHAsync_v2(&refused, memory + at_refused, 4, stream), "copying back");
    driver(cuStreamSynchronize(stream), "waiting");

    for (i = 0; i < PAGES; i++) {
        const unsigned char *text = opened + texts[i].offset;
        const unsigned char wanted = i == 77 ? 0 : (unsigned char)(i % 251);
        wrong += statuses[i] != (i == 77);
        for (size_t j = 0; j < texts[i].len; j++) wrong += text[j] != wanted;
    }
    printf("%d pages, %zu bytes; refused: %u, page 77 with status %u; wrong bytes: %zu\n",
           (int)PAGES, size, (unsigned)refused, (unsigned)statuses[77], wrong);

    wl_cuda_key_free(ready);
    wl_cuda_device_free(device);
    wl_key_free(key);
    driver(cuStreamDestroy_v2(stream), "the stream");
    driver(cuMemFree_v2(memory), "freeing");
    driver(cuMemFree_v2(workspace), "freeing");
    free(chunk), free(opened);
    return wrong != 0 || refused != 1;
}
