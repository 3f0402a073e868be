#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cleave::comm {

/// Memory of messages that are over, for the next ones: so that these allocate nothing, as long as
/// all of it together is not more than it was said to be.
class SpareBuffers {
 public:
  explicit SpareBuffers(std::uint64_t most) : most_(most) {}

  /// The smallest that has room for `bytes`, without any in it; a new one if there is none.
  std::vector<std::byte> take(std::size_t bytes) {
    auto best = spare_.end();
    for (auto each = spare_.begin(); each != spare_.end(); ++each) {
      if (each->capacity() < bytes) continue;
      if (best == spare_.end() || each->capacity() < best->capacity()) best = each;
    }
    std::vector<std::byte> buffer;
    if (best == spare_.end()) {
      buffer.reserve(bytes);
      return buffer;
    }
    std::swap(*best, spare_.back());
    buffer = std::move(spare_.back());
    spare_.pop_back();
    bytes_ -= buffer.capacity();
    buffer.clear();
    return buffer;
  }

  void give_back(std::vector<std::byte> buffer) {
    if (bytes_ + buffer.capacity() > most_) return;
    bytes_ += buffer.capacity();
    spare_.push_back(std::move(buffer));
  }

 private:
  std::uint64_t most_;
  std::uint64_t bytes_ = 0;
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace cleave::comm
