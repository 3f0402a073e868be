#include "cleave/secure/secret.h"

#include <algorithm>

#include <sodium.h>

#include "cleave/base/check.h"

namespace cleave::secure {
namespace {

constexpr std::size_t kBlock = 64;  ///< bytes of a block of ChaCha20
constexpr std::size_t kBlockWords = kBlock / 8;

/// Initialises the library once, on the first use.
void begin() {
  static const bool ready = sodium_init() >= 0;
  require(ready, "libsodium does not start on this machine, so there are no secrets");
}

Bytes32 keyed_hash(std::span<const std::uint8_t> key,
                   std::initializer_list<std::span<const std::uint8_t>> parts) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, key.data(), key.size());
  for (const auto part : parts) crypto_auth_hmacsha256_update(&state, part.data(), part.size());
  Bytes32 hash;
  crypto_auth_hmacsha256_final(&state, hash.data());
  return hash;
}

/// The nonce of keys that seal one message each.
constexpr std::uint8_t kNonce[crypto_aead_xchacha20poly1305_ietf_NPUBBYTES] = {};

}  // namespace

Bytes32 random_bytes() {
  begin();
  Bytes32 bytes;
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

Bytes32 derive(std::span<const std::uint8_t> secret, std::span<const std::uint8_t> salt,
               std::string_view purpose) {
  begin();
  const Bytes32 extracted = keyed_hash(salt, {secret});
  const std::uint8_t first = 1;
  const auto* const words = reinterpret_cast<const std::uint8_t*>(purpose.data());
  return keyed_hash(extracted, {{words, purpose.size()}, {&first, 1}});
}

Bytes32 derive(const Bytes32& secret, std::string_view purpose) {
  return derive(secret, {}, purpose);
}

KeyPair key_pair(const Bytes32& seed) {
  begin();
  KeyPair pair{.own = seed};
  crypto_scalarmult_base(pair.open.data(), pair.own.data());
  return pair;
}

Bytes32 agreed_key(const Bytes32& own, const Bytes32& open, std::string_view purpose) {
  begin();
  Bytes32 point;
  require(crypto_scalarmult(point.data(), own.data(), open.data()) == 0,
          "the open key of a client is a point of small order, with which no secret can be shared");
  return derive(point, purpose);
}

std::vector<std::uint8_t> seal(std::span<const std::uint8_t> message, const Bytes32& key) {
  begin();
  std::vector<std::uint8_t> box(message.size() + crypto_aead_xchacha20poly1305_ietf_ABYTES);
  unsigned long long length = 0;
  crypto_aead_xchacha20poly1305_ietf_encrypt(box.data(), &length, message.data(), message.size(),
                                             nullptr, 0, nullptr, kNonce, key.data());
  CLEAVE_CHECK(length == box.size(), length, " bytes of ", box.size());
  return box;
}

std::optional<std::vector<std::uint8_t>> open_sealed(std::span<const std::uint8_t> box,
                                                     const Bytes32& key) {
  begin();
  constexpr std::size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
  if (box.size() < kTag) return std::nullopt;
  std::vector<std::uint8_t> message(box.size() - kTag);
  if (crypto_aead_xchacha20poly1305_ietf_decrypt(message.data(), nullptr, nullptr, box.data(),
                                                 box.size(), nullptr, 0, kNonce, key.data()) != 0)
    return std::nullopt;
  return message;
}

void fill_stream(const Bytes32& key, std::uint64_t first, std::span<std::uint64_t> words) {
  begin();
  constexpr std::uint8_t kStart[crypto_stream_chacha20_NONCEBYTES] = {};
  constexpr std::size_t kBlocks = 32;
  std::array<std::uint8_t, kBlocks * kBlock> bytes;
  for (std::size_t done = 0; done < words.size();) {
    const std::uint64_t at = first + done;
    const std::size_t skip = at % kBlockWords;
    const std::size_t count = std::min(words.size() - done, kBlocks * kBlockWords - skip);
    bytes.fill(0);
    crypto_stream_chacha20_xor_ic(bytes.data(), bytes.data(), (skip + count) * 8, kStart,
                                  at / kBlockWords, key.data());
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t word = 0;
      for (std::size_t byte = 0; byte < 8; ++byte)
        word |= std::uint64_t{bytes[(skip + i) * 8 + byte]} << (8 * byte);
      words[done + i] = word;
    }
    done += count;
  }
}

}  // namespace cleave::secure
