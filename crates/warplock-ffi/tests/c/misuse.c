/* What callers do wrong gives a status and a sentence; what they may do works. The argument "freed"
 * adds the use of freed handles, which memory checkers report. Usage: misuse FOLDER [freed] */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <warplock.h>

static int checks;

static void expect(int at, wl_status found, wl_status wanted, const char *says) {
    char sentence[512] = "";
    checks++;
    if (found) wl_last_error(sentence, sizeof sentence);
    if (found != wanted || (found && says && !strstr(sentence, says))) {
        fprintf(stderr, "misuse.c:%d: %s, not %s: %s\n", at, wl_status_name(found),
                wl_status_name(wanted), sentence);
        exit(1);
    }
}

static void is_true(int at, int is, const char *condition) {
    checks++;
    if (is) return;
    fprintf(stderr, "misuse.c:%d: false: %s\n", at, condition);
    exit(1);
}
#define EXPECT(call, wanted, says) expect(__LINE__, call, wanted, says)
#define OK(call) expect(__LINE__, call, WL_OK, NULL)
#define TRUE(condition) is_true(__LINE__, (condition) != 0, #condition)

static wl_engine *engine;
static wl_key *key;

static wl_batch batch_of(void *data, void *nonces, void *tags) {
    wl_batch batch;
    memset(&batch, 0, sizeof batch);
    batch.size = sizeof batch;
    batch.operation = WL_SEAL;
    batch.count = 4;
    batch.key = key;
    batch.input = data, batch.input_size = 400, batch.text_len = 100;
    batch.nonces = nonces;
    batch.tags = tags;
    return batch;
}

static void strings_and_numbers(void) {
    char small[4] = {'x', 'x', 'x', 'x'};
    uint32_t id = 0;
    TRUE(wl_abi_version() == WL_ABI_VERSION);
    TRUE(!strcmp(wl_status_name(12345), "unknown status"));
    EXPECT(wl_algorithm("aes-512-gcm", &id), WL_ERR_ARGUMENT, "aes-512-gcm");
    TRUE(wl_last_error(NULL, 0) > 4);
    TRUE(wl_last_error(small, 3) > 4 && small[2] == 0 && small[3] == 'x');
    EXPECT(wl_algorithm(NULL, &id), WL_ERR_ARGUMENT, "NULL");
    EXPECT(wl_algorithm("\xff", &id), WL_ERR_ARGUMENT, "UTF-8");
    EXPECT(wl_algorithm("aes-256-gcm", NULL), WL_ERR_ARGUMENT, "NULL");
    OK(wl_algorithm("AES-256-gcm", &id));
    TRUE(id == WL_AES_256_GCM && !strcmp(wl_algorithm_name(id), "aes-256-gcm"));
    for (id = 1; id <= 15; id++) {
        uint32_t again = 0;
        OK(wl_algorithm(wl_algorithm_name(id), &again));
        TRUE(again == id && wl_key_len(id) >= 16);
    }
    TRUE(!wl_algorithm_name(0) && !wl_algorithm_name(16) && !wl_algorithm_name(UINT32_MAX));
    TRUE(wl_key_len(99) == 0 && wl_nonce_len(99) == 0 && wl_is_authenticated(99) == 0);
    TRUE(wl_sealed_len(WL_AES_256_GCM, 5) == 33 && wl_sealed_len(WL_AES_256_CTR, 5) == 0);
    TRUE(wl_sealed_len(WL_AES_256_GCM, SIZE_MAX) == 0);
}

