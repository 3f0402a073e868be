#include "cleave/base/hash.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cleave/base/hash_wide.h"

namespace cleave {
namespace {

// Of less than this, asking what the processor has would take a part of the time.
constexpr std::size_t kWorthWide = 1024;

}  // namespace

struct Hasher::State {
  XXH3_state_t xxh3;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh3);
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(std::span<const std::byte> bytes) {
  if (bytes.size() >= kWorthWide && add_with_wide_vectors(&state_->xxh3, bytes)) return;
  XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

void Hasher::add(std::string_view text) {
  add(std::as_bytes(std::span(text)));
}

void Hasher::reset() {
  XXH3_64bits_reset(&state_->xxh3);
}

std::uint64_t Hasher::digest() const {
  return XXH3_64bits_digest(&state_->xxh3);
}

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string to_hex(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace cleave
