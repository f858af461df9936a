// Warplock for C++17: a thin layer over warplock.h. Handles are freed by their destructors, errors
// are exceptions. Header only: it has no ABI of its own, and any compiler may use it. What a
// function does, waits for and refuses is documented in warplock.h.
#ifndef WARPLOCK_HPP
#define WARPLOCK_HPP

#include "warplock.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace warplock {

using bytes = std::vector<std::uint8_t>;

// A status of warplock.h with its sentence.
class error : public std::runtime_error {
public:
    error(wl_status status, const std::string &sentence)
        : std::runtime_error(sentence), status_(status) {}
    wl_status status() const noexcept { return status_; }

private:
    wl_status status_;
};

// Throws unless the status is WL_OK.
inline void check(wl_status status) {
    if (status == WL_OK) return;
    std::string sentence(wl_last_error(nullptr, 0) + 1, '\0');
    wl_last_error(&sentence[0], sentence.size());
    sentence.pop_back();
    throw error(status, sentence);
}

// Bytes that are read: any string, vector or array of one-byte values. It owns nothing.
class view {
public:
    view() = default;
    view(const void *data, std::size_t size) : data_(data), size_(size) {}
    view(const char *text) : view(text, std::char_traits<char>::length(text)) {}
    template <class Bytes, class = decltype(std::declval<const Bytes &>().data())>
    view(const Bytes &bytes) : view(bytes.data(), bytes.size()) {
        static_assert(sizeof(*bytes.data()) == 1, "a view is of one-byte values");
    }
    const void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    const void *data_ = nullptr;
    std::size_t size_ = 0;
};

namespace detail {
template <class Handle, void (*Free)(Handle *)> struct deleter {
    void operator()(Handle *handle) const noexcept { Free(handle); }
};
template <class Handle, void (*Free)(Handle *)>
using owned = std::unique_ptr<Handle, deleter<Handle, Free>>;
} // namespace detail

// The number of an algorithm by its name, such as "aes-256-gcm".
inline std::uint32_t algorithm(const std::string &name) {
    std::uint32_t found = 0;
    check(wl_algorithm(name.c_str(), &found));
    return found;
}

class key {
public:
    key(std::uint32_t algorithm, view secret) {
        wl_key *made = nullptr;
        check(wl_key_new(algorithm, secret.data(), secret.size(), &made));
        handle_.reset(made);
    }
    static key generate(std::uint32_t algorithm) {
        wl_key *made = nullptr;
        check(wl_key_generate(algorithm, &made));
        return key(made);
    }
    const wl_key *get() const noexcept { return handle_.get(); }
    std::uint32_t algorithm() const { return wl_key_algorithm(get()); }

private:
    explicit key(wl_key *made) : handle_(made) {}
    detail::owned<wl_key, wl_key_free> handle_;
};

// A batch with its size set and everything else zero.
inline wl_batch batch(std::uint32_t operation, const key &key) {
    wl_batch made = {};
    made.size = sizeof made;
    made.operation = operation;
    made.key = key.get();
    return made;
}

class engine {
public:
    explicit engine(const char *backend = nullptr, std::uint32_t threads = 0) {
        wl_engine *made = nullptr;
        check(wl_engine_new(backend, threads, &made));
        handle_.reset(made);
    }
    const wl_engine *get() const noexcept { return handle_.get(); }

    // Nonce, ciphertext and tag, one after the other. The nonce is drawn.
    bytes seal(const key &key, view text, view aad = {}) const {
        bytes sealed(wl_sealed_len(key.algorithm(), text.size()));
        check(wl_seal(get(), key.get(), aad.data(), aad.size(), text.data(), text.size(),
                      sealed.data(), sealed.size()));
        return sealed;
    }
    // Throws an error with WL_ERR_AUTHENTICATION unless it is what seal made.
    bytes open(const key &key, view sealed, view aad = {}) const {
        const std::size_t overhead = wl_sealed_len(key.algorithm(), 0);
        bytes text(sealed.size() > overhead ? sealed.size() - overhead : 0);
        check(wl_open(get(), key.get(), aad.data(), aad.size(), sealed.data(), sealed.size(),
                      text.data(), text.size()));
        return text;
    }

    void run(const wl_batch &batch) const { check(wl_run(get(), &batch, nullptr)); }
    // One flag for each message: 1 if it was refused. Throws every other error.
    bytes run_flags(const wl_batch &batch) const {
        bytes failed(batch.count);
        const wl_status status = wl_run(get(), &batch, failed.data());
        if (status != WL_ERR_AUTHENTICATION) check(status);
        return failed;
    }

private:
    detail::owned<wl_engine, wl_engine_free> handle_;
};

