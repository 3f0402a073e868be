#include "cleave/base/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace cleave {
namespace {

template <class T>
void put(std::span<std::byte> out, std::size_t at, T value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

template <class T>
T get(std::span<const std::byte> in, std::size_t at) {
  T value;
  std::memcpy(&value, in.data() + at, sizeof value);
  return value;
}

std::int64_t f32_bytes(std::int64_t elements) {
  return 4 * elements;
}
void encode_f32(std::span<const float> values, Chance, std::span<std::byte> out) {
  std::memcpy(out.data(), values.data(), out.size());
}
void decode_f32(std::span<const std::byte> in, std::span<float> values) {
  std::memcpy(values.data(), in.data(), in.size());
}

std::int64_t bf16_bytes(std::int64_t elements) {
  return 2 * elements;
}
/// Rounds to the nearest, ties to even; a NaN stays one.
void encode_bf16(std::span<const float> values, Chance, std::span<std::byte> out) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    put(out, 2 * i,
        static_cast<std::uint16_t>(nan ? bits >> 16 | 0x40
                                       : (bits + 0x7fff + (bits >> 16 & 1)) >> 16));
  }
}
void decode_bf16(std::span<const std::byte> in, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::bit_cast<float>(std::uint32_t{get<std::uint16_t>(in, 2 * i)} << 16);
}

/// Blocks of numbers with one scale, in so many bits each.
template <int kBits, std::size_t kBlock>
struct Blocks {
  static constexpr int kMost = (1 << (kBits - 1)) - 1;
  static constexpr std::size_t kPerByte = 8 / kBits;
  static constexpr std::size_t kBlockBytes = sizeof(float) + kBlock / kPerByte;

  static std::int64_t bytes(std::int64_t elements) {
    const auto blocks = elements / static_cast<std::int64_t>(kBlock);
    const auto rest = static_cast<std::size_t>(elements % static_cast<std::int64_t>(kBlock));
    const std::size_t last = rest == 0 ? 0 : sizeof(float) + (rest + kPerByte - 1) / kPerByte;
    return blocks * static_cast<std::int64_t>(kBlockBytes) + static_cast<std::int64_t>(last);
  }

  /// A block with a number that is not finite comes back as NaN, so that whoever looks finds it.
  static float scale_of(std::span<const float> block) {
    float most = 0;
    for (const float value : block) {
      if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
      most = std::max(most, std::fabs(value));
    }
    return most / kMost;
  }

  static void encode(std::span<const float> values, Chance chance, std::span<std::byte> out) {
    std::ranges::fill(out, std::byte{0});
    for (std::size_t first = 0; first < values.size(); first += kBlock) {
      const auto block = values.subspan(first, std::min(kBlock, values.size() - first));
      const float scale = scale_of(block);
      const std::size_t at = first / kBlock * kBlockBytes;
      put(out, at, scale);
      for (std::size_t i = 0; i < block.size() && scale > 0; ++i) {
        const float up = std::floor(block[i] / scale + chance.uniform(first + i));
        const auto level =
            static_cast<int>(std::clamp<float>(up, -kMost, kMost)) & ((1 << kBits) - 1);
        out[at + sizeof(float) + i / kPerByte] |=
            static_cast<std::byte>(level << (i % kPerByte * kBits));
      }
    }
  }

  static void decode(std::span<const std::byte> in, std::span<float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t at = i / kBlock * kBlockBytes;
      const std::size_t place = i % kBlock;
      const auto byte = std::to_integer<int>(in[at + sizeof(float) + place / kPerByte]);
      const int bits = byte >> (place % kPerByte * kBits) & ((1 << kBits) - 1);
      const int level = bits > kMost ? bits - (1 << kBits) : bits;
      values[i] = static_cast<float>(level) * get<float>(in, at);
    }
  }
};

/// A tenth, rounded up.
std::int64_t kept(std::int64_t elements) {
  return (elements + 9) / 10;
}
std::int64_t topk_bytes(std::int64_t elements) {
  return 8 * kept(elements);
}
/// A number without its sign. As whole numbers they are in the same order, and a NaN, which is
/// neither larger nor smaller than any number, is larger than all of them.
std::uint32_t size_of_number(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

/// Among equal values the first wins; they are sent in the order of their places.
void encode_topk(std::span<const float> values, Chance, std::span<std::byte> out) {
  std::vector<std::uint32_t> places(values.size());
  std::iota(places.begin(), places.end(), 0);
  const std::int64_t count = kept(std::ssize(values));
  const auto larger = [&](std::uint32_t a, std::uint32_t b) {
    const std::uint32_t x = size_of_number(values[a]);
    const std::uint32_t y = size_of_number(values[b]);
    return x != y ? x > y : a < b;
  };
  std::ranges::nth_element(places, places.begin() + (count - 1), larger);
  std::sort(places.begin(), places.begin() + count);
  for (std::int64_t i = 0; i < count; ++i) {
    put(out, static_cast<std::size_t>(8 * i), places[i]);
    put(out, static_cast<std::size_t>(8 * i + 4), values[places[i]]);
  }
}
void decode_topk(std::span<const std::byte> in, std::span<float> values) {
  std::ranges::fill(values, 0.0f);
  for (std::size_t at = 0; at < in.size(); at += 8)
    values[get<std::uint32_t>(in, at)] = get<float>(in, at + 4);
}

using Int8 = Blocks<8, 64>;
using Int4 = Blocks<4, 32>;

constexpr Codec kCodecs[] = {
    {.name = "none", .bytes = f32_bytes, .encode = encode_f32, .decode = decode_f32},
    {.name = "bf16", .bytes = bf16_bytes, .encode = encode_bf16, .decode = decode_bf16},
    {.name = "int8",
     .block = 64,
     .bytes = Int8::bytes,
     .encode = Int8::encode,
     .decode = Int8::decode},
    {.name = "int4",
     .block = 32,
     .bytes = Int4::bytes,
     .encode = Int4::encode,
     .decode = Int4::decode},
    {.name = "topk",
     .block = 0,
     .keeps_error = true,
     .bytes = topk_bytes,
     .encode = encode_topk,
     .decode = decode_topk},
};

}  // namespace

std::span<const Codec> codecs() {
  return kCodecs;
}

const Codec* find_codec(std::string_view name) {
  for (const Codec& codec : kCodecs) {
    if (name == codec.name) return &codec;
    const bool blocks = codec.block > 1;
    if (blocks && name == std::string(codec.name) + "/" + std::to_string(codec.block))
      return &codec;
  }
  return nullptr;
}

}  // namespace cleave
