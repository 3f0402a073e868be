#include "cleave/base/philox.h"

#include <cmath>
#include <numbers>

#include "cleave/base/elementary.h"
#include "cleave/base/hash.h"

namespace cleave {

std::array<std::uint32_t, 4> Philox::generate(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

Philox::Philox(std::uint64_t seed, std::string_view purpose, std::string_view name) : key_(seed) {
  Hasher hasher;
  hasher.add(purpose);
  hasher.add("\x1f");  // so that ("ab", "c") and ("a", "bc") differ
  hasher.add(name);
  stream_ = hasher.digest();
}

std::array<std::uint32_t, 4> Philox::block(std::uint64_t index) const {
  return generate({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                   static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
                  {static_cast<std::uint32_t>(key_), static_cast<std::uint32_t>(key_ >> 32)});
}

float Philox::uniform(std::uint64_t index) const {
  return static_cast<float>(block(index)[0] >> 8) * 0x1p-24f;
}

namespace {

/// Four words make two pairs, each pair two independent normals.
std::array<float, 4> box_muller(const std::array<std::uint32_t, 4>& words) {
  std::array<float, 4> normals{};
  for (int pair = 0; pair < 2; ++pair) {
    const double radius = std::sqrt(-2.0 * natural_log((words[2 * pair] + 0.5) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * (words[2 * pair + 1] * 0x1p-32);
    const auto [sine, cosine] = sine_cosine(angle);
    normals[2 * pair] = static_cast<float>(radius * cosine);
    normals[2 * pair + 1] = static_cast<float>(radius * sine);
  }
  return normals;
}

}  // namespace

float Philox::normal(std::uint64_t index) const {
  return box_muller(block(index / 4))[index % 4];
}

void Philox::fill_normal(std::uint64_t first, std::span<float> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::uint64_t index = first + done;
    const std::array<float, 4> normals = box_muller(block(index / 4));
    for (std::uint64_t i = index % 4; i < 4 && done < out.size(); ++i) out[done++] = normals[i];
  }
}

std::uint64_t Philox::below(std::uint64_t bound, std::uint64_t index) const {
  // The high half of a 64x64-bit product; the bias is below bound / 2^64.
  const auto words = block(index);
  const std::uint64_t bits = (std::uint64_t{words[1]} << 32) | words[0];
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * bound) >> 64);
}

}  // namespace cleave
