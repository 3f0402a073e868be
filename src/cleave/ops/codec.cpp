#include "cleave/ops/codec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cleave/base/check.h"
#include "cleave/ops/parallel.h"
#include "cleave/tensor/bf16.h"

namespace cleave::ops {
namespace {

/// Elements that are coded at once: whole blocks of every codec, and few enough for the stack.
constexpr std::int64_t kAtOnce = 1024;

void check_coded(const char* what, ConstView plain, ConstView coded, const Codec* codec) {
  const std::int64_t bytes = codec == nullptr ? plain.byte_count() : codec->bytes(plain.elements());
  CLEAVE_CHECK(plain.dense() && plain.dtype() != DType::I32, what, " of ",
               to_string(plain.dtype()));
  CLEAVE_CHECK(codec == nullptr || (codec->block > 0 && kAtOnce % codec->block == 0), what, " by ",
               codec->name);
  CLEAVE_CHECK(coded.dense() && coded.dtype() == DType::I32 && coded.byte_count() >= bytes, what,
               ": ", coded.byte_count(), " bytes for ", bytes);
}

std::span<const float> read(ConstView x, std::int64_t first, std::span<float> room) {
  if (x.dtype() == DType::F32) return {x.as<float>() + first, room.size()};
  const BFloat16* from = x.as<BFloat16>() + first;
  for (std::size_t i = 0; i < room.size(); ++i) room[i] = to_float(from[i]);
  return room;
}

void write(std::span<const float> values, View y, std::int64_t first) {
  if (y.dtype() == DType::F32) {
    std::ranges::copy(values, y.as<float>() + first);
    return;
  }
  BFloat16* to = y.as<BFloat16>() + first;
  for (std::size_t i = 0; i < values.size(); ++i) to[i] = to_bf16(values[i]);
}

/// Calls fn(first, count, begin of its bytes, how many) for pieces of whole blocks, in parallel.
template <class Fn>
void for_pieces(const Compute& compute, std::int64_t elements, const Codec& codec, Fn fn) {
  const std::int64_t pieces = (elements + kAtOnce - 1) / kAtOnce;
  parallel_for(compute, pieces, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t first = piece * kAtOnce;
      const std::int64_t count = std::min(kAtOnce, elements - first);
      fn(first, static_cast<std::size_t>(count), static_cast<std::size_t>(codec.bytes(first)),
         static_cast<std::size_t>(codec.bytes(count)));
    }
  });
}

}  // namespace

void encode(Compute& compute, ConstView x, const Codec* codec, Chance chance, View out) {
  check_coded("encode", x, out, codec);
  if (codec == nullptr) {
    std::memcpy(out.bytes(), x.bytes(), static_cast<std::size_t>(x.byte_count()));
    return;
  }
  for_pieces(compute, x.elements(), *codec,
             [&](std::int64_t first, std::size_t count, std::size_t begin, std::size_t bytes) {
               std::array<float, kAtOnce> room;
               codec->encode(read(x, first, std::span(room).first(count)),
                             {chance.random, chance.first + static_cast<std::uint64_t>(first)},
                             {out.bytes() + begin, bytes});
             });
}

void decode(Compute& compute, ConstView in, const Codec* codec, View y) {
  check_coded("decode", y, in, codec);
  if (codec == nullptr) {
    std::memcpy(y.bytes(), in.bytes(), static_cast<std::size_t>(y.byte_count()));
    return;
  }
  for_pieces(compute, y.elements(), *codec,
             [&](std::int64_t first, std::size_t count, std::size_t begin, std::size_t bytes) {
               std::array<float, kAtOnce> room;
               const std::span<float> values = std::span(room).first(count);
               codec->decode({in.bytes() + begin, bytes}, values);
               write(values, y, first);
             });
}

}  // namespace cleave::ops
