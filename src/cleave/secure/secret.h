#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cleave::secure {

/// A key, a seed, or a share of one.
using Bytes32 = std::array<std::uint8_t, 32>;

/// From the operating system's generator.
Bytes32 random_bytes();

/// A key for one purpose from another (HKDF with SHA-256, RFC 5869, first block). Nobody who has
/// it learns of `secret`, or of keys for other purposes.
Bytes32 derive(std::span<const std::uint8_t> secret, std::span<const std::uint8_t> salt,
               std::string_view purpose);
Bytes32 derive(const Bytes32& secret, std::string_view purpose);

/// A pair of X25519: what its owner keeps, and what everybody may know.
struct KeyPair {
  Bytes32 own = {};
  Bytes32 open = {};
};
KeyPair key_pair(const Bytes32& seed);

/// What the owners of two pairs get alike, each from its own key and the other's open one. Throws
/// UserError if the open key is none.
Bytes32 agreed_key(const Bytes32& own, const Bytes32& open, std::string_view purpose);

/// A message that only holders of `key` can read, and that nobody can change unnoticed
/// (XChaCha20-Poly1305). A key seals one message.
std::vector<std::uint8_t> seal(std::span<const std::uint8_t> message, const Bytes32& key);
/// Nothing if it was changed, or sealed with another key.
std::optional<std::vector<std::uint8_t>> open_sealed(std::span<const std::uint8_t> box,
                                                     const Bytes32& key);

/// Words `first`, `first` + 1, … of the endless ChaCha20 stream of `key`.
void fill_stream(const Bytes32& key, std::uint64_t first, std::span<std::uint64_t> words);

}  // namespace cleave::secure