class recipients {
public:
    recipients() {
        wl_recipients *made = nullptr;
        check(wl_recipients_new(&made));
        handle_.reset(made);
    }
    void add(const std::string &recipient) {
        check(wl_recipients_add(handle_.get(), recipient.c_str()));
    }
    void add_file(const std::string &path) {
        check(wl_recipients_add_file(handle_.get(), path.c_str()));
    }
    void add_passphrase(view passphrase) {
        check(wl_recipients_add_passphrase(handle_.get(), passphrase.data(), passphrase.size()));
    }
    const wl_recipients *get() const noexcept { return handle_.get(); }

private:
    detail::owned<wl_recipients, wl_recipients_free> handle_;
};

class identities {
public:
    identities() {
        wl_identities *made = nullptr;
        check(wl_identities_new(&made));
        handle_.reset(made);
    }
    void add(view content) {
        check(wl_identities_add(handle_.get(), content.data(), content.size()));
    }
    void add_file(const std::string &path) {
        check(wl_identities_add_file(handle_.get(), path.c_str()));
    }
    void add_passphrase(view passphrase) {
        check(wl_identities_add_passphrase(handle_.get(), passphrase.data(), passphrase.size()));
    }
    const wl_identities *get() const noexcept { return handle_.get(); }

private:
    detail::owned<wl_identities, wl_identities_free> handle_;
};

// Creates an identity file and returns its recipient.
inline std::string create_identity(const std::string &path, bool replace = false) {
    char recipient[WL_RECIPIENT_SIZE];
    check(wl_identity_create(path.c_str(), replace ? WL_REPLACE : 0, recipient, sizeof recipient));
    return recipient;
}

// Is called with the bytes that are done; false stops the work. An exception stops it, too, and is
// thrown again.
using progress = std::function<bool(std::uint64_t)>;

namespace detail {
struct watcher {
    const progress &tell;
    std::exception_ptr thrown = nullptr;
    static std::int32_t call(void *context, std::uint64_t done) {
        auto &self = *static_cast<watcher *>(context);
        try {
            return self.tell(done) ? 0 : 1;
        } catch (...) {
            self.thrown = std::current_exception();
            return 1;
        }
    }
    wl_progress function() const { return tell ? call : nullptr; }
    void check(wl_status status) const {
        if (thrown) std::rethrow_exception(thrown);
        warplock::check(status);
    }
};
} // namespace detail

// Each returns the bytes of plaintext.
inline std::uint64_t encrypt_file(const engine &engine, const std::string &input,
                                  const std::string &output, const recipients &recipients,
                                  std::uint32_t flags = 0, const progress &tell = {}) {
    std::uint64_t len = 0;
    detail::watcher watcher{tell};
    watcher.check(wl_encrypt_file(engine.get(), input.c_str(), output.c_str(), recipients.get(),
                                  flags, watcher.function(), &watcher, &len));
    return len;
}
inline std::uint64_t decrypt_file(const engine &engine, const std::string &input,
                                  const std::string &output, const identities &identities,
                                  std::uint32_t flags = 0, const progress &tell = {}) {
    std::uint64_t len = 0;
    detail::watcher watcher{tell};
    watcher.check(wl_decrypt_file(engine.get(), input.c_str(), output.c_str(), identities.get(),
                                  flags, watcher.function(), &watcher, &len));
    return len;
}
inline std::uint64_t verify_file(const engine &engine, const std::string &input,
                                 const identities &identities, const progress &tell = {}) {
    std::uint64_t len = 0;
    detail::watcher watcher{tell};
    watcher.check(wl_verify_file(engine.get(), input.c_str(), identities.get(),
                                 watcher.function(), &watcher, &len));
    return len;
}

// `flags`: 0, or WL_REKEY to encrypt the content again.
inline void rewrap_file(const engine &engine, const std::string &path,
                        const identities &identities, const recipients &recipients,
                        std::uint32_t flags = 0, const progress &tell = {}) {
    detail::watcher watcher{tell};
    watcher.check(wl_rewrap_file(engine.get(), path.c_str(), identities.get(), recipients.get(),
                                 flags, watcher.function(), &watcher));
}

// The plaintext of a file, read at any offset.
class reader {
public:
    reader(const engine &engine, const std::string &path, const identities &identities) {
        wl_reader *made = nullptr;
        check(wl_reader_open(engine.get(), path.c_str(), identities.get(), &made));
        handle_.reset(made);
    }
    std::uint64_t size() const {
        std::uint64_t len = 0;
        check(wl_reader_len(handle_.get(), &len));
        return len;
    }
    // At most `size` bytes, fewer only at the end or before a part that does not verify.
    bytes read_at(std::uint64_t offset, std::size_t size) const {
        bytes buffer(size);
        std::size_t read = 0;
        check(wl_reader_read_at(handle_.get(), offset, buffer.data(), size, &read));
        buffer.resize(read);
        return buffer;
    }

private:
    detail::owned<wl_reader, wl_reader_free> handle_;
};

} // namespace warplock

#endif
