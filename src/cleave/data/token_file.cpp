#include "cleave/data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cleave/base/check.h"
#include "cleave/data/chat.h"

namespace cleave::data {
namespace {

constexpr std::size_t kReadStep = 16 * 1024;  // bytes, on the stack

/// The number at `at`, little-endian as is every machine we run on.
std::int64_t number_of(const std::byte* at, const PackedLayout& layout) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, static_cast<std::size_t>(layout.width));
  if (!layout.is_signed) return static_cast<std::int64_t>(value);
  const int above = 64 - 8 * layout.width;
  return static_cast<std::int64_t>(value << above) >> above;
}

[[noreturn]] void fail_vocab(const TokenFile& piece, std::int64_t index, std::int64_t value,
                             std::int64_t vocab) {
  require(value >= 0, piece.path.string(), " has ", value, " at position ", index,
          ", which is no token; save numbers from 0 on");
  const char* hint = piece.given.read          ? ""  // its tokens come from a tokenizer
                     : piece.layout.width == 1 ? " (256 for bytes)"
                                               : ", or check data.dtype";
  throw UserError(detail::concat(piece.path.string(), " has token ", value, " at position ", index,
                                 ", but model.vocab is ", vocab, "; set model.vocab to at least ",
                                 value + 1, hint));
}

}  // namespace

void TokenFile::read_bytes(std::int64_t offset, std::span<std::byte> bytes) const {
  const std::int64_t place = layout.offset + offset;
  if (given.read) {
    // Callers read whole tokens, into buffers that are aligned for them.
    given.read(place / layout.width, {reinterpret_cast<std::int32_t*>(bytes.data()),
                                      bytes.size() / sizeof(std::int32_t)});
  } else if (!memory.empty()) {
    std::memcpy(bytes.data(), memory.data() + place, bytes.size());
  } else if (file) {
    file->read(bytes, place);
  } else {
    File::open(path).read(bytes, place);
  }
}

void TokenFile::read(std::int64_t index, std::span<std::int32_t> tokens, std::int64_t vocab,
                     ReadAs as) const {
  const int width = layout.width;
  alignas(std::int32_t) std::array<std::byte, kReadStep> buffer;
  const auto step = static_cast<std::int64_t>(kReadStep) / width;
  for (std::int64_t done = 0; done < std::ssize(tokens);) {
    const std::int64_t count = std::min(step, std::ssize(tokens) - done);
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(count * width));
    read_bytes((index + done) * width, bytes);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t stored = number_of(bytes.data() + i * width, layout);
      const bool untrained = masks && (stored & kUntrained) != 0;
      const std::int64_t value = untrained ? stored ^ kUntrained : stored;
      if (value < 0 || value >= vocab) [[unlikely]]
        fail_vocab(*this, index + done + i, value, vocab);
      tokens[done + i] =
          untrained && as == ReadAs::Targets ? kNoTarget : static_cast<std::int32_t>(value);
    }
    done += count;
  }
}

}  // namespace cleave::data
