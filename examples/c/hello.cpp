// Warplock from C++17: one message, a batch, and an error.
#include <iostream>
#include <warplock.hpp>

int main() try {
    const warplock::engine engine;
    const auto key = warplock::key::generate(warplock::algorithm("aes-256-gcm"));

    auto sealed = engine.seal(key, "a secret", "v1");
    const auto text = engine.open(key, sealed, "v1");
    std::cout << std::string(text.begin(), text.end()) << '\n';

    sealed.back() ^= 1;
    try {
        engine.open(key, sealed, "v1");
        return 1;
    } catch (const warplock::error &refused) {
        if (refused.status() != WL_ERR_AUTHENTICATION) throw;
        std::cout << "refused: " << refused.what() << '\n';
    }

    // 1,000 records of 64 bytes in place, each followed by room for its tag.
    warplock::bytes records(1000 * 80), nonces(1000 * 12);
    auto batch = warplock::batch(WL_SEAL, key);
    batch.count = 1000;
    batch.text_len = 64;
    batch.input = records.data();
    batch.input_size = records.size();
    batch.nonces = nonces.data();
    engine.run(batch);

    records[7 * 80] ^= 1;
    batch.operation = WL_OPEN;
    const auto failed = engine.run_flags(batch);
    std::cout << "record 7 refused: " << int(failed[7]) << ", record 8: " << int(failed[8]) << '\n';
    return failed[7] == 1 && failed[8] == 0 ? 0 : 1;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
