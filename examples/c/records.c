/* Seals 100,000 messages of different lengths in one call, modifies one and opens them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <warplock.h>

enum { COUNT = 100000 };

int main(void) {
    wl_span *spans = malloc(COUNT * sizeof *spans);
    unsigned char *nonces = malloc(COUNT * 12), *tags = malloc(COUNT * 16), *failed = malloc(COUNT);
    unsigned char *texts = NULL;
    uint64_t size = 0, i, refused = 0;
    wl_engine *engine = NULL;
    wl_key *key = NULL;
    wl_batch batch = {0};
    char sentence[256];
    int result = 1;

    if (!spans || !nonces || !tags || !failed) goto end;
    for (i = 0; i < COUNT; i++) {
        spans[i].offset = size;
        spans[i].len = i * 7919 % 1000;
        size += spans[i].len;
    }
    if (!(texts = calloc(size, 1))) goto end;
    if (wl_engine_new(NULL, 0, &engine) || wl_key_generate(WL_AES_256_GCM, &key)) goto fault;

    batch.size = sizeof batch;
    batch.operation = WL_SEAL;
    batch.count = COUNT;
    batch.key = key;
    batch.input = texts; /* without an output: in place */
    batch.input_size = size;
    batch.input_spans = spans;
    batch.nonces = nonces; /* drawn and written here */
    batch.tags = tags;
    if (wl_run(engine, &batch, NULL)) goto fault;

    texts[spans[5].offset] ^= 1;
    batch.operation = WL_OPEN;
    if (wl_run(engine, &batch, failed) != WL_ERR_AUTHENTICATION) goto fault;
    for (i = 0; i < COUNT; i++) refused += failed[i];
    printf("%d messages, %llu refused, message 5 among them: %s\n", (int)COUNT,
           (unsigned long long)refused, failed[5] ? "yes" : "no");
    result = refused != 1 || !failed[5];
    goto end;
fault:
    wl_last_error(sentence, sizeof sentence);
    fprintf(stderr, "%s\n", sentence);
end:
    wl_key_free(key);
    wl_engine_free(engine);
    free(spans), free(nonces), free(tags), free(failed), free(texts);
    return result;
}
