#pragma once

#include <optional>
#include <string>

#include "cleave/train/loop/run.h"

namespace cleave::train {

/// The report of a run that was stopped before its first step.
RunReport stopped_at_start(const Start& start);

/// The same config with paths of this process, for what it reads of the first one's files: not the
/// data of owners, who have their own.
Config with_fetched_data(Config config, const std::optional<OwnerPart>& part,
                         comm::Communicator& processes);

/// Throws UserError on the first process, and PeerFailed on all others, unless all of them say the
/// same of the data that they read: how much it is, and its digest.
void check_same_data(comm::Communicator& processes, const std::string& data);

/// Where rounds begin whose clients are processes of their own: the server's files say it.
Start start_of_rounds(const Config& config, const StartOptions& options,
                      const checkpoint::CheckpointLayout& layout, comm::Communicator& processes);

/// Where any other run begins; what is not on this process's disk is fetched from the first one's.
Start start_of(const Config& config, const StartOptions& options,
               const checkpoint::CheckpointLayout& layout, comm::Launcher& launcher);

}  // namespace cleave::train
