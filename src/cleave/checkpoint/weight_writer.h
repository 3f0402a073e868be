#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "cleave/checkpoint/checkpoint.h"

namespace cleave::checkpoint {

/// How weights are written for other tools.
struct WeightFormat {
  StoredType type = StoredType::F32;  ///< F32 or BF16, rounded to nearest even
  std::int64_t shard_bytes =
      5'000'000'000;  ///< largest file, but for a single tensor that is larger
};

/// Fills `elements` with those of a parameter from `first` on.
using ReadWeight =
    std::function<void(const Parameter& parameter, std::int64_t first, std::span<float> elements)>;

/// Writes model.safetensors, or shards with an index, into an empty directory; holds no more than a
/// piece of a tensor at a time. Returns the bytes of all files. Throws IoError.
std::int64_t write_weights(const std::filesystem::path& directory,
                           const std::vector<Parameter>& parameters, const WeightFormat& format,
                           const ReadWeight& read);

}  // namespace cleave::checkpoint