static void handles(void) {
    unsigned char bytes[64] = {1};
    uint64_t other[32] = {0};
    char name[64];
    wl_key *made = NULL;
    wl_engine *none = NULL;
    EXPECT(wl_engine_new("gpu", 0, &none), WL_ERR_NO_BACKEND, "gpu");
    EXPECT(wl_engine_new("cuda:63", 0, &none), WL_ERR_NO_BACKEND, "cuda:63");
    EXPECT(wl_engine_new("cpu", 99999, &none), WL_ERR_NO_BACKEND, "threads");
    EXPECT(wl_engine_new("cpu", 1, NULL), WL_ERR_ARGUMENT, "NULL");
    EXPECT(wl_engine_backend(engine, name, 2), WL_ERR_TOO_SMALL, "bytes");
    OK(wl_engine_backend(engine, name, sizeof name));
    TRUE(!strncmp(name, "cpu", 3));
    OK(wl_engine_wake(engine));
    EXPECT(wl_key_new(WL_AES_256_GCM, bytes, 31, &made), WL_ERR_KEY_LENGTH, "32");
    EXPECT(wl_key_new(77, bytes, 32, &made), WL_ERR_ARGUMENT, "77");
    EXPECT(wl_key_new(WL_AES_256_GCM, NULL, 32, &made), WL_ERR_ARGUMENT, "NULL");
    EXPECT(wl_key_new(WL_AES_256_GCM, bytes, SIZE_MAX, &made), WL_ERR_ARGUMENT, "memory");
    EXPECT(wl_key_new(WL_AES_128_XTS, other, 32, &made), WL_ERR_KEY_LENGTH, "halves");
    TRUE(made == NULL);
    /* Another type's handle, something else, a crooked pointer. */
    EXPECT(wl_engine_wake((const wl_engine *)key), WL_ERR_ARGUMENT, "not one");
    EXPECT(wl_engine_wake((const wl_engine *)other), WL_ERR_ARGUMENT, "not one");
    EXPECT(wl_engine_wake((const wl_engine *)((const char *)engine + 1)), WL_ERR_ARGUMENT, "not");
    EXPECT(wl_engine_wake(NULL), WL_ERR_ARGUMENT, "engine is NULL");
    TRUE(wl_key_algorithm(NULL) == 0 && wl_key_algorithm(key) == WL_AES_256_GCM);
    wl_key_free(NULL), wl_engine_free(NULL), wl_reader_free(NULL), wl_part_sealer_free(NULL);
    wl_recipients_free(NULL), wl_identities_free(NULL), wl_key_table_free(NULL);
    wl_key_free((wl_key *)engine); /* is refused and frees nothing */
    OK(wl_engine_wake(engine));
    OK(wl_random(NULL, 0));
    EXPECT(wl_random(NULL, 1), WL_ERR_ARGUMENT, "NULL");
}

