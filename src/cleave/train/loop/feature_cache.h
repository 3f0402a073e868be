#pragma once

#include <cstdint>

#include "cleave/data/dataset.h"
#include "cleave/train/loop/run.h"

namespace cleave::train {

/// Whether the devices of a run read the same files.
enum class FileAccess : std::uint8_t { Shared, Apart };

/// Throws UserError if data.cache is true and the tower learns, or the devices share no files.
void check_cached_tower(const Config& config, FileAccess files);

/// With data.cache: what the tower gives for every image of the run's packed sets is computed once,
/// into a file beside each set, and `data` reads it from there. The name of the file is made of all
/// that decides a bit of it. The first process computes what no earlier run has, and goes on with
/// what one that was ended has left. Throws DoesNotFit if the tower does not fit into a device.
void provide_features(const Config& config, const Start& start, data::Data& data,
                      comm::Communicator& processes, RunObserver& observer);

}  // namespace cleave::train
