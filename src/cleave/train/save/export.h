#pragma once

#include <cstdint>
#include <filesystem>

#include "cleave/checkpoint/weight_writer.h"

namespace cleave::train {

struct ExportReport {
  std::filesystem::path checkpoint;
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;  ///< of the files with weights
};

/// What becomes of low-rank adapters, for which a model of Hugging Face's has no place.
enum class Adapters : std::uint8_t { Refused, Merged };

/// Writes the model of a checkpoint, ours or Hugging Face's, to a new Hugging Face directory. It
/// gets its name when it is whole. Throws UserError if the checkpoint is damaged or the directory
/// exists, and IoError.
ExportReport export_model(const std::filesystem::path& checkpoint,
                          const std::filesystem::path& directory,
                          const checkpoint::WeightFormat& format,
                          Adapters adapters = Adapters::Refused);

}  // namespace cleave::train