static void messages(void) {
    unsigned char sealed[64], again[64], text[32] = "some text", tag[16], nonce[12] = {0};
    wl_key *ctr = NULL;
    EXPECT(wl_seal(engine, key, NULL, 0, text, 32, sealed, 59), WL_ERR_TOO_SMALL, "60");
    EXPECT(wl_seal(engine, key, NULL, 3, text, 32, sealed, 64), WL_ERR_ARGUMENT, "NULL");
    EXPECT(wl_seal(engine, key, NULL, 0, NULL, 32, sealed, 64), WL_ERR_ARGUMENT, "NULL");
    EXPECT(wl_seal(engine, key, NULL, 0, text, 32, NULL, 64), WL_ERR_ARGUMENT, "NULL");
    EXPECT(wl_seal(engine, key, NULL, 0, text, SIZE_MAX, sealed, 64), WL_ERR_ARGUMENT, "memory");
    EXPECT(wl_seal(engine, key, NULL, 0, sealed + 13, 32, sealed, 64), WL_ERR_OVERLAP, "overlap");
    EXPECT(wl_seal(engine, key, sealed, 4, text, 32, sealed, 64), WL_ERR_OVERLAP, "overlap");
    EXPECT(wl_seal(NULL, key, NULL, 0, text, 32, sealed, 64), WL_ERR_ARGUMENT, "engine");
    EXPECT(wl_seal(engine, NULL, NULL, 0, text, 32, sealed, 64), WL_ERR_ARGUMENT, "key");
    OK(wl_seal(engine, key, NULL, 0, NULL, 0, sealed, 28));
    OK(wl_open(engine, key, NULL, 0, sealed, 28, NULL, 0));
    OK(wl_seal(engine, key, NULL, 0, text, 32, sealed, 64));
    EXPECT(wl_open(engine, key, NULL, 0, sealed, 60, again, 31), WL_ERR_TOO_SMALL, "32");
    EXPECT(wl_open(engine, key, NULL, 0, sealed, 27, again, 64), WL_ERR_AUTHENTICATION, "few");
    EXPECT(wl_open(engine, key, NULL, 0, sealed, 60, sealed + 11, 53), WL_ERR_OVERLAP, NULL);
    OK(wl_open(engine, key, NULL, 0, sealed, 60, again, 32));
    TRUE(!memcmp(again, text, 32));
    /* In place, there and back. */
    memcpy(sealed + 12, text, 32);
    OK(wl_seal(engine, key, "ad", 2, sealed + 12, 32, sealed, 60));
    OK(wl_open(engine, key, "ad", 2, sealed, 60, sealed + 12, 32));
    TRUE(!memcmp(sealed + 12, text, 32));
    /* Every bit counts, and nothing unverified comes out. */
    OK(wl_seal(engine, key, "ad", 2, text, 32, sealed, 60));
    for (int bit = 0; bit < 60 * 8; bit++) {
        memset(again, 7, 32);
        sealed[bit / 8] ^= (unsigned char)(1 << bit % 8);
        EXPECT(wl_open(engine, key, "ad", 2, sealed, 60, again, 32), WL_ERR_AUTHENTICATION, NULL);
        for (int i = 0; i < 32; i++) TRUE(again[i] == 0);
        sealed[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    EXPECT(wl_open(engine, key, "AD", 2, sealed, 60, again, 32), WL_ERR_AUTHENTICATION, NULL);
    EXPECT(wl_seal_with_nonce(engine, key, nonce, 0, NULL, 0, text, 32, again, tag),
           WL_ERR_ARGUMENT, "IV");
    EXPECT(wl_seal_with_nonce(engine, key, nonce, 12, NULL, 0, text, 32, again, again + 30),
           WL_ERR_OVERLAP, "tag");
    EXPECT(wl_seal_with_nonce(engine, key, nonce, 12, NULL, 0, text, 32, again, NULL),
           WL_ERR_ARGUMENT, "tag");
    OK(wl_seal_with_nonce(engine, key, nonce, 12, NULL, 0, text, 32, again, tag));
    OK(wl_open_with_nonce(engine, key, nonce, 12, NULL, 0, again, 32, again, tag));
    TRUE(!memcmp(again, text, 32));
    OK(wl_key_generate(WL_AES_128_CTR, &ctr));
    EXPECT(wl_seal(engine, ctr, NULL, 0, text, 32, sealed, 64), WL_ERR_UNSUPPORTED, "ctr");
    EXPECT(wl_seal_with_nonce(engine, ctr, sealed, 16, NULL, 0, text, 32, again, tag),
           WL_ERR_UNSUPPORTED, "ctr");
    wl_key_free(ctr);
}

static void batches(void) {
    unsigned char data[464] = {0}, nonces[60], tags[80], failed[5], out[464], keys[4 * 32];
    wl_span spans[4] = {{0, 100}, {100, 0}, {100, 200}, {300, 100}};
    uint32_t index[4] = {0, 1, 1, 0};
    wl_key_table *table = NULL;
    wl_batch batch = batch_of(data, nonces, tags), *old;

    EXPECT(wl_run(engine, NULL, NULL), WL_ERR_ARGUMENT, "NULL");
    batch.size = 0;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "size");
    batch.size = (uint32_t)offsetof(wl_batch, reserved) - 1;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "size");
    batch.size = UINT32_MAX;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "size");
    batch.size = sizeof batch, batch.reserved[7] = 1;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_UNSUPPORTED, "newer");
    batch.reserved[7] = 0, batch.operation = 9;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "operation is 9");
    batch.operation = WL_SEAL, batch.nonce_mode = 9;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "nonce_mode is 9");
    batch.nonce_mode = WL_NONCES_DRAWN, batch.key = NULL;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "exactly one");
    batch.key = key, batch.key_bytes = keys;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "exactly one");
    batch.key_bytes = NULL, batch.count = UINT64_MAX;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "memory");
    batch.count = UINT64_MAX / 12;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "memory");
    batch.count = 5;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_TOO_SMALL, "message 4");
    batch.count = 4, batch.text_len = UINT64_MAX;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "memory");
    batch.text_len = 100, batch.input_stride = UINT64_MAX / 2;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_TOO_SMALL, "outside");
    batch.input_stride = 50;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_OVERLAP, "overlaps");
    batch.input_stride = 0, batch.tag_len = 17;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "17");
    batch.tag_len = 0, batch.nonces = NULL;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "nonces");
    batch.nonces = data;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_OVERLAP, "nonces");
    batch.nonces = nonces, batch.tags = NULL;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_TOO_SMALL, "outside");
    batch.tags = tags, batch.output = data + 8, batch.output_size = 400;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_OVERLAP, "output");
    batch.output = NULL, batch.aad = data, batch.aad_size = 4;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_OVERLAP, "aad");
    batch.aad = NULL;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "aad");
    batch.aad_size = 0;
    EXPECT(wl_run(engine, &batch, data), WL_ERR_OVERLAP, "failed");
    /* What describes the messages must not change while they are encrypted. */
    batch.input_spans = (const wl_span *)data;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_OVERLAP, "input_spans");
    batch.input_spans = NULL, batch.key = NULL;
    batch.key_bytes = data, batch.key_algorithm = WL_AES_256_GCM;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_OVERLAP, "key_bytes");
    batch.key_bytes = NULL;
    {
        wl_key_table *table = NULL;
        unsigned char one[32] = {1};
        OK(wl_key_table_new(WL_AES_256_GCM, one, 32, 1, &table));
        batch.key_table = table, batch.key_index = (const uint32_t *)data;
        EXPECT(wl_run(engine, &batch, NULL), WL_ERR_OVERLAP, "key_index");
        wl_key_table_free(table);
    }
    batch.key_table = NULL, batch.key_index = NULL, batch.key = key;
    batch.input = NULL;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "input");
    batch.input = data, batch.nonce_mode = WL_NONCES_GIVEN;
    memset(nonces, 0, sizeof nonces);
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_NONCE_REUSE, "same nonce");
    batch.nonce_mode = WL_NONCES_SECTORS;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_UNSUPPORTED, "sectors");
    for (int i = 0; i < 400; i++) TRUE(data[i] == 0);

    /* In place with ragged messages; then one of them is modified. */
    batch.nonce_mode = WL_NONCES_DRAWN, batch.input_spans = spans;
    batch.aad = "v1", batch.aad_size = 2;
    OK(wl_run(engine, &batch, failed));
    TRUE(!memcmp(failed, "\0\0\0\0", 4));
    data[150] ^= 1;
    batch.operation = WL_OPEN;
    EXPECT(wl_run(engine, &batch, failed), WL_ERR_AUTHENTICATION, "1 of 4");
    TRUE(!memcmp(failed, "\0\0\1\0", 4));
    for (int i = 0; i < 400; i++) TRUE(data[i] == 0);

    /* A program with the first version of the structure: exactly that many bytes. */
    old = malloc(offsetof(wl_batch, reserved));
    TRUE(old != NULL);
    batch = batch_of(data, nonces, NULL);
    batch.size = offsetof(wl_batch, reserved);
    batch.output = out, batch.output_size = sizeof out;
    memcpy(old, &batch, offsetof(wl_batch, reserved));
    OK(wl_run(engine, old, NULL));
    old->operation = WL_OPEN;
    old->input = out, old->input_size = sizeof out, old->output = data, old->output_size = 400;
    memset(data, 9, sizeof data);
    OK(wl_run(engine, old, NULL));
    for (int i = 0; i < 400; i++) TRUE(data[i] == 0);
    free(old);
    /* And one with a later version, which leaves what this library does not know zero. */
    {
        struct {
            wl_batch batch;
            uint64_t more[4];
        } later;
        memset(&later, 0, sizeof later);
        later.batch = batch_of(data, nonces, tags);
        later.batch.size = sizeof later;
        OK(wl_run(engine, &later.batch, NULL));
        later.more[3] = 1;
        EXPECT(wl_run(engine, &later.batch, NULL), WL_ERR_UNSUPPORTED, "newer");
    }

    /* A key for each message, and keys by number. */
    OK(wl_random(keys, sizeof keys));
    batch = batch_of(data, nonces, tags);
    memset(data, 0, sizeof data);
    batch.key = NULL, batch.key_bytes = keys;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "algorithm");
    batch.key_algorithm = WL_AES_256_GCM;
    OK(wl_run(engine, &batch, NULL));
    EXPECT(wl_key_table_new(WL_AES_256_GCM, keys, 127, 4, &table), WL_ERR_ARGUMENT, "127");
    EXPECT(wl_key_table_new(WL_AES_256_GCM, keys, 0, SIZE_MAX, &table), WL_ERR_ARGUMENT, NULL);
    OK(wl_key_table_new(WL_AES_256_GCM, keys, 64, 2, &table));
    batch.key_bytes = NULL, batch.key_table = table;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "key_index");
    batch.key_index = index, index[2] = 2, batch.operation = WL_OPEN;
    EXPECT(wl_run(engine, &batch, NULL), WL_ERR_ARGUMENT, "message 2");
    index[2] = 1;
    EXPECT(wl_run(engine, &batch, failed), WL_ERR_AUTHENTICATION, "2 of 4");
    TRUE(!memcmp(failed, "\0\0\1\1", 4));
    wl_key_table_free(table);

    /* No messages at all. */
    batch = batch_of(NULL, NULL, NULL);
    batch.count = 0, batch.input_size = 0;
    OK(wl_run(engine, &batch, NULL));
    {
        wl_key *xts = NULL;
        OK(wl_key_generate(WL_AES_256_XTS, &xts));
        batch = batch_of(data, NULL, tags);
        batch.key = xts, batch.nonce_mode = WL_NONCES_SECTORS, batch.first = 7;
        batch.operation = WL_ENCRYPT;
        EXPECT(wl_run(engine, &batch, NULL), WL_ERR_UNSUPPORTED, "no tags");
        batch.tags = NULL;
        memset(data, 3, 400);
        OK(wl_run(engine, &batch, NULL));
        batch.operation = WL_OPEN;
        EXPECT(wl_run(engine, &batch, NULL), WL_ERR_UNSUPPORTED, "authenticate");
        batch.operation = WL_DECRYPT;
        OK(wl_run(engine, &batch, NULL));
        for (int i = 0; i < 400; i++) TRUE(data[i] == 3);
        wl_key_free(xts);
    }
}

