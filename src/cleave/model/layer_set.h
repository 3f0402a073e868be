#pragma once

#include <array>
#include <cstdint>

namespace cleave {

/// Some of the layers of a model, by their numbers from 0; as plain data, so that presets may have
/// it.
class LayerSet {
 public:
  static constexpr std::int64_t kMost = 256;  ///< deeper than any model whose layers follow no rule

  /// `layer` must be at least 0 and below kMost.
  constexpr void push_back(std::int64_t layer) {
    words_[static_cast<std::size_t>(layer / 64)] |= std::uint64_t{1} << (layer % 64);
  }
  constexpr bool contains(std::int64_t layer) const {
    return layer < kMost && (words_[static_cast<std::size_t>(layer / 64)] >> (layer % 64) & 1) != 0;
  }
  constexpr bool empty() const { return *this == LayerSet(); }

  /// Goes through the numbers in ascending order.
  class Iterator {
   public:
    constexpr Iterator(const LayerSet& set, std::int64_t layer) : set_(&set), layer_(layer) {
      skip();
    }
    constexpr std::int64_t operator*() const { return layer_; }
    constexpr Iterator& operator++() {
      ++layer_;
      skip();
      return *this;
    }
    friend constexpr bool operator==(const Iterator&, const Iterator&) = default;

   private:
    constexpr void skip() {
      while (layer_ < kMost && !set_->contains(layer_)) ++layer_;
    }
    const LayerSet* set_;
    std::int64_t layer_;
  };
  constexpr Iterator begin() const { return {*this, 0}; }
  constexpr Iterator end() const { return {*this, kMost}; }

  friend constexpr bool operator==(const LayerSet&, const LayerSet&) = default;

 private:
  std::array<std::uint64_t, kMost / 64> words_ = {};
};

}  // namespace cleave
