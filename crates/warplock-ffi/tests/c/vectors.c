/* Runs published test vectors through the C interface, each way, and forgeries of each.
 * Usage: vectors FOLDER, the folder tests/vectors */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warplock.h>

typedef struct {
    unsigned char *data;
    size_t len;
} bytes;

static struct record {
    bytes key, iv, pt, ct, aad, tag;
    int fails, is_partial_byte, has_text;
} record;
static unsigned long run, refused;
static wl_engine *engine;

static void die(const char *what) {
    char sentence[300] = "";
    wl_last_error(sentence, sizeof sentence);
    fprintf(stderr, "vectors: %s after %lu records: %s\n", what, run, sentence);
    exit(1);
}

/* Of exactly this length, so that AddressSanitizer notices a byte too many. */
static bytes make(const void *from, size_t len) {
    bytes made;
    made.len = len;
    if (!(made.data = malloc(len ? len : 1))) die("no memory");
    if (len) memcpy(made.data, from, len);
    return made;
}

static bytes hex(const char *text) {
    static unsigned char buffer[1 << 16];
    size_t len = 0;
    unsigned value;
    while (len < sizeof buffer && sscanf(text + 2 * len, "%2x", &value) == 1)
        buffer[len++] = (unsigned char)value;
    return make(buffer, len);
}

static void clear(void) {
    free(record.key.data), free(record.iv.data), free(record.pt.data), free(record.ct.data);
    free(record.aad.data), free(record.tag.data);
    memset(&record, 0, sizeof record);
}

/* The result of one message through wl_run; the tag apart. */
static wl_status one(wl_key *key, uint32_t operation, bytes in, bytes out, bytes tag) {
    wl_batch batch;
    wl_span iv;
    memset(&batch, 0, sizeof batch);
    batch.size = sizeof batch;
    batch.operation = operation;
    batch.count = 1;
    batch.key = key;
    batch.input = in.data, batch.input_size = in.len, batch.text_len = in.len;
    batch.output = out.data, batch.output_size = out.len;
    batch.nonce_mode = WL_NONCES_SPANS;
    iv.offset = 0, iv.len = record.iv.len;
    batch.nonces = record.iv.data, batch.nonces_size = record.iv.len, batch.nonce_spans = &iv;
    batch.aad = record.aad.len ? record.aad.data : NULL, batch.aad_size = record.aad.len;
    batch.tag_len = (uint32_t)tag.len;
    batch.tags = tag.len ? tag.data : NULL;
    return wl_run(engine, &batch, NULL);
}

static void try_record(uint32_t algorithm) {
    wl_key *key = NULL;
    bytes out, tag;
    if (wl_key_new(algorithm, record.key.data, record.key.len, &key)) die("the key");
    out = make(record.ct.data, record.ct.len);
    tag = make(record.tag.data, record.tag.len);
    if (wl_is_authenticated(algorithm)) {
        wl_status status = one(key, WL_OPEN, record.ct, out, record.tag);
        if (record.fails) {
            if (status != WL_ERR_AUTHENTICATION) die("a forgery was opened");
            refused++;
        } else {
            if (status) die("open");
            if (memcmp(out.data, record.pt.data, out.len)) die("the wrong text");
            /* GCM seals with 12 bytes of tag or more. */
            if (tag.len >= 12) {
                memset(tag.data, 0, tag.len);
                if (one(key, WL_SEAL, record.pt, out, tag)) die("seal");
                if (memcmp(out.data, record.ct.data, out.len)) die("the wrong ciphertext");
                if (memcmp(tag.data, record.tag.data, tag.len)) die("the wrong tag");
            }
            if (tag.len == 16) {
                memset(tag.data, 0, 16);
                if (wl_seal_with_nonce(engine, key, record.iv.data, record.iv.len, record.aad.data,
                                       record.aad.len, record.pt.data, record.pt.len, out.data,
                                       tag.data))
                    die("wl_seal_with_nonce");
                if (memcmp(tag.data, record.tag.data, 16)) die("the wrong tag");
                /* In place. */
                if (wl_open_with_nonce(engine, key, record.iv.data, record.iv.len, record.aad.data,
                                       record.aad.len, out.data, out.len, out.data, tag.data))
                    die("wl_open_with_nonce");
                if (memcmp(out.data, record.pt.data, out.len)) die("the wrong text");
            }
            tag.data[run % tag.len] ^= 1;
            if (one(key, WL_OPEN, record.ct, out, tag) != WL_ERR_AUTHENTICATION)
                die("a forged tag was accepted");
            for (size_t i = 0; i < out.len; i++)
                if (out.data[i]) die("a refused text is not zeros");
            refused++;
        }
    } else {
        bytes none = {NULL, 0};
        if (one(key, WL_ENCRYPT, record.pt, out, none)) die("encrypt");
        if (memcmp(out.data, record.ct.data, out.len)) die("the wrong ciphertext");
        if (one(key, WL_DECRYPT, record.ct, out, none)) die("decrypt");
        if (memcmp(out.data, record.pt.data, out.len)) die("the wrong text");
    }
    free(out.data), free(tag.data);
    wl_key_free(key);
    run++;
}

