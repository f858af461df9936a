/* Seals one message and opens it again; then modifies it. */
#include <stdio.h>
#include <string.h>
#include <warplock.h>

static int fails(wl_status status, const char *what) {
    char sentence[256];
    if (status == WL_OK) return 0;
    wl_last_error(sentence, sizeof sentence);
    fprintf(stderr, "%s: %s: %s\n", what, wl_status_name(status), sentence);
    return 1;
}

int main(void) {
    const char text[] = "a secret", aad[] = "v1";
    unsigned char sealed[12 + sizeof text + 16];
    char opened[sizeof text];
    wl_engine *engine = NULL;
    wl_key *key = NULL;
    int result = 1;

    if (fails(wl_engine_new(NULL, 0, &engine), "engine")) goto end;
    if (fails(wl_key_generate(WL_AES_256_GCM, &key), "key")) goto end;

    /* The nonce is drawn, and is the beginning of the result. */
    if (fails(wl_seal(engine, key, aad, sizeof aad, text, sizeof text, sealed, sizeof sealed),
              "seal"))
        goto end;
    if (fails(wl_open(engine, key, aad, sizeof aad, sealed, sizeof sealed, opened, sizeof opened),
              "open"))
        goto end;
    printf("opened: %s\n", opened);

    sealed[20] ^= 1;
    if (wl_open(engine, key, aad, sizeof aad, sealed, sizeof sealed, opened, sizeof opened) !=
        WL_ERR_AUTHENTICATION)
        goto end;
    printf("the modified message was refused\n");
    result = 0;
end:
    wl_key_free(key);
    wl_engine_free(engine);
    return result;
}
