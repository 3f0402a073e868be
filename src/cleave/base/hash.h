#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace cleave {

/// XXH3, 64 bits, fed piece by piece.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);

  /// As if nothing had been added yet.
  void reset();

  /// The hash of everything added so far; adding may go on.
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t hash_of(std::span<const std::byte> bytes);

/// Sixteen lower-case hexadecimal digits.
std::string to_hex(std::uint64_t hash);

}  // namespace cleave