static int32_t stop(void *context, uint64_t done) {
    (void)done;
    ++*(int *)context;
    return 1;
}

static int32_t go(void *context, uint64_t done) {
    (void)done;
    ++*(int *)context;
    return 0;
}

static void files(const char *folder) {
    char plain[2048], sealed[2048], opened[2048], id[2048], recipient[WL_RECIPIENT_SIZE];
    wl_recipients *recipients = NULL;
    wl_identities *identities = NULL, *others = NULL;
    wl_reader *reader = NULL;
    uint64_t len = 0;
    size_t read = 0;
    unsigned char some[64];
    int calls = 0, modified;
    FILE *file;
    snprintf(plain, sizeof plain, "%s/plain", folder);
    snprintf(sealed, sizeof sealed, "%s/sealed", folder);
    snprintf(opened, sizeof opened, "%s/opened", folder);
    snprintf(id, sizeof id, "%s/key.txt", folder);
    TRUE((file = fopen(plain, "wb")) != NULL);
    for (int i = 0; i < 100000; i++) fputc('a' + i % 26, file);
    TRUE(fclose(file) == 0);
    remove(sealed), remove(opened), remove(id);

    EXPECT(wl_identity_create(id, 0, recipient, 10), WL_ERR_TOO_SMALL, "128");
    EXPECT(wl_identity_create(id, 8, recipient, sizeof recipient), WL_ERR_ARGUMENT, "flags");
    OK(wl_identity_create(id, 0, recipient, sizeof recipient));
    EXPECT(wl_identity_create(id, 0, recipient, sizeof recipient), WL_ERR_EXISTS, NULL);
    OK(wl_recipients_new(&recipients));
    OK(wl_identities_new(&identities));
    OK(wl_identities_new(&others));
    EXPECT(wl_encrypt_file(engine, plain, sealed, recipients, 0, NULL, NULL, NULL), WL_ERR_KEYRING,
           NULL);
    EXPECT(wl_recipients_add(recipients, "age1nonsense"), WL_ERR_KEYRING, NULL);
    EXPECT(wl_recipients_add(recipients, NULL), WL_ERR_ARGUMENT, "NULL");
    EXPECT(wl_recipients_add_passphrase(recipients, "", 0), WL_ERR_ARGUMENT, "empty");
    OK(wl_recipients_add(recipients, recipient));
    EXPECT(wl_identities_add(identities, "nonsense", 8), WL_ERR_KEYRING, NULL);
    EXPECT(wl_identities_add_file(identities, "/nowhere/key.txt"), WL_ERR_IO, "nowhere");
    EXPECT(wl_encrypt_file(engine, "/nowhere", sealed, recipients, 0, NULL, NULL, NULL), WL_ERR_IO,
           "/nowhere");
    EXPECT(wl_encrypt_file(engine, plain, sealed, recipients, 0, stop, &calls, NULL),
           WL_ERR_CANCELLED, NULL);
    TRUE(calls > 0 && !fopen(sealed, "rb"));
    OK(wl_encrypt_file(engine, plain, sealed, recipients, 0, NULL, NULL, &len));
    TRUE(len == 100000);
    EXPECT(wl_encrypt_file(engine, plain, sealed, recipients, 0, NULL, NULL, NULL), WL_ERR_EXISTS,
           "sealed");
    EXPECT(wl_decrypt_file(engine, sealed, opened, identities, 0, NULL, NULL, NULL),
           WL_ERR_WRONG_KEY, NULL);
    OK(wl_identities_add_passphrase(others, "wrong", 5));
    EXPECT(wl_verify_file(engine, sealed, others, NULL, NULL, NULL), WL_ERR_WRONG_KEY, NULL);
    EXPECT(wl_verify_file(engine, plain, identities, NULL, NULL, NULL), WL_ERR_FORMAT, NULL);
    OK(wl_identities_add_file(identities, id));
    OK(wl_verify_file(engine, sealed, identities, NULL, NULL, &len));
    OK(wl_decrypt_file(engine, sealed, opened, identities, 0, NULL, NULL, NULL));

    /* Permissions and times, for who asks on both sides. */
    {
        struct timespec when[2] = {{1234567890, 123456789}, {1234567890, 123456789}};
        uint32_t keeps = WL_REPLACE | WL_ATTRIBUTES;
        struct stat found;
        TRUE(!chmod(plain, 0640) && !utimensat(AT_FDCWD, plain, when, 0));
        OK(wl_encrypt_file(engine, plain, sealed, recipients, keeps, NULL, NULL, NULL));
        remove(opened);
        OK(wl_decrypt_file(engine, sealed, opened, identities, WL_ATTRIBUTES, NULL, NULL, NULL));
        TRUE(!stat(opened, &found) && found.st_mtim.tv_sec == when[0].tv_sec);
        TRUE(found.st_mtim.tv_nsec == when[0].tv_nsec && (found.st_mode & 0777) == 0640);
        OK(wl_decrypt_file(engine, sealed, opened, identities, WL_REPLACE, NULL, NULL, NULL));
        TRUE(!stat(opened, &found) && found.st_mtim.tv_sec != when[0].tv_sec);
        OK(wl_encrypt_file(engine, plain, sealed, recipients, WL_REPLACE, NULL, NULL, NULL));
        OK(wl_decrypt_file(engine, sealed, opened, identities, keeps, NULL, NULL, NULL));
        TRUE(!stat(opened, &found) && found.st_mtim.tv_sec != when[0].tv_sec);
        EXPECT(wl_encrypt_file(engine, plain, sealed, recipients, 8, NULL, NULL, NULL),
               WL_ERR_ARGUMENT, "WL_ATTRIBUTES");
    }

    OK(wl_reader_open(engine, sealed, identities, &reader));
    OK(wl_reader_len(reader, &len));
    TRUE(len == 100000);
    {
        /* A forked process has the same descriptors: their positions must not matter. */
        const int next = open(sealed, O_RDONLY), of_reader = next - 1;
        const off_t before = lseek(of_reader, 0, SEEK_CUR);
        struct stat one, other;
        TRUE(!fstat(next, &one) && !fstat(of_reader, &other) && one.st_ino == other.st_ino);
        OK(wl_reader_read_at(reader, 0, some, sizeof some, &read));
        TRUE(lseek(of_reader, 0, SEEK_CUR) == before);
        close(next);
    }
    OK(wl_reader_read_at(reader, 99998, some, sizeof some, &read));
    TRUE(read == 2 && some[0] == 'a' + 99998 % 26);
    OK(wl_reader_read_at(reader, UINT64_MAX, some, sizeof some, &read));
    TRUE(read == 0);
    EXPECT(wl_reader_read_at(reader, 0, NULL, 1, &read), WL_ERR_ARGUMENT, "NULL");
    wl_reader_free(reader), reader = NULL;

    /* Other recipients: the old identity opens it no longer, and back again. */
    {
        wl_recipients *next = NULL;
        wl_identities *later = NULL;
        char next_id[1000], next_recipient[WL_RECIPIENT_SIZE];
        snprintf(next_id, sizeof next_id, "%s/next.txt", folder);
        remove(next_id);
        OK(wl_identity_create(next_id, 0, next_recipient, sizeof next_recipient));
        OK(wl_recipients_new(&next)), OK(wl_identities_new(&later));
        EXPECT(wl_rewrap_file(engine, sealed, identities, next, 0, NULL, NULL), WL_ERR_KEYRING, NULL);
        OK(wl_recipients_add(next, next_recipient)), OK(wl_identities_add_file(later, next_id));
        EXPECT(wl_rewrap_file(engine, sealed, later, next, 0, NULL, NULL), WL_ERR_WRONG_KEY,
               "sealed");
        EXPECT(wl_rewrap_file(engine, sealed, identities, next, 9, NULL, NULL), WL_ERR_ARGUMENT,
               "WL_REKEY");
        EXPECT(wl_rewrap_file(engine, plain, identities, next, 0, NULL, NULL), WL_ERR_ARGUMENT,
               "envelope");
        OK(wl_rewrap_file(engine, sealed, identities, next, 0, NULL, NULL));
        EXPECT(wl_verify_file(engine, sealed, identities, NULL, NULL, NULL), WL_ERR_WRONG_KEY, NULL);
        OK(wl_verify_file(engine, sealed, later, NULL, NULL, NULL));
        EXPECT(wl_rewrap_file(engine, sealed, later, recipients, WL_REKEY, stop, &calls),
               WL_ERR_CANCELLED, NULL);
        OK(wl_verify_file(engine, sealed, later, NULL, NULL, NULL));
        OK(wl_rewrap_file(engine, sealed, later, recipients, WL_REKEY, go, &calls));
        OK(wl_verify_file(engine, sealed, identities, NULL, NULL, &len));
        TRUE(len == 100000);
        wl_recipients_free(next), wl_identities_free(later);
    }

    /* One byte of the first chunk modified, then the end cut off. */
    TRUE((file = fopen(sealed, "r+b")) != NULL && !fseek(file, -100000, SEEK_END));
    modified = fgetc(file) ^ 1;
    TRUE(!fseek(file, -100000, SEEK_END) && fputc(modified, file) == modified);
    TRUE(fclose(file) == 0);
    EXPECT(wl_decrypt_file(engine, sealed, opened, identities, WL_REPLACE, NULL, NULL, NULL),
           WL_ERR_CORRUPTED, "chunk 0");
    OK(wl_reader_open(engine, sealed, identities, &reader));
    EXPECT(wl_reader_read_at(reader, 0, some, 1, &read), WL_ERR_CORRUPTED, "chunk 0");
    OK(wl_reader_read_at(reader, 50000, some, 1, &read));
    wl_reader_free(reader);

    /* A stream in parts, after an envelope. */
    {
        static unsigned char stream[200000], text[100000];
        unsigned char secret[WL_STREAM_KEY_LEN], header[WL_HEADER_LEN];
        wl_part_sealer *here = NULL, *there = NULL;
        size_t start, at = 0, more = 0;
        EXPECT(wl_envelope_new(recipients, secret, stream, 10, &at), WL_ERR_TOO_SMALL, "needed");
        TRUE(at > 10);
        OK(wl_envelope_new(recipients, secret, stream, sizeof stream, &at));
        start = at;
        EXPECT(wl_part_sealer_new(engine, secret, 31, 100000, &here), WL_ERR_KEY_LENGTH, "32");
        OK(wl_part_sealer_new(engine, secret, 32, sizeof text, &here));
        OK(wl_part_sealer_header(here, header));
        OK(wl_part_sealer_resume(engine, secret, 32, header, sizeof text, &there));
        TRUE(wl_part_sealer_chunk_count(here) == 7 && wl_part_sealer_chunk_count(NULL) == 0);
        EXPECT(wl_part_sealer_seal(here, 0, 4, text, 5, stream, sizeof stream, &more),
               WL_ERR_ARGUMENT, "65536");
        EXPECT(wl_part_sealer_seal(here, 0, 8, text, sizeof text, stream, sizeof stream, &more),
               WL_ERR_ARGUMENT, "0..7");
        EXPECT(wl_part_sealer_seal(here, 0, UINT64_MAX, text, 5, stream, 0, &more),
               WL_ERR_TOO_SMALL, NULL);
        EXPECT(wl_part_sealer_seal(here, 0, 4, text, 65536, stream, 9, &more), WL_ERR_TOO_SMALL,
               NULL);
        TRUE(more == 56 + 4 * 16400);
        OK(wl_part_sealer_seal(here, 0, 4, text, 65536, stream + at, sizeof stream - at, &more));
        at += more;
        OK(wl_part_sealer_seal(there, 4, 3, text + 65536, sizeof text - 65536, stream + at,
                               sizeof stream - at, &more));
        at += more;
        TRUE((file = fopen(sealed, "wb")) != NULL && fwrite(stream, 1, at, file) == at);
        TRUE(fclose(file) == 0);
        OK(wl_verify_file(engine, sealed, identities, NULL, NULL, &len));
        TRUE(len == sizeof text);
        TRUE((file = fopen(sealed, "wb")) != NULL && fwrite(stream, 1, at - 60, file) == at - 60);
        TRUE(fclose(file) == 0);
        EXPECT(wl_verify_file(engine, sealed, identities, NULL, NULL, &len), WL_ERR_CORRUPTED,
               "cut short");
        EXPECT(wl_reader_open_with_key(engine, sealed, secret, 32, &reader), WL_ERR_FORMAT, NULL);
        /* The stream without its envelope. */
        TRUE((file = fopen(sealed, "wb")) != NULL);
        TRUE(fwrite(stream + start, 1, at - start, file) == at - start && fclose(file) == 0);
        OK(wl_reader_open_with_key(engine, sealed, secret, 32, &reader));
        OK(wl_reader_read_at(reader, 99999, some, sizeof some, &read));
        TRUE(read == 1 && some[0] == 0);
        wl_reader_free(reader);
        secret[5] ^= 1;
        EXPECT(wl_reader_open_with_key(engine, sealed, secret, 32, &reader), WL_ERR_WRONG_KEY, NULL);
        wl_part_sealer_free(here), wl_part_sealer_free(there);
    }
    wl_recipients_free(recipients), wl_identities_free(identities), wl_identities_free(others);
}

int main(int argc, char **argv) {
    if (argc < 2) return fprintf(stderr, "usage: misuse FOLDER [freed]\n"), 2;
    OK(wl_engine_new("cpu", 2, &engine));
    OK(wl_key_generate(WL_AES_256_GCM, &key));
    strings_and_numbers();
    handles();
    messages();
    batches();
    files(argv[1]);
    if (argc > 2) {
        wl_key *twice = NULL;
        OK(wl_key_generate(WL_AES_256_GCM, &twice));
        wl_key_free(twice);
        wl_key_free(twice);
        TRUE(wl_key_algorithm(twice) == 0);
        EXPECT(wl_seal(engine, twice, NULL, 0, NULL, 0, NULL, 28), WL_ERR_ARGUMENT, "freed");
    }
    wl_key_free(key);
    wl_engine_free(engine);
    printf("%d checks of use and misuse\n", checks);
    return 0;
}
