#include "cleave/secure/secret_shares.h"

#include "cleave/base/check.h"

namespace cleave::secure {
namespace {

/// In the field of 256 elements, modulo x^8 + x^4 + x^3 + x + 1. No table is looked up and nothing
/// branches on what is multiplied: time says nothing about secrets.
std::uint8_t times(std::uint8_t a, std::uint8_t b) {
  unsigned product = 0;
  unsigned shifted = a;
  for (int bit = 0; bit < 8; ++bit) {
    product ^= shifted & (0u - (b >> bit & 1u));
    shifted = (shifted << 1) ^ (0x11bu & (0u - (shifted >> 7 & 1u)));
  }
  return static_cast<std::uint8_t>(product);
}

/// a^254.
std::uint8_t inverse(std::uint8_t a) {
  std::uint8_t result = 1;
  for (int i = 0; i < 7; ++i) {
    a = times(a, a);
    result = times(result, a);
  }
  return result;
}

}  // namespace

std::vector<SecretShare> share_secret(const Bytes32& secret, int count, int threshold,
                                      const Bytes32& seed) {
  CLEAVE_CHECK(threshold >= 1 && threshold <= count && count <= 255, threshold, " of ", count);
  std::vector<std::uint64_t> chance(static_cast<std::size_t>(threshold - 1) * 4);
  fill_stream(seed, 0, chance);
  std::vector<SecretShare> shares(static_cast<std::size_t>(count));
  for (int at = 1; at <= count; ++at) {
    SecretShare& share = shares[at - 1];
    share.at = at;
    for (std::size_t byte = 0; byte < secret.size(); ++byte) {
      std::uint8_t value = 0;
      for (int power = threshold - 1; power > 0; --power) {
        const std::uint64_t word = chance[(power - 1) * 4 + byte / 8];
        value = times(value, static_cast<std::uint8_t>(at)) ^
                static_cast<std::uint8_t>(word >> (byte % 8 * 8));
      }
      share.value[byte] = times(value, static_cast<std::uint8_t>(at)) ^ secret[byte];
    }
  }
  return shares;
}

Bytes32 join_shares(std::span<const SecretShare> shares) {
  Bytes32 secret = {};
  for (const SecretShare& share : shares) {
    std::uint8_t weight = 1;  // Lagrange's, at 0
    for (const SecretShare& other : shares) {
      if (&other == &share) continue;
      CLEAVE_CHECK(other.at != share.at, "two shares at ", share.at);
      const auto distance = static_cast<std::uint8_t>(other.at ^ share.at);
      weight = times(weight, times(static_cast<std::uint8_t>(other.at), inverse(distance)));
    }
    for (std::size_t byte = 0; byte < secret.size(); ++byte)
      secret[byte] ^= times(weight, share.value[byte]);
  }
  return secret;
}

}  // namespace cleave::secure
