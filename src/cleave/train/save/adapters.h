#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cleave/checkpoint/checkpoint.h"
#include "cleave/checkpoint/reader.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// What a checkpoint has beside its weights where a run trains adapters: a directory of PEFT's.
inline constexpr std::string_view kAdapterDirectory = "adapter";

/// Those of `layout` that are no adapters, if `reader` has none: the weights of a model that
/// adapters are to be trained for. Otherwise all of it.
checkpoint::CheckpointLayout layout_in(const checkpoint::CheckpointReader& reader,
                                       const checkpoint::CheckpointLayout& layout);

/// Throws UserError unless the adapters in lora.from are those of `layout`.
void check_adapters(const Config& config, const checkpoint::CheckpointLayout& layout);

/// Takes this device's share of the adapters in lora.from.
void load_adapters(const Config& config, const checkpoint::CheckpointLayout& layout,
                   engine::Device& device);

/// Writes the adapters of `config`, whose values are in the file `model`, as PEFT has them: with
/// the files of the tokenizer, and the name of model.from unless more was trained than adapters.
void save_adapters(const Config& config, const std::filesystem::path& model,
                   const std::filesystem::path& directory);

/// The weights of a checkpoint with what its adapters add: those of a model without adapters that
/// computes the same up to rounding.
class MergedWeights {
 public:
  /// Both must outlive it. Without adapters the weights are as they are.
  MergedWeights(const Config& config, const checkpoint::CheckpointReader& reader);

  /// Elements `first` … of a tensor.
  void read(const std::string& tensor, std::int64_t first, std::span<float> elements) const;

  /// Adds to elements `first` … of a tensor what its adapter, if it has one, adds.
  void add_to(const std::string& tensor, std::int64_t first, std::span<float> elements) const;

 private:
  struct Adapter {
    std::vector<float> down;  ///< A [rank, in]
    std::vector<float> up;    ///< B [out, rank]
    std::int64_t in = 0;
    std::int64_t out = 0;
    bool transposed = false;  ///< the weight is [out, in]
  };

  const checkpoint::CheckpointReader* reader_;
  double scale_ = 1;
  std::int64_t rank_ = 0;
  std::map<std::string, Adapter> adapters_;
};

}  // namespace cleave::train