/* Tries the record if it is whole. The key's length chooses the algorithm, from `first` on. */
static void finish(uint32_t first, size_t smallest) {
    if (record.key.len && record.iv.len && !record.is_partial_byte && record.has_text) {
        const size_t step = first == WL_AES_128_XTS ? 32 : 8;
        if (first == WL_ACORN_128) {
            record.ct.len -= 16;
            record.tag = make(record.ct.data + record.ct.len, 16);
        }
        if (record.fails) {
            free(record.pt.data);
            record.pt = make(record.ct.data, 0);
        }
        try_record(first + (uint32_t)((record.key.len - smallest) / step));
    }
}

static bytes *field(const char *name) {
    static const struct {
        const char *name;
        bytes *place;
    } fields[] = {{"Key", &record.key},   {"KEY", &record.key},       {"IV", &record.iv},
                  {"i", &record.iv},      {"Nonce", &record.iv},      {"PT", &record.pt},
                  {"CT", &record.ct},     {"PLAINTEXT", &record.pt},  {"CIPHERTEXT", &record.ct},
                  {"AAD", &record.aad},   {"AD", &record.aad},        {"Tag", &record.tag}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp(fields[i].name, name)) return fields[i].place;
    return NULL;
}

static void file(const char *folder, const char *name, uint32_t first, unsigned long wanted) {
    static char line[1 << 17];
    char path[4096], *end;
    const unsigned long before = run;
    const size_t smallest = wl_key_len(first);
    FILE *input;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!(input = fopen(path, "r"))) die(path);
    while (fgets(line, sizeof line, input)) {
        char *value = strstr(line, " =");
        line[strcspn(line, "\r\n")] = 0;
        if (!strcmp(line, "FAIL")) record.fails = record.has_text = 1;
        if (!strncmp(line, "Count", 5) || !strncmp(line, "COUNT", 5)) {
            finish(first, smallest);
            clear();
        } else if (value) {
            bytes *place;
            *value = 0;
            value += value[2] ? 3 : 2;
            if (!strcmp(line, "DataUnitLen")) record.is_partial_byte = strtoul(value, &end, 10) % 8;
            if (!strcmp(line, "DataUnitSeqNumber")) {
                unsigned char tweak[16] = {(unsigned char)strtoul(value, &end, 10)};
                record.iv = make(tweak, 16);
            } else if ((place = field(line))) {
                free(place->data);
                *place = hex(value);
                record.has_text |= place == &record.pt || place == &record.ct;
            }
        }
    }
    finish(first, smallest);
    clear();
    fclose(input);
    printf("%-45s %5lu records\n", name, run - before);
    if (run - before != wanted) die("another number of records than expected");
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: vectors FOLDER\n"), 2;
    if (wl_engine_new("cpu", 1, &engine)) die("the engine");
    file(argv[1], "aes/gcm/gcmDecrypt128.rsp", WL_AES_128_GCM, 2625);
    file(argv[1], "aes/gcm/gcmDecrypt256.rsp", WL_AES_128_GCM, 2625);
    file(argv[1], "aes/gcm/gcmEncryptExtIV192.rsp", WL_AES_128_GCM, 2625);
    file(argv[1], "aes/ctr/aes-128-ctr.txt", WL_AES_128_CTR, 3);
    file(argv[1], "aes/ctr/aes-192-ctr.txt", WL_AES_128_CTR, 3);
    file(argv[1], "aes/ctr/aes-256-ctr.txt", WL_AES_128_CTR, 3);
    file(argv[1], "aes/cbc/CBCMMT256.rsp", WL_AES_128_CBC, 20);
    file(argv[1], "aes/xts/tweak-128hexstr/XTSGenAES128.rsp", WL_AES_128_XTS, 800);
    file(argv[1], "aes/xts/tweak-128hexstr/XTSGenAES256.rsp", WL_AES_128_XTS, 600);
    file(argv[1], "aes/xts/tweak-dataunitseqno/XTSGenAES128.rsp", WL_AES_128_XTS, 800);
    file(argv[1], "acorn/acorn128v3_spec_kat.rsp", WL_ACORN_128, 6);
    file(argv[1], "acorn/acorn128v3_lwc_style_kat_128_128.txt", WL_ACORN_128, 1089);
    wl_engine_free(engine);
    printf("%lu records as published, %lu forgeries refused\n", run, refused);
    return 0;
}
