#pragma once

#include <filesystem>
#include <string>

#include "cleave/checkpoint/checkpoint.h"
#include "cleave/comm/communicator.h"
#include "cleave/train/config/config.h"
#include "cleave/train/save/out_lock.h"

namespace cleave::train {

/// What to do with what an earlier run left in train.out.
enum class Existing : std::uint8_t { Refuse, Resume, Overwrite };

/// What of the state is in the memory of the run's devices already.
enum class InMemory : std::uint8_t { Nothing, WhatIsTrained, Everything };

/// Where a run begins.
struct StartOptions {
  Existing existing = Existing::Refuse;
  std::string resume_from;  ///< a checkpoint; empty: the latest in train.out
  std::string init_from;    ///< a checkpoint whose weights to begin with; empty: fresh ones
  std::string data = {};    ///< digest of the data of this run, as CheckpointState has it
  InMemory in_memory = InMemory::Nothing;  ///< else no checkpoint of this run is read
};

struct Start {
  std::filesystem::path resume_from;  ///< a verified checkpoint, or empty
  std::filesystem::path init_from;    ///< a verified checkpoint, or empty
  bool finished = false;              ///< the checkpoint has all steps: there is nothing to do
  std::string changed;  ///< on the first device: what the run does otherwise than the one resumed
  OutLock lock;         ///< on the first device: nobody else writes to train.out meanwhile
};

/// What can be told without looking into a checkpoint: that train.out may be used. Throws
/// UserError.
void check_out(const Config& config, const StartOptions& options);

/// The grid of the run that would be resumed, as grid_of() has it; empty if there is none.
std::string saved_grid(const Config& config, const StartOptions& options);

/// How many steps the checkpoint has that would be resumed; -1 if there is none.
std::int64_t saved_step(const Config& config, const StartOptions& options);

/// Finds and verifies the checkpoint to begin with, then makes train.out ready for a run: nothing
/// is touched unless all is well. Call it on all devices of `world`; the
/// first does the work. Throws UserError, which names file and tensor or key, and IoError.
Start prepare_start(const Config& config, const StartOptions& options,
                    const checkpoint::CheckpointLayout& layout, comm::Communicator& world);

}  // namespace cleave::train
