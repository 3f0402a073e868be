#include "cleave/comm/tree_sum.h"

#include <algorithm>
#include <cstring>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

// Four parts of this size stay in the second level cache between the levels of the tree.
constexpr std::size_t kBlock = 256 * 1024;

void sum_block(std::span<std::byte* const> parts, std::size_t offset, std::size_t bytes,
               const Adder& adder, std::byte* out) {
  const auto block = [&](std::size_t part) { return std::span(parts[part] + offset, bytes); };
  for (std::size_t step = 1; step < parts.size(); step *= 2) {
    const bool last = 2 * step >= parts.size();
    for (std::size_t left = 0; left + step < parts.size(); left += 2 * step) {
      adder.add(block(left), block(left + step),
                last ? std::span(out + offset, bytes) : block(left));
    }
  }
}

}  // namespace

void tree_sum(std::span<std::byte* const> parts, std::size_t bytes, const Adder& adder,
              std::byte* out) {
  CLEAVE_CHECK(!parts.empty() && bytes % adder.element_bytes() == 0, parts.size(), " parts of ",
               bytes, " B with elements of ", adder.element_bytes(), " B");
  if (parts.size() == 1) {
    if (bytes > 0 && out != parts[0]) std::memmove(out, parts[0], bytes);
    return;
  }
  const std::size_t block = parts.size() == 2 ? bytes : kBlock;
  for (std::size_t offset = 0; offset < bytes; offset += block) {
    sum_block(parts, offset, std::min(block, bytes - offset), adder, out);
  }
}

}  // namespace cleave::comm
