/* Plans and calls in GPU memory through the C interface: sealed on the GPU, opened by the CPU, and
 * misuse. Says "skipped" without a GPU. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warplock.h>

enum { COUNT = 300, LEN = 1000, TEXT = COUNT * LEN, NONCES = TEXT, TAGS = NONCES + COUNT * 12 };
enum { SIZE = TAGS + COUNT * 16 };

static void expect(int at, wl_status found, wl_status wanted) {
    char sentence[512] = "";
    if (found == wanted) return;
    if (found) wl_last_error(sentence, sizeof sentence);
    fprintf(stderr, "gpu.c:%d: %s, not %s: %s\n", at, wl_status_name(found),
            wl_status_name(wanted), sentence);
    exit(1);
}
#define EXPECT(call, wanted) expect(__LINE__, call, wanted)
#define OK(call) EXPECT(call, WL_OK)
#define TRUE(condition) expect(__LINE__, (condition) ? WL_OK : WL_ERR_INTERNAL, WL_OK)

static void load(void *library, const char *name, void *to) {
    void *symbol = dlsym(library, name);
    TRUE(symbol != NULL);
    memcpy(to, &symbol, sizeof symbol);
}

static void *gpu(uint64_t address) { return (void *)(uintptr_t)address; }

int main(void) {
    static unsigned char host[SIZE], wanted[TEXT], failed[COUNT], before[COUNT * 12];
    int (*alloc)(uint64_t *, size_t), (*up)(uint64_t, const void *, size_t);
    int (*down)(void *, uint64_t, size_t), (*retain)(void **, int), (*use)(void *), (*sync)(void);
    uint64_t memory = 0, workspace = 0, words = 0, address = 0;
    uint32_t count = 0, statuses[COUNT + 1];
    size_t size = 0, stride = 0;
    void *context = NULL, *cuda;
    wl_cuda_device *device = NULL;
    wl_cuda_key *ready = NULL;
    wl_cuda_plan *plan = NULL;
    wl_engine *engine = NULL;
    wl_key *key = NULL;
    wl_batch batch, here;

    EXPECT(wl_cuda_device_count(NULL), WL_ERR_ARGUMENT);
    EXPECT(wl_cuda_device_open(63, &device), WL_ERR_NO_BACKEND);
    EXPECT(wl_cuda_key_new(NULL, NULL, &ready), WL_ERR_ARGUMENT);
    EXPECT(wl_cuda_plan_launch(NULL, NULL), WL_ERR_ARGUMENT);
    wl_cuda_device_free(NULL), wl_cuda_key_free(NULL), wl_cuda_plan_free(NULL);
    OK(wl_cuda_device_count(&count));
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (count == 0 || !cuda) return puts("skipped: no GPU"), 0;
    load(cuda, "cuMemAlloc_v2", &alloc), load(cuda, "cuMemcpyHtoD_v2", &up);
    load(cuda, "cuMemcpyDtoH_v2", &down), load(cuda, "cuDevicePrimaryCtxRetain", &retain);
    load(cuda, "cuCtxSetCurrent", &use), load(cuda, "cuCtxSynchronize", &sync);

    OK(wl_cuda_device_open(0, &device));
    OK(wl_engine_new("cpu", 0, &engine));
    OK(wl_key_generate(WL_AES_256_GCM, &key));
    OK(wl_cuda_key_new(device, key, &ready));
    TRUE(!retain(&context, 0) && !use(context));
    TRUE(!alloc(&memory, SIZE) && !alloc(&words, sizeof statuses));

    OK(wl_random(host, SIZE));
    memcpy(wanted, host, TEXT);
    TRUE(!up(memory, host, SIZE));
    memset(statuses, 0, sizeof statuses);
    TRUE(!up(words, statuses, sizeof statuses));
    memset(&batch, 0, sizeof batch);
    batch.size = sizeof batch;
    batch.operation = WL_SEAL;
    batch.count = COUNT;
    batch.input = gpu(memory), batch.input_size = TEXT, batch.text_len = LEN;
    batch.nonces = gpu(memory + NONCES), batch.tags = gpu(memory + TAGS);

    /* Misuse that can be seen before anything runs. */
    batch.key = key;
    EXPECT(wl_cuda_workspace_size(ready, &batch, &size), WL_ERR_ARGUMENT); /* a key of its own */
    batch.key = NULL;
    EXPECT(wl_cuda_plan_new(device, &batch, &plan), WL_ERR_ARGUMENT); /* no key */
    batch.input_size = TEXT - 1;
    EXPECT(wl_cuda_workspace_size(ready, &batch, &size), WL_ERR_TOO_SMALL);
    batch.input_size = TEXT, batch.tags = gpu(memory);
    EXPECT(wl_cuda_workspace_size(ready, &batch, &size), WL_ERR_OVERLAP);
    batch.tags = gpu(memory + TAGS), batch.input = NULL;
    EXPECT(wl_cuda_workspace_size(ready, &batch, &size), WL_ERR_ARGUMENT);
    batch.input = gpu(memory);
    OK(wl_cuda_workspace_size(ready, &batch, &size));
    TRUE(!alloc(&workspace, size));
    EXPECT(wl_cuda_enqueue(ready, &batch, gpu(workspace), size - 1, NULL, NULL, NULL),
           WL_ERR_TOO_SMALL);
    EXPECT(wl_cuda_enqueue(ready, &batch, gpu(workspace + 4), size, NULL, NULL, NULL),
           WL_ERR_ARGUMENT);
    EXPECT(wl_cuda_enqueue(ready, &batch, NULL, size, NULL, NULL, NULL), WL_ERR_ARGUMENT);
    EXPECT(wl_cuda_enqueue((wl_cuda_key *)device, &batch, gpu(workspace), size, NULL, NULL, NULL),
           WL_ERR_ARGUMENT);

    /* A call seals; the CPU opens the same. */
    OK(wl_cuda_reserve(ready, &batch, 4));
    memcpy(before, host + NONCES, COUNT * 12);
    OK(wl_cuda_enqueue(ready, &batch, gpu(workspace), size, NULL, NULL, NULL));
    TRUE(!sync() && !down(host, memory, SIZE));
    TRUE(memcmp(host, wanted, TEXT) && memcmp(host + NONCES, before, COUNT * 12)); /* drawn */
    here = batch;
    here.operation = WL_OPEN, here.key = key;
    here.input = host, here.nonces = host + NONCES, here.tags = host + TAGS;
    OK(wl_run(engine, &here, NULL));
    TRUE(!memcmp(host, wanted, TEXT));

    /* Message 5 is modified; a call opens, with verdicts. */
    TRUE(!down(host, memory, SIZE));
    host[5 * LEN] ^= 1;
    TRUE(!up(memory, host, SIZE));
    batch.operation = WL_OPEN;
    OK(wl_cuda_workspace_size(ready, &batch, &size));
    TRUE(!alloc(&workspace, size));
    OK(wl_cuda_enqueue(ready, &batch, gpu(workspace), size, gpu(words), gpu(words + COUNT * 4),
                       NULL));
    TRUE(!sync() && !down(statuses, words, sizeof statuses) && statuses[COUNT] == 1);
    for (int i = 0; i < COUNT; i++) TRUE(statuses[i] == (i == 5));
    memset(wanted + 5 * LEN, 0, LEN);
    {
        static unsigned char opened[SIZE];
        TRUE(!down(opened, memory, SIZE) && !memcmp(opened, wanted, TEXT));
    }

    /* The same with a plan. */
    TRUE(!up(memory, host, SIZE));
    batch.key = key;
    OK(wl_cuda_plan_new(device, &batch, &plan));
    OK(wl_cuda_plan_launch(plan, NULL));
    EXPECT(wl_cuda_plan_wait(plan, NULL, failed, COUNT - 1), WL_ERR_TOO_SMALL);
    EXPECT(wl_cuda_plan_wait(plan, NULL, failed, COUNT), WL_ERR_AUTHENTICATION);
    for (int i = 0; i < COUNT; i++) TRUE(failed[i] == (i == 5));
    OK(wl_cuda_plan_statuses(plan, &address, &stride));
    TRUE(!down(statuses, address + 5 * stride, 4) && statuses[0] == 1);
    TRUE(!down(host, memory, TEXT) && !memcmp(host, wanted, TEXT));
    wl_cuda_plan_free(plan);

    /* A plan that seals takes new nonces at each launch. */
    batch.operation = WL_SEAL;
    OK(wl_cuda_plan_new(device, &batch, &plan));
    memcpy(wanted, host, TEXT);
    for (int i = 0; i < 2; i++) {
        memcpy(before, host + NONCES, COUNT * 12);
        TRUE(!up(memory, wanted, TEXT));
        OK(wl_cuda_plan_launch(plan, NULL));
        TRUE(!sync() && !down(host, memory, SIZE));
        TRUE(memcmp(host, wanted, TEXT) && memcmp(host + NONCES, before, COUNT * 12));
        OK(wl_run(engine, &here, NULL));
        TRUE(!memcmp(host, wanted, TEXT));
    }
    wl_cuda_plan_free(plan);

    /* Counted nonces: for calls, and for plans that open. */
    batch.nonce_mode = WL_NONCES_XOR, batch.nonce_base = before, batch.first = 7;
    EXPECT(wl_cuda_plan_new(device, &batch, &plan), WL_ERR_ARGUMENT);
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT);
    batch.key = NULL;
    TRUE(!up(memory, wanted, TEXT));
    OK(wl_cuda_workspace_size(ready, &batch, &size));
    TRUE(!alloc(&workspace, size));
    OK(wl_cuda_enqueue(ready, &batch, gpu(workspace), size, NULL, NULL, NULL));
    TRUE(!sync() && !down(host, memory, TEXT) && !down(host + TAGS, memory + TAGS, COUNT * 16));
    for (int i = 0; i < COUNT; i++) {
        memcpy(host + NONCES + 12 * i, before, 12);
        host[NONCES + 12 * i + 11] ^= (unsigned char)(7 + i);
        host[NONCES + 12 * i + 10] ^= (unsigned char)((7 + i) >> 8);
    }
    OK(wl_run(engine, &here, NULL));
    TRUE(!memcmp(host, wanted, TEXT));

    /* Places that only the GPU knows: the same batch by addresses. */
    {
        static uint64_t arrays[4][COUNT];
        uint64_t at[4];
        wl_cuda_places places;
        memset(&places, 0, sizeof places);
        EXPECT(wl_cuda_workspace_size_indirect(ready, &places, &size), WL_ERR_ARGUMENT); /* size */
        places.size = sizeof places, places.operation = WL_OPEN;
        places.count = COUNT, places.total_len = TEXT;
        EXPECT(wl_cuda_workspace_size_indirect(ready, &places, &size), WL_ERR_ARGUMENT); /* NULL */
        TRUE(!down(host + TAGS, memory + TAGS, COUNT * 16));
        host[TAGS + 16 * 9] ^= 1;
        TRUE(!up(memory + NONCES, host + NONCES, SIZE - NONCES));
        for (uint64_t i = 0; i < COUNT; i++) {
            arrays[0][i] = memory + LEN * i, arrays[1][i] = LEN;
            arrays[2][i] = memory + NONCES + 12 * i, arrays[3][i] = memory + TAGS + 16 * i;
        }
        for (int i = 0; i < 4; i++)
            TRUE(!alloc(&at[i], sizeof arrays[i]) && !up(at[i], arrays[i], sizeof arrays[i]));
        places.inputs = gpu(at[0]), places.lens = gpu(at[1]);
        places.nonces = gpu(at[2]), places.tags = gpu(at[3]);
        memset(statuses, 0, sizeof statuses);
        TRUE(!up(words, statuses, sizeof statuses));
        OK(wl_cuda_workspace_size_indirect(ready, &places, &size));
        TRUE(!alloc(&workspace, size));
        OK(wl_cuda_enqueue_indirect(ready, &places, gpu(workspace), size, gpu(words),
                                    gpu(words + COUNT * 4), NULL));
        TRUE(!sync() && !down(statuses, words, sizeof statuses) && statuses[COUNT] == 1);
        for (int i = 0; i < COUNT; i++) TRUE(statuses[i] == (i == 9));
        memset(wanted + 9 * LEN, 0, LEN);
        TRUE(!down(host, memory, TEXT) && !memcmp(host, wanted, TEXT));
    }

    wl_cuda_key_free(ready);
    wl_cuda_device_free(device);
    wl_key_free(key);
    wl_engine_free(engine);
    puts("plans and calls in GPU memory: passed");
    return 0;
}
