/* Encrypts a file with progress, reads from its middle, and decrypts it. Usage: file FOLDER */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <warplock.h>

static int32_t show(void *context, uint64_t done) {
    fprintf(stderr, "\r%s: %llu bytes", (const char *)context, (unsigned long long)done);
    return 0; /* anything else would stop the work */
}

int main(int argc, char **argv) {
    static char paths[4][4096], block[1 << 20];
    static const char *const names[4] = {"key.txt", "plain", "plain.wl", "again"};
    char recipient[WL_RECIPIENT_SIZE], some[5] = {0}, sentence[512];
    char encrypting[] = "encrypting";
    wl_engine *engine = NULL;
    wl_recipients *recipients = NULL;
    wl_identities *identities = NULL;
    wl_reader *reader = NULL;
    uint64_t len = 0;
    size_t read = 0;
    FILE *file;
    int i, result = 1;

    if (argc != 2) return fprintf(stderr, "usage: file FOLDER\n"), 2;
    for (i = 0; i < 4; i++) snprintf(paths[i], sizeof paths[i], "%s/%s", argv[1], names[i]);
    memset(block, 'a', sizeof block);
    if (!(file = fopen(paths[1], "wb"))) return perror(paths[1]), 1;
    for (i = 0; i < 8; i++) fwrite(block, 1, sizeof block, file);
    if (fclose(file)) return perror(paths[1]), 1;

    if (wl_engine_new(NULL, 0, &engine) || wl_recipients_new(&recipients) ||
        wl_identities_new(&identities) ||
        wl_identity_create(paths[0], WL_REPLACE, recipient, sizeof recipient) ||
        wl_recipients_add(recipients, recipient) || wl_identities_add_file(identities, paths[0]) ||
        wl_encrypt_file(engine, paths[1], paths[2], recipients, WL_REPLACE, show, encrypting,
                        &len) ||
        wl_reader_open(engine, paths[2], identities, &reader) ||
        wl_reader_read_at(reader, 5000000, some, 4, &read) ||
        wl_decrypt_file(engine, paths[2], paths[3], identities, WL_REPLACE, NULL, NULL, &len)) {
        wl_last_error(sentence, sizeof sentence);
        fprintf(stderr, "\n%s\n", sentence);
    } else {
        printf("\n%llu bytes for %s; at byte 5,000,000: %s\n", (unsigned long long)len, recipient,
               some);
        result = strcmp(some, "aaaa") != 0;
    }
    wl_reader_free(reader);
    wl_identities_free(identities);
    wl_recipients_free(recipients);
    wl_engine_free(engine);
    return result;
}
