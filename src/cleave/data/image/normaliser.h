#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cleave/data/image/image_set.h"

namespace cleave::data {

/// The number that each byte of each channel stands for: 256 of them, so that normalising is a look
/// into a table and has the same bits everywhere.
class Normaliser {
 public:
  explicit Normaliser(const SetDescription& set) {
    for (int c = 0; c < set.channels; ++c) {
      auto& table = tables_.emplace_back();
      for (int byte = 0; byte < 256; ++byte)
        table[byte] = static_cast<float>((byte / 255.0 - set.mean[c]) / set.deviation[c]);
    }
  }

  /// [byte] of a channel.
  const std::array<float, 256>& table(int channel) const { return tables_[channel]; }

 private:
  std::vector<std::array<float, 256>> tables_;
};

}  // namespace cleave::data
