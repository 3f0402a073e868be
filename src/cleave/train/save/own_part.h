#pragma once

#include <cstdint>

#include "cleave/train/save/saving.h"
#include "cleave/train/save/start.h"

namespace cleave::train {

// Saving where every owner keeps what is its own: each process has a directory with checkpoints of
// the parameters on its device, and no weight leaves it. A step can be resumed when all have it.

/// What of `whole` is on a device.
checkpoint::CheckpointLayout part_layout(const engine::CompiledStep& step,
                                         const checkpoint::CheckpointLayout& whole, int device);

/// Whether a device saves: a client's does, and of the server's those of the first client's
/// pipeline, which others are replicas of; all of them where clients cut the model differently.
bool keeps_part(const engine::CompiledStep& step, const Config& config, int device);

/// Where a device of the server has its part: its first one in train.out itself, those for other
/// clients, where clients cut the model differently, below it.
std::string server_directory(const engine::CompiledStep& step, const Config& config, int device);

/// Whether a name in train.out is that of such a directory.
bool is_server_directory(std::string_view name);

/// A device of a run whose owners keep what is theirs.
struct PartOfRun {
  const Config* config = nullptr;
  const checkpoint::CheckpointLayout* layout = nullptr;  ///< of the part
  bool keeps = true;
  comm::Communicator* world = nullptr;
};

/// As prepare_start(), for the parts of all devices of `world`: the newest step that all of them
/// have. `warning`: what to tell a user, if some had to go back.
Start prepare_parts(const PartOfRun& part, const StartOptions& options, std::string& warning);

/// As save(); `at.layout` is that of the part.
void save_part(const SavePoint& at, bool keeps, std::int64_t step);

}  // namespace cleave::train
