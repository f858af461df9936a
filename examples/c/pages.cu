// A column reader whose pages are encrypted: only the GPU knows where they are. A kernel walks the
// page starts and writes where each page's nonce, ciphertext and tag lie, Warplock opens them on the
// same stream, and a decoder reads the texts. The host copies bytes up and waits once, at the end.
//
//   nvcc pages.cu $(pkg-config --cflags --libs warplock) -o pages && ./pages [PAGES LEAST MOST]
//
// Pages are as in encrypted Parquet files: [length 4][nonce 12][ciphertext][tag 16], one after the
// other, so at any byte, each bound to its place by associated data: the file's identifier, the kind
// of module, row group, column and page.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>
#include <warplock.h>

static void check(wl_status status, const char *what) {
    char sentence[300];
    if (status == WL_OK) return;
    wl_last_error(sentence, sizeof sentence);
    std::fprintf(stderr, "%s: %s\n", what, sentence);
    std::exit(1);
}

static void check(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

// Where pages and their texts are: arrays in GPU memory, which no copy brought there.
struct places {
    std::uint64_t *ciphertexts, *lens, *outputs, *nonces, *aads, *aad_lens;
};

constexpr int AAD_LEN = 15, PAGES_A_GROUP = 1000;

__host__ __device__ void write_aad(std::uint8_t *aad, std::uint32_t page) {
    const std::uint32_t group = page / PAGES_A_GROUP, column = 3, number = page % PAGES_A_GROUP;
    for (int k = 0; k < 8; k++) aad[k] = std::uint8_t(0xA0 + k);
    aad[8] = 2; // a data page
    aad[9] = std::uint8_t(group), aad[10] = std::uint8_t(group >> 8);
    aad[11] = std::uint8_t(column), aad[12] = 0;
    aad[13] = std::uint8_t(number), aad[14] = std::uint8_t(number >> 8);
}

// A page starts at `chunk + starts[i]`; its text goes to the same place in `texts`.
__global__ void find_pages(const std::uint8_t *chunk, std::uint8_t *texts,
                           const std::uint64_t *starts, std::uint32_t count, places found,
                           std::uint8_t *aads) {
    const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const std::uint8_t *page = chunk + starts[i];
    std::uint32_t framed = 0;
    for (int k = 0; k < 4; k++) framed |= std::uint32_t(page[k]) << 8 * k;
    found.nonces[i] = std::uint64_t(page + 4);
    found.ciphertexts[i] = std::uint64_t(page + 16);
    found.lens[i] = framed - 28;
    found.outputs[i] = std::uint64_t(texts + starts[i] + 16);
    write_aad(aads + 16 * i, i);
    found.aads[i] = std::uint64_t(aads + 16 * i);
    found.aad_lens[i] = AAD_LEN;
}

// Stands for a decoder: adds up the bytes of each page. It runs after the pages are open, and a page
// that was refused is zeros.
__global__ void decode(places found, std::uint32_t count, unsigned long long *sums) {
    const std::uint32_t i = blockIdx.x;
    const auto *text = reinterpret_cast<const std::uint8_t *>(found.outputs[i]);
    unsigned long long sum = 0;
    for (std::uint64_t k = threadIdx.x; k < found.lens[i]; k += blockDim.x) sum += text[k];
    atomicAdd(&sums[i], sum);
}

template <class T> static T *device(std::size_t count) {
    T *memory = nullptr;
    check(cudaMalloc(&memory, count * sizeof(T)), "GPU memory");
    check(cudaMemset(memory, 0, count * sizeof(T)), "GPU memory");
    return memory;
}

template <class T> static void up(T *to, const std::vector<T> &from, cudaStream_t stream) {
    const std::size_t size = from.size() * sizeof(T);
    check(cudaMemcpyAsync(to, from.data(), size, cudaMemcpyHostToDevice, stream), "copying up");
}

template <class T> static std::vector<T> down(const T *from, std::size_t count) {
    std::vector<T> to(count);
    check(cudaMemcpy(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "copying down");
    return to;
}

int main(int argc, char **argv) {
    const std::uint32_t count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
    const std::uint32_t least = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1000;
    const std::uint32_t most = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 50000;
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return std::puts("skipped: no GPU"), 0;
    if (count == 0 || most < least) return std::puts("PAGES is at least 1, MOST at least LEAST"), 2;

    // What a writer made: each page's bytes are its number, so that their sums are known.
    wl_engine *engine = nullptr;
    wl_key *key = nullptr;
    check(wl_engine_new("cpu", 0, &engine), "the engine");
    check(wl_key_generate(WL_AES_256_GCM, &key), "the key");
    std::vector<std::uint8_t> chunk, text(most);
    std::vector<std::uint64_t> starts;
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < count; i++) {
        const std::uint32_t len = least + std::uint64_t(i) * 2654435761u % (most - least + 1);
        const std::uint32_t framed = len + 28;
        std::memset(text.data(), int(i % 251), len);
        starts.push_back(chunk.size());
        chunk.resize(chunk.size() + 4 + framed);
        std::uint8_t *page = &chunk[starts[i]], aad[AAD_LEN];
        write_aad(aad, i);
        for (int k = 0; k < 4; k++) page[k] = std::uint8_t(framed >> 8 * k);
        check(wl_seal(engine, key, aad, sizeof aad, text.data(), len, page + 4, framed), "seal");
        total += len;
    }
    const std::uint32_t forged = count / 2;
    chunk[starts[forged] + 20] ^= 1;

    // Made once. The context is the runtime's: its pointers and streams are used as they are.
    wl_cuda_device *gpu = nullptr;
    wl_cuda_key *ready = nullptr;
    check(wl_cuda_device_open(0, &gpu), "the GPU");
    check(wl_cuda_key_new(gpu, key, &ready), "the device key");
    cudaStream_t stream;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "the stream");
    auto *sealed = device<std::uint8_t>(chunk.size()), *texts = device<std::uint8_t>(chunk.size());
    auto *at = device<std::uint64_t>(count);
    const places found{device<std::uint64_t>(count), device<std::uint64_t>(count),
                       device<std::uint64_t>(count), device<std::uint64_t>(count),
                       device<std::uint64_t>(count), device<std::uint64_t>(count)};
    auto *aads = device<std::uint8_t>(16 * std::size_t(count));
    auto *statuses = device<std::uint32_t>(count + 1), *refused = statuses + count;
    auto *sums = device<unsigned long long>(count);

    wl_cuda_places pages;
    std::memset(&pages, 0, sizeof pages);
    pages.size = sizeof pages;
    pages.operation = WL_OPEN;
    pages.count = count;
    pages.total_len = chunk.size(); // a bound will do
    pages.inputs = found.ciphertexts;
    pages.lens = found.lens;
    pages.outputs = found.outputs;
    pages.nonces = found.nonces;
    pages.aad = found.aads;
    pages.aad_lens = found.aad_lens;
    std::size_t size = 0;
    check(wl_cuda_workspace_size_indirect(ready, &pages, &size), "the workspace");
    auto *workspace = device<std::uint8_t>(size);

    // For each chunk: all of it is queued, nothing waits.
    cudaEvent_t before, after;
    check(cudaEventCreate(&before), "an event");
    check(cudaEventCreate(&after), "an event");
    up(sealed, chunk, stream);
    up(at, starts, stream);
    std::vector<float> times;
    for (int turn = 0; turn < 21; turn++) {
        check(cudaMemsetAsync(refused, 0, 4, stream), "clearing");
        check(cudaMemsetAsync(sums, 0, count * sizeof *sums, stream), "clearing");
        find_pages<<<(count + 255) / 256, 256, 0, stream>>>(sealed, texts, at, count, found, aads);
        check(cudaEventRecord(before, stream), "an event");
        check(wl_cuda_enqueue_indirect(ready, &pages, workspace, size, statuses, refused, stream),
              "the call");
        check(cudaEventRecord(after, stream), "an event");
        decode<<<count, 256, 0, stream>>>(found, count, sums);
        check(cudaGetLastError(), "the kernels");
        float time = 0;
        check(cudaEventSynchronize(after), "waiting");
        check(cudaEventElapsedTime(&time, before, after), "the time");
        if (turn > 0) times.push_back(time);
    }
    check(cudaStreamSynchronize(stream), "waiting");

    const auto verdicts = down(statuses, count + 1);
    const auto added = down(sums, count);
    std::uint32_t wrong = verdicts[count] != 1;
    for (std::uint32_t i = 0; i < count; i++) {
        const std::uint64_t len = least + std::uint64_t(i) * 2654435761u % (most - least + 1);
        wrong += verdicts[i] != (i == forged) || added[i] != (i == forged ? 0 : len * (i % 251));
    }
    std::sort(times.begin(), times.end());
    std::printf("%u pages, %.3f GB opened at %.1f GB/s; refused: %u; wrong pages: %u\n", count,
                total / 1e9, total / 1e6 / times[times.size() / 2], verdicts[count], wrong);

    cudaFree(sealed), cudaFree(texts), cudaFree(at), cudaFree(statuses), cudaFree(sums);
    cudaFree(found.ciphertexts), cudaFree(found.lens), cudaFree(found.outputs);
    cudaFree(found.nonces), cudaFree(found.aads), cudaFree(found.aad_lens), cudaFree(aads);
    cudaFree(workspace);
    wl_cuda_key_free(ready), wl_cuda_device_free(gpu);
    wl_key_free(key), wl_engine_free(engine);
    return wrong != 0;
}
