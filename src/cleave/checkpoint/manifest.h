#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cleave/checkpoint/checkpoint.h"

namespace cleave::checkpoint {

/// What a checkpoint consists of, and how to tell that it is whole.
struct Manifest {
  struct Tensor {
    std::string name;
    std::uint64_t sum = 0;  ///< tensor_sum of all its elements

    friend bool operator==(const Tensor&, const Tensor&) = default;
  };
  struct Entry {
    std::string file;
    std::int64_t bytes = 0;
    std::uint64_t head = 0;       ///< XXH3 of the header, or of the whole file if it has no tensors
    std::vector<Tensor> tensors;  ///< in the order of the file

    friend bool operator==(const Entry&, const Entry&) = default;
  };

  std::int64_t step = 0;
  std::vector<Entry> files;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// JSON that carries its own checksum.
std::string to_json(const Manifest& manifest);
std::string to_json(const CheckpointState& state);

/// Throw UserError, naming the file, on anything that the functions above did not write.
Manifest read_manifest(const std::filesystem::path& file);
CheckpointState read_state(const std::filesystem::path& file);

}  // namespace cleave::checkpoint
