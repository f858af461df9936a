/* Prints the layout of every public structure, for scripts/c-check. */
#include <stddef.h>
#include <stdio.h>
#include <warplock.h>

#define STRUCT(type) printf("struct %s: %zu bytes\n", #type, sizeof(type))
#define MEMBER(type, member) \
    printf("    %s.%s: at %zu, %zu bytes\n", #type, #member, offsetof(type, member), \
           sizeof(((type *)0)->member))

int main(void) {
    printf("abi %u\n", (unsigned)wl_abi_version());
    STRUCT(wl_span);
    MEMBER(wl_span, offset), MEMBER(wl_span, len);
    STRUCT(wl_batch);
    MEMBER(wl_batch, size), MEMBER(wl_batch, operation), MEMBER(wl_batch, nonce_mode);
    MEMBER(wl_batch, tag_len), MEMBER(wl_batch, count), MEMBER(wl_batch, key);
    MEMBER(wl_batch, key_table), MEMBER(wl_batch, key_index), MEMBER(wl_batch, key_bytes);
    MEMBER(wl_batch, key_algorithm), MEMBER(wl_batch, reserved_1), MEMBER(wl_batch, input);
    MEMBER(wl_batch, input_size), MEMBER(wl_batch, input_spans), MEMBER(wl_batch, input_stride);
    MEMBER(wl_batch, text_len), MEMBER(wl_batch, output), MEMBER(wl_batch, output_size);
    MEMBER(wl_batch, output_spans), MEMBER(wl_batch, output_stride), MEMBER(wl_batch, nonces);
    MEMBER(wl_batch, nonces_size), MEMBER(wl_batch, nonce_spans), MEMBER(wl_batch, first);
    MEMBER(wl_batch, nonce_base);
    MEMBER(wl_batch, aad), MEMBER(wl_batch, aad_size), MEMBER(wl_batch, aad_spans);
    MEMBER(wl_batch, tags), MEMBER(wl_batch, reserved);
    STRUCT(wl_cuda_places);
    MEMBER(wl_cuda_places, size), MEMBER(wl_cuda_places, operation);
    MEMBER(wl_cuda_places, count), MEMBER(wl_cuda_places, total_len);
    MEMBER(wl_cuda_places, inputs), MEMBER(wl_cuda_places, lens);
    MEMBER(wl_cuda_places, outputs), MEMBER(wl_cuda_places, nonces);
    MEMBER(wl_cuda_places, aad), MEMBER(wl_cuda_places, aad_lens);
    MEMBER(wl_cuda_places, tags), MEMBER(wl_cuda_places, reserved);
    return 0;
}
