#pragma once

#include <filesystem>
#include <string>

#include "cleave/comm/communicator.h"

namespace cleave::train {

/// Brings what is read at `path` of the first process (a file with what belongs beside it, a
/// directory, or the files of a pattern) to all others, into a cache of theirs that knows it by its
/// contents: a second run transfers nothing. Returns where it is in this process; `path` counts on
/// the first only. All processes call it. Throws UserError if there is no such file.
std::string fetch(comm::Communicator& processes, const std::string& path,
                  const std::filesystem::path& cache);

/// The same for a checkpoint that a run goes on from: the copies that this process has of earlier
/// ones of the run are removed. A run is known by the directory of its checkpoints.
std::string fetch_checkpoint(comm::Communicator& processes, const std::string& path,
                             const std::filesystem::path& cache);

/// Where fetched files are kept: $XDG_CACHE_HOME/cleave/files, or below ~/.cache. Throws UserError
/// if neither is known.
std::filesystem::path fetch_cache();

}  // namespace cleave::train
